"""`BatchSamples`: the keyed draws of a batch, for a tail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpufeed.draws import DRAWS_PER_OP, Draws
from gpufeed.parameters import BatchParameters, OpDraws, draw_parameters, op_count
from gpufeed.plan import Plan
from gpufeed.recording.values import DrawKind, DrawValue, draw
from gpufeed.tensors import from_numpy

__all__ = ["BatchSamples", "EachRow", "in_turn"]

EachRow = Callable[[Callable[[range], None], int], None]
"""Calls a function for pieces of ``range(count)`` that together are all of it, and returns when all are done."""


def in_turn(function: Callable[[range], None], count: int) -> None:
    """All rows at once, on the calling thread."""
    function(range(count))


@dataclass(slots=True, eq=False)
class BatchSamples:
    """What a tail that declares ``samples`` gets: draws keyed by sample, counted on from those of the pipeline.

    A tail must draw in the same order in every call.

    Attributes:
        draws: the batch's.
        next_number: of the next draw.
        device: where tensors are made.
        each_row: how work is shared among threads.
    """

    draws: Draws
    next_number: int
    device: torch.device
    each_row: EachRow = in_turn

    def __len__(self) -> int:
        return len(self.draws)

    @property
    def index(self) -> torch.Tensor:
        """(B,) int64: the samples' indices in the source."""
        return self._tensor(self.draws.index)

    def uniform(self, low: float = 0.0, high: float = 1.0, shape: int | Sequence[int] = ()) -> torch.Tensor:
        """(B, *shape) float32 in [low, high), equally likely."""
        return self._draw("uniform", (low, high), shape)

    def normal(self, mean: float = 0.0, std: float = 1.0, shape: int | Sequence[int] = ()) -> torch.Tensor:
        """(B, *shape) float32 of a normal distribution."""
        return self._draw("normal", (mean, std), shape)

    def coin(self, p: float = 0.5) -> torch.Tensor:
        """(B,) bool, true with probability ``p``."""
        return self._draw("coin", (p,)).bool()

    def integers(self, low: int, high: int, shape: int | Sequence[int] = ()) -> torch.Tensor:
        """(B, *shape) int64: low, ..., high - 1, equally likely."""
        return self._draw("integers", (low, high), shape).long()

    def choice(self, values: Sequence[float], p: Sequence[float] | None = None) -> torch.Tensor:
        """(B,) float32, or int64 where all values are whole: one of them, as likely as ``p`` says."""
        weights = None if p is None else tuple(map(float, p))
        chosen = self._draw("choice", tuple(values), (), weights)
        return chosen if chosen.is_floating_point() else chosen.long()

    def permutation(self, count: int) -> torch.Tensor:
        """(B, count) int64: an order of 0, ..., count - 1 for each sample."""
        return self._draw("permutation", (count,)).long()

    def parameters(self, plan: Plan, sizes_hw: NDArray[np.int64]) -> BatchParameters:
        """What a plan's ops draw next, for images of these sizes, (B, 2)."""
        numbers: list[int] = []
        for op in plan.ops:
            numbers.append(self.next_number)
            self.next_number += op_count(op)
        return draw_parameters(plan, sizes_hw, self.draws, numbers)

    def _draw(
        self,
        kind: DrawKind,
        arguments: tuple[float, ...],
        shape: int | Sequence[int] = (),
        weights: tuple[float, ...] | None = None,
    ) -> torch.Tensor:
        number, self.next_number = self.next_number, self.next_number + 1
        value = DrawValue(kind, number, arguments, (shape,) if isinstance(shape, int) else tuple(shape), weights)
        return self._tensor(draw(value, OpDraws(self.draws, number * DRAWS_PER_OP)))

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        return from_numpy(np.ascontiguousarray(array)).to(self.device, non_blocking=True)
