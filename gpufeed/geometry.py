"""torchvision's arithmetic of sizes, windows and corners, for a whole batch at once, in NumPy.

Sizes are (B, 2) int64 arrays of (height, width), windows (B, 4) int64 arrays of (top, left, height, width), paddings
(B, 4) int64 arrays of (left, top, right, bottom); all in pixels. Windows may reach beyond the image only where
torchvision pads with zeros (`center_windows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MAX_AREA_ATTEMPTS",
    "UnitPairs",
    "area_windows",
    "below",
    "center_windows",
    "jittered_sizes",
    "paddings",
    "perspective_corners",
    "random_windows",
    "resized_sizes",
    "shorter_side_sizes",
    "shortest_sizes",
    "single",
    "zoom_out_paddings",
]

MAX_AREA_ATTEMPTS = 10
"""torchvision's ``RandomResizedCrop`` tries ten areas before it falls back to a central crop."""

_FIRST_ATTEMPTS = 2
"""Attempts computed for every image at once; the few images that none of them suits get the others."""

_CORNER_ATTEMPTS = 16
"""How often the corners of a perspective are drawn until no three lie on a line: enough for images of 3x3 pixels, where
one draw in three is in vain with the strongest distortion."""

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]


class UnitPairs(Protocol):
    """Gives draws: K numbers for some rows of the batch -> two (K, rows) arrays in [0, 1), as `Draws.unit_pairs`."""

    def __call__(self, numbers: Sequence[int], rows: NDArray[np.intp], /) -> tuple[_Floats, _Floats]: ...


def resized_sizes(sizes_hw: _Ints, size: tuple[int, ...] | None, max_size: int | None) -> _Ints:
    """Output sizes of ``Resize`` (torchvision's ``_compute_resized_output_size``).

    Args:
        sizes_hw: (B, 2) sizes of the images.
        size: ``(h, w)`` exactly; ``(s,)``: the shorter side becomes ``s``; ``None``: the longer becomes ``max_size``.
        max_size: the most that the longer side may have, with ``(s,)`` or ``None``.

    Returns:
        (B, 2) int64. An entry may be 0 for an extreme aspect ratio, where Pillow would refuse to resize.
    """
    if size is not None and len(size) == 2:
        return np.broadcast_to(np.array(size, dtype=np.int64), sizes_hw.shape).copy()
    short = sizes_hw.min(axis=1)
    long = sizes_hw.max(axis=1)
    if size is None:
        assert max_size is not None  # Resize validates it
        return _by_sides(sizes_hw, _int_ratio(max_size * short, long), np.full_like(long, max_size))
    if max_size is None:
        return shorter_side_sizes(sizes_hw, np.full_like(short, size[0]))
    new_short = np.full_like(short, size[0])
    new_long = _int_ratio(size[0] * long, short)
    over = new_long > max_size
    new_short = np.where(over, _int_ratio(max_size * new_short, np.maximum(new_long, 1)), new_short)
    return _by_sides(sizes_hw, new_short, np.where(over, max_size, new_long))


def shorter_side_sizes(sizes_hw: _Ints, shorter: _Ints) -> _Ints:
    """Output sizes of ``Resize`` with a length of the shorter side for each image.

    Args:
        sizes_hw: (B, 2) sizes of the images.
        shorter: (B,) in pixels.
    """
    return _by_sides(sizes_hw, shorter, _int_ratio(shorter * sizes_hw.max(axis=1), sizes_hw.min(axis=1)))


def _by_sides(sizes_hw: _Ints, new_short: _Ints, new_long: _Ints) -> _Ints:
    """(B, 2) sizes from the new lengths of each image's shorter and longer side."""
    portrait = sizes_hw[:, 1] <= sizes_hw[:, 0]
    height = np.where(portrait, new_long, new_short)
    width = np.where(portrait, new_short, new_long)
    return np.stack([height, width], axis=1)


def jittered_sizes(
    sizes_hw: _Ints, target_size: tuple[float, float], scale_range: tuple[float, float], unit: _Floats
) -> _Ints:
    """Output sizes of ``ScaleJitter``, which multiplies in float32.

    Args:
        sizes_hw: (B, 2) sizes of the images.
        target_size: the first is compared with the width and the second with the height, as in torchvision.
        scale_range: of the scale.
        unit: (B,) draws in [0, 1).
    """
    ratio = np.minimum(target_size[1] / sizes_hw[:, 0], target_size[0] / sizes_hw[:, 1])
    share = ratio.astype(np.float32) * _float32_between(scale_range, unit)
    return (sizes_hw.astype(np.float32) * share[:, None]).astype(np.int64)


def _float32_between(limits: tuple[float, float], unit: _Floats) -> NDArray[np.float32]:
    """``low + torch.rand(1) * (high - low)``: a draw of 24 bits, multiplied and added in float32."""
    drawn = (np.floor(unit * 2.0**24) / 2.0**24).astype(np.float32)
    return np.float32(limits[0]) + drawn * np.float32(limits[1] - limits[0])


def shortest_sizes(sizes_hw: _Ints, shorter: _Floats, max_size: float | None) -> _Ints:
    """Output sizes of ``RandomShortestSize``.

    Args:
        sizes_hw: (B, 2) sizes of the images.
        shorter: (B,) length that each image's shorter side gets, in pixels.
        max_size: the most that the longer side may have.
    """
    ratio = shorter / sizes_hw.min(axis=1)
    if max_size is not None:
        ratio = np.minimum(ratio, max_size / sizes_hw.max(axis=1))
    return (sizes_hw * ratio[:, None]).astype(np.int64)


def _int_ratio(numerator: _Ints, denominator: _Ints) -> _Ints:
    """``int(a / b)`` as Python computes it: one correctly rounded division, then towards zero."""
    return (numerator / denominator).astype(np.int64)


def center_windows(sizes_hw: _Ints, size_hw: tuple[int, int]) -> _Ints:
    """Windows of ``CenterCrop``: half to even where the margin is odd, beyond the image where the crop is larger.

    torchvision pads a smaller image by ``(crop - size) // 2`` on the top or left, with zeros, and then takes it whole.
    """
    crop = np.array(size_hw, dtype=np.int64)
    margin = sizes_hw - crop
    inside = np.rint(margin / 2.0).astype(np.int64)
    start = np.where(margin < 0, -((-margin) // 2), inside)
    return np.concatenate([start, np.broadcast_to(crop, sizes_hw.shape)], axis=1)


def paddings(sizes_hw: _Ints, padding_ltrb: tuple[int, int, int, int], grow_to_hw: tuple[int, int] | None) -> _Ints:
    """Paddings of ``Pad`` and of ``RandomCrop(padding, pad_if_needed)``.

    Args:
        sizes_hw: (B, 2) sizes of the images.
        padding_ltrb: fixed padding (left, top, right, bottom); negative values crop.
        grow_to_hw: where the padded image is still smaller than this, the difference is added on *both* sides.
    """
    pads = np.broadcast_to(np.array(padding_ltrb, dtype=np.int64), (len(sizes_hw), 4)).copy()
    if grow_to_hw is not None:
        padded = sizes_hw + np.stack([pads[:, 1] + pads[:, 3], pads[:, 0] + pads[:, 2]], axis=1)
        missing = np.maximum(np.array(grow_to_hw, dtype=np.int64) - padded, 0)
        pads += np.stack([missing[:, 1], missing[:, 0], missing[:, 1], missing[:, 0]], axis=1)
    return pads


def zoom_out_paddings(sizes_hw: _Ints, side_range: tuple[float, float], units: _Floats) -> _Ints:
    """Paddings of ``RandomZoomOut``, which multiplies in float32.

    Args:
        sizes_hw: (B, 2) sizes of the images.
        side_range: lowest and highest ratio of the canvas's sides to the image's.
        units: (B, 3) draws in [0, 1): the ratio, the place from left to right, the place from top to bottom.
    """
    canvas = (sizes_hw.astype(np.float32) * _float32_between(side_range, units[:, 0])[:, None]).astype(np.int64)
    free = canvas - sizes_hw
    left = (free[:, 1].astype(np.float32) * _float32_between((0.0, 1.0), units[:, 1])).astype(np.int64)
    top = (free[:, 0].astype(np.float32) * _float32_between((0.0, 1.0), units[:, 2])).astype(np.int64)
    return np.stack([left, top, free[:, 1] - left, free[:, 0] - top], axis=1)


def perspective_corners(
    sizes_hw: _Ints, distortion_scale: float, unit_pairs: UnitPairs
) -> tuple[_Ints, NDArray[np.bool_]]:
    """Where ``RandomPerspective`` moves the corners.

    Three corners on a line have no perspective: torchvision fails there or makes stripes of rounding errors, by chance.
    Such corners, which only a strong distortion or an image of a few pixels gives, are drawn again.

    Args:
        sizes_hw: (B, 2) sizes of the images.
        distortion_scale: how far a corner may move, in shares of half a side.
        unit_pairs: gives the draws. Attempt ``k`` takes the draws ``4 k`` to ``4 k + 3``: each corner's x and y.

    Returns:
        (B, 8) int64: x and y of the top left, top right, bottom right and bottom left corner, in pixels; and (B,) bool,
        false for images without a perspective, one pixel high or wide, and those of which none was found; their corners
        stay.
    """
    height, width = sizes_hw[:, 0], sizes_hw[:, 1]
    corners = np.stack([0 * width, 0 * height, width - 1, 0 * height, width - 1, height - 1, 0 * width, height - 1], 1)
    reach_h = (distortion_scale * (height // 2)).astype(np.int64) + 1
    reach_w = (distortion_scale * (width // 2)).astype(np.int64) + 1
    pending = np.flatnonzero(sizes_hw.min(axis=1) > 1)
    for attempt in range(_CORNER_ATTEMPTS):
        if not len(pending):
            break
        unit_x, unit_y = unit_pairs([4 * attempt + corner for corner in range(4)], pending)
        inward_x, inward_y = below(unit_x, reach_w[pending]), below(unit_y, reach_h[pending])
        left, right = inward_x, (width - reach_w)[pending] + inward_x
        top, bottom = inward_y, (height - reach_h)[pending] + inward_y
        drawn = np.stack([left[0], top[0], right[1], top[1], right[2], bottom[2], left[3], bottom[3]], axis=1)
        defined = ~_any_three_on_a_line(drawn)
        corners[pending[defined]] = drawn[defined]
        pending = pending[~defined]
    rest = np.isin(np.arange(len(sizes_hw)), pending) | (sizes_hw.min(axis=1) < 2)
    return corners, ~rest


def _any_three_on_a_line(corners: _Ints) -> NDArray[np.bool_]:
    """(B,) bool: whether three of four points lie on one line; (B, 8) x and y of each."""
    xs, ys = corners[:, 0::2], corners[:, 1::2]
    flat = np.zeros(len(corners), dtype=np.bool_)
    for a, b, c in ((0, 1, 2), (1, 2, 3), (2, 3, 0), (3, 0, 1)):
        across = (xs[:, b] - xs[:, a]) * (ys[:, c] - ys[:, a]) - (xs[:, c] - xs[:, a]) * (ys[:, b] - ys[:, a])
        flat |= across == 0
    return flat


def random_windows(sizes_hw: _Ints, size_hw: tuple[int, int], unit_top: _Floats, unit_left: _Floats) -> _Ints:
    """Windows of ``RandomCrop``.

    Args:
        sizes_hw: (B, 2) sizes of the (padded) images.
        size_hw: size of the window.
        unit_top: (B,) draws in [0, 1) for the row.
        unit_left: (B,) draws in [0, 1) for the column.

    Returns:
        (B, 4) int64; a row or column is negative where the window is larger than the image, which the caller refuses.
    """
    crop = np.array(size_hw, dtype=np.int64)
    free = sizes_hw - crop + 1
    start = np.stack([below(unit_top, free[:, 0]), below(unit_left, free[:, 1])], axis=1)
    start = np.where(free < 1, free - 1, start)
    return np.concatenate([start, np.broadcast_to(crop, sizes_hw.shape)], axis=1)


def below(unit: _Floats, count: _Ints) -> _Ints:
    """An integer in [0, count) from a draw in [0, 1); 0 where ``count`` is below 1."""
    count = np.maximum(count, 1)
    return np.minimum((unit * count).astype(np.int64), count - 1)


def area_windows(
    sizes_hw: _Ints,
    scale: tuple[float, float],
    ratio: tuple[float, float],
    unit_pairs: UnitPairs,
) -> _Ints:
    """Windows of ``RandomResizedCrop`` (torchvision's ``make_params``).

    Args:
        sizes_hw: (B, 2) sizes of the images.
        scale: lowest and highest share of the image's area.
        ratio: lowest and highest aspect ratio, width / height; drawn uniformly in its logarithm.
        unit_pairs: gives the draws. Attempt ``k`` takes draw ``2 k`` (area, ratio) and ``2 k + 1`` (row, column).

    Returns:
        (B, 4) int64, always inside the image.
    """
    windows = np.empty((len(sizes_hw), 4), dtype=np.int64)
    pending = np.arange(len(sizes_hw))
    for attempts in (range(_FIRST_ATTEMPTS), range(_FIRST_ATTEMPTS, MAX_AREA_ATTEMPTS)):
        numbers = [2 * attempt + part for part in (0, 1) for attempt in attempts]
        first, second = unit_pairs(numbers, pending)
        found, candidates = _attempt_areas(sizes_hw[pending], scale, ratio, first, second)
        windows[pending[found]] = candidates[found]
        pending = pending[~found]
        if not len(pending):
            return windows
    windows[pending] = _central_area_windows(sizes_hw[pending], ratio)
    return windows


def _attempt_areas(
    sizes_hw: _Ints, scale: tuple[float, float], ratio: tuple[float, float], first: _Floats, second: _Floats
) -> tuple[NDArray[np.bool_], _Ints]:
    """K attempts for each image at once: whether one fits, (B,), and the window of the first that does, (B, 4).

    ``first`` and ``second`` are (2 K, B): K draws of (area, ratio), then K of (row, column).
    """
    count = len(first) // 2
    height, width = sizes_hw[:, 0], sizes_hw[:, 1]
    # torchvision draws both in float32, and keeps float32 logarithms
    log_low, log_high = np.log(np.array(ratio, dtype=np.float32)).astype(np.float64)
    target_area = height * width * single(scale[0] + (scale[1] - scale[0]) * first[:count])
    aspect = single(np.exp(single(log_low + (log_high - log_low) * second[:count])))
    w = np.rint(np.sqrt(target_area * aspect)).astype(np.int64)
    h = np.rint(np.sqrt(target_area / aspect)).astype(np.int64)
    fits: NDArray[np.bool_] = (w > 0) & (w <= width) & (h > 0) & (h <= height)
    attempt = fits.argmax(axis=0)
    image = np.arange(len(sizes_hw))
    h, w = h[attempt, image], w[attempt, image]
    top = below(first[count + attempt, image], height - h + 1)
    left = below(second[count + attempt, image], width - w + 1)
    return fits[attempt, image], np.stack([top, left, h, w], axis=1)  # the first that fits, if any does


def single(values: _Floats) -> _Floats:
    """Rounded to float32, in which torchvision draws."""
    return values.astype(np.float32).astype(np.float64)


def _central_area_windows(sizes_hw: _Ints, ratio: tuple[float, float]) -> _Ints:
    """The central crop that ``RandomResizedCrop`` falls back to, with the ratio clamped to its bounds."""
    height, width = sizes_hw[:, 0], sizes_hw[:, 1]
    image_ratio = width / height
    low, high = min(ratio), max(ratio)
    h = np.where(image_ratio < low, np.rint(width / low).astype(np.int64), height)
    w = np.where(image_ratio > high, np.rint(height * high).astype(np.int64), width)
    return np.stack([(height - h) // 2, (width - w) // 2, h, w], axis=1)
