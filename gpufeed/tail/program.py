"""Running the rest of a plan after DALI: one by one while sizes differ, in batches from where they are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from gpufeed.parameters import BatchParameters, Branches, OpParameters, rows_of
from gpufeed.placement import Placement
from gpufeed.plan import (
    BranchOp,
    Convert,
    Erase,
    EraseToNoise,
    Flip,
    Normalize,
    Op,
    RandomApply,
    ResizeOp,
    ToDtype,
    ToTensor,
)
from gpufeed.spec import ImageSpec
from gpufeed.tail import colour, conversion, erasing, filters, geometry, resize, warps
from gpufeed.tail.branches import run_branches
from gpufeed.tail.kernel import Kernel, empty_as, empty_in_rows

__all__ = ["KERNELS", "Tail", "run_op"]

_BY_ELEMENT = (Convert, ToTensor, ToDtype, Normalize, Flip, Erase, EraseToNoise)
"""Ops of which each value of the result depends on one value, wherever that lies in memory."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The ops of a placement that torch does, from ``placement.in_graph`` on."""

    placement: Placement

    def run_into(
        self, out: torch.Tensor, images: Sequence[torch.Tensor], parameters: BatchParameters, first_row: int
    ) -> None:
        """Take some samples of a batch from DALI's result to their place in the output.

        Args:
            out: (n, C, h, w) of the plan's output dtype, written; (n, k, C, h, w) where a sample is a tuple of k.
            images: n tensors (C, H, W) uint8, on the device of ``out``, not changed.
            parameters: the whole batch's.
            first_row: row of the batch that ``images[0]`` is.
        """
        placement = self.placement
        uniform = placement.uniform
        if uniform is None:
            for number, image in enumerate(images):
                out[number].copy_(self.run_one(image, parameters, first_row + number))
            return
        rows = slice(first_row, first_row + len(images))
        chunk = self._gather(images, parameters, first_row, uniform)
        ops = placement.plan.ops
        for position in range(uniform, len(ops)):
            op, spec = ops[position], placement.placed[position].input
            value = parameters.values[position]
            if isinstance(op, Convert) and all(isinstance(later, _BY_ELEMENT) for later in ops[position:]):
                continue  # it would only change the layout in memory, and nothing that follows depends on it
            if position == placement.final:
                conversion.convert_into(out, chunk, cast("ToTensor | ToDtype", op))
                chunk = out
            elif placement.final is not None and position > placement.final:
                _apply_in_place(chunk, op, rows_of(value, rows))
            else:
                chunk = run_op(chunk, op, spec, rows_of(value, rows))
        if chunk is not out:
            out.copy_(chunk.view(out.shape))

    def run_one(self, image: torch.Tensor, parameters: BatchParameters, row: int) -> torch.Tensor:
        """Take one sample from DALI's result to the plan's output.

        Args:
            image: (C, H, W) uint8.
            parameters: the whole batch's.
            row: which sample of the batch it is.

        Returns:
            (C, h, w) of the plan's output dtype, or (k, C, h, w) where a sample is a tuple of k; owned by the caller,
            unless it is a view of ``image``.
        """
        done = self._one(image[None], parameters, row, len(self.placement.plan.ops))
        return done[0] if self.placement.output.tuple_of is None else done

    def _one(self, image: torch.Tensor, parameters: BatchParameters, row: int, until: int) -> torch.Tensor:
        for position in range(self.placement.in_graph, until):
            value = parameters.values[position]
            placed = self.placement.placed[position]
            image = run_op(image, placed.op, placed.input, rows_of(value, slice(row, row + 1)))
        return image

    def _gather(
        self, images: Sequence[torch.Tensor], parameters: BatchParameters, first_row: int, uniform: int
    ) -> torch.Tensor:
        """One batch of equal sizes, of the dtype at ``uniform``, in the layout that each image has.

        Returns:
            (n, C, h, w); (n k, C, h, w) where a sample is a tuple of k by then.
        """
        placement = self.placement
        spec = placement.placed[uniform].input if uniform < len(placement.placed) else placement.output
        size_hw = cast("tuple[int, int]", spec.size_hw)
        dtype = cast(torch.dtype, getattr(torch, spec.dtype))
        each = spec.tuple_of or 1
        shape = (len(images) * each, spec.channels, *size_hw)
        last = uniform - 1
        if last >= placement.in_graph and each == 1 and spec.container == "pil":
            op = placement.plan.ops[last]
            if isinstance(op, ResizeOp):
                chunk = empty_in_rows(shape, dtype, images[0].device)
                for number, image in enumerate(images):
                    before = self._one(image[None], parameters, first_row + number, last)
                    resize.resize_into(chunk[number : number + 1], before, op, placement.placed[last].input)
                return chunk
        first = self._one(images[0][None], parameters, first_row, uniform)
        chunk = empty_in_rows(shape, dtype, images[0].device) if spec.container == "pil" else empty_as(first, shape)
        chunk[:each].copy_(first)
        for number, image in enumerate(images[1:], start=1):
            place = chunk[number * each : (number + 1) * each]
            place.copy_(self._one(image[None], parameters, first_row + number, uniform))
        return chunk


KERNELS: Mapping[type[Op], Kernel] = {
    **geometry.KERNELS,
    **resize.KERNELS,
    **colour.KERNELS,
    **erasing.KERNELS,
    **filters.KERNELS,
    **warps.KERNELS,
    **conversion.KERNELS,
}
"""The function of each op but those that hold others."""


def run_op(images: torch.Tensor, op: Op, spec: ImageSpec, value: OpParameters) -> torch.Tensor:
    """One op on images of one size, not changing them.

    Args:
        images: (N, C, H, W).
        op: any op of a plan.
        spec: its input.
        value: its parameters, a row for each sample; sizes and borders are equal in all rows where there are several.
            A sample that is a tuple of images has one row, and its images stand one after the other.
    """
    if spec.tuple_of is not None:
        value = rows_of(value, np.repeat(np.arange(len(images) // spec.tuple_of), spec.tuple_of))
        spec = replace(spec, tuple_of=None)
    if isinstance(op, BranchOp):
        return run_branches(images, op, spec, cast("Branches", value), run_op)
    return KERNELS[type(op)](images, op, spec, value)


def _apply_in_place(images: torch.Tensor, op: Op, value: OpParameters) -> None:
    """The ops that may follow the final conversion, in the batch itself."""
    match op:
        case Normalize():
            conversion.normalize_(images, op)
        case Flip():
            geometry.flip_(images, op, cast("NDArray[np.bool_]", value))
        case Erase() | EraseToNoise():
            erasing.erase_(images, op, cast("NDArray[np.int64]", value))
        case RandomApply():
            drawn = cast("Branches", value)
            for row in np.flatnonzero(drawn.order[:, 0] == 0):
                for inner, own in zip(op.ops, drawn.values[0], strict=True):
                    _apply_in_place(images[row : row + 1], inner, rows_of(own, slice(row, row + 1)))
        case _:  # Convert changes nothing in memory
            pass
