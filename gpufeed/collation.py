"""Handing over: from what the stages made to what ``next()`` returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

import torch
from torchvision import tv_tensors

from gpufeed.feed import Images, Job
from gpufeed.recording.structure import map_leaves
from gpufeed.spec import ImageSpec
from gpufeed.tensors import hand_over, map_tensors, to_device

__all__ = ["Collation", "PipelineCollation", "PipelineResult", "PlanCollation"]

_default_collate = cast(Any, torch.utils.data).default_collate
_default_convert = cast(Any, torch.utils.data).default_convert
"""What torch's loader has for ``collate_fn`` where none is given: with a batch size, and with none."""


class Collation(Protocol):
    """Makes a batch of a job that is done; on the iterating thread."""

    def __call__(self, job: Job) -> Any: ...


@dataclass(frozen=True, slots=True)
class PlanCollation:
    """Images and targets, as torch's loader collates them.

    Attributes:
        output: the plan's.
        device: where batches lie.
        collates: whether samples become batches (``batch_size`` isn't ``None``).
        collate_fn: the loader's.
    """

    output: ImageSpec
    device: torch.device
    collates: bool
    collate_fn: Callable[[Any], Any]

    def __call__(self, job: Job) -> Any:
        targets = job.source.fields(job.indices)["target"]
        images: Images | None = job.result
        if images is not None:
            hand_over(images)
        if not self.collates:
            return to_device(self.collate_fn((self._one_sample(images, 0), targets[0])), self.device)
        if self.collate_fn is _default_collate and images is not None:
            # a tuple, as torch's transposing makes it: strings are returned in what they came in
            return [self._collated(images), to_device(_default_collate(tuple(targets)), self.device)]
        samples = [(self._one_sample(images, row), target) for row, target in enumerate(targets)]
        return to_device(self.collate_fn(samples), self.device)

    def _collated(self, images: Images) -> torch.Tensor | list[torch.Tensor]:
        """What ``default_collate`` makes of the images: one batch, or for tuples of images a list with one of each."""
        count = self.output.tuple_of
        if count is None:
            return images if isinstance(images, torch.Tensor) else _stacked(images)
        if isinstance(images, torch.Tensor):
            return list(images.unbind(1))
        return [_stacked([image[number] for image in images]) for number in range(count)]

    def _one_sample(self, images: Images | None, row: int) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """The image of a sample as the transform would have returned it: a tensor, or a tuple of them."""
        assert images is not None
        wraps = self.output.container == "tv_image"
        found = [images[row]] if self.output.tuple_of is None else images[row].unbind(0)
        made = tuple(tv_tensors.Image(image) if wraps else image for image in found)
        return made[0] if self.output.tuple_of is None else made


def _stacked(images: list[torch.Tensor]) -> torch.Tensor:
    try:
        return torch.stack(images)
    except RuntimeError as error:
        error.add_note(
            "The transform leaves images at unequal sizes, as Resize with a single number does. "
            "Give Resize both sides, add a CenterCrop, or give the loader a collate_fn."
        )
        raise


@dataclass(frozen=True, slots=True, eq=False)
class PipelineResult:
    """A batch of a pipeline's.

    Attributes:
        leaves: tensors (B, ...), lists with an entry per sample, and what a tail returned besides.
        structure: what the pipeline or its tail returned, each leaf its number.
    """

    leaves: list[Any]
    structure: Any

    def whole(self) -> Any:
        """The batch."""
        return map_leaves(self.structure, lambda number: self.leaves[number])

    def sample(self, row: int) -> Any:
        """One sample of it."""
        return map_leaves(self.structure, lambda number: _row_of(self.leaves[number], row))


def _row_of(leaf: Any, row: int) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf[row] if leaf.ndim else leaf
    return cast("list[Any]", leaf)[row] if isinstance(leaf, list) else leaf


@dataclass(frozen=True, slots=True)
class PipelineCollation:
    """What a pipeline or its tail returned.

    Attributes:
        device: where batches lie.
        collates: whether samples become batches (``batch_size`` isn't ``None``).
        collate_fn: the loader's.
    """

    device: torch.device
    collates: bool
    collate_fn: Callable[[Any], Any]

    def __call__(self, job: Job) -> Any:
        result: PipelineResult | None = job.result
        if result is None:  # a batch of no samples
            return to_device(self.collate_fn([]), self.device)
        hand_over(_tensors(result.leaves))
        if not self.collates:
            one = result.sample(0)
            return one if self.collate_fn is _default_convert else to_device(self.collate_fn(one), self.device)
        if self.collate_fn is _default_collate:
            return result.whole()
        return to_device(self.collate_fn([result.sample(row) for row in range(len(job.indices))]), self.device)


def _tensors(leaves: list[Any]) -> list[torch.Tensor]:
    """All tensors in a batch, those in what a tail made of each sample too, such as dicts."""
    found: list[torch.Tensor] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        found.append(tensor)
        return tensor

    map_tensors(leaves, note)
    return found
