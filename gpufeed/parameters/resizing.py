"""Drawing for ops that resample to another size: the size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpufeed import geometry
from gpufeed.parameters.batch import Drawn
from gpufeed.parameters.op_draws import OpDraws
from gpufeed.plan import Op, RandomResize, RandomShortestSize, Resize, ScaleJitter
from gpufeed.spec import ImageSpec

__all__ = ["DRAWERS"]

_Sizes = NDArray[np.int64]


def _resize(op: Resize, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B, 2) int64 output sizes."""
    del spec, draws
    out = geometry.resized_sizes(sizes, op.size, op.max_size)
    return Drawn(out, out)


def _random_resize(op: RandomResize, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B, 2) int64 output sizes."""
    del spec
    out = geometry.shorter_side_sizes(sizes, draws.integers(0, op.min_size, op.max_size))
    return Drawn(out, out)


def _scale_jitter(op: ScaleJitter, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B, 2) int64 output sizes."""
    del spec
    out = geometry.jittered_sizes(sizes, op.target_size, op.scale_range, draws.unit(0))
    return Drawn(out, out)


def _random_shortest_size(op: RandomShortestSize, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B, 2) int64 output sizes."""
    del spec
    shorter = np.array(op.min_sizes, dtype=np.float64)[draws.integers(0, 0, len(op.min_sizes))]
    out = geometry.shortest_sizes(sizes, shorter, op.max_size)
    return Drawn(out, out)


DRAWERS: Mapping[type[Op], Callable[[Any, ImageSpec, _Sizes, OpDraws], Drawn]] = {
    Resize: _resize,
    RandomResize: _random_resize,
    ScaleJitter: _scale_jitter,
    RandomShortestSize: _random_shortest_size,
}
