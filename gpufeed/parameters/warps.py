"""Drawing for rotations, affine maps and perspectives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpufeed import geometry, matrices
from gpufeed.parameters.batch import Drawn
from gpufeed.parameters.op_draws import OpDraws
from gpufeed.plan import Affine, Op, Perspective, Rotate
from gpufeed.spec import ImageSpec

__all__ = ["DRAWERS"]

_Sizes = NDArray[np.int64]
_Floats = NDArray[np.float64]


def _float32(draws: OpDraws, number: int, low: float, high: float) -> _Floats:
    """(B,) float64 that are float32 values: torchvision draws these, also where ``low`` and ``high`` are equal."""
    return draws.uniform(number, low, high).astype(np.float32).astype(np.float64)


def _rotate(op: Rotate, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B, 1) float64 angles in degrees, counter-clockwise."""
    angles = _float32(draws, 0, *op.degrees)
    out = sizes
    if op.expand and spec.container == "pil":
        _, out = matrices.rotation_matrices(angles, sizes, op.center, expand=True)
    elif op.expand:
        out = matrices.tensor_rotated_sizes(angles, sizes, op.center, op.api)
    return Drawn(angles[:, None], out)


def _affine(op: Affine, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B, 6) float64: angle in degrees, clockwise; whole pixels to the right and down; scale; shear along x and y in
    degrees."""
    del spec
    angle = _float32(draws, 0, *op.degrees)
    most_x, most_y = op.translate[0] * sizes[:, 1], op.translate[1] * sizes[:, 0]
    unit_x, unit_y = draws.units(1, 2).T
    right = np.rint((-most_x + 2.0 * most_x * unit_x).astype(np.float32))
    down = np.rint((-most_y + 2.0 * most_y * unit_y).astype(np.float32))
    scale = _float32(draws, 3, *op.scale)
    shear_x, shear_y = _float32(draws, 4, *op.shear[:2]), _float32(draws, 5, *op.shear[2:])
    return Drawn(np.stack([angle, right, down, scale, shear_x, shear_y], axis=1).astype(np.float64), sizes)


def _perspective(op: Perspective, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B, 8) int64: x and y, in pixels, where the top left, top right, bottom right and bottom left corners go."""
    del spec
    corners, defined = geometry.perspective_corners(sizes, op.distortion_scale, draws.unit_pairs)
    refused = {
        int(row): f"torchvision has no perspective for an image of {height}x{width} pixels; put a Resize before it"
        for row, (height, width) in zip(np.flatnonzero(~defined), sizes[~defined], strict=True)
    }
    return Drawn(corners, sizes, refused)


DRAWERS: Mapping[type[Op], Callable[[Any, ImageSpec, _Sizes, OpDraws], Drawn]] = {
    Rotate: _rotate,
    Affine: _affine,
    Perspective: _perspective,
}
