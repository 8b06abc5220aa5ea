"""Stage 2, draw: every random choice and size-dependent number of a batch, on the host, before any pixel exists."""

from __future__ import annotations

from gpufeed.parameters.batch import BatchParameters, Branches, OpParameters, rows_of
from gpufeed.parameters.drawing import draw_parameters, op_count, op_numbers
from gpufeed.parameters.op_draws import OpDraws

__all__ = [
    "BatchParameters",
    "Branches",
    "OpDraws",
    "OpParameters",
    "draw_parameters",
    "op_count",
    "op_numbers",
    "rows_of",
]
