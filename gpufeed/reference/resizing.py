"""Resampling to another size through torchvision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torchvision.transforms import InterpolationMode, v2

from gpufeed.plan import Op, RandomResize, RandomShortestSize, Resize, ResizeOp, ScaleJitter
from gpufeed.reference.image import Function, Leaf, functional, ints
from gpufeed.reference.values import LeafValues

__all__ = ["FUNCTIONS", "LEAVES"]


def _to_shorter_side(transform: Any, values: LeafValues, image: Any) -> Any:
    return transform.transform(image, {"size": [min(ints(values.of(RandomResize)))]})


def _to_size(transform: Any, values: LeafValues, image: Any) -> Any:
    return transform.transform(image, {"size": ints(values.of(ResizeOp))})


LEAVES: Mapping[type[object], Leaf] = {
    v2.RandomResize: _to_shorter_side,
    v2.ScaleJitter: _to_size,
    v2.RandomShortestSize: _to_size,
}


def _resize(op: Resize, image: Any, size_hw: NDArray[np.int64]) -> Any:
    del size_hw  # torchvision computes it
    size = None if op.size is None else list(op.size)
    mode = InterpolationMode(op.interpolation)
    return functional(op.api).resize(image, size, mode, max_size=op.max_size, antialias=op.antialias)


def _resize_to(op: ResizeOp, image: Any, size_hw: NDArray[np.int64]) -> Any:
    mode = InterpolationMode(op.interpolation)
    return functional(op.api).resize(image, ints(size_hw), mode, antialias=op.antialias)


FUNCTIONS: Mapping[type[Op], Function] = {
    Resize: _resize,
    RandomResize: _resize_to,
    ScaleJitter: _resize_to,
    RandomShortestSize: _resize_to,
}
