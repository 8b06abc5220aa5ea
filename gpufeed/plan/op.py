"""What every op of a plan is, and the words that ops share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from gpufeed.spec import ImageSpec

__all__ = [
    "Api",
    "Fill",
    "FixedArray",
    "Interpolation",
    "Op",
    "SizeHW",
    "check_probability",
    "check_range",
    "check_size",
    "described",
    "each_op",
]

Api = Literal["v1", "v2"]
"""Which generation of torchvision's tensor kernels is the definition, where the two differ in the last bit."""

Interpolation = Literal["nearest", "nearest-exact", "bilinear", "bicubic", "box", "hamming", "lanczos"]

Fill = tuple[float, ...]
"""One value for all channels, or one per channel; on the scale of the image's dtype."""

_MOST_PIXELS = 2**31 - 1
"""On one side; what the libraries below count in 32 bits."""

SizeHW = tuple[int, int]
"""(height, width) in pixels."""


@dataclass(frozen=True, slots=True)
class Op:
    """A step of a plan. Subclasses are frozen dataclasses."""

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """What comes out for ``spec``; raises `UnsupportedError` for an input that the op can't take."""
        raise NotImplementedError  # pragma: no cover - every op defines it

    @property
    def is_random(self) -> bool:
        """Whether the op draws."""
        return False

    @property
    def branches(self) -> tuple[tuple[Op, ...], ...]:
        """The ops inside, where this op decides which of them a sample goes through; else nothing."""
        return ()

    def __str__(self) -> str:
        arguments = ", ".join(f"{f.name}={_shown(getattr(self, f.name))}" for f in fields(self) if f.repr)
        return f"{type(self).__name__}({arguments})"


def _shown(value: object) -> str:
    if isinstance(value, Op):
        return str(value)
    if isinstance(value, tuple):
        items = cast("tuple[object, ...]", value)
        if any(isinstance(item, (Op, tuple)) for item in items):
            return f"[{', '.join(map(_shown, items))}]"
    return repr(cast(object, value))


def each_op(ops: tuple[Op, ...]) -> Iterator[Op]:
    """Every op, those inside of others after the one that holds them."""
    for op in ops:
        yield op
        for branch in op.branches:
            yield from each_op(branch)


def described(value: object) -> Any:
    """An op, or a value of one, as what JSON knows: dictionaries, lists, numbers and strings."""
    if isinstance(value, Op):
        return {"op": type(value).__name__, **{f.name: described(getattr(value, f.name)) for f in fields(value)}}
    if isinstance(value, FixedArray):
        return {"dtype": value.dtype, "shape": list(value.shape), "sha256": value.sha256()}
    if isinstance(value, tuple):
        return [described(item) for item in cast("tuple[object, ...]", value)]
    return value


@dataclass(frozen=True, slots=True)
class FixedArray:
    """An array that can't change, which an op may hold: it compares, hashes and pickles.

    Attributes:
        dtype: NumPy's name.
        shape: of the array.
        content: its bytes, in C order and the machine's byte order.
    """

    dtype: str
    shape: tuple[int, ...]
    content: bytes = field(repr=False)

    @classmethod
    def of(cls, array: NDArray[Any]) -> FixedArray:
        """A copy of ``array``."""
        return cls(array.dtype.name, array.shape, array.tobytes())

    def array(self) -> NDArray[Any]:
        """The values, read only, on this object's memory."""
        return np.frombuffer(self.content, dtype=self.dtype).reshape(self.shape)

    def sha256(self) -> str:
        """SHA-256 of the bytes, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


def check_size(name: str, size: tuple[int, ...]) -> None:
    """Raise `ValueError` unless every side has a pixel, and not more than any image has."""
    if any(side < 1 for side in size):
        raise ValueError(f"{name} must be at least 1 pixel on each side, got {size}")
    if any(side > _MOST_PIXELS for side in size):
        raise ValueError(f"{name} must be at most {_MOST_PIXELS} pixels on each side, got {size}")


def check_probability(p: float) -> None:
    """Raise `ValueError` unless ``p`` is in [0, 1]."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"p must be in [0, 1], got {p}")


def check_range(name: str, value: tuple[float, float], lowest: float, highest: float) -> None:
    """Raise `ValueError` unless ``value`` is (low, high) with lowest <= low <= high <= highest."""
    if not lowest <= value[0] <= value[1] <= highest:
        raise ValueError(f"{name} must be (low, high) within [{lowest:g}, {highest:g}], got {value}")
