"""Drawing for ops on colour."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpufeed.geometry import single
from gpufeed.parameters.batch import Drawn
from gpufeed.parameters.op_draws import OpDraws
from gpufeed.plan import ChannelPermutation, ColorJitter, Op, RandomGrayscale
from gpufeed.spec import ImageSpec

__all__ = ["DRAWERS"]

_Sizes = NDArray[np.int64]


def _random_grayscale(op: RandomGrayscale, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B,) bool: whether it is done."""
    del spec
    return Drawn(draws.coin(0, op.p), sizes)


_CONTRAST_FIRST, _CONTRAST_LAST = (0, 1, 2, 3), (0, 2, 3, 1)
"""Brightness is 0, contrast 1, saturation 2, hue 3."""


def _color_jitter(op: ColorJitter, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B, 8) float64: the order of the adjustments, numbered as in their own four factors, which follow; one that isn't
    done has NaN for its factor."""
    del spec
    values = np.full((len(draws), 8), np.nan)
    if op.order == "random":
        values[:, :4] = draws.permutations(0, 4)
    else:
        values[:, :4] = np.where(draws.coin(0, 0.5)[:, None], _CONTRAST_FIRST, _CONTRAST_LAST)
    for number, factors in enumerate((op.brightness, op.contrast, op.saturation, op.hue)):
        if factors is not None:
            done = draws.coin(8 + number, op.p)
            values[done, 4 + number] = single(draws.uniform(4 + number, *factors))[done]
    return Drawn(values, sizes)


def _channel_permutation(op: ChannelPermutation, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B, channels) int64: for each channel of the output which one of the input it is."""
    del op
    return Drawn(draws.permutations(0, spec.channels), sizes)


DRAWERS: Mapping[type[Op], Callable[[Any, ImageSpec, _Sizes, OpDraws], Drawn]] = {
    RandomGrayscale: _random_grayscale,
    ColorJitter: _color_jitter,
    ChannelPermutation: _channel_permutation,
}
