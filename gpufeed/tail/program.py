"""Running the rest of a plan after DALI: one by one while sizes differ, in batches from where they are equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from gpufeed.parameters import BatchParameters
from gpufeed.placement import WINDOWS, Placement
from gpufeed.plan import (
    Convert,
    Flip,
    Grayscale,
    Normalize,
    Op,
    Pad,
    RandomGrayscale,
    Resize,
    ToDtype,
    ToTensor,
)
from gpufeed.spec import ImageSpec
from gpufeed.tail import colour, conversion, geometry
from gpufeed.tail.resize import resize, resize_into

__all__ = ["Tail"]


@dataclass(frozen=True, slots=True)
class Tail:
    """The ops of a placement that torch does, from ``placement.in_graph`` on."""

    placement: Placement

    def run_into(
        self, out: torch.Tensor, images: Sequence[torch.Tensor], parameters: BatchParameters, first_row: int
    ) -> None:
        """Take some samples of a batch from DALI's result to their place in the output.

        Args:
            out: (n, C, h, w) of the plan's output dtype, written.
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
            if position == placement.final:
                conversion.convert_into(out, chunk, cast("ToTensor | ToDtype", op))
                chunk = out
            elif placement.final is not None and position > placement.final:
                _apply_in_place(chunk, op, None if value is None else value[rows])
            else:
                chunk = _apply(chunk, op, spec, None if value is None else value[rows])
        if chunk is not out:
            out.copy_(chunk)

    def run_one(self, image: torch.Tensor, parameters: BatchParameters, row: int) -> torch.Tensor:
        """Take one sample from DALI's result to the plan's output.

        Args:
            image: (C, H, W) uint8.
            parameters: the whole batch's.
            row: which sample of the batch it is.

        Returns:
            (C, h, w) of the plan's output dtype; owned by the caller, unless it is a view of ``image``.
        """
        return self._one(image[None], parameters, row, len(self.placement.plan.ops))[0]

    def _one(self, image: torch.Tensor, parameters: BatchParameters, row: int, until: int) -> torch.Tensor:
        for position in range(self.placement.in_graph, until):
            value = parameters.values[position]
            placed = self.placement.placed[position]
            image = _apply(image, placed.op, placed.input, None if value is None else value[row : row + 1])
        return image

    def _gather(
        self, images: Sequence[torch.Tensor], parameters: BatchParameters, first_row: int, uniform: int
    ) -> torch.Tensor:
        """One batch of equal sizes, channels last in memory: (n, C, h, w) of the dtype at ``uniform``."""
        placement = self.placement
        spec = list(placement.plan.specs())[uniform]
        size_hw = cast("tuple[int, int]", spec.size_hw)
        dtype = cast(torch.dtype, getattr(torch, spec.dtype))
        chunk = torch.empty((len(images), *size_hw, spec.channels), dtype=dtype, device=images[0].device)
        chunk = chunk.permute(0, 3, 1, 2)
        last = uniform - 1
        resizes = last >= placement.in_graph and isinstance(placement.plan.ops[last], Resize)
        for number, image in enumerate(images):
            row = first_row + number
            if resizes:
                before = self._one(image[None], parameters, row, last)
                placed = placement.placed[last]
                resize_into(chunk[number : number + 1], before, cast("Resize", placed.op), placed.input)
            else:
                chunk[number : number + 1].copy_(self._one(image[None], parameters, row, uniform))
        return chunk


def _apply(
    images: torch.Tensor, op: Op, spec: ImageSpec, value: NDArray[np.int64] | NDArray[np.bool_] | None
) -> torch.Tensor:
    """One op on images of one size, not changing them.

    Args:
        images: (n, C, H, W).
        op: any op of a plan.
        spec: its input.
        value: its parameters, a row for each image; borders and sizes are equal in all rows where n > 1.
    """
    if isinstance(op, WINDOWS):
        return _crop_each(images, cast("NDArray[np.int64]", value))
    match op:
        case Pad():
            return geometry.pad(images, op, spec, cast("NDArray[np.int64]", value)[0])
        case Resize():
            height, width = cast("NDArray[np.int64]", value)[0].tolist()
            return resize(images, op, spec, (height, width))
        case Flip():
            applied = cast("NDArray[np.bool_]", value)
            if not applied.any():
                return images
            images = images.clone()
            geometry.flip_(images, op, applied)
            return images
        case Grayscale():
            return colour.grayscale(images, spec, op.num_output_channels, op.api)
        case RandomGrayscale():
            return colour.random_grayscale(images, spec, op.api, cast("NDArray[np.bool_]", value))
        case ToTensor():
            return conversion.to_tensor(images)
        case ToDtype():
            return conversion.to_dtype(images, op)
        case Normalize():
            return conversion.normalize(images, op)
        case Convert():
            return images
        case _:  # pragma: no cover - a test walks every op
            raise TypeError(f"no torch implementation of {op}")


def _crop_each(images: torch.Tensor, windows: NDArray[np.int64]) -> torch.Tensor:
    if len(images) == 1 or (windows == windows[0]).all():
        return geometry.crop(images, windows[0])
    return torch.cat([geometry.crop(images[row : row + 1], window) for row, window in enumerate(windows)])


def _apply_in_place(images: torch.Tensor, op: Op, value: NDArray[np.int64] | NDArray[np.bool_] | None) -> None:
    """The ops that may follow the final conversion, in the batch itself."""
    if isinstance(op, Normalize):
        conversion.normalize_(images, op)
    elif isinstance(op, Flip):
        geometry.flip_(images, op, cast("NDArray[np.bool_]", value))
