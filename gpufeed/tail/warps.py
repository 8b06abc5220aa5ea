"""Rotations, affine maps and perspectives.

In the `pil` domain this is Pillow's sampling (libImaging's Geometry.c): where it computes in C doubles, float64 here,
with the same operations in the same order and each of its own, so that nothing is fused and a GPU rounds as a CPU does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torchvision.transforms import InterpolationMode

from gpufeed import matrices
from gpufeed.plan import Affine, Fill, Interpolation, Op, Perspective, Rotate
from gpufeed.spec import ImageSpec
from gpufeed.tail.kernel import Kernel, each, functional
from gpufeed.tensors import from_numpy

__all__ = ["KERNELS"]

_FIXED_ONE = 65536
"""1.0 in the fixed-point numbers in which Pillow steps through an image by nearest neighbour."""

_FIXED_LIMIT = 32768.0
"""Coordinates from here on don't fit into them."""


@dataclass(frozen=True, slots=True)
class _Target:
    """What is sampled into: the size in pixels, and the value of each channel beyond the image."""

    height: int
    width: int
    fill: tuple[int, ...]


_Grid = tuple[torch.Tensor, torch.Tensor]
"""Coordinates x and y in the input for each output pixel, (h, w)."""


def _fill_bytes(fill: Fill | None, channels: int) -> tuple[int, ...]:
    values = (0,) if fill is None else tuple(int(value) for value in fill)
    return values * channels if len(values) == 1 else values


def _centers(count: int, device: torch.device) -> torch.Tensor:
    """0.5, 1.5, ...: where the middles of pixels lie."""
    return torch.arange(count, dtype=torch.float64, device=device).add_(0.5)


def _affine_grid(matrix: NDArray[np.float64], target: _Target, device: torch.device) -> _Grid:
    a, b, c, d, e, f = matrix.tolist()
    x, y = _centers(target.width, device), _centers(target.height, device)[:, None]
    return (x * a + y * b).add_(c), (x * d + y * e).add_(f)


def _perspective_grid(coefficients: NDArray[np.float64], target: _Target, device: torch.device) -> _Grid:
    a, b, c, d, e, f, g, h = coefficients.tolist()
    x, y = _centers(target.width, device), _centers(target.height, device)[:, None]
    divisor = (x * g + y * h).add_(1.0)
    grid = (x * a + y * b).add_(c).div_(divisor), (x * d + y * e).add_(f).div_(divisor)
    for places in grid:
        places.nan_to_num_(nan=-1.0)  # 0 / 0; outside
    return grid


def _nearest_grid(grid: _Grid, size_hw: tuple[int, int]) -> _Grid:
    """Whole coordinates, int32, from -1 to the image's side, of which the two stand for all that lies outside."""
    x, y = (places.floor_().clamp_(-1, side).to(torch.int32) for places, side in zip(grid, size_hw[::-1], strict=True))
    return x, y


def _nearest_affine_grid(
    matrix: NDArray[np.float64], size_hw: tuple[int, int], target: _Target, device: torch.device
) -> _Grid:
    """`_nearest_grid` of an affine map, which Pillow computes in one of three ways."""
    a, b, c, d, e, f = matrix.tolist()
    if b == 0.0 and d == 0.0:
        columns = _steps(c + a * 0.5, a, target.width, size_hw[1])
        rows = _steps(f + e * 0.5, e, target.height, size_hw[0])
        return from_numpy(columns).to(device), from_numpy(rows).to(device)[:, None]
    ends = [(0, 0), (target.width, target.height), (0, target.height), (target.width, 0)]
    if all(abs(u * a + v * b + c) < _FIXED_LIMIT and abs(u * d + v * e + f) < _FIXED_LIMIT for u, v in ends):
        x = _fixed_places(a, b, c + a * 0.5 + b * 0.5, target, device)
        y = _fixed_places(d, e, f + d * 0.5 + e * 0.5, target, device)
        return x.clamp_(-1, size_hw[1]), y.clamp_(-1, size_hw[0])
    x = _float_places(a, b, c + a * 0.5 + b * 0.5, target, size_hw[1])
    y = _float_places(d, e, f + d * 0.5 + e * 0.5, target, size_hw[0])
    return from_numpy(x).to(device), from_numpy(y).to(device)


def _steps(start: float, step: float, count: int, side: int) -> NDArray[np.int32]:
    """Pillow's way for a matrix that only scales and shifts: each place is the sum of the steps before it."""
    steps = np.full(count, step)
    steps[0] = start
    return np.clip(np.floor(np.add.accumulate(steps)), -1, side).astype(np.int32)


def _fixed_places(step_x: float, step_y: float, start: float, target: _Target, device: torch.device) -> torch.Tensor:
    """Pillow's usual way: 16 bits for the whole numbers and 16 for the fraction, exact however they are summed up."""
    by_x, by_y, first = (math.floor(value * _FIXED_ONE + 0.5) for value in (step_x, step_y, start))
    x = torch.arange(target.width, dtype=torch.int64, device=device).mul_(by_x)
    y = torch.arange(target.height, dtype=torch.int64, device=device).mul_(by_y).add_(first)
    return (x.to(torch.int32) + y.to(torch.int32)[:, None]).bitwise_right_shift_(16)


def _float_places(step_x: float, step_y: float, start: float, target: _Target, side: int) -> NDArray[np.int32]:
    """Pillow's way for coordinates that are too large for that: sums of steps in doubles. On the host; it is rare."""
    steps = np.full((target.height, target.width), step_x)
    rows = np.full(target.height, step_y)
    rows[0] = start
    steps[:, 0] = np.add.accumulate(rows)
    return np.clip(np.floor(np.add.accumulate(steps, axis=1)), -1, side).astype(np.int32)


def _nearest(image: torch.Tensor, target: _Target, places: _Grid) -> torch.Tensor:
    """Pick pixels by the coordinates of `_nearest_grid`: (C, h, w) uint8, from an image with a border of ``fill``.

    Slower than Pillow, which steps along a row in registers and copies whole pixels: here the place of each pixel is
    made in memory, and used for one channel after the other.
    """
    channels, height, width = image.shape
    framed = image.new_empty((channels, height + 2, width + 2))
    out = image.new_empty((channels, target.height, target.width))
    # the border's first pixel is at (-1, -1)
    index = (places[1] * (width + 2) + places[0]).add_(width + 3).view(-1)
    for channel, fill in enumerate(target.fill):
        plane = framed[channel]
        plane[0].fill_(fill)
        plane[-1].fill_(fill)
        plane[:, 0].fill_(fill)
        plane[:, -1].fill_(fill)
        plane[1:-1, 1:-1].copy_(image[channel])
        torch.index_select(plane.view(-1), 0, index, out=out[channel].view(-1))
    return out


def _framed(plane: torch.Tensor, border: int) -> torch.Tensor:
    """A plane in float64 with its outermost pixels repeated ``border`` times, flattened."""
    height, width = plane.shape
    framed = torch.empty((height + 2 * border, width + 2 * border), dtype=torch.float64, device=plane.device)
    inner = framed[border : border + height]
    inner[:, border : border + width] = plane
    inner[:, :border] = inner[:, border : border + 1]
    inner[:, border + width :] = inner[:, border + width - 1 : border + width]
    framed[:border] = framed[border]
    framed[border + height :] = framed[border + height - 1]
    return framed.view(-1)


def _split(places: torch.Tensor, side: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Along one axis: whether a place is inside the image, the pixel whose middle lies before it, as float64 from -1
    on, and the distance from there in [0, 1)."""
    within = places.clamp(0.0, math.nextafter(float(side), 0.0))
    inside = within == places
    before = within.sub_(0.5).floor()
    return inside, before, within.sub_(before)


def _between(
    image: torch.Tensor,
    target: _Target,
    grid: _Grid,
    border: int,
    blend: Callable[[torch.Tensor, torch.Tensor, int, torch.Tensor, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Blend neighbours: (C, h, w) uint8.

    Args:
        image: (C, H, W) uint8.
        target: size and fill.
        grid: coordinates.
        border: how many pixels beyond the image the farthest neighbour may lie; the outermost ones are repeated there.
        blend: from a framed plane, the index of the first neighbour, the plane's row length, and the distances.
    """
    channels, height, width = image.shape
    inside_x, left, dx = _split(grid[0].view(-1), width)
    inside_y, top, dy = _split(grid[1].view(-1), height)
    inside = inside_x.logical_and_(inside_y)
    outside = inside.logical_not() if any(target.fill) else None
    row = width + 2 * border
    # whole numbers, exact in float64; (-1, -1) is the first neighbour of the framed plane's first pixel
    index = top.mul_(row).add_(left).add_(row + 1).to(torch.int32)
    out = image.new_empty((channels, len(index)))
    for channel, fill in enumerate(target.fill):
        blended = blend(_framed(image[channel], border), index, row, dx, dy)
        out[channel] = blended.to(torch.int32)  # C cuts off the fraction; twice as fast as to uint8 at once
        out[channel].mul_(inside)
        if outside is not None and fill:
            out[channel].add_(outside, alpha=fill)
    return out.view(channels, target.height, target.width)


def _bilinear_blend(
    plane: torch.Tensor, index: torch.Tensor, row: int, dx: torch.Tensor, dy: torch.Tensor
) -> torch.Tensor:
    """``a + (b - a) d`` along two rows, then between them."""
    slope = plane[1:] - plane[:-1]  # whole numbers, exact
    upper = slope.index_select(0, index).mul_(dx).add_(plane.index_select(0, index))
    lower = slope[row:].index_select(0, index).mul_(dx).add_(plane[row:].index_select(0, index))
    return lower.sub_(upper).mul_(dy).add_(upper)


def _bicubic_blend(
    plane: torch.Tensor, index: torch.Tensor, row: int, dx: torch.Tensor, dy: torch.Tensor
) -> torch.Tensor:
    """Pillow's cubic, with a = -1, along four rows, then between them, and cut to the range of a byte.

    About twice as slow as Pillow: sixteen neighbours are gathered one after the other, in float64 to be exact.
    """
    a, b, c, d = (plane[shift : len(plane) - 3 + shift] for shift in range(4))
    # the polynomials of whole numbers are exact; once for each pixel of the plane instead of each neighbour of a place
    p2, p3, p4 = c - a, (a - b).mul_(2.0).add_(c).sub_(d), (b - a).sub_(c).add_(d)
    rows: list[torch.Tensor] = []
    for shift in (0, row, 2 * row, 3 * row):
        value = p4[shift:].index_select(0, index).mul_(dx).add_(p3[shift:].index_select(0, index))
        value.mul_(dx).add_(p2[shift:].index_select(0, index))
        rows.append(value.mul_(dx).add_(b[shift:].index_select(0, index)))
    v1, v2, v3, v4 = rows
    p3 = (v1 - v2).mul_(2.0).add_(v3).sub_(v4)
    p4 = (v2 - v1).sub_(v3).add_(v4)
    value = p4.mul_(dy).add_(p3).mul_(dy).add_(v3.sub_(v1)).mul_(dy).add_(v2)
    return value.clamp_(0.0, 255.0)


def _blended(image: torch.Tensor, target: _Target, grid: _Grid, interpolation: Interpolation) -> torch.Tensor:
    if interpolation == "bilinear":
        return _between(image, target, grid, 1, _bilinear_blend)
    return _between(image, target, grid, 2, _bicubic_blend)


def _sample_affine(
    image: torch.Tensor, target: _Target, matrix: NDArray[np.float64], interpolation: Interpolation
) -> torch.Tensor:
    """Pillow's ``Image.transform`` with an affine matrix: (C, H, W) uint8 to (C, h, w)."""
    if interpolation == "nearest":
        size_hw = (image.shape[1], image.shape[2])
        return _nearest(image, target, _nearest_affine_grid(matrix, size_hw, target, image.device))
    return _blended(image, target, _affine_grid(matrix, target, image.device), interpolation)


def _stacked(images: list[torch.Tensor]) -> torch.Tensor:
    return images[0][None] if len(images) == 1 else torch.stack(images)


def _sizes(images: torch.Tensor) -> NDArray[np.int64]:
    return np.full((len(images), 2), (images.shape[-2], images.shape[-1]), dtype=np.int64)


def _rotate_pil(images: torch.Tensor, op: Rotate, angles: NDArray[np.float64]) -> torch.Tensor:
    sizes = _sizes(images)
    inverse, out_sizes = matrices.rotation_matrices(angles, sizes, op.center, expand=op.expand)
    turns = matrices.is_turn(angles, sizes, op.center, expand=op.expand)
    fill = _fill_bytes(op.fill, images.shape[1])
    rotated: list[torch.Tensor] = []
    for image, angle, matrix, size, turn in zip(
        images, angles.tolist(), inverse, out_sizes.tolist(), turns, strict=True
    ):
        if turn:
            rotated.append(image.rot90(int(angle % 360.0) // 90, (-2, -1)))
        else:
            rotated.append(_sample_affine(image, _Target(size[0], size[1], fill), matrix, op.interpolation))
    return _stacked(rotated)


def _rotate(images: torch.Tensor, op: Rotate, spec: ImageSpec, values: NDArray[np.float64]) -> torch.Tensor:
    if spec.container == "pil":
        return _rotate_pil(images, op, values[:, 0])
    rotate = functional(op.api).rotate
    center = None if op.center is None else list(op.center)

    def one(image: torch.Tensor, value: NDArray[np.float64]) -> torch.Tensor:
        options = {"expand": op.expand, "center": center, "fill": _fill_list(op.fill)}
        return rotate(image, float(value[0]), InterpolationMode(op.interpolation), **options)

    return each(images, values, one)


def _fill_list(fill: Fill | None) -> list[float] | None:
    return None if fill is None else list(fill)


def _affine(images: torch.Tensor, op: Affine, spec: ImageSpec, values: NDArray[np.float64]) -> torch.Tensor:
    if spec.container == "pil":
        height, width = images.shape[-2:]
        x, y = (width * 0.5, height * 0.5) if op.center is None else op.center
        every = np.ones(len(values))
        inverse = matrices.affine_matrices(values, x * every, y * every, op.api)
        target = _Target(height, width, _fill_bytes(op.fill, images.shape[1]))
        return _stacked(
            [
                _sample_affine(image, target, matrix, op.interpolation)
                for image, matrix in zip(images, inverse, strict=True)
            ]
        )
    affine = functional(op.api).affine
    center = None if op.center is None else list(op.center)

    def one(image: torch.Tensor, value: NDArray[np.float64]) -> torch.Tensor:
        angle, right, down, scale, *shear = value.tolist()
        options = {"interpolation": InterpolationMode(op.interpolation), "fill": _fill_list(op.fill), "center": center}
        return affine(image, angle, [int(right), int(down)], scale, shear, **options)

    return each(images, values, one)


def _perspective_coefficients(corners: NDArray[np.int64], height: int, width: int) -> NDArray[np.float64]:
    """(N, 8) numbers a to h of ``x' = (a x + b y + c) / (g x + h y + 1)`` and ``y' = (d x + e y + f) / (...)``.

    torchvision solves for them by least squares in float64 and rounds the result to float32.

    Args:
        corners: (N, 8) x and y of where the corners of the image go.
        height: of the image.
        width: of the image.
    """
    starts = np.array([[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], dtype=np.float64)
    equations = np.zeros((len(corners), 8, 8))
    x, y = corners[:, 0::2], corners[:, 1::2]
    for axis, row in ((0, 0), (1, 1)):
        at = 3 * axis
        equations[:, row::2, at], equations[:, row::2, at + 1], equations[:, row::2, at + 2] = x, y, 1.0
        equations[:, row::2, 6], equations[:, row::2, 7] = -starts[:, axis] * x, -starts[:, axis] * y
    known = from_numpy(np.broadcast_to(starts.reshape(1, 8, 1), (len(corners), 8, 1)).copy())
    solved = cast(Any, torch.linalg).lstsq(from_numpy(equations), known, driver="gels")
    solution = cast(torch.Tensor, solved.solution)[..., 0]
    return solution.to(torch.float32).to(torch.float64).numpy()


def _perspective(images: torch.Tensor, op: Perspective, spec: ImageSpec, values: NDArray[np.int64]) -> torch.Tensor:
    height, width = images.shape[-2:]
    if spec.container == "pil":
        return _perspective_pil(images, op, _perspective_coefficients(values, height, width))
    perspective = functional(op.api).perspective
    starts = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]

    def one(image: torch.Tensor, value: NDArray[Any]) -> torch.Tensor:
        ends = value.reshape(4, 2).tolist()
        return perspective(image, starts, ends, InterpolationMode(op.interpolation), _fill_list(op.fill))

    return each(images, values, one)


def _perspective_pil(images: torch.Tensor, op: Perspective, coefficients: NDArray[np.float64]) -> torch.Tensor:
    height, width = images.shape[-2:]
    target = _Target(height, width, _fill_bytes(op.fill, images.shape[1]))
    warped: list[torch.Tensor] = []
    for image, numbers in zip(images, coefficients, strict=True):
        grid = _perspective_grid(numbers, target, image.device)
        if op.interpolation == "nearest":
            warped.append(_nearest(image, target, _nearest_grid(grid, (height, width))))
        else:
            warped.append(_blended(image, target, grid, op.interpolation))
    return _stacked(warped)


KERNELS: Mapping[type[Op], Kernel] = {
    Rotate: _rotate,
    Affine: _affine,
    Perspective: _perspective,
}
