"""Per-pixel noise as a pure function of a sample's key: the NumPy twin of what the tail computes on the device.

Element ``e`` of a sample's noise is a hash of ``e`` and the sample's two key words. The mixer is ``lowbias32`` (Chris
Wellons, "Prospecting for Hash Functions", 2018, and hash-prospector, public domain): two multiplications, three
xor-shifts. One key word goes into the counter, the other between the two multiplications, so that two keys never give
one stream in another order; before that the key words are mixed with each other by the same function, on the host.

The values are frozen, as those of `gpufeed.draws` are.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["MULTIPLIERS", "SHIFTS", "UNIT", "normal", "stream_words", "uniform", "words"]

SHIFTS = (16, 15, 16)
MULTIPLIERS = (0x7FEB352D, 0x846CA68B)
"""Of ``lowbias32``."""

UNIT = 2.0**-24
"""Uniform noise is a multiple of it: a float32 holds 24 bits exactly."""

_APART = np.uint32(0x9E3779B9)
"""Added to a key word before it is mixed: the mixer leaves 0 at 0."""

_U32 = NDArray[np.uint32]
_Floats = NDArray[np.float32]


def _mixed(x: _U32, between: _U32 | None = None) -> _U32:
    """``lowbias32``, with a word that goes in between its multiplications."""
    x = x ^ (x >> np.uint32(SHIFTS[0]))
    x = x * np.uint32(MULTIPLIERS[0])
    if between is not None:
        x = x ^ between
    x = x ^ (x >> np.uint32(SHIFTS[1]))
    x = x * np.uint32(MULTIPLIERS[1])
    return x ^ (x >> np.uint32(SHIFTS[2]))


def stream_words(keys: NDArray[np.int64]) -> _U32:
    """The two words of each stream, (N, 2) uint32, from (N, 2) key words; other keys give other words."""
    key = keys.astype(np.uint32)
    first = _mixed(key[:, 0] ^ _mixed(key[:, 1] + _APART))
    second = _mixed(key[:, 1] ^ first)
    return np.stack([first, second], axis=1)


def words(keys: NDArray[np.int64], count: int) -> _U32:
    """32 random bits for each element.

    Args:
        keys: (N, 2) int64, two 32-bit words for each sample (`OpDraws.noise_keys`).
        count: elements of each sample, below 2**31.

    Returns:
        (N, count) uint32.
    """
    stream = stream_words(keys)
    return _mixed(np.arange(count, dtype=np.uint32) ^ stream[:, :1], stream[:, 1:])


def uniform(keys: NDArray[np.int64], count: int) -> _Floats:
    """(N, count) float32 in [0, 1), multiples of 2**-24: the highest 24 bits of `words`."""
    return (words(keys, count) >> np.uint32(8)).astype(np.float32) * np.float32(UNIT)


def normal(keys: NDArray[np.int64], count: int) -> _Floats:
    """(N, count) float32, normal with mean 0 and standard deviation 1, within +-5.77.

    By Box and Muller ("A note on the generation of random normal deviates", 1958): the first half of an even number of
    uniform elements gives radii, the second half angles; the cosines come first, then the sines. Computed in float64;
    what the tail computes in float32 is within 1e-5 of it.
    """
    half = (count + 1) // 2
    unit = uniform(keys, 2 * half).astype(np.float64)
    radius = np.sqrt(-2.0 * np.log(1.0 - unit[:, :half]))
    angle = 2.0 * math.pi * unit[:, half:]
    both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return both[:, :count].astype(np.float32)
