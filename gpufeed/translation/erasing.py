"""``RandomErasing``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any, cast

import numpy as np
from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed.errors import UnsupportedError
from gpufeed.plan import Api, Erase, EraseToNoise, Fill, Op, RandomApply
from gpufeed.spec import ImageSpec
from gpufeed.translation import values
from gpufeed.translation.rule import Attributes, Rule

__all__ = ["RULES"]

_LARGEST = float(np.finfo(np.float32).max)


def _erasing_v1(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    p = values.probability(attributes["p"])
    if p > 0.0 and spec.container == "pil":
        raise UnsupportedError(
            "torchvision.transforms.RandomErasing does not support PIL images; put ToTensor() before, or use "
            "torchvision.transforms.v2"
        )
    value = attributes["value"]
    if isinstance(value, int | float):
        return _erasing(attributes, (_value(value),), p, spec)
    return _erasing(attributes, None if isinstance(value, str) else _values(value, numbers_only=False), p, spec)


def _erasing_v2(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    p = values.probability(attributes["p"])
    if p > 0.0:
        values.check_log_ratio(
            "RandomErasing", attributes["_log_ratio"], values.float_pair("ratio", attributes["ratio"])
        )
    value = attributes["value"]
    return _erasing(attributes, None if value is None else _values(value, numbers_only=True), p, spec)


def _erasing(attributes: Attributes, value: Fill | None, p: float, spec: ImageSpec) -> tuple[Op, ...]:
    if p == 0.0:
        return ()
    scale = values.float_pair("scale", attributes["scale"])
    ratio = values.float_pair("ratio", attributes["ratio"])
    op = EraseToNoise(scale, ratio) if value is None else Erase(scale, ratio, value)
    op.out_spec(spec)  # with its own words, not those of the container
    return (op,) if p == 1.0 else (RandomApply((op,), p),)


def _values(value: object, *, numbers_only: bool) -> Fill:
    """A list of numbers; v1 makes numbers of what is none, such as text."""
    if not isinstance(value, list | tuple):
        raise UnsupportedError(f"value must be a number, a list of numbers or 'random', got {value!r}")
    return tuple(_value(item if numbers_only else _as_float(item)) for item in cast("Sequence[object]", value))


def _as_float(item: object) -> object:
    try:
        return float(cast(Any, item))
    except (TypeError, ValueError):
        return item


def _value(item: object) -> float:
    """A number as float32 holds it, which torchvision makes of it."""
    number = float(item) if isinstance(item, Real) else math.nan
    if not abs(number) <= _LARGEST:
        raise UnsupportedError(f"value must be finite numbers that float32 holds, got {item!r}")
    return float(np.float32(number))


_READS = frozenset({"p", "scale", "ratio", "value"})
_INPLACE = {"inplace": "whether torchvision writes into its input, which nobody else sees here"}

RULES = (
    Rule(v1.RandomErasing, "v1", _erasing_v1, _READS, _INPLACE),
    Rule(v2.RandomErasing, "v2", _erasing_v2, _READS | {"_log_ratio"}, _INPLACE),
)
