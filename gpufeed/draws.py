"""Counter-based random draws: every number is a pure function of who draws it.

The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011),
vectorised over a batch. A 64-bit key stands for (seed, epoch, rank); the 128-bit counter holds the sample's index, its
occurrence in the epoch and the number of the draw. The same sample therefore gets the same numbers whatever the batch
size, the number of threads or the device, and nothing needs to be saved to resume.

The values are frozen: a change of them is a change of everybody's augmentations, and golden tests refuse it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["DRAWS_PER_OP", "Draws", "epoch_key", "philox", "philox_words"]

DRAWS_PER_OP = 1 << 16
"""Draw numbers reserved for each op of a plan: op ``k`` owns ``[k * DRAWS_PER_OP, (k + 1) * DRAWS_PER_OP)``."""

# Multipliers and key increments ("bumps") of Philox4x32, from the paper.
_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_BUMP_0 = 0x9E3779B9
_BUMP_1 = 0xBB67AE85
_LOW_32 = np.uint64(0xFFFFFFFF)
_SHIFT_32 = np.uint64(32)
_ROUNDS = 10

_U32 = NDArray[np.uint64]  # 32-bit words, kept in 64 bits so that products don't overflow


def philox(counter: tuple[_U32, _U32, _U32, _U32], key: tuple[int, int]) -> tuple[_U32, _U32, _U32, _U32]:
    """Philox4x32-10 of a batch of counters under one key.

    Args:
        counter: four arrays of one shape, uint64 holding 32-bit words, lowest word first.
        key: two 32-bit words.

    Returns:
        Four arrays of that shape, uint64 holding 32-bit words.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        product_0 = c0 * _MULTIPLIER_0
        product_1 = c2 * _MULTIPLIER_1
        c0 = (product_1 >> _SHIFT_32) ^ c1 ^ np.uint64(k0)
        c2 = (product_0 >> _SHIFT_32) ^ c3 ^ np.uint64(k1)
        c1 = product_1 & _LOW_32
        c3 = product_0 & _LOW_32
        k0 = (k0 + _BUMP_0) & 0xFFFFFFFF
        k1 = (k1 + _BUMP_1) & 0xFFFFFFFF
    return c0, c1, c2, c3


def _word(value: int) -> _U32:
    return np.array([value & 0xFFFFFFFF], dtype=np.uint64)


def epoch_key(seed: int, epoch: int, rank: int | None = None) -> tuple[int, int]:
    """The Philox key of an epoch.

    Args:
        seed: any integer; taken modulo 2**64.
        epoch: number of the epoch, at least 0.
        rank: given where occurrences are counted on this rank alone, so that ranks draw differently.

    Returns:
        Two 32-bit words.
    """
    stream = 0 if rank is None else rank + 1
    counter = (_word(epoch), _word(epoch >> 32), _word(stream), _word(0x67707566))  # "gpuf": apart from sample draws
    words = philox(counter, (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF))
    return int(words[0][0]), int(words[1][0])


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """The draws of a batch of samples.

    Attributes:
        key: the epoch's key, from `epoch_key`.
        index: (B,) int64, each sample's index in the dataset, not negative.
        occurrence: (B,) int64, how often that index stood earlier in the epoch.
    """

    key: tuple[int, int]
    index: NDArray[np.int64]
    occurrence: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.index)

    def take(self, rows: Sequence[int] | NDArray[np.intp]) -> Draws:
        """The draws of some samples of the batch, by their rows."""
        rows = np.asarray(rows, dtype=np.intp)
        return Draws(self.key, self.index[rows], self.occurrence[rows])

    def unit_pairs(
        self, numbers: Sequence[int], rows: NDArray[np.intp] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Several draws at once, each two independent numbers.

        Args:
            numbers: K draw numbers, below 2**32.
            rows: the rows of the batch to draw for; all of them if not given.

        Returns:
            Two (K, B) float64 arrays, uniform in [0, 1), multiples of 2**-53.
        """
        w0, w1, w2, w3 = _words(self if rows is None else self.take(rows), numbers)
        return _unit(w0, w1), _unit(w2, w3)

    def unit(self, number: int) -> NDArray[np.float64]:
        """Draw ``number`` as (B,) float64, uniform in [0, 1)."""
        return self.unit_pairs((number,))[0][0]

    def coin(self, number: int, p: float) -> NDArray[np.bool_]:
        """Draw ``number`` as (B,) bool, true with probability ``p``: never for 0, always for 1."""
        return self.unit(number) < p


def philox_words(draws: Draws, number: int) -> NDArray[np.int64]:
    """Draw ``number`` as (B, 2) int64: its first two 32-bit words as they are."""
    w0, w1, _, _ = _words(draws, (number,))
    return np.stack([w0[0], w1[0]], axis=1).astype(np.int64)


def _words(draws: Draws, numbers: Sequence[int]) -> tuple[_U32, _U32, _U32, _U32]:
    """The four words of each draw, (len(numbers), B) each."""
    index = draws.index.astype(np.uint64)
    shape = (len(numbers), len(index))
    counter = (
        np.broadcast_to(index & _LOW_32, shape),
        np.broadcast_to(index >> _SHIFT_32, shape),
        np.broadcast_to(draws.occurrence.astype(np.uint64) & _LOW_32, shape),
        np.broadcast_to(np.array(numbers, dtype=np.uint64)[:, None], shape),
    )
    return philox(counter, draws.key)


def _unit(high: _U32, low: _U32) -> NDArray[np.float64]:
    """53 bits of two words as a float64 in [0, 1)."""
    bits = (high << np.uint64(21)) | (low >> np.uint64(11))
    return bits.astype(np.float64) * 2.0**-53
