"""One sample's parameters, as the oracle's leaves ask for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from gpufeed.parameters import Branches, OpParameters, rows_of
from gpufeed.plan import Op

__all__ = ["LeafValues", "row_of"]


def row_of(value: OpParameters, row: int) -> Any:
    """One sample's parameters: a row of an array, `Branches` of one row, or ``None``."""
    if isinstance(value, Branches):
        return rows_of(value, slice(row, row + 1))
    return None if value is None else value[row]


@dataclass(frozen=True, slots=True)
class LeafValues:
    """What was drawn for one transform.

    Attributes:
        ops: what the transform became.
        values: one entry per op, from `row_of`.
    """

    ops: tuple[Op, ...]
    values: Sequence[Any]

    def of(self, op_class: type[Op]) -> NDArray[Any]:
        """The parameters of the first op of a class, inside of others too."""
        for op, value in self._each(self.ops, self.values):
            if isinstance(op, op_class):
                return value
        raise KeyError(f"no {op_class.__name__} among {self.ops}")

    def has(self, op_class: type[Op]) -> bool:
        """Whether an op of a class was drawn, or done in any case: one that a branch left out wasn't."""
        return any(isinstance(op, op_class) for op, _ in self._each(self.ops, self.values))

    @property
    def happens(self) -> bool:
        """Whether a transform with a probability does anything: it became no op, one that may be left out, or one that
        is always done."""
        return any(True for _ in self._each(self.ops, self.values))

    def _each(self, ops: Sequence[Op], values: Sequence[Any]) -> Iterator[tuple[Op, Any]]:
        """The ops that are done, with their parameters."""
        for op, value in zip(ops, values, strict=True):
            if not isinstance(value, Branches):
                yield op, value
                continue
            for branch in value.way(0):
                yield from self._each(op.branches[branch], [row_of(inner, 0) for inner in value.values[branch]])
