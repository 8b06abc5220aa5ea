"""`BatchSamples`: the keyed draws of a batch, for a tail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpufeed.draws import DRAWS_PER_OP, Draws
from gpufeed.parameters import BatchParameters, OpDraws, draw_parameters, op_count
from gpufeed.plan import Plan
from gpufeed.recording.keyed_draws import KeyedDraws
from gpufeed.recording.values import DrawKind, DrawValue, draw
from gpufeed.tensors import from_numpy

__all__ = ["BatchSamples", "EachRow", "in_turn"]

EachRow = Callable[[Callable[[range], None], int], None]
"""Calls a function for pieces of ``range(count)`` that together are all of it, and returns when all are done."""


def in_turn(function: Callable[[range], None], count: int) -> None:
    """All rows at once, on the calling thread."""
    function(range(count))


@dataclass(eq=False)
class BatchSamples(KeyedDraws):
    """What a tail that declares ``samples`` gets: draws keyed by sample, counted on from those of the pipeline.

    ``uniform``, ``normal``, ``integers``, ``choice`` and ``coin`` give tensors (B, *shape), ``permutation(n)`` (B, n):
    float32, int64 where all are whole numbers, bool for ``coin``. A tail must draw in the same order in every call.

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
        shape: tuple[int, ...],
        weights: tuple[float, ...] | None,
    ) -> torch.Tensor:
        number, self.next_number = self.next_number, self.next_number + 1
        drawn = self._tensor(draw(DrawValue(kind, number, arguments, shape, weights), self._own(number)))
        if kind == "coin":
            return drawn.bool()
        return drawn if drawn.is_floating_point() else drawn.long()

    def _own(self, number: int) -> OpDraws:
        return OpDraws(self.draws, number * DRAWS_PER_OP)

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        return from_numpy(np.ascontiguousarray(array)).to(self.device, non_blocking=True)
