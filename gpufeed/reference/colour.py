"""Colour through torchvision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed.plan import Grayscale, Op, RandomGrayscale
from gpufeed.reference.image import F1, F2, Function, Leaf, functional
from gpufeed.reference.values import LeafValues

__all__ = ["FUNCTIONS", "LEAVES"]


def _is_grey(values: LeafValues) -> bool:
    return values.has(RandomGrayscale) and bool(values.of(RandomGrayscale))


def _grayscale_v1(transform: Any, values: LeafValues, image: Any) -> Any:
    del transform
    return F1.rgb_to_grayscale(image, num_output_channels=F1.get_dimensions(image)[0]) if _is_grey(values) else image


def _grayscale_v2(transform: Any, values: LeafValues, image: Any) -> Any:
    return transform.transform(image, transform.make_params([image])) if _is_grey(values) else image


LEAVES: Mapping[type[object], Leaf] = {
    v1.RandomGrayscale: _grayscale_v1,
    v2.RandomGrayscale: _grayscale_v2,
}


def _grayscale(op: Grayscale, image: Any, value: None) -> Any:
    del value
    return functional(op.api).rgb_to_grayscale(image, num_output_channels=op.num_output_channels)


def _random_grayscale(op: RandomGrayscale, image: Any, applied: np.bool_) -> Any:
    if not bool(applied):
        return image
    return functional(op.api).rgb_to_grayscale(image, num_output_channels=F2.get_num_channels(image))


FUNCTIONS: Mapping[type[Op], Function] = {
    Grayscale: _grayscale,
    RandomGrayscale: _random_grayscale,
}
