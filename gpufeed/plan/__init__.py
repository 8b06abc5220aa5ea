"""The Plan: what happens to a sample, without DALI and without torchvision.

Each op is a frozen, slotted dataclass that validates itself and states its output (`Op.out_spec`), refusing an input it
can't take before anything runs. A `Plan` is the sequence of them; it compares, prints, pickles, hashes, and has a
fingerprint that is equal in every process. One module holds the ops of one family.
"""

from __future__ import annotations

from gpufeed.plan.branches import BranchOp, RandomApply, RandomChoice, RandomOrder
from gpufeed.plan.colour import (
    AdjustSharpness,
    Autocontrast,
    ChannelPermutation,
    ColorJitter,
    Equalize,
    FactorRange,
    Grayscale,
    Invert,
    JitterOrder,
    Posterize,
    RandomGrayscale,
    Solarize,
)
from gpufeed.plan.conversion import Convert, Normalize, ToDtype, ToTensor
from gpufeed.plan.erasing import Erase, EraseToNoise
from gpufeed.plan.filters import Elastic, GaussianBlur, GaussianNoise, Jpeg, LinearTransformation
from gpufeed.plan.op import Api, Fill, FixedArray, Interpolation, Op, each_op
from gpufeed.plan.resizing import RandomResize, RandomShortestSize, Resize, ResizeOp, ScaleJitter
from gpufeed.plan.sequence import DECODED, Plan
from gpufeed.plan.warps import Affine, Perspective, Rotate, Warp
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
    ZoomOut,
)

__all__ = [
    "DECODED",
    "MIRROR_LIMITS",
    "AdjustSharpness",
    "Affine",
    "Api",
    "Autocontrast",
    "BranchOp",
    "CenterCrop",
    "ChannelPermutation",
    "ColorJitter",
    "Convert",
    "Elastic",
    "Equalize",
    "Erase",
    "EraseToNoise",
    "FactorRange",
    "Fill",
    "FiveCrop",
    "FixedArray",
    "Flip",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "Interpolation",
    "Invert",
    "JitterOrder",
    "Jpeg",
    "LinearTransformation",
    "Normalize",
    "Op",
    "Pad",
    "PadMode",
    "Perspective",
    "Plan",
    "Posterize",
    "RandomApply",
    "RandomAreaCrop",
    "RandomChoice",
    "RandomCrop",
    "RandomGrayscale",
    "RandomOrder",
    "RandomResize",
    "RandomShortestSize",
    "Resize",
    "ResizeOp",
    "Rotate",
    "ScaleJitter",
    "Solarize",
    "TenCrop",
    "ToDtype",
    "ToTensor",
    "Warp",
    "ZoomOut",
    "each_op",
]
