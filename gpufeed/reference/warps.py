"""Rotations, affine maps and perspectives through torchvision."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode, v2

from gpufeed.plan import Affine, Fill, Op, Perspective, Rotate
from gpufeed.reference.image import F1, Function, Leaf, functional
from gpufeed.reference.values import LeafValues

__all__ = ["FUNCTIONS", "LEAVES"]

_Points = list[list[int]]


def _forward_with(transform: Any, params: object, image: Any) -> Any:
    """v1's ``forward`` as it stands, with our draws in the place of ``get_params``."""

    def our_params(*_: object) -> object:
        return params

    drawn = copy.copy(transform)
    drawn.get_params = our_params
    return drawn(image)


def _angle(value: NDArray[np.float64]) -> float:
    return float(value[0])


def _affine_params(value: NDArray[np.float64]) -> dict[str, Any]:
    angle, right, down, scale, *shear = value.tolist()
    return {"angle": angle, "translate": (int(right), int(down)), "scale": scale, "shear": tuple(shear)}


def _points(value: NDArray[np.int64], image: Any) -> tuple[_Points, _Points]:
    """Where the corners of the image are, and where they go."""
    _, height, width = F1.get_dimensions(image)
    starts = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
    return starts, value.reshape(4, 2).tolist()


def _rotation_v1(transform: Any, drawn: LeafValues, image: Any) -> Any:
    return _forward_with(transform, _angle(drawn.of(Rotate)), image)


def _rotation_v2(transform: Any, drawn: LeafValues, image: Any) -> Any:
    return transform.transform(image, {"angle": _angle(drawn.of(Rotate))})


def _affine_v1(transform: Any, drawn: LeafValues, image: Any) -> Any:
    return _forward_with(transform, tuple(_affine_params(drawn.of(Affine)).values()), image)


def _affine_v2(transform: Any, drawn: LeafValues, image: Any) -> Any:
    return transform.transform(image, _affine_params(drawn.of(Affine)))


def _perspective_v1(transform: Any, drawn: LeafValues, image: Any) -> Any:
    if not drawn.has(Perspective):
        return image
    always = copy.copy(transform)
    always.p = 1.0
    with cast(Any, torch.random).fork_rng(devices=[]):  # forward draws whether to do it
        return _forward_with(always, _points(drawn.of(Perspective), image), image)


def _perspective_v2(transform: Any, drawn: LeafValues, image: Any) -> Any:
    if not drawn.has(Perspective):
        return image
    coefficients = F1._get_perspective_coeffs(*_points(drawn.of(Perspective), image))
    return transform.transform(image, {"coefficients": coefficients})


LEAVES: Mapping[type[object], Leaf] = {
    v1.RandomRotation: _rotation_v1,
    v2.RandomRotation: _rotation_v2,
    v1.RandomAffine: _affine_v1,
    v2.RandomAffine: _affine_v2,
    v1.RandomPerspective: _perspective_v1,
    v2.RandomPerspective: _perspective_v2,
}


def _fill(fill: Fill | None) -> list[float] | None:
    return None if fill is None else list(fill)


def _rotate(op: Rotate, image: Any, value: NDArray[np.float64]) -> Any:
    center = None if op.center is None else list(op.center)
    mode = InterpolationMode(op.interpolation)
    return functional(op.api).rotate(image, _angle(value), mode, op.expand, center, _fill(op.fill))


def _affine(op: Affine, image: Any, value: NDArray[np.float64]) -> Any:
    center = None if op.center is None else list(op.center)
    mode = InterpolationMode(op.interpolation)
    params = _affine_params(value)
    return functional(op.api).affine(image, **params, interpolation=mode, fill=_fill(op.fill), center=center)


def _perspective(op: Perspective, image: Any, value: NDArray[np.int64]) -> Any:
    starts, ends = _points(value, image)
    mode = InterpolationMode(op.interpolation)
    return functional(op.api).perspective(image, starts, ends, mode, _fill(op.fill))


FUNCTIONS: Mapping[type[Op], Function] = {
    Rotate: _rotate,
    Affine: _affine,
    Perspective: _perspective,
}
