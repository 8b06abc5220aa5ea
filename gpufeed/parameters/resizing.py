"""Drawing for ops that resample to another size: the size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpufeed import geometry
from gpufeed.parameters.batch import Drawn
from gpufeed.parameters.op_draws import OpDraws
from gpufeed.plan import Op, Resize
from gpufeed.spec import ImageSpec

__all__ = ["DRAWERS"]

_Sizes = NDArray[np.int64]


def _resize(op: Resize, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B, 2) int64 output sizes."""
    del spec, draws
    out = geometry.resized_sizes(sizes, op.size, op.max_size)
    return Drawn(out, out)


DRAWERS: Mapping[type[Op], Callable[[Any, ImageSpec, _Sizes, OpDraws], Drawn]] = {
    Resize: _resize,
}
