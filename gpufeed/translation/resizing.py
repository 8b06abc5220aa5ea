"""``Resize``, and the resampling half of ``RandomResizedCrop``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed.errors import UnsupportedError
from gpufeed.plan import Api, Op, Resize
from gpufeed.spec import ImageSpec
from gpufeed.translation import values
from gpufeed.translation.rule import Attributes, Rule, kernel_api, refuse_chance_container

__all__ = ["RULES", "resize_op"]

_ANTIALIASED = ("bilinear", "bicubic", "lanczos")
"""The interpolations whose tensor kernels have an antialiased form; for others torchvision ignores ``antialias``."""


def resize_op(attributes: Attributes, max_size: object, spec: ImageSpec, api: Api) -> Resize:
    """The op of torchvision's ``resize`` with a transform's ``size``, ``interpolation`` and ``antialias``."""
    interpolation = values.interpolation(attributes["interpolation"], spec, api)
    antialias = attributes["antialias"]
    if antialias is not None and not isinstance(antialias, bool):
        raise UnsupportedError(f"antialias must be True, False or None, got {antialias!r}")
    ignored = spec.container == "pil" or interpolation not in _ANTIALIASED
    return Resize(
        size=_size(attributes["size"], max_size, api),
        max_size=_max_size(max_size),
        interpolation=interpolation,
        antialias=ignored or antialias is True,
        api=kernel_api(spec, api),
    )


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


_READS = frozenset({"size", "interpolation", "max_size", "antialias"})

RULES = (
    Rule(v1.Resize, "v1", _resize, _READS),
    Rule(v2.Resize, "v2", _resize, _READS),
)
