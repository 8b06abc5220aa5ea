"""What changes colours: luma, jitter, tables of values, and sharpness."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, cast

import torch
from torchvision import transforms as v1
from torchvision.transforms import functional as functional_v1
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as functional_v2

from gpufeed.errors import UnsupportedError
from gpufeed.plan import (
    AdjustSharpness,
    Api,
    Autocontrast,
    ChannelPermutation,
    ColorJitter,
    Equalize,
    FactorRange,
    Grayscale,
    Invert,
    JitterOrder,
    Op,
    Posterize,
    RandomApply,
    RandomGrayscale,
    Solarize,
)
from gpufeed.spec import ImageSpec
from gpufeed.translation import values
from gpufeed.translation.rule import Attributes, Rule, kernel_api, plain_tensor, refuse_chance_container

__all__ = ["RULES"]


def _grayscale(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    wanted = attributes["num_output_channels"]
    if wanted not in (1, 3):
        raise UnsupportedError(f"num_output_channels must be 1 or 3, got {wanted!r}")
    channels = 1 if wanted == 1 else 3
    if spec.channels == 1 and channels == 1:
        return ()  # a copy, and v1 keeps the class of a copied tv_tensors.Image
    if spec.channels == 1 and spec.container != "pil" and api == "v1":
        return plain_tensor((), spec, api)  # v1 expands a grey tensor to its own shape: it stays at one channel
    return plain_tensor((Grayscale(channels, kernel_api(spec, api)),), spec, api)


def _random_grayscale(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    p = values.probability(attributes["p"])
    if p == 0.0 or spec.channels == 1:
        return ()  # the luma of a grey image is a copy of it
    if p < 1.0:
        refuse_chance_container("RandomGrayscale", "the draw decides against it", spec, api)
    return plain_tensor((RandomGrayscale(p, kernel_api(spec, api)),), spec, api)


def _rgb(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    del attributes
    return () if spec.channels == 3 else (Grayscale(3, kernel_api(spec, api)),)


def _ask(name: str, spec: ImageSpec, api: Api, *arguments: object) -> None:
    """Refuse what one of torchvision's functions refuses, asked with an image of 3x3 pixels."""
    function = getattr(functional_v1 if api == "v1" else functional_v2, name)
    try:
        function(values.blank(spec), *arguments)
    except (TypeError, ValueError, RuntimeError, OverflowError, NotImplementedError) as error:
        given = "".join(f" with {argument!r}" for argument in arguments)
        raise UnsupportedError(
            f"torchvision can't {name} {spec}{given}: {error}; give it another value, or convert the image before"
        ) from error


# Adjustments by drawn factors -----------------------------------------------------------------------------------------

_ADJUSTMENTS = ("brightness", "contrast", "saturation", "hue")


def _factor_range(name: str, value: object, spec: ImageSpec, api: Api) -> FactorRange | None:
    """The first two items of what torchvision draws a factor from; ``None`` where it draws none."""
    if value is None:
        return None
    try:
        bounds = cast(Any, value)
        if isinstance(bounds, str | bytes):
            raise TypeError("it is text")
        low, high = float(bounds[0]), float(bounds[1])
        torch.empty(1).uniform_(low, high, generator=torch.Generator())  # its own: nothing global is drawn from
    except (TypeError, ValueError, IndexError, KeyError, RuntimeError, OverflowError) as error:
        raise UnsupportedError(
            f"torchvision draws {name} from (lowest, highest) and can't from {value!r}: {error}; give two numbers, the "
            "first not above the second"
        ) from error
    for factor in (low, high):
        _ask(f"adjust_{name}", spec, api, factor)
    return low, high


def _jitter(
    attributes: Attributes, spec: ImageSpec, api: Api, order: JitterOrder = "random", p: float = 1.0
) -> ColorJitter:
    brightness, contrast, saturation, hue = (_factor_range(name, attributes[name], spec, api) for name in _ADJUSTMENTS)
    if spec.channels == 1:  # which has neither
        saturation = hue = None
    return ColorJitter(brightness, contrast, saturation, hue, order, p, kernel_api(spec, api))


def _color_jitter(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    jitter = _jitter(attributes, spec, api)
    if not (jitter.brightness or jitter.contrast or jitter.saturation or jitter.hue):
        return ()
    return plain_tensor((jitter,), spec, api)


def _photometric_distort(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    p = values.probability(attributes["p"])
    if p == 0.0:
        return ()
    for name in _ADJUSTMENTS:
        if attributes[name] is None:
            raise UnsupportedError(
                f"{name} must be (lowest, highest), got None; (1, 1), or (0, 0) for hue, does nothing"
            )
    jitter = _jitter(attributes, spec, api, "contrast first or last", p)
    if spec.channels == 1:
        return (jitter,)
    return (jitter, *_by_chance(ChannelPermutation(), p))


def _channel_permutation(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    del attributes, api
    return () if spec.channels == 1 else (ChannelPermutation(),)


# One function, with a probability -------------------------------------------------------------------------------------


def _by_chance(op: Op, p: float) -> tuple[Op, ...]:
    return (op,) if p == 1.0 else (RandomApply((op,), p),)


def _done(class_name: str, op: Op, p: float, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    """``op`` with probability ``p``, which is above 0."""
    if p < 1.0:
        refuse_chance_container(class_name, "the draw decides against it", spec, api)
    return plain_tensor(_by_chance(op, p), spec, api)


def _invert(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    p = values.probability(attributes["p"])
    if p == 0.0:
        return ()
    _ask("invert", spec, api)
    return _done("RandomInvert", Invert(), p, spec, api)


def _posterize(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    p, bits = values.probability(attributes["p"]), attributes["bits"]
    if p == 0.0:
        return ()
    _ask("posterize", spec, api, bits)
    whole = int(cast(Any, bits))
    if whole != bits:
        raise UnsupportedError(f"bits must be a whole number in [0, 8], got {bits!r}")
    return _done("RandomPosterize", Posterize(whole), p, spec, api)


def _solarize(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    p, threshold = values.probability(attributes["p"]), attributes["threshold"]
    if p == 0.0:
        return ()
    if (
        not isinstance(threshold, Real)
        or not (spec.container == "pil" or math.isfinite(threshold))
        or threshold != threshold
    ):
        raise UnsupportedError(f"threshold must be a finite number, got {threshold!r}")
    _ask("solarize", spec, api, threshold)
    return _done("RandomSolarize", Solarize(_threshold(threshold, spec)), p, spec, api)


def _threshold(value: Real, spec: ImageSpec) -> float:
    """The threshold, a whole number where torch compares integers with one: it wraps around in their dtype then, and
    isn't rounded to float32 as others are."""
    if spec.container == "pil":
        return float(min(max(cast(Any, value), 0), 256))  # beyond, nothing changes any more
    if spec.domain != "float" and isinstance(value, Integral):
        return int(cast(Any, value))
    return float(value)


def _adjust_sharpness(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    p, factor = values.probability(attributes["p"]), attributes["sharpness_factor"]
    if p == 0.0:
        return ()
    if not isinstance(factor, Real) or not math.isfinite(torch.tensor(float(factor)).item()):
        raise UnsupportedError(f"sharpness_factor must be finite in float32, got {factor!r}")
    _ask("adjust_sharpness", spec, api, factor)
    refuse_chance_container("RandomAdjustSharpness", "a side has at most 2 pixels", spec, api)
    return _done("RandomAdjustSharpness", AdjustSharpness(float(factor), kernel_api(spec, api)), p, spec, api)


def _autocontrast(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    p = values.probability(attributes["p"])
    if p == 0.0:
        return ()
    _ask("autocontrast", spec, api)
    return _done("RandomAutocontrast", Autocontrast(kernel_api(spec, api)), p, spec, api)


def _equalize(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    p = values.probability(attributes["p"])
    if p == 0.0:
        return ()
    _ask("equalize", spec, api)
    return _done("RandomEqualize", Equalize(), p, spec, api)


_JITTER = frozenset(_ADJUSTMENTS)

RULES = (
    Rule(v1.Grayscale, "v1", _grayscale, frozenset({"num_output_channels"})),
    Rule(v2.Grayscale, "v2", _grayscale, frozenset({"num_output_channels"})),
    Rule(v1.RandomGrayscale, "v1", _random_grayscale, frozenset({"p"})),
    Rule(v2.RandomGrayscale, "v2", _random_grayscale, frozenset({"p"})),
    Rule(v2.RGB, "v2", _rgb),
    Rule(v1.ColorJitter, "v1", _color_jitter, _JITTER),
    Rule(v2.ColorJitter, "v2", _color_jitter, _JITTER),
    Rule(v2.RandomPhotometricDistort, "v2", _photometric_distort, _JITTER | {"p"}),
    Rule(v2.RandomChannelPermutation, "v2", _channel_permutation),
    Rule(v1.RandomInvert, "v1", _invert, frozenset({"p"})),
    Rule(v2.RandomInvert, "v2", _invert, frozenset({"p"})),
    Rule(v1.RandomPosterize, "v1", _posterize, frozenset({"bits", "p"})),
    Rule(v2.RandomPosterize, "v2", _posterize, frozenset({"bits", "p"})),
    Rule(v1.RandomSolarize, "v1", _solarize, frozenset({"threshold", "p"})),
    Rule(v2.RandomSolarize, "v2", _solarize, frozenset({"threshold", "p"})),
    Rule(v1.RandomAdjustSharpness, "v1", _adjust_sharpness, frozenset({"sharpness_factor", "p"})),
    Rule(v2.RandomAdjustSharpness, "v2", _adjust_sharpness, frozenset({"sharpness_factor", "p"})),
    Rule(v1.RandomAutocontrast, "v1", _autocontrast, frozenset({"p"})),
    Rule(v2.RandomAutocontrast, "v2", _autocontrast, frozenset({"p"})),
    Rule(v1.RandomEqualize, "v1", _equalize, frozenset({"p"})),
    Rule(v2.RandomEqualize, "v2", _equalize, frozenset({"p"})),
)
