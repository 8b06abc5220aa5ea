"""What was drawn for a batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["BatchParameters", "Branches", "Drawn", "OpParameters", "merged", "rows_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Branches:
    """The way of each sample of a batch through an op that holds ops.

    Attributes:
        order: (B, N) int64: the branches that a sample goes through, one after the other; -1 for none.
        values: for each branch the parameters of each of its ops; rows that don't go through it hold zeros.
    """

    order: NDArray[np.int64]
    values: tuple[tuple[OpParameters, ...], ...]

    def __len__(self) -> int:
        return len(self.order)

    def way(self, row: int) -> list[int]:
        """The branches that one sample goes through, in order."""
        return [int(branch) for branch in self.order[row] if branch >= 0]


OpParameters: TypeAlias = NDArray[Any] | Branches | None
"""The parameters of one op for a batch: an array with a row for each sample, as the op's drawing function documents it;
`Branches` of an op that holds ops; ``None`` for an op that needs none."""

Rows: TypeAlias = slice | NDArray[np.intp]


def rows_of(value: OpParameters, rows: Rows) -> Any:
    """The parameters of some samples, in their order."""
    if isinstance(value, Branches):
        branches = tuple(tuple(rows_of(inner, rows) for inner in branch) for branch in value.values)
        return Branches(value.order[rows], branches)
    return None if value is None else value[rows]


def merged(parts: list[tuple[NDArray[np.intp], OpParameters]], count: int) -> OpParameters:
    """The parameters of a whole batch from those of some of its rows; other rows hold zeros.

    Args:
        parts: rows, and the parameters of these rows.
        count: samples in the batch.
    """
    present = [(rows, value) for rows, value in parts if value is not None]
    if not present:
        return None
    first = present[0][1]
    if isinstance(first, Branches):
        of_branches = [(rows, value) for rows, value in present if isinstance(value, Branches)]
        values = tuple(
            tuple(
                merged([(rows, value.values[branch][position]) for rows, value in of_branches], count)
                for position in range(len(first.values[branch]))
            )
            for branch in range(len(first.values))
        )
        order = np.full((count, first.order.shape[1]), -1, dtype=np.int64)
        for rows, value in of_branches:
            order[rows] = value.order
        return Branches(order, values)
    whole = np.zeros((count, *first.shape[1:]), dtype=first.dtype)
    for rows, value in present:
        whole[rows] = value
    return whole


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """What one op's drawing function gives for B samples.

    Attributes:
        values: the parameters.
        sizes_hw: (B, 2) int64, the output's sizes; a side below 1 marks a sample that can't go through.
        refused: rows that can't go through for another reason, with the cause in torchvision's terms and the way out.
    """

    values: OpParameters
    sizes_hw: NDArray[np.int64]
    refused: dict[int, str] = field(default_factory=dict[int, str])


@dataclass(frozen=True, slots=True, eq=False)
class BatchParameters:
    """The parameters of a batch.

    Attributes:
        values: one entry per op of the plan.
        sizes_hw: (len(ops) + 1) arrays (B, 2) int64: each op's input sizes, then the output's.
        refused: rows whose image can't go through the plan, with the cause in torchvision's terms.
    """

    values: tuple[OpParameters, ...]
    sizes_hw: tuple[NDArray[np.int64], ...]
    refused: dict[int, str]

    @property
    def uniform_size_hw(self) -> tuple[int, int] | None:
        """The output size where all samples share it; ``None`` otherwise, and for an empty batch."""
        sizes = self.sizes_hw[-1]
        if len(sizes) == 0 or (sizes != sizes[0]).any():
            return None
        return int(sizes[0, 0]), int(sizes[0, 1])
