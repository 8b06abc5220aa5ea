"""Drawing for blur, noise, compression and displacement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpufeed.parameters.batch import Drawn
from gpufeed.parameters.op_draws import OpDraws
from gpufeed.plan import Elastic, GaussianBlur, GaussianNoise, Jpeg, LinearTransformation, Op
from gpufeed.spec import ImageSpec

__all__ = ["DRAWERS"]

_Sizes = NDArray[np.int64]

_LONGEST_JPEG = 65_500
"""Pixels on a side that libjpeg takes (JPEG_MAX_DIMENSION)."""


def _gaussian_blur(op: GaussianBlur, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B,) float64: sigma in pixels, a number that float32 holds, as torchvision draws it."""
    del spec
    sigma = draws.uniform(0, *op.sigma).astype(np.float32).astype(np.float64)
    return Drawn(sigma, sizes, _too_small(op.smallest_hw, sizes, f"kernel_size {op.kernel_size}"))


def _too_small(smallest_hw: tuple[int, int], sizes: _Sizes, cause: str) -> dict[int, str]:
    return {
        int(row): f"{cause} mirrors the borders of images of {smallest_hw[0]}x{smallest_hw[1]} pixels and more, and "
        f"this one has {sizes[row, 0]}x{sizes[row, 1]} when it gets there; put a Resize before it, or give it a "
        "smaller value"
        for row in np.flatnonzero((sizes < np.array(smallest_hw)).any(axis=1))
    }


def _gaussian_noise(op: GaussianNoise, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B, 2) int64: the key of the noise."""
    del op, spec
    return Drawn(draws.noise_keys(0), sizes)


def _jpeg(op: Jpeg, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B,) int64: quality."""
    del spec
    refused = {
        int(row): f"a JPEG has at most {_LONGEST_JPEG} pixels on a side, and the image has {sizes[row, 0]}x"
        f"{sizes[row, 1]} when it gets there; put a Resize before JPEG"
        for row in np.flatnonzero((sizes > _LONGEST_JPEG).any(axis=1))
    }
    return Drawn(draws.integers(0, op.quality[0], op.quality[1] + 1), sizes, refused)


def _linear_transformation(op: LinearTransformation, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """Nothing."""
    del draws
    refused = {
        int(row): f"the transformation matrix is for images of {op.length} values, and this one has {spec.channels} x "
        f"{sizes[row, 0]} x {sizes[row, 1]} when it gets there; put a Resize before LinearTransformation"
        for row in np.flatnonzero(spec.channels * sizes.prod(axis=1) != op.length)
    }
    return Drawn(None, sizes, refused)


def _elastic(op: Elastic, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B, 2) int64: the key of the noise that becomes the displacement, all of x before all of y."""
    del spec
    return Drawn(draws.noise_keys(0), sizes, _too_small(op.smallest_hw, sizes, f"sigma {op.sigma}"))


DRAWERS: Mapping[type[Op], Callable[[Any, ImageSpec, _Sizes, OpDraws], Drawn]] = {
    GaussianBlur: _gaussian_blur,
    GaussianNoise: _gaussian_noise,
    Jpeg: _jpeg,
    LinearTransformation: _linear_transformation,
    Elastic: _elastic,
}
