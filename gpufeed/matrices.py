"""The matrices of rotations and affine maps, and the sizes that follow, by Pillow's and torchvision's own arithmetic.

All are inverse maps, from a place in the output to one in the input: six numbers ``a b c d e f`` stand for
``x' = a x + b y + c`` and ``y' = d x + e y + f``, in pixels from the upper left corner of the image; pixel 0 reaches
from 0 to 1. Sizes are (B, 2) int64 arrays of (height, width), angles in degrees.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "affine_matrices",
    "is_turn",
    "rotation_matrices",
    "tensor_rotated_sizes",
]

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]
_Singles = NDArray[np.float32]
_Center = tuple[float, float] | None

_PILLOW_DIGITS = 15
"""Pillow rounds the sines and cosines of a rotation to so many decimals."""


def _each(function: Callable[[float], float], values: _Floats) -> _Floats:
    """A function of Python's on each number: NumPy's own sine and rounding differ from it in the last bit."""
    return np.array([function(value) for value in values.tolist()], dtype=np.float64)


def is_turn(angles: _Floats, sizes_hw: _Ints, center: _Center, *, expand: bool) -> NDArray[np.bool_]:
    """(B,) bool: which rotations only move pixels, so that they are done without a matrix.

    By 0 and 180 degrees, and by 90 and 270 where the output has the sides of the turned image.
    """
    turned = angles % 360.0
    fits = np.full(len(angles), expand) | (sizes_hw[:, 0] == sizes_hw[:, 1])
    return (center is None) & (((turned % 180.0) == 0.0) | (fits & ((turned % 90.0) == 0.0)))


def rotation_matrices(angles: _Floats, sizes_hw: _Ints, center: _Center, *, expand: bool) -> tuple[_Floats, _Ints]:
    """Matrices and output sizes of Pillow's ``Image.rotate``.

    Args:
        angles: (B,) counter-clockwise.
        sizes_hw: (B, 2) sizes of the images.
        center: (x, y) of the point that stays where it is; ``None`` for the middle.
        expand: whether the output holds the whole turned image.

    Returns:
        (B, 6) float64, of no use where `is_turn` holds, and (B, 2) int64.
    """
    height, width = sizes_hw[:, 0].astype(np.float64), sizes_hw[:, 1].astype(np.float64)
    cx, cy = (width / 2, height / 2) if center is None else (np.float64(center[0]), np.float64(center[1]))
    radians = _each(math.radians, -(angles % 360.0))
    cos, sin = (
        _each(lambda value: round(value, _PILLOW_DIGITS), _each(function, radians)) for function in (math.cos, math.sin)
    )
    shift_x = cos * -cx + sin * -cy + cx
    shift_y = -sin * -cx + cos * -cy + cy
    sizes = sizes_hw.copy()
    if expand:
        corners = [(0.0 * width, 0.0 * height), (width, 0.0 * height), (width, height), (0.0 * width, height)]
        xs = np.stack([cos * x + sin * y + shift_x for x, y in corners])
        ys = np.stack([-sin * x + cos * y + shift_y for x, y in corners])
        new_w = np.ceil(xs.max(axis=0)) - np.floor(xs.min(axis=0))
        new_h = np.ceil(ys.max(axis=0)) - np.floor(ys.min(axis=0))
        back_x, back_y = -(new_w - width) / 2.0, -(new_h - height) / 2.0
        shift_x, shift_y = cos * back_x + sin * back_y + shift_x, -sin * back_x + cos * back_y + shift_y
        turned = is_turn(angles, sizes_hw, center, expand=True)
        swapped = turned & ((angles % 180.0) != 0.0)
        exact = np.where(swapped[:, None], sizes_hw[:, ::-1], sizes_hw)
        sizes = np.where(turned[:, None], exact, np.stack([new_h, new_w], axis=1).astype(np.int64))
    return np.stack([cos, sin, shift_x, -sin, cos, shift_y], axis=1), sizes


def affine_matrices(values: _Floats, center_x: _Floats, center_y: _Floats, api: Literal["v1", "v2"]) -> _Floats:
    """Matrices of torchvision's ``affine``.

    Args:
        values: (B, 6) angle (clockwise), translation x and y in pixels, scale, shear x and y.
        center_x: (B,) the point that only the translation moves.
        center_y: (B,) the point that only the translation moves.
        api: whose arithmetic; they differ in the last bits.

    Returns:
        (B, 6) float64.
    """
    angle, tx, ty, scale, shear_x, shear_y = values.T
    rot, sx, sy = (_each(math.radians, degrees) for degrees in (angle, shear_x, shear_y))
    sin_rot, cos_rot = _each(math.sin, rot), _each(math.cos, rot)
    sin_difference, cos_difference = _each(math.sin, rot - sy), _each(math.cos, rot - sy)
    tan_sx, cos_sy = _each(math.tan, sx), _each(math.cos, sy)
    a, c = cos_difference / cos_sy, sin_difference / cos_sy
    if api == "v1":
        b = -cos_difference * tan_sx / cos_sy - sin_rot
        d = -sin_difference * tan_sx / cos_sy + cos_rot
        m0, m1, m3, m4 = d / scale, -b / scale, -c / scale, a / scale
        m2 = m0 * (-center_x - tx) + m1 * (-center_y - ty) + center_x
        m5 = m3 * (-center_x - tx) + m4 * (-center_y - ty) + center_y
    else:
        b = -(a * tan_sx + sin_rot)
        d = cos_rot - c * tan_sx
        m0, m1, m3, m4 = d / scale, -b / scale, -c / scale, a / scale
        m2 = center_x - m0 * (center_x + tx) - m1 * (center_y + ty)
        m5 = center_y - m3 * (center_x + tx) - m4 * (center_y + ty)
    return np.stack([m0, m1, m2, m3, m4, m5], axis=1)


def tensor_rotated_sizes(angles: _Floats, sizes_hw: _Ints, center: _Center, api: Literal["v1", "v2"]) -> _Ints:
    """Output sizes of torchvision's ``rotate`` of tensors with ``expand=True``, which it computes in float32.

    Args:
        angles: (B,) counter-clockwise.
        sizes_hw: (B, 2) sizes of the images.
        center: (x, y) of the point that stays where it is; ``None`` for the middle.
        api: v1's last steps differ, and v2 turns by multiples of 90 degrees without a matrix.
    """
    half = 0.5 * sizes_hw[:, ::-1].astype(np.float64)
    pivot = np.zeros_like(half) if center is None else np.array(center, dtype=np.float64) - half
    turned = angles % 360.0 if api == "v2" else angles
    zero = np.zeros_like(angles)
    values = np.stack([-turned, zero, zero, zero + 1.0, zero, zero], axis=1)
    theta = affine_matrices(values, pivot[:, 0], pivot[:, 1], api).astype(np.float32)
    extents = [_extent(theta[:, row : row + 3], half, axis, api) for row, axis in ((3, 1), (0, 0))]
    sizes = np.stack(extents, axis=1)
    if api == "v1":
        return sizes
    exact = is_turn(angles, sizes_hw, center, expand=True)
    swapped = (angles % 180.0) != 0.0
    return np.where(exact[:, None], np.where(swapped[:, None], sizes_hw[:, ::-1], sizes_hw), sizes)


def _extent(row: _Singles, half: _Floats, axis: int, api: Literal["v1", "v2"]) -> _Ints:
    """Whole pixels that the four corners span along one axis: (B,), from (B, 3) of the matrix and (B, 2) half sides."""
    places: list[_Singles] = []
    for sign_x, sign_y in ((-1, -1), (-1, 1), (1, 1), (1, -1)):
        # a float32 product of matrices adds up with fused steps: one rounding each
        total = (sign_x * half[:, 0] * row[:, 0].astype(np.float64)).astype(np.float32)
        total = (total.astype(np.float64) + sign_y * half[:, 1] * row[:, 1].astype(np.float64)).astype(np.float32)
        places.append(total + row[:, 2])
    spread = np.stack(places)
    shift, tolerance = half[:, axis].astype(np.float32), np.float32(1e-4)
    lowest, highest = spread.min(axis=0) + shift, spread.max(axis=0) + shift
    if api == "v1":
        cut = [np.trunc(end / tolerance) * tolerance for end in (lowest, highest)]
    else:
        cut = [np.trunc(end * np.float32(1 / 1e-4)) * tolerance for end in (lowest, highest)]
    return (np.ceil(cut[1]) - np.floor(cut[0])).astype(np.int64)
