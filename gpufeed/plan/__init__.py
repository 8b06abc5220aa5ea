"""The Plan: what happens to a sample, without DALI and without torchvision.

Each op is a frozen, slotted dataclass that validates itself and states its output (`Op.out_spec`), refusing an input it
can't take before anything runs. A `Plan` is the sequence of them; it compares, prints, pickles, hashes, and has a
fingerprint that is equal in every process. One module holds the ops of one family.
"""

from __future__ import annotations

from gpufeed.plan.branches import BranchOp, RandomApply, RandomChoice, RandomOrder
from gpufeed.plan.colour import Grayscale, RandomGrayscale
from gpufeed.plan.conversion import Convert, Normalize, ToDtype, ToTensor
from gpufeed.plan.op import Api, Fill, FixedArray, Interpolation, Op, each_op
from gpufeed.plan.resizing import Resize
from gpufeed.plan.sequence import DECODED, Plan
from gpufeed.plan.windows import (
    MIRROR_LIMITS,
    CenterCrop,
    FiveCrop,
    Flip,
    Pad,
    PadMode,
    RandomAreaCrop,
    RandomCrop,
    TenCrop,
)

__all__ = [
    "DECODED",
    "MIRROR_LIMITS",
    "Api",
    "BranchOp",
    "CenterCrop",
    "Convert",
    "Fill",
    "FiveCrop",
    "FixedArray",
    "Flip",
    "Grayscale",
    "Interpolation",
    "Normalize",
    "Op",
    "Pad",
    "PadMode",
    "Plan",
    "RandomApply",
    "RandomAreaCrop",
    "RandomChoice",
    "RandomCrop",
    "RandomGrayscale",
    "RandomOrder",
    "Resize",
    "TenCrop",
    "ToDtype",
    "ToTensor",
    "each_op",
]
