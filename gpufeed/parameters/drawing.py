"""Drawing a batch: op by op, down into those that hold ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpufeed.draws import DRAWS_PER_OP, Draws
from gpufeed.parameters import colour, erasing, filters, resizing, warps, windows
from gpufeed.parameters.batch import BatchParameters, Branches, Drawn, OpParameters, merged
from gpufeed.parameters.op_draws import OpDraws
from gpufeed.plan import BranchOp, Op, Plan, RandomApply, RandomChoice, RandomOrder, each_op
from gpufeed.spec import ImageSpec

__all__ = ["DRAWERS", "draw_parameters", "op_count", "op_numbers"]

_Sizes = NDArray[np.int64]

DRAWERS: Mapping[type[Op], Callable[[Any, ImageSpec, _Sizes, OpDraws], Drawn]] = {
    **windows.DRAWERS,
    **resizing.DRAWERS,
    **colour.DRAWERS,
    **erasing.DRAWERS,
    **filters.DRAWERS,
    **warps.DRAWERS,
}
"""Op, its input, the (B, 2) sizes of the images and the op's draws to its parameters. An op that isn't here needs none
and keeps the size."""


@dataclass(slots=True, eq=False)
class _Sequence:
    """What was drawn for a sequence of ops: one entry of ``values`` per op, one more of ``sizes_hw``."""

    values: list[OpParameters] = field(default_factory=list[OpParameters])
    sizes_hw: list[_Sizes] = field(default_factory=list[_Sizes])
    refused: dict[int, str] = field(default_factory=dict[int, str])


def draw_parameters(
    plan: Plan, sizes_hw: _Sizes, draws: Draws, numbers: Sequence[int] | None = None
) -> BatchParameters:
    """Draw for a whole batch.

    Args:
        plan: the unfused plan. Its ops are numbered in the order of `gpufeed.plan.each_op`, and number ``k`` uses the
            draw numbers from ``k * DRAWS_PER_OP`` on.
        sizes_hw: (B, 2) int64 sizes of the decoded images, in pixels.
        draws: the batch's keyed draws.
        numbers: of the ops, where the plan is a part of something that counts them itself; ops inside an op follow it.
    """
    if numbers is None:
        numbers = op_numbers(plan.ops, 0)
    drawn = _draw_all(plan.ops, plan.input, np.maximum(sizes_hw, 1), draws, numbers)
    damaged = {
        int(row): f"it is damaged: its header says that it has {sizes_hw[row, 0]}x{sizes_hw[row, 1]} pixels; replace it"
        for row in np.flatnonzero((sizes_hw < 1).any(axis=1))
    }
    return BatchParameters(tuple(drawn.values), tuple(drawn.sizes_hw), drawn.refused | damaged)


def op_numbers(ops: tuple[Op, ...], first: int) -> tuple[int, ...]:
    """The number of each op of a sequence, that of the first given; those inside an op come right behind it."""
    return tuple(accumulate(map(op_count, ops[:-1]), initial=first)) if ops else ()


def op_count(op: Op) -> int:
    """How many numbers an op takes: one, and one for each op inside it."""
    return sum(1 for _ in each_op((op,)))


def _draw_all(ops: tuple[Op, ...], spec: ImageSpec, sizes: _Sizes, draws: Draws, numbers: Sequence[int]) -> _Sequence:
    """Draw for ops one after the other."""
    result = _Sequence(sizes_hw=[sizes])
    for op, number in zip(ops, numbers, strict=True):
        drawn = _draw_one(op, spec, sizes, draws, number)
        for row, cause in drawn.refused.items():
            result.refused.setdefault(row, cause)
        for row in np.flatnonzero((drawn.sizes_hw < 1).any(axis=1)):
            result.refused.setdefault(int(row), _no_pixels(op, sizes[row], drawn.sizes_hw[row]))
        sizes = np.maximum(drawn.sizes_hw, 1)
        result.values.append(drawn.values)
        result.sizes_hw.append(sizes)
        spec = op.out_spec(spec)
    return result


def _draw_one(op: Op, spec: ImageSpec, sizes: _Sizes, draws: Draws, number: int) -> Drawn:
    own = OpDraws(draws, number * DRAWS_PER_OP)
    if isinstance(op, BranchOp):
        return _draw_branches(op, spec, sizes, own, number)
    drawer = DRAWERS.get(type(op))
    return Drawn(None, sizes) if drawer is None else drawer(op, spec, sizes, own)


def _draw_branches(op: BranchOp, spec: ImageSpec, sizes: _Sizes, own: OpDraws, number: int) -> Drawn:
    """`Branches`: each branch draws for the samples that go through it, at the size that they have then."""
    order = _order(op, own)
    numbers = [number + 1]
    for ops in op.branches:
        numbers.append(numbers[-1] + sum(map(op_count, ops)))
    sizes = sizes.copy()
    refused: dict[int, str] = {}
    parts: list[list[tuple[NDArray[np.intp], list[OpParameters]]]] = [[] for _ in op.branches]
    inside = op.branch_spec(spec)
    for step in range(order.shape[1]):
        for branch, ops in enumerate(op.branches):
            rows = np.flatnonzero(order[:, step] == branch)
            drawn = _draw_all(ops, inside, sizes[rows], own.draws.take(rows), op_numbers(ops, numbers[branch]))
            parts[branch].append((rows, drawn.values))
            sizes[rows] = drawn.sizes_hw[-1]
            for row, cause in drawn.refused.items():
                refused.setdefault(int(rows[row]), cause)
    values = tuple(
        tuple(
            merged([(rows, values[position]) for rows, values in parts[branch]], len(sizes))
            for position in range(len(ops))
        )
        for branch, ops in enumerate(op.branches)
    )
    return Drawn(Branches(order, values), sizes, refused)


def _order(op: BranchOp, draws: OpDraws) -> NDArray[np.int64]:
    """(B, N): the branches that each sample goes through."""
    match op:
        case RandomApply(_, p):
            return np.where(draws.coin(0, p), 0, -1)[:, None]
        case RandomChoice(_, weights):
            upper = np.cumsum(weights) / np.sum(weights)
            picked = np.searchsorted(upper, draws.unit(0), side="right")
            return np.minimum(picked, len(weights) - 1)[:, None]
        case RandomOrder(parts):
            return draws.permutations(0, len(parts))
        case _:
            raise TypeError(f"no way to draw the branches of {op}")  # pragma: no cover - a test walks every op


def _no_pixels(op: Op, size_hw: NDArray[np.int64], out_hw: NDArray[np.int64]) -> str:
    return (
        f"{type(op).__name__} would make an image of {out_hw[0]}x{out_hw[1]} pixels from {size_hw[0]}x{size_hw[1]}; "
        "change the transform, or take the image out of the dataset"
    )
