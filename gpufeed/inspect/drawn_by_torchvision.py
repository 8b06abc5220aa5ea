"""What torchvision draws, as quantities: each class's own ``make_params`` or ``get_params``, called again and again.

Quantities are named as in ``drawn_by_us``. torchvision's global generator is used; the caller seeds and restores it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed.inspect.drawn_by_us import CORNERS, FACTORS
from gpufeed.inspect.quantities import Categories, Range, window_quantities
from gpufeed.plan import Op, RandomCrop

__all__ = ["THEIRS"]

_Sizes = NDArray[np.int64]
_Floats = NDArray[np.float64]
_Wanted = Mapping[str, "_Floats | Range | Categories | float"]

_V1 = cast(Any, v1)  # its annotations say Tensor where sizes alone matter


def _blank(size_hw: Sequence[int]) -> torch.Tensor:
    """An RGB image of a size, without memory."""
    height, width = (int(side) for side in size_hw)
    return torch.empty(1, dtype=torch.uint8).expand(3, height, width)


def _params(transform: Any, sizes: _Sizes) -> Iterator[Mapping[str, Any]]:
    """v2's ``make_params`` for images of these sizes."""
    return (transform.make_params([_blank(size)]) for size in sizes)


def _first(sizes: Sequence[_Sizes | None]) -> _Sizes:
    return cast(_Sizes, sizes[0])


def _windows(found: Iterator[Sequence[int]], sizes: _Sizes) -> _Wanted:
    return dict(window_quantities(np.array(list(found), dtype=np.int64), sizes))


def _area_v1(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    del ops
    draw, first = transform.get_params, _first(sizes)
    return _windows((draw(_blank(size), transform.scale, transform.ratio) for size in first), first)


def _area_v2(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    del ops
    first = _first(sizes)
    names = ("top", "left", "height", "width")
    return _windows(([drawn[name] for name in names] for drawn in _params(transform, first)), first)


def _at_crop(ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Sizes | None:
    """The sizes in front of the crop, behind the padding."""
    return next((size for op, size in zip(ops, sizes, strict=False) if isinstance(op, RandomCrop)), None)


def _places(found: Iterator[Sequence[int]], size_hw: Sequence[int], sizes: _Sizes) -> _Wanted:
    free = np.maximum(sizes - np.array(size_hw), 0) + 1
    places = np.array(list(found), dtype=np.float64)
    return {name: (places[:, axis] + 0.5) / free[:, axis] for axis, name in enumerate(("top", "left"))}


def _crop_v1(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    padded = _at_crop(ops, sizes)
    if padded is None:
        return {}
    draw = transform.get_params
    return _places((draw(_blank(size), transform.size)[:2] for size in padded), transform.size, padded)


def _crop_v2(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    padded = _at_crop(ops, sizes)
    if padded is None:
        return {}
    drawn = _params(transform, _first(sizes))
    return _places(((one["top"], one["left"]) for one in drawn), transform.size, padded)


def _factors(found: Iterator[Sequence[float | None]]) -> dict[str, _Floats | Range | Categories | float]:
    drawn = [[np.nan if factor is None else float(factor) for factor in factors] for factors in found]
    return dict(zip(FACTORS, np.array(drawn).T, strict=True))


_EACH_ORDER = Categories(np.full(4, 0.25))
"""``torch.randperm(4)``."""


def _jitter_v1(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    del ops
    ranges = [getattr(transform, name) for name in FACTORS]
    found = (transform.get_params(*ranges)[1:] for _ in _first(sizes))
    return {**_factors(found), "first": _EACH_ORDER}


def _jitter_v2(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    del ops
    found = ([one[f"{name}_factor"] for name in FACTORS] for one in _params(transform, _first(sizes)))
    return {**_factors(found), "first": _EACH_ORDER}


def _distort(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    del ops
    found = ([one[f"{name}_factor"] for name in FACTORS] for one in _params(transform, _first(sizes)))
    rates = {f"{name} rate": float(transform.p) for name in FACTORS}
    return {**_factors(found), **rates, "contrast first rate": 0.5, **_EACH_PERMUTATION}


_EACH_PERMUTATION = {"permutation": Categories(np.full(6, 1 / 6))}
"""``torch.randperm(3)``."""


def _permutation(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    del transform, ops, sizes
    return _EACH_PERMUTATION


def _blur_v1(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    del ops
    return {"sigma": np.array([transform.get_params(*transform.sigma) for _ in _first(sizes)])}


def _blur_v2(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    del ops
    return {"sigma": np.array([one["sigma"][0] for one in _params(transform, _first(sizes))])}


def _quality(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    del ops
    return {"quality": np.array([float(one["quality"]) for one in _params(transform, _first(sizes))])}


def _erased_v1(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    del ops
    first = _first(sizes)
    found: list[tuple[int, ...]] = []
    for size in first:
        image = _blank(size)
        top, left, height, width, value = transform.get_params(image, transform.scale, transform.ratio, [0.0])
        found.append((0, 0, 0, 0) if value is image else (top, left, height, width))
    return dict(window_quantities(np.array(found), first, ratio_is_width_by_height=False))


def _erased_v2(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    del ops
    first = _first(sizes)
    windows = np.array(
        [
            (0, 0, 0, 0) if one["v"] is None else (one["i"], one["j"], one["h"], one["w"])
            for one in _params(transform, first)
        ]
    )
    return dict(window_quantities(windows, first, ratio_is_width_by_height=False))


def _angle_v1(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    del ops
    return {"angle": np.array([transform.get_params(transform.degrees) for _ in _first(sizes)])}


def _angle_v2(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    del ops
    return {"angle": np.array([one["angle"] for one in _params(transform, _first(sizes))])}


def _affine_quantities(found: Sequence[tuple[float, Sequence[int], float, Sequence[float]]], sizes: _Sizes) -> _Wanted:
    drawn = np.array([(angle, *shift, scale, *shear) for angle, shift, scale, shear in found], dtype=np.float64).T
    return {
        "angle": drawn[0],
        "shift x": drawn[1] / sizes[:, 1],
        "shift y": drawn[2] / sizes[:, 0],
        "scale": drawn[3],
        "shear x": drawn[4],
        "shear y": drawn[5],
    }


def _affine_v1(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    del ops
    first, t = _first(sizes), transform
    found = [
        t.get_params(t.degrees, t.translate, t.scale, t.shear, [int(size[1]), int(size[0])])  # (width, height)
        for size in first
    ]
    return _affine_quantities(found, first)


def _affine_v2(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    del ops
    first = _first(sizes)
    found = [(one["angle"], one["translate"], one["scale"], one["shear"]) for one in _params(transform, first)]
    return _affine_quantities(found, first)


def _corners(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    """Both generations draw the corners alike; v2 keeps only the coefficients, so v1's function is asked."""
    del ops
    first = _first(sizes)
    draw = _V1.RandomPerspective.get_params
    ends = np.array([draw(int(w), int(h), transform.distortion_scale)[1] for h, w in first], dtype=np.float64)
    shares = ends / np.maximum(first[:, None, ::-1], 1)
    return {f"{name} {axis}": shares[:, n, i] for n, name in enumerate(CORNERS) for i, axis in enumerate("xy")}


def _shorter_side(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    del ops
    return {"shorter side": np.array([float(min(one["size"])) for one in _params(transform, _first(sizes))])}


def _scale(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    del ops
    first = _first(sizes)
    shares = np.array([one["size"] for one in _params(transform, first)]) / first
    return {"height": shares[:, 0], "width": shares[:, 1]}


def _canvas(transform: Any, ops: Sequence[Op], sizes: Sequence[_Sizes | None]) -> _Wanted:
    del ops
    first = _first(sizes)
    left, top, right, bottom = np.array([one["padding"] for one in _params(transform, first)], dtype=np.float64).T
    height, width = first.T
    return {"canvas": (left + right) / width, "left": left / width, "top": top / height, "bottom": bottom / height}


THEIRS: Mapping[type[object], Callable[[Any, Sequence[Op], Sequence[_Sizes | None]], _Wanted]] = {
    v1.RandomResizedCrop: _area_v1,
    v2.RandomResizedCrop: _area_v2,
    v1.RandomCrop: _crop_v1,
    v2.RandomCrop: _crop_v2,
    v1.ColorJitter: _jitter_v1,
    v2.ColorJitter: _jitter_v2,
    v2.RandomPhotometricDistort: _distort,
    v2.RandomChannelPermutation: _permutation,
    v1.GaussianBlur: _blur_v1,
    v2.GaussianBlur: _blur_v2,
    v2.JPEG: _quality,
    v1.RandomErasing: _erased_v1,
    v2.RandomErasing: _erased_v2,
    v1.RandomRotation: _angle_v1,
    v2.RandomRotation: _angle_v2,
    v1.RandomAffine: _affine_v1,
    v2.RandomAffine: _affine_v2,
    v1.RandomPerspective: _corners,
    v2.RandomPerspective: _corners,
    v2.RandomResize: _shorter_side,
    v2.RandomShortestSize: _shorter_side,
    v2.ScaleJitter: _scale,
    v2.RandomZoomOut: _canvas,
}
"""The transform, the ops that it became, and (B, 2) sizes in front of each of them, to one number per size, or to what
is known exactly. A transform that isn't here has at most its ``p``."""
