"""``Resize``, the classes that draw its size, and the resampling half of ``RandomResizedCrop``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, cast

from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed.errors import UnsupportedError
from gpufeed.plan import Api, Interpolation, Op, RandomResize, RandomShortestSize, Resize, ScaleJitter
from gpufeed.spec import ImageSpec
from gpufeed.translation import values
from gpufeed.translation.rule import Attributes, Rule, kernel_api, refuse_chance_container

__all__ = ["RULES", "lengths", "resize_op"]

_ANTIALIASED = ("bilinear", "bicubic", "lanczos")
"""The interpolations whose tensor kernels have an antialiased form; for others torchvision ignores ``antialias``."""


def resize_op(attributes: Attributes, max_size: object, spec: ImageSpec, api: Api) -> Resize:
    """The op of torchvision's ``resize`` with a transform's ``size``, ``interpolation`` and ``antialias``."""
    return Resize(_size(attributes["size"], max_size, api), _max_size(max_size), *_resampling(attributes, spec, api))


def _resampling(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Interpolation, bool, Api]:
    """How an op resamples: its interpolation, antialias and api."""
    interpolation = values.interpolation(attributes["interpolation"], spec, api)
    antialias = attributes["antialias"]
    if antialias is not None and not isinstance(antialias, bool):
        raise UnsupportedError(f"antialias must be True, False or None, got {antialias!r}")
    ignored = spec.container == "pil" or interpolation not in _ANTIALIASED
    return interpolation, ignored or antialias is True, kernel_api(spec, api)


def _size(size: object, max_size: object, api: Api) -> tuple[int, ...] | None:
    if size is None:
        if api == "v1":
            raise UnsupportedError(
                "size must not be None in torchvision.transforms; use torchvision.transforms.v2.Resize"
            )
        if not isinstance(max_size, int):
            raise UnsupportedError(f"max_size must be a whole number when size is None, got {max_size!r}")
        return None
    if isinstance(size, int) and not isinstance(size, bool):
        return (size,)
    if not isinstance(size, Sequence):
        raise UnsupportedError(f"size must be a whole number or a sequence of 1 or 2 of them, got {size!r}")
    return values.whole_numbers("size", cast(object, size), (1, 2))


def _max_size(max_size: object) -> int | None:
    if max_size is None:
        return None
    (number,) = values.whole_numbers("max_size", (max_size,), (1,))
    if number < 1:
        raise UnsupportedError(f"max_size must be at least 1 pixel, got {number}")
    return number


def _resize(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    op = resize_op(attributes, attributes["max_size"], spec, api)
    refuse_chance_container("Resize", "the image has the wanted size already", spec, api)
    return (op,)


def _random_resize(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    low, high = values.whole_numbers("min_size and max_size", (attributes["min_size"], attributes["max_size"]), (2,))
    return (RandomResize(low, high, *_resampling(attributes, spec, api)),)


def _scale_jitter(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    first, second = lengths("target_size", attributes["target_size"], (2,))
    low, high = lengths("scale_range", attributes["scale_range"], (2,))
    return (ScaleJitter((first, second), (low, high), *_resampling(attributes, spec, api)),)


def _random_shortest_size(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    min_sizes, max_size = lengths("min_size", attributes["min_size"], ()), attributes["max_size"]
    longest = None if max_size is None else lengths("max_size", (max_size,), (1,))[0]
    return (RandomShortestSize(min_sizes, longest, *_resampling(attributes, spec, api)),)


def lengths(name: str, value: object, counts: tuple[int, ...]) -> tuple[float, ...]:
    """Positive numbers, as many as one of ``counts``, or any number of them: whole ones as int."""
    items = cast("Sequence[Any]", value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    fits = len(items) in counts if counts else len(items) > 0
    if not fits or not all(isinstance(item, Real) and 0.0 < float(item) < math.inf for item in items):
        wanted = f"{' or '.join(map(str, counts))} " if counts else ""
        raise UnsupportedError(f"{name} must be {wanted}positive numbers, got {value!r}")
    return tuple(int(item) if isinstance(item, Integral) else float(item) for item in items)


_READS = frozenset({"size", "interpolation", "max_size", "antialias"})
_RESAMPLING = frozenset({"interpolation", "antialias"})

RULES = (
    Rule(v1.Resize, "v1", _resize, _READS),
    Rule(v2.Resize, "v2", _resize, _READS),
    Rule(v2.RandomResize, "v2", _random_resize, _RESAMPLING | {"min_size", "max_size"}),
    Rule(v2.ScaleJitter, "v2", _scale_jitter, _RESAMPLING | {"target_size", "scale_range"}),
    Rule(v2.RandomShortestSize, "v2", _random_shortest_size, _RESAMPLING | {"min_size", "max_size"}),
)
