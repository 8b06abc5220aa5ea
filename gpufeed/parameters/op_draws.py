"""The draws of one op: each sample's own numbers, from the range that the op owns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpufeed.draws import Draws, philox_words

__all__ = ["OpDraws"]

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class OpDraws:
    """What an op draws for B samples.

    Attributes:
        draws: the batch's.
        first: the first draw number that is this op's own; numbers below count from there.
    """

    draws: Draws
    first: int

    def __len__(self) -> int:
        return len(self.draws)

    def take(self, rows: NDArray[np.intp]) -> OpDraws:
        """The draws of some samples."""
        return OpDraws(self.draws.take(rows), self.first)

    def unit_pairs(self, numbers: Sequence[int], rows: NDArray[np.intp] | None = None) -> tuple[_Floats, _Floats]:
        """`Draws.unit_pairs` of the op's own numbers."""
        return self.draws.unit_pairs([self.first + number for number in numbers], rows)

    def unit(self, number: int) -> _Floats:
        """(B,) float64, uniform in [0, 1)."""
        return self.draws.unit(self.first + number)

    def units(self, number: int, count: int) -> _Floats:
        """(B, count) float64, uniform in [0, 1); takes the numbers from ``number`` to ``number + count - 1``."""
        return self.unit_pairs(range(number, number + count))[0].T

    def coin(self, number: int, p: float) -> NDArray[np.bool_]:
        """(B,) bool, true with probability ``p``: never for 0, always for 1."""
        return self.draws.coin(self.first + number, p)

    def uniform(self, number: int, low: float, high: float) -> _Floats:
        """(B,) float64, uniform in [low, high)."""
        return low + (high - low) * self.unit(number)

    def integers(self, number: int, low: int, high: int) -> NDArray[np.int64]:
        """(B,) int64, each of low, ..., high - 1 equally often."""
        drawn = low + np.floor(self.unit(number) * (high - low)).astype(np.int64)
        return np.minimum(drawn, high - 1)

    def permutations(self, number: int, count: int) -> NDArray[np.int64]:
        """(B, count) int64, each row an order of 0, ..., count - 1; takes ``count`` numbers from ``number`` on."""
        return np.argsort(self.units(number, count), axis=1, kind="stable")

    def noise_keys(self, number: int) -> NDArray[np.int64]:
        """(B, 2) int64, two 32-bit words: the key of a sample's per-pixel noise (`gpufeed.noise`)."""
        return philox_words(self.draws, self.first + number)
