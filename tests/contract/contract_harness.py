"""One harness: the same arguments to torch's own loader and to gpufeed's, and all that can be seen of both compared.

A `Case` says what to make (fresh for each side, since samplers and generators have state) and how far to iterate in
each epoch. `trace` runs one side and writes down what happened; `assert_same` compares two traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, settings
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data._utils.fetch import _MapDatasetFetcher
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from gpufeed import DataLoader


def folder(root: Path, count: int = 16, transform: Any = None, **arguments: Any) -> ImageFolder:
    """The first ``count`` images of the session's folder, with an exact transform if none is given."""
    dataset = ImageFolder(root, transform=CROP if transform is None else transform, **arguments)
    dataset.samples = dataset.samples[:count]
    return dataset


CROP = v2.Compose([v2.CenterCrop(8), v2.PILToTensor()])
"""Exact: only moves pixels; every image of the folder is larger."""


CONTRACT = settings(
    deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
"""For property tests: the same examples in every run."""


class ModelledWorkers(TorchDataLoader[Any]):
    """torch's loader with workers, without the processes: who draws what when is torch's own order of events.

    A slow test compares it with real workers.
    """

    _kept: Any = None

    def __iter__(self) -> Any:
        if self.num_workers == 0:
            return super().__iter__()
        if not self.persistent_workers:
            return _ModelledIterator(self)
        if self._kept is None:
            self._kept = _ModelledIterator(self)
        else:
            self._kept.reset(self)
        return self._kept


class _ModelledIterator:
    """`_MultiProcessingDataLoaderIter`: `__init__`, `_reset`, `_next_data`, `_process_data` and `_try_put_index`."""

    def __init__(self, loader: Any) -> None:
        iter(loader._index_sampler)
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        self.index_sampler = loader._index_sampler
        self.reset(loader)

    def __len__(self) -> int:
        return len(self.index_sampler)

    def reset(self, loader: Any) -> None:
        self.sampler_iter = iter(loader._index_sampler)
        self.fetcher = _MapDatasetFetcher(loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last)
        self.tasks: list[Any] = []
        for _ in range(loader.prefetch_factor * loader.num_workers):
            self.put_index()

    def put_index(self) -> None:
        try:
            self.tasks.append(next(self.sampler_iter))
        except StopIteration:
            return

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not self.tasks:
            raise StopIteration
        try:
            data, error = self.fetcher.fetch(self.tasks.pop(0)), None
        except Exception as raised:
            data, error = None, raised
        self.put_index()
        if error is not None:
            raise error
        return data


@dataclass(frozen=True)
class Case:
    """What to run on both sides.

    Attributes:
        arguments: makes the loader's arguments, ``dataset`` included.
        epochs: for each ``iter()`` how many batches to take before leaving; ``None``: all, until it stops.
        ours: further arguments for gpufeed alone, those that torch refuses without workers.
        between: called with the loader before each ``iter()``, with the number of the epoch.
        real_workers: start torch's worker processes, rather than model them.
    """

    arguments: Callable[[], Mapping[str, Any]]
    epochs: Sequence[int | None] = (None, None)
    ours: Mapping[str, Any] = field(default_factory=dict)
    between: Callable[[Any, int], object] = lambda loader, epoch: None
    real_workers: bool = False


def trace(loader_class: type, case: Case, seed: int = 20) -> list[tuple[str, Any]]:
    """Run one side: what it yielded, raised and left in the generators, in order."""
    events: list[tuple[str, Any]] = []
    torch.manual_seed(seed)
    extra = case.ours if loader_class is DataLoader else {}
    arguments = dict(case.arguments())
    generators = {
        name: each
        for name, each in {
            "generator": arguments.get("generator"),
            "sampler": getattr(arguments.get("sampler"), "generator", None),
            "batch_sampler": getattr(getattr(arguments.get("batch_sampler"), "sampler", None), "generator", None),
        }.items()
        if each is not None
    }

    def note_states(when: str) -> None:
        events.append((f"global generator {when}", torch.get_rng_state()))
        events.extend((f"{name} generator {when}", each.get_state()) for name, each in generators.items())

    try:
        loader = loader_class(**arguments, **extra)
    except Exception as error:
        return [("construction raises", error)]
    note_states("after construction")
    events.append(("len", _try(lambda: len(loader))))
    for epoch, count in enumerate(case.epochs):
        case.between(loader, epoch)
        try:
            iterator = iter(loader)
            events.append(("len of iterator", _try(lambda: len(iterator))))  # noqa: B023 - called at once
            note_states(f"after iter {epoch}")
            taken = 0
            while count is None or taken < count:
                events.append((f"batch {epoch}:{taken}", next(iterator)))
                taken += 1
        except StopIteration:
            events.append((f"stop {epoch}", None))
        except Exception as error:
            events.append((f"error {epoch}", error))
        iterator = None  # what `break` does at the end of a loop
        note_states(f"after epoch {epoch}")
    if loader_class is DataLoader:
        loader.close()
    return events


def _try(function: Callable[[], object]) -> object:
    try:
        return function()
    except Exception as error:
        return error


def assert_contract(case: Case) -> list[tuple[str, Any]]:
    """Run both sides, compare, and give back what torch's did."""
    theirs = trace(TorchDataLoader if case.real_workers else ModelledWorkers, case)
    assert_same(theirs, trace(DataLoader, case))
    return theirs


def assert_same(theirs: list[tuple[str, Any]], ours: list[tuple[str, Any]]) -> None:
    """Two traces are equal: the same events, values of the same types, errors of torch's class or a subclass."""
    for (their_name, their_value), (our_name, our_value) in zip(theirs, ours, strict=False):
        assert our_name == their_name, f"torch: {their_name} {their_value!r}; gpufeed: {our_name} {our_value!r}"
        assert_equal(their_value, our_value, their_name)
    assert len(ours) == len(theirs)


def assert_equal(theirs: object, ours: object, where: str) -> None:
    """Equal in type, dtype, shape, layout of containers and every value."""
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)), f"{where}: torch raises {theirs!r}, gpufeed {ours!r}"
        return
    assert type(ours) is type(theirs), f"{where}: {type(ours)} is not {type(theirs)}"
    if isinstance(theirs, torch.Tensor):
        assert isinstance(ours, torch.Tensor)
        assert ours.dtype == theirs.dtype, where
        assert ours.shape == theirs.shape, where
        assert ours.device == theirs.device, where
        assert torch.equal(ours, theirs), where
    elif isinstance(theirs, Mapping):
        assert isinstance(ours, Mapping)
        assert list(ours) == list(theirs), where
        for key, value in theirs.items():
            assert_equal(value, ours[key], f"{where}[{key!r}]")
    elif isinstance(theirs, (list, tuple)):
        assert isinstance(ours, (list, tuple))
        assert len(ours) == len(theirs), where
        for number, value in enumerate(theirs):
            assert_equal(value, ours[number], f"{where}[{number}]")
    else:
        assert ours == theirs, where
