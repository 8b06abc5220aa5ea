"""Per-pixel noise on the device: the same hash and the same elements as `gpufeed.noise`."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from gpufeed.noise import MULTIPLIERS, SHIFTS, UNIT, stream_words

__all__ = ["normal", "uniform", "words"]


def _signed(word: int) -> int:
    """A 32-bit word as torch's int32 holds it, in which products wrap around as in unsigned numbers."""
    return word - (1 << 32) if word >= 1 << 31 else word


def _xor_shift(x: torch.Tensor, shift: int, shifted: torch.Tensor) -> None:
    """``x ^= x >> shift`` without the sign, in place; ``shifted`` is memory for it."""
    torch.bitwise_right_shift(x, shift, out=shifted)
    x.bitwise_xor_(shifted.bitwise_and_((1 << (32 - shift)) - 1))


def words(key: NDArray[np.int64], count: int, device: torch.device) -> torch.Tensor:
    """32 random bits for each element of one sample.

    Args:
        key: (2,) int64, two 32-bit words.
        count: elements, below 2**31.
        device: where they are computed.

    Returns:
        (count,) int32; taken as unsigned, `gpufeed.noise.words`.
    """
    first, second = (_signed(int(word)) for word in stream_words(key[None])[0])
    x = torch.arange(count, dtype=torch.int32, device=device)
    shifted = torch.empty_like(x)
    x.bitwise_xor_(first)
    _xor_shift(x, SHIFTS[0], shifted)
    x.mul_(_signed(MULTIPLIERS[0]))
    x.bitwise_xor_(second)
    _xor_shift(x, SHIFTS[1], shifted)
    x.mul_(_signed(MULTIPLIERS[1]))
    _xor_shift(x, SHIFTS[2], shifted)
    return x


def uniform(key: NDArray[np.int64], count: int, device: torch.device) -> torch.Tensor:
    """(count,) float32 in [0, 1), multiples of 2**-24: bit for bit `gpufeed.noise.uniform`."""
    bits = words(key, count, device).bitwise_right_shift_(8).bitwise_and_((1 << 24) - 1)
    return bits.to(torch.float32).mul_(UNIT)


def normal(key: NDArray[np.int64], count: int, device: torch.device) -> torch.Tensor:
    """(count,) float32, normal with mean 0 and standard deviation 1: within 1e-5 of `gpufeed.noise.normal`."""
    half = (count + 1) // 2
    unit = uniform(key, 2 * half, device)
    angle = unit[half:].mul_(2.0 * math.pi)
    out = torch.empty_like(unit)
    torch.cos(angle, out=out[:half])
    torch.sin(angle, out=out[half:])
    radius = unit[:half].neg_().add_(1.0).log_().mul_(-2.0).sqrt_()
    out.view(2, half).mul_(radius)
    return out[:count]
