"""Stage 2, draw: every random choice and size-dependent number of a batch, on the host, before any pixel exists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpufeed import geometry
from gpufeed.draws import DRAWS_PER_OP, Draws
from gpufeed.plan import (
    MIRROR_LIMITS,
    CenterCrop,
    Flip,
    Op,
    Pad,
    Plan,
    RandomAreaCrop,
    RandomCrop,
    RandomGrayscale,
    Resize,
)
from gpufeed.spec import ImageSpec

__all__ = ["BatchParameters", "OpParameters", "draw_parameters"]

OpParameters = NDArray[np.int64] | NDArray[np.bool_] | None
"""The parameters of one op for a batch: (B, 4) windows of a crop, (B, 4) paddings of `Pad`, (B, 2) output sizes of
`Resize`, (B,) bool of an op that is drawn or not, ``None`` for an op that needs none. Layouts as in
`gpufeed.geometry`."""


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


def draw_parameters(plan: Plan, sizes_hw: NDArray[np.int64], draws: Draws) -> BatchParameters:
    """Draw for a whole batch.

    Args:
        plan: the unfused plan; op ``k`` uses the draw numbers from ``k * DRAWS_PER_OP`` on.
        sizes_hw: (B, 2) int64 sizes of the decoded images, in pixels.
        draws: the batch's keyed draws.
    """
    values: list[OpParameters] = []
    sizes = [np.maximum(sizes_hw, 1)]
    refused = {
        int(row): f"it is damaged: its header says that it has {sizes_hw[row, 0]}x{sizes_hw[row, 1]} pixels; replace it"
        for row in np.flatnonzero((sizes_hw < 1).any(axis=1))
    }
    for position, (op, spec) in enumerate(zip(plan.ops, plan.specs(), strict=False)):
        value, out_sizes = _draw(op, sizes[-1], draws, position * DRAWS_PER_OP)
        if isinstance(op, Pad) and value is not None:
            for row in np.flatnonzero(_mirrors_too_far(op, spec, sizes[-1], value)):
                refused.setdefault(int(row), _mirror_cause(op, sizes[-1][row], value[row]))
        for row in np.flatnonzero((out_sizes < 1).any(axis=1)):
            refused.setdefault(int(row), _cause(op, sizes[-1][row], out_sizes[row]))
        values.append(value)
        sizes.append(np.maximum(out_sizes, 1))
    return BatchParameters(tuple(values), tuple(sizes), refused)


def _draw(op: Op, sizes: NDArray[np.int64], draws: Draws, first: int) -> tuple[OpParameters, NDArray[np.int64]]:
    """One op's parameters and its output sizes; a size below 1 marks a sample that can't go through."""
    match op:
        case RandomAreaCrop(scale, ratio):

            def pairs(
                numbers: Sequence[int], rows: NDArray[np.intp]
            ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
                return draws.unit_pairs([first + number for number in numbers], rows)

            windows = geometry.area_windows(sizes, scale, ratio, pairs)
            return windows, windows[:, 2:]
        case RandomCrop(size_hw):
            unit_top, unit_left = draws.unit_pairs((first,))
            windows = geometry.random_windows(sizes, size_hw, unit_top[0], unit_left[0])
            fits = (windows[:, :2] >= 0).all(axis=1, keepdims=True)
            return windows, np.where(fits, windows[:, 2:], 0)
        case CenterCrop(size_hw):
            windows = geometry.center_windows(sizes, size_hw)
            return windows, windows[:, 2:]
        case Pad(padding_ltrb, _, _, grow_to_hw):
            pads = geometry.paddings(sizes, padding_ltrb, grow_to_hw)
            return pads, sizes + np.stack([pads[:, 1] + pads[:, 3], pads[:, 0] + pads[:, 2]], axis=1)
        case Resize(size, max_size):
            out = geometry.resized_sizes(sizes, size, max_size)
            return out, out
        case Flip(_, p) | RandomGrayscale(p):
            return draws.coin(first, p), sizes
        case _:
            return None, sizes


def _mirrors_too_far(
    op: Pad, spec: ImageSpec, sizes: NDArray[np.int64], pads: NDArray[np.int64] | NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Rows where torchvision's tensor kernels, which mirror once, would refuse the padding."""
    limit = MIRROR_LIMITS.get(op.mode)
    if limit is None or spec.container == "pil":
        return np.zeros(len(sizes), dtype=np.bool_)
    most = sizes - limit
    height, width = pads[:, 1::2].max(axis=1), pads[:, 0::2].max(axis=1)
    return (height > most[:, 0]) | (width > most[:, 1])


def _mirror_cause(op: Pad, size_hw: NDArray[np.int64], pads: NDArray[np.int64] | NDArray[np.bool_]) -> str:
    return (
        f"{op.mode} padding of {tuple(pads.tolist())} pixels (left, top, right, bottom) is more than a tensor of "
        f"{size_hw[0]}x{size_hw[1]} has to mirror; pad the PIL image, before it becomes a tensor"
    )


def _cause(op: Op, size_hw: NDArray[np.int64], out_hw: NDArray[np.int64]) -> str:
    size = f"{size_hw[0]}x{size_hw[1]}"
    if isinstance(op, RandomCrop):
        return (
            f"required crop size {op.size_hw} is larger than the image ({size} when it gets there); "
            "give RandomCrop pad_if_needed=True or a Resize before it"
        )
    return (
        f"{type(op).__name__} would make an image of {out_hw[0]}x{out_hw[1]} pixels from {size}; "
        "change the transform, or take the image out of the dataset"
    )
