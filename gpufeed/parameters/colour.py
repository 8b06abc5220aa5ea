"""Drawing for ops on colour."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpufeed.parameters.batch import Drawn
from gpufeed.parameters.op_draws import OpDraws
from gpufeed.plan import Op, RandomGrayscale
from gpufeed.spec import ImageSpec

__all__ = ["DRAWERS"]

_Sizes = NDArray[np.int64]


def _random_grayscale(op: RandomGrayscale, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B,) bool: whether it is done."""
    del spec
    return Drawn(draws.coin(0, op.p), sizes)


DRAWERS: Mapping[type[Op], Callable[[Any, ImageSpec, _Sizes, OpDraws], Drawn]] = {
    RandomGrayscale: _random_grayscale,
}
