"""``GaussianBlur``, ``GaussianNoise``, ``JPEG``, ``LinearTransformation`` and ``ElasticTransform``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, cast

import torch
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms import functional as functional_v1
from torchvision.transforms.v2 import functional as functional_v2

from gpufeed.errors import UnsupportedError
from gpufeed.plan import (
    Api,
    Elastic,
    Fill,
    FixedArray,
    GaussianBlur,
    GaussianNoise,
    Interpolation,
    Jpeg,
    LinearTransformation,
    Op,
)
from gpufeed.spec import ImageSpec
from gpufeed.translation import values
from gpufeed.translation.rule import Attributes, Rule, plain_tensor

__all__ = ["RULES"]

_OBJECTIONS = (TypeError, ValueError, RuntimeError, OverflowError, NotImplementedError, AttributeError)


def _functional(api: Api) -> Any:
    return functional_v1 if api == "v1" else functional_v2


def _ask(spec: ImageSpec, what: str, call: Callable[[Any], object]) -> None:
    """Refuse what torchvision can't do to a black image of 3x3 pixels."""
    try:
        call(values.blank(spec))
    except _OBJECTIONS as error:
        raise UnsupportedError(f"torchvision can't {what} {spec}: {error}") from error


def _number(name: str, value: object) -> float:
    if not isinstance(value, Real) or not math.isfinite(value):
        raise UnsupportedError(f"{name} must be a finite number, got {value!r}")
    return float(value)


def _two_numbers(name: str, value: object) -> tuple[float, float]:
    items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
    if len(items) != 2:
        raise UnsupportedError(f"{name} must be two finite numbers, for x and y, got {value!r}")
    return _number(name, items[0]), _number(name, items[1])


def _kernel_size(value: object, api: Api) -> tuple[int, ...]:
    """(x, y)."""
    if isinstance(value, int):
        value = (value, value)
    elif api == "v1" and not isinstance(value, list | tuple):
        raise UnsupportedError(f"kernel_size must be a whole number, or a list or tuple of two of them, got {value!r}")
    return values.whole_numbers("kernel_size", cast(object, value), (2,))


def _gaussian_blur(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    width, height = _kernel_size(attributes["kernel_size"], api)
    op = GaussianBlur((width, height), values.float_pair("sigma", attributes["sigma"]), api)
    blur = _functional(api).gaussian_blur
    _ask(spec, "blur", lambda image: blur(image, [3, 3], [1.0, 1.0]))
    return plain_tensor((op,), spec, api)


def _gaussian_noise(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    mean, sigma = _number("mean", attributes["mean"]), _number("sigma", attributes["sigma"])
    return (GaussianNoise(mean, sigma, bool(attributes["clip"])),)


def _jpeg(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    low, high = values.whole_numbers("quality", attributes["quality"], (2,))
    return (Jpeg((low, high)),)


def _linear_transformation(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    matrix, mean = (_fixed(name, attributes[name]) for name in ("transformation_matrix", "mean_vector"))
    return plain_tensor((LinearTransformation(matrix, mean),), spec, api)


def _fixed(name: str, value: object) -> FixedArray:
    if not isinstance(value, torch.Tensor) or value.dtype not in (torch.float16, torch.float32, torch.float64):
        kind = value.dtype if isinstance(value, torch.Tensor) else repr(value)
        raise UnsupportedError(f"{name} must be a tensor of float16, float32 or float64, got {kind}")
    if value.device.type != "cpu":
        raise UnsupportedError(
            f"{name} is on {value.device}, and torchvision wants it where the image is, on the CPU; give it "
            f"{name}.cpu()"
        )
    return FixedArray.of(cast(Any, value.detach()).numpy())


def _elastic_v1(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    return _elastic(attributes, attributes["fill"], spec, api)


def _elastic_v2(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    return _elastic(attributes, values.fill_for(attributes["_fill"], spec), spec, api)


def _elastic(attributes: Attributes, fill: object, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    alpha, sigma = _two_numbers("alpha", attributes["alpha"]), _two_numbers("sigma", attributes["sigma"])
    interpolation = _grid_mode(attributes["interpolation"], spec, api)
    op = Elastic(alpha, sigma, interpolation, _grid_fill(fill), api)
    elastic = _functional(api).elastic_transform
    still, mode = torch.zeros(1, 3, 3, 2), InterpolationMode(interpolation)
    _ask(spec, f"displace pixels with fill={fill!r} of", lambda image: elastic(image, still, mode, fill))
    return plain_tensor((op,), spec, api)


def _grid_mode(value: object, spec: ImageSpec, api: Api) -> Interpolation:
    """What ``grid_sample`` knows, on PIL images too: they go through a tensor."""
    name = values.interpolation(value, replace(spec, container="tensor"), api)
    if name not in ("nearest", "bilinear", "bicubic"):
        raise UnsupportedError(f"interpolation must be nearest, bilinear or bicubic to displace pixels, got {value!r}")
    return name


def _grid_fill(value: object) -> Fill | None:
    """``fill`` as numbers; ``None`` is its own meaning: zeros that aren't blended."""
    if value is None:
        return None
    items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)
    return tuple(_number("fill", item) for item in items)


_NOISE_READS = frozenset({"mean", "sigma", "clip"})
_LINEAR_READS = frozenset({"transformation_matrix", "mean_vector"})
_ELASTIC_READS = frozenset({"alpha", "sigma", "interpolation"})

RULES = (
    Rule(v1.GaussianBlur, "v1", _gaussian_blur, frozenset({"kernel_size", "sigma"})),
    Rule(v2.GaussianBlur, "v2", _gaussian_blur, frozenset({"kernel_size", "sigma"})),
    Rule(v2.GaussianNoise, "v2", _gaussian_noise, _NOISE_READS),
    Rule(v2.JPEG, "v2", _jpeg, frozenset({"quality"})),
    Rule(v1.LinearTransformation, "v1", _linear_transformation, _LINEAR_READS),
    Rule(v2.LinearTransformation, "v2", _linear_transformation, _LINEAR_READS),
    Rule(v1.ElasticTransform, "v1", _elastic_v1, _ELASTIC_READS | {"fill"}),
    Rule(
        v2.ElasticTransform,
        "v2",
        _elastic_v2,
        _ELASTIC_READS | {"_fill"},
        {"fill": "v2 fills with _fill, which it made of fill at construction"},
    ),
)
