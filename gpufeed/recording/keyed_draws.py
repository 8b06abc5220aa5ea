"""The draws that a sample offers, in a pipeline function and on the host alike."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, cast

from gpufeed.errors import ArgumentError
from gpufeed.recording.values import DrawKind

__all__ = ["KeyedDraws"]


class KeyedDraws(ABC):
    """Draws keyed on (seed, epoch, index, occurrence) and on how many were asked for before."""

    def uniform(self, low: float = 0.0, high: float = 1.0, shape: int | Sequence[int] = ()) -> Any:
        """Numbers of [low, high), equally likely: float32, one or ``shape`` of them."""
        _finite("uniform", low, high)
        if low > high:
            raise ArgumentError(f"uniform(low, high) needs low <= high, got {low} and {high}")
        return self._checked("uniform", (low, high), shape)

    def normal(self, mean: float = 0.0, std: float = 1.0, shape: int | Sequence[int] = ()) -> Any:
        """Numbers of a normal distribution: float32, one or ``shape`` of them."""
        _finite("normal", mean, std)
        if std < 0:
            raise ArgumentError(f"normal(mean, std) needs std >= 0, got {std}")
        return self._checked("normal", (mean, std), shape)

    def coin(self, p: float = 0.5) -> Any:
        """1 with probability ``p``, else 0: int32."""
        _finite("coin", p)
        if not 0.0 <= p <= 1.0:
            raise ArgumentError(f"coin(p) needs a probability in [0, 1], got {p}")
        return self._checked("coin", (p,))

    def integers(self, low: int, high: int, shape: int | Sequence[int] = ()) -> Any:
        """Whole numbers low, ..., high - 1, equally likely: int32, one or ``shape`` of them."""
        _finite("integers", low, high)
        if not (float(low).is_integer() and float(high).is_integer() and -(2**31) <= low < high <= 2**31):
            raise ArgumentError(f"integers(low, high) needs whole numbers with low < high, got {low} and {high}")
        return self._checked("integers", (low, high), shape)

    def choice(self, values: Sequence[float], p: Sequence[float] | None = None) -> Any:
        """One of some numbers: int32 where all are whole, else float32.

        Args:
            values: what to choose from.
            p: how likely each is, at any scale; equally if not given.
        """
        _finite("choice", *values)
        if not len(values):
            raise ArgumentError("choice(values) needs at least one value, got none")
        if p is not None and (len(p) != len(values) or min(p) < 0 or not 0 < sum(p) < math.inf):
            raise ArgumentError(f"choice(values, p) needs a probability for each of {len(values)} values, got {p}")
        weights = None if p is None else tuple(map(float, p))
        return self._checked("choice", tuple(values), (), weights)

    def permutation(self, count: int) -> Any:
        """An order of 0, ..., count - 1: (count,) int32."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentError(f"permutation(n) needs an integer of at least 1, got {count!r}")
        return self._checked("permutation", (count,))

    def _checked(
        self,
        kind: DrawKind,
        arguments: tuple[float, ...],
        shape: int | Sequence[int] = (),
        weights: tuple[float, ...] | None = None,
    ) -> Any:
        size = (shape,) if isinstance(shape, int) else tuple(shape)
        if not all(isinstance(side, int) and side >= 1 for side in size):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentError(f"shape must be whole numbers of at least 1, got {shape!r}")
        return self._draw(kind, arguments, size, weights)

    @abstractmethod
    def _draw(
        self,
        kind: DrawKind,
        arguments: tuple[float, ...],
        shape: tuple[int, ...],
        weights: tuple[float, ...] | None,
    ) -> Any:
        """The next draw."""


def _finite(name: str, *values: object) -> None:
    for value in values:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not (is_number and abs(cast(float, value)) <= _LARGEST):
            raise ArgumentError(
                f"{name} takes Python's own numbers up to {_LARGEST:g}, got {value!r}; draws can't depend on nodes: "
                "scale them"
            )


_LARGEST = 1e38  # float32 goes a little further
