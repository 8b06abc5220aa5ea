"""Colour through torchvision."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed.plan import (
    AdjustSharpness,
    Autocontrast,
    ChannelPermutation,
    ColorJitter,
    Equalize,
    Grayscale,
    Invert,
    Op,
    Posterize,
    RandomGrayscale,
    Solarize,
)
from gpufeed.reference.image import F1, F2, Function, Leaf, functional, ints
from gpufeed.reference.values import LeafValues

__all__ = ["FUNCTIONS", "LEAVES"]


def _is_grey(values: LeafValues) -> bool:
    return values.has(RandomGrayscale) and bool(values.of(RandomGrayscale))


def _grayscale_v1(transform: Any, values: LeafValues, image: Any) -> Any:
    del transform
    return F1.rgb_to_grayscale(image, num_output_channels=F1.get_dimensions(image)[0]) if _is_grey(values) else image


def _grayscale_v2(transform: Any, values: LeafValues, image: Any) -> Any:
    return transform.transform(image, transform.make_params([image])) if _is_grey(values) else image


def _factors(values: LeafValues) -> list[float | None]:
    """Brightness, contrast, saturation and hue, as torchvision's own drawing gives them."""
    if not values.has(ColorJitter):
        return [None] * 4
    return [None if np.isnan(factor) else float(factor) for factor in values.of(ColorJitter)[4:]]


def _order(values: LeafValues) -> torch.Tensor:
    return torch.tensor(ints(values.of(ColorJitter)[:4]) if values.has(ColorJitter) else [0, 1, 2, 3])


def _jitter_v1(transform: Any, values: LeafValues, image: Any) -> Any:
    """v1's ``forward`` as it stands, with our factors in the place of ``get_params``."""

    def our_params(*_: object) -> tuple[Any, ...]:
        return (_order(values), *_factors(values))

    drawn = copy.copy(transform)
    drawn.get_params = our_params
    return drawn(image)


_FACTOR_NAMES = ("brightness_factor", "contrast_factor", "saturation_factor", "hue_factor")


def _jitter_v2(transform: Any, values: LeafValues, image: Any) -> Any:
    params = dict(zip(_FACTOR_NAMES, _factors(values), strict=True))
    return transform.transform(image, {**params, "fn_idx": _order(values)})


def _photometric(transform: Any, values: LeafValues, image: Any) -> Any:
    order = [int(step) for step in _order(values)]
    permuted = values.has(ChannelPermutation)
    params = {
        **dict(zip(_FACTOR_NAMES, _factors(values), strict=True)),
        "contrast_before": order.index(1) < order.index(2),
        "channel_permutation": torch.tensor(ints(values.of(ChannelPermutation))) if permuted else None,
    }
    return transform.transform(image, params)


def _permutation(transform: Any, values: LeafValues, image: Any) -> Any:
    count = F2.get_num_channels(image)
    order = ints(values.of(ChannelPermutation)) if values.has(ChannelPermutation) else list(range(count))
    return transform.transform(image, {"permutation": torch.tensor(order)})


def _chance_v1(function: Callable[..., Any], attribute: str | None = None) -> Leaf:
    """The body of a v1 class that calls one function with one attribute, or not."""

    def leaf(transform: Any, values: LeafValues, image: Any) -> Any:
        arguments = () if attribute is None else (getattr(transform, attribute),)
        return function(image, *arguments) if values.happens else image

    return leaf


def _chance_v2(transform: Any, values: LeafValues, image: Any) -> Any:
    return transform.transform(image, {}) if values.happens else image


LEAVES: Mapping[type[object], Leaf] = {
    v1.RandomGrayscale: _grayscale_v1,
    v2.RandomGrayscale: _grayscale_v2,
    v1.ColorJitter: _jitter_v1,
    v2.ColorJitter: _jitter_v2,
    v2.RandomPhotometricDistort: _photometric,
    v2.RandomChannelPermutation: _permutation,
    v1.RandomInvert: _chance_v1(F1.invert),
    v2.RandomInvert: _chance_v2,
    v1.RandomPosterize: _chance_v1(F1.posterize, "bits"),
    v2.RandomPosterize: _chance_v2,
    v1.RandomSolarize: _chance_v1(F1.solarize, "threshold"),
    v2.RandomSolarize: _chance_v2,
    v1.RandomAdjustSharpness: _chance_v1(F1.adjust_sharpness, "sharpness_factor"),
    v2.RandomAdjustSharpness: _chance_v2,
    v1.RandomAutocontrast: _chance_v1(F1.autocontrast),
    v2.RandomAutocontrast: _chance_v2,
    v1.RandomEqualize: _chance_v1(F1.equalize),
    v2.RandomEqualize: _chance_v2,
}


def _grayscale(op: Grayscale, image: Any, value: None) -> Any:
    del value
    return functional(op.api).rgb_to_grayscale(image, num_output_channels=op.num_output_channels)


def _random_grayscale(op: RandomGrayscale, image: Any, applied: np.bool_) -> Any:
    if not bool(applied):
        return image
    return functional(op.api).rgb_to_grayscale(image, num_output_channels=F2.get_num_channels(image))


def _color_jitter(op: ColorJitter, image: Any, value: NDArray[np.float64]) -> Any:
    functions = functional(op.api)
    for step in ints(value[:4]):
        name = ("adjust_brightness", "adjust_contrast", "adjust_saturation", "adjust_hue")[step]
        if not np.isnan(value[4 + step]):
            image = getattr(functions, name)(image, float(value[4 + step]))
    return image


def _permute_channels(op: ChannelPermutation, image: Any, order: NDArray[np.int64]) -> Any:
    del op
    return F2.permute_channels(image, ints(order))


def _invert(op: Invert, image: Any, value: None) -> Any:
    del op, value
    return F2.invert(image)


def _posterize(op: Posterize, image: Any, value: None) -> Any:
    del value
    return F2.posterize(image, op.bits)


def _solarize(op: Solarize, image: Any, value: None) -> Any:
    del value
    return F2.solarize(image, op.threshold)


def _adjust_sharpness(op: AdjustSharpness, image: Any, value: None) -> Any:
    del value
    return functional(op.api).adjust_sharpness(image, op.factor)


def _autocontrast(op: Autocontrast, image: Any, value: None) -> Any:
    del value
    return functional(op.api).autocontrast(image)


def _equalize(op: Equalize, image: Any, value: None) -> Any:
    del op, value
    return F2.equalize(image)


FUNCTIONS: Mapping[type[Op], Function] = {
    Grayscale: _grayscale,
    RandomGrayscale: _random_grayscale,
    ColorJitter: _color_jitter,
    ChannelPermutation: _permute_channels,
    Invert: _invert,
    Posterize: _posterize,
    Solarize: _solarize,
    AdjustSharpness: _adjust_sharpness,
    Autocontrast: _autocontrast,
    Equalize: _equalize,
}
