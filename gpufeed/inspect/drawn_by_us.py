"""What gpufeed drew, as quantities: the arrays of each op, read as its drawing function documents them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpufeed.inspect.quantities import Categories, Quantities, window_quantities
from gpufeed.plan import (
    Affine,
    ChannelPermutation,
    ColorJitter,
    Erase,
    EraseToNoise,
    Flip,
    GaussianBlur,
    Jpeg,
    Op,
    Perspective,
    RandomAreaCrop,
    RandomCrop,
    RandomGrayscale,
    RandomResize,
    RandomShortestSize,
    Rotate,
    ScaleJitter,
    ZoomOut,
)

__all__ = ["CORNERS", "FACTORS", "OURS"]

_Sizes = NDArray[np.int64]
_Values = NDArray[Any]

FACTORS = ("brightness", "contrast", "saturation", "hue")
"""As ``ColorJitter`` numbers them."""

CORNERS = ("top left", "top right", "bottom right", "bottom left")
"""As ``RandomPerspective`` orders them."""


def _coin(op: Op, applied: _Values, sizes: _Sizes | None) -> Quantities:
    del op, sizes
    return {"rate": applied.astype(np.float64)}


def _window(op: Op, windows: _Values, sizes: _Sizes | None) -> Quantities:
    del op
    return {} if sizes is None else window_quantities(windows, sizes)


def _erased(op: Erase | EraseToNoise, windows: _Values, sizes: _Sizes | None) -> Quantities:
    del op
    return {} if sizes is None else window_quantities(windows[:, :4], sizes, ratio_is_width_by_height=False)


def _place(op: RandomCrop, windows: _Values, sizes: _Sizes | None) -> Quantities:
    """Where the window lies, in [0, 1] of where it may."""
    if sizes is None:
        return {}
    free = np.maximum(sizes - np.array(op.size_hw), 0) + 1
    return {name: (windows[:, axis] + 0.5) / free[:, axis] for axis, name in enumerate(("top", "left"))}


def _jitter(op: ColorJitter, values: _Values, sizes: _Sizes | None) -> Quantities:
    del sizes
    found: dict[str, NDArray[np.float64] | Categories] = {}
    for number, name in enumerate(FACTORS):
        if getattr(op, name) is None:
            continue
        found[name] = values[:, 4 + number]
        if op.p < 1.0:
            found[f"{name} rate"] = (~np.isnan(values[:, 4 + number])).astype(np.float64)
    if op.order == "random":
        found["first"] = Categories(np.bincount(values[:, 0].astype(np.int64), minlength=4), FACTORS)
    else:
        found["contrast first rate"] = (values[:, 1] == 1).astype(np.float64)
    return found


def _permutation(op: ChannelPermutation, order: _Values, sizes: _Sizes | None) -> Quantities:
    del op, sizes
    channels = order.shape[1]
    each = list(itertools.permutations(range(channels)))
    numbers = np.array([int((order == np.array(one)).all(axis=1).sum()) for one in each], dtype=np.int64)
    return {"permutation": Categories(numbers, [", ".join(map(str, one)) for one in each])}


def _blur(op: GaussianBlur, sigma: _Values, sizes: _Sizes | None) -> Quantities:
    del op, sizes
    return {"sigma": sigma.astype(np.float64)}


def _quality(op: Jpeg, quality: _Values, sizes: _Sizes | None) -> Quantities:
    del op, sizes
    return {"quality": quality.astype(np.float64)}


def _angle(op: Rotate, values: _Values, sizes: _Sizes | None) -> Quantities:
    del op, sizes
    return {"angle": values[:, 0]}


def _affine(op: Affine, values: _Values, sizes: _Sizes | None) -> Quantities:
    found = {"angle": values[:, 0], "scale": values[:, 3], "shear x": values[:, 4], "shear y": values[:, 5]}
    if sizes is not None:
        found |= {"shift x": values[:, 1] / sizes[:, 1], "shift y": values[:, 2] / sizes[:, 0]}
    drawn = {
        "angle": op.degrees,
        "scale": op.scale,
        "shear x": op.shear[:2],
        "shear y": op.shear[2:],
        "shift x": (0.0, op.translate[0]),
        "shift y": (0.0, op.translate[1]),
    }
    return {name: numbers for name, numbers in found.items() if drawn[name][0] < drawn[name][1]}


def _corners(op: Perspective, corners: _Values, sizes: _Sizes | None) -> Quantities:
    del op
    if sizes is None:
        return {}
    shares = corners.reshape(-1, 4, 2) / np.maximum(sizes[:, None, ::-1], 1)
    return {f"{name} {axis}": shares[:, n, i] for n, name in enumerate(CORNERS) for i, axis in enumerate("xy")}


def _shorter_side(op: RandomResize | RandomShortestSize, out: _Values, sizes: _Sizes | None) -> Quantities:
    del op, sizes
    return {"shorter side": out.min(axis=1).astype(np.float64)}


def _scale(op: ScaleJitter, out: _Values, sizes: _Sizes | None) -> Quantities:
    del op
    return {} if sizes is None else {"height": out[:, 0] / sizes[:, 0], "width": out[:, 1] / sizes[:, 1]}


def _canvas(op: ZoomOut, paddings: _Values, sizes: _Sizes | None) -> Quantities:
    del op
    if sizes is None:
        return {}
    left, top, right, bottom = paddings.astype(np.float64).T
    return {
        "canvas": (left + right) / sizes[:, 1],
        "left": left / sizes[:, 1],
        "top": top / sizes[:, 0],
        "bottom": bottom / sizes[:, 0],
    }


OURS: Mapping[type[Op], Callable[[Any, Any, _Sizes | None], Quantities]] = {
    RandomAreaCrop: _window,
    RandomCrop: _place,
    Flip: _coin,
    RandomGrayscale: _coin,
    ColorJitter: _jitter,
    ChannelPermutation: _permutation,
    GaussianBlur: _blur,
    Jpeg: _quality,
    Erase: _erased,
    EraseToNoise: _erased,
    Rotate: _angle,
    Affine: _affine,
    Perspective: _corners,
    RandomResize: _shorter_side,
    RandomShortestSize: _shorter_side,
    ScaleJitter: _scale,
    ZoomOut: _canvas,
}
"""Op, its parameters for B samples and the (B, 2) sizes of its input, ``None`` where they aren't known, to what is
compared."""
