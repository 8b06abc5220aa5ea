"""What torch's loaders run for a workload: the transform on its files, or what a pipeline's module has for torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.utils.data import Dataset, Sampler
from torchvision.datasets.folder import default_loader

from gpufeed.bench.contenders.folder import WorkloadFolder
from gpufeed.bench.contenders.tensor_twin import tensor_decoder, tensor_twin
from gpufeed.bench.workload import Workload
from gpufeed.errors import ArgumentError, UnsupportedError
from gpufeed.pipelines import Pipeline
from gpufeed.sources.folders import source_of

__all__ = ["Collate", "ShuffledIndices", "TorchSide", "Transformed", "Views", "opened_source", "torch_side"]

_default_collate = cast(Any, torch.utils.data).default_collate


@dataclass(frozen=True, slots=True)
class TorchSide:
    """What a torch loader is made of.

    Attributes:
        dataset: of the samples.
        sampler: which of them, in which order; ``None``: all of them, shuffled.
        collate_fn: ``None``: torch's own.
    """

    dataset: Dataset[Any]
    sampler: Sampler[int] | None = None
    collate_fn: Callable[[list[Any]], Any] | None = None


def torch_side(workload: Workload, *, tensors: bool = False) -> TorchSide:
    """The torch side of a workload.

    Args:
        workload: with a transform, or a pipeline that has a reference or a torch dataset.
        tensors: whether images are decoded to uint8 tensors, and the transform is its twin for these.

    Raises:
        ArgumentError: a pipeline has neither; it says how to write one. Or its Dataset isn't as long as its source.
        UnsupportedError: there is no such twin.
    """
    subject = workload.load_subject()
    if not isinstance(subject, Pipeline):
        transform, loader = _for_tensors(subject) if tensors else (subject, default_loader)
        return TorchSide(WorkloadFolder(workload, transform, loader))
    source = opened_source(workload, subject)
    sampler = None if workload.indices is None else ShuffledIndices(workload.indices, workload.seed)
    if subject.has("torch_dataset"):
        if tensors:
            raise UnsupportedError(
                f"@{subject.name}.torch_dataset gives a Dataset of its own, so there is no telling how it would decode "
                "to tensors"
            )
        dataset = subject.make_torch_dataset(source)
        if len(dataset) != len(source):
            raise ArgumentError(
                f"what @{subject.name}.torch_dataset gives must be as long as its source, {len(source)} samples, "
                f"got {len(dataset)}"
            )
        return TorchSide(dataset, sampler, getattr(dataset, "collate_fn", None) or Collate())
    if not subject.has("reference"):
        raise ArgumentError(_without_torch(subject))
    transform = subject.make_reference()
    if isinstance(transform, (tuple, list)):
        transform = Views(tuple(cast("Sequence[Callable[[Any], Any]]", transform)))
    transform, loader = _for_tensors(transform) if tensors else (transform, default_loader)
    if workload.indices is None:
        return TorchSide(WorkloadFolder(workload, transform, loader))
    return TorchSide(Transformed(source, transform, loader), sampler, Collate())


def opened_source(workload: Workload, pipeline: Pipeline) -> Any:
    """What the pipeline reads: its own source, or the workload's files as an ``ImageFolder`` without a transform."""
    if workload.indices is None:
        return WorkloadFolder(workload, None)
    return pipeline.make_source(workload.root)


def _for_tensors(transform: Callable[[Any], Any]) -> tuple[Callable[[Any], Any], Callable[[str], Any]]:
    return tensor_twin(transform), tensor_decoder()


def _without_torch(pipeline: Pipeline) -> str:
    name = pipeline.name
    return (
        f"the pipeline {name} has nothing that torch's loader could run, so there is nothing to compare with; write in "
        f"its module @{name}.reference above a function that returns the torchvision transform of one image, or "
        f"@{name}.torch_dataset above one that takes the source and returns a Dataset; or ask for --contenders gpufeed"
    )


@dataclass(frozen=True, slots=True)
class Views:
    """Several transforms of one image: a tuple of what each makes."""

    transforms: tuple[Callable[[Any], Any], ...]

    def __call__(self, image: Any) -> tuple[Any, ...]:
        return tuple(transform(image) for transform in self.transforms)


class Transformed(Dataset[Any]):
    """A source's images through a transform, and its targets.

    Args:
        source: of image files.
        transform: what each image goes through.
        loader: what reads a path.
    """

    def __init__(self, source: object, transform: Callable[[Any], Any], loader: Callable[[str], Any]) -> None:
        self._source = source_of(source)
        self._transform = transform
        self._loader = loader

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> tuple[Any, object]:
        (path,) = self._source.read([index]).names()
        return self._transform(self._loader(path)), self._source.fields([index])["target"][0]


class ShuffledIndices(Sampler[int]):
    """Given indices in an order that is drawn anew each time, fixed by a seed."""

    def __init__(self, indices: Sequence[int], seed: int) -> None:
        self._indices = indices
        self._generator = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return len(self._indices)

    def __iter__(self) -> Iterator[int]:
        order: list[int] = cast(Any, torch.randperm(len(self._indices), generator=self._generator)).tolist()
        return (self._indices[place] for place in order)


class Collate:
    """torch's ``default_collate``, and where it refuses arrays of unequal shapes a list of these."""

    def __init__(self) -> None:
        self._has_ragged = False

    def __call__(self, samples: list[Any]) -> Any:
        if not self._has_ragged:
            try:
                return _default_collate(samples)
            except RuntimeError:  # what torch.stack raises; then each output by itself, from here on
                self._has_ragged = True
        return _collated(samples)


def _collated(samples: list[Any]) -> Any:
    first = samples[0]
    if isinstance(first, Mapping):
        return {key: _collated([sample[key] for sample in samples]) for key in cast("Mapping[Any, Any]", first)}
    if isinstance(first, (tuple, list)):
        return tuple(_collated(list(entries)) for entries in zip(*samples, strict=True))
    shapes = {tuple(sample.shape) for sample in samples if hasattr(sample, "shape")}
    return samples if len(shapes) > 1 else _default_collate(samples)
