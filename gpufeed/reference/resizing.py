"""Resampling to another size through torchvision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torchvision.transforms import InterpolationMode

from gpufeed.plan import Op, Resize
from gpufeed.reference.image import Function, Leaf, functional

__all__ = ["FUNCTIONS", "LEAVES"]

LEAVES: Mapping[type[object], Leaf] = {}


def _resize(op: Resize, image: Any, size_hw: NDArray[np.int64]) -> Any:
    del size_hw  # torchvision computes it
    size = None if op.size is None else list(op.size)
    mode = InterpolationMode(op.interpolation)
    return functional(op.api).resize(image, size, mode, max_size=op.max_size, antialias=op.antialias)


FUNCTIONS: Mapping[type[Op], Function] = {
    Resize: _resize,
}
