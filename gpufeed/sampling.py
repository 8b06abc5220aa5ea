"""Orders of indices: torch's samplers, asked on the iterating thread, and what gpufeed counts along the way."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler, SequentialSampler

__all__ = [
    "EpochCounter",
    "GeneratorRewind",
    "Occurrences",
    "SeededSampler",
    "as_index_batch",
    "given_generators",
    "occurrences_for",
    "pass_epoch",
    "unwrap",
]


class SeededSampler(RandomSampler):
    """A shuffled order that is a pure function of (seed, epoch).

    It is `DistributedSampler`'s: ``torch.randperm`` under a generator seeded with ``seed + epoch``. No generator
    outside is read or moved. A subclass of ``RandomSampler``, so that frameworks see that the order is shuffled.
    """

    def __init__(self, data_source: Sized, seed: int) -> None:
        cast(Any, super()).__init__(data_source)
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next `__iter__`."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator()
        generator.manual_seed(int(self.seed) + self.epoch)
        yield from cast(Any, torch.randperm(len(self.data_source), generator=generator)).tolist()


@dataclass(slots=True)
class EpochCounter:
    """Which epoch the next ``iter()`` is.

    ``set_epoch`` since the last ``iter()`` decides, else a given sampler's own integer ``epoch``, else the previous
    epoch + 1; the first is 0.
    """

    previous: int = -1
    chosen: int | None = None

    def advance(self, samplers: Sequence[object]) -> int:
        """The epoch that begins now; ``samplers`` are the ones given by the user, outermost first."""
        epoch = self.chosen
        if epoch is None:
            epoch = next((e for e in map(_own_epoch, samplers) if e is not None), self.previous + 1)
        self.previous, self.chosen = epoch, None
        return epoch


def _own_epoch(sampler: object) -> int | None:
    epoch = getattr(sampler, "epoch", None)
    is_epoch = isinstance(epoch, (int, np.integer)) and not isinstance(epoch, bool) and epoch >= 0
    return int(cast(int, epoch)) if is_epoch else None


def pass_epoch(samplers: Iterable[object], epoch: int) -> None:
    """Tell the epoch to every sampler that wants to know."""
    for sampler in samplers:
        set_epoch = getattr(sampler, "set_epoch", None)
        if callable(set_epoch):
            set_epoch(epoch)


def as_index_batch(batch: object) -> list[int]:
    """A batch of indices, from whatever iterable a batch sampler gives, as a new list of ints.

    Raises:
        TypeError: where there is nothing to iterate over, or something that can't index a list.
    """
    items = cast(Any, batch)
    if isinstance(batch, (torch.Tensor, np.ndarray)) and items.ndim == 1 and items.dtype in (torch.int64, np.int64):
        items = items.tolist()  # much quicker than item by item
    return [*map(operator.index, items)]


class Occurrences(Protocol):
    """Counts how often an index stood earlier in the epoch; asked batch by batch, in order."""

    def __call__(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """(B,) indices, not negative -> (B,) int64 counts."""
        ...


@dataclass(slots=True, eq=False)
class _CountedOccurrences:
    """Counts each index as it comes, in 4 bytes per sample of the dataset (untouched pages cost nothing)."""

    length: int
    seen: NDArray[np.uint32] = field(init=False)

    def __post_init__(self) -> None:
        self.seen = np.zeros(self.length, dtype=np.uint32)

    def __call__(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        order = np.argsort(indices, kind="stable")
        ordered = indices[order]
        first_of_run = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else np.empty(0, np.bool_)
        starts = np.flatnonzero(first_of_run)
        lengths = np.diff(np.append(starts, len(ordered)))
        earlier_in_batch = np.arange(len(ordered)) - np.repeat(starts, lengths)
        counts = np.empty(len(indices), dtype=np.int64)
        counts[order] = earlier_in_batch + self.seen[ordered]
        self.seen[ordered[starts]] += lengths.astype(np.uint32)
        return counts


@dataclass(slots=True, eq=False)
class _DistributedOccurrences:
    """For a plain ``DistributedSampler``, whose global order repeats a permutation of the dataset cyclically.

    Rank ``r``'s sample number ``j`` stands at ``j * num_replicas + r`` of the global order.
    """

    length: int
    num_replicas: int
    rank: int
    position: int = 0

    def __call__(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        local = np.arange(self.position, self.position + len(indices), dtype=np.int64)
        self.position += len(indices)
        return (local * self.num_replicas + self.rank) // max(self.length, 1)


@dataclass(slots=True, eq=False)
class _UniqueOccurrences:
    """For torch's samplers that give each index once."""

    def __call__(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.zeros(len(indices), dtype=np.int64)


def occurrences_for(sampler: object, length: int, dataset: object, given: bool) -> tuple[Occurrences, int | None]:
    """How to count for an epoch of ``sampler``, and the rank where it must be part of the key.

    Args:
        sampler: what gives the indices, one by one or in batches; the innermost that is known.
        length: number of samples in the dataset.
        dataset: the loader's dataset: a sampler over another one is not a plain one.
        given: whether the user gave the sampler; the loader's own are the same on every rank.
    """
    if type(sampler) is DistributedSampler:
        distributed = cast(Any, sampler)
        if distributed.dataset is dataset:
            return _DistributedOccurrences(length, distributed.num_replicas, distributed.rank), None
    occurrences = _UniqueOccurrences() if _gives_each_index_once(sampler) else _CountedOccurrences(length)
    return occurrences, _rank() if given else None


def _gives_each_index_once(sampler: Any) -> bool:
    if type(sampler) is RandomSampler:
        return not sampler.replacement and sampler.num_samples <= len(sampler.data_source)
    return type(sampler) in (SequentialSampler, SeededSampler)


def _rank() -> int | None:
    """This process's rank where there are several."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    return torch.distributed.get_rank() if torch.distributed.get_world_size() > 1 else None


@dataclass(slots=True, eq=False)
class GeneratorRewind:
    """Puts given generators back to where torch's own loader would have left them after an early end.

    Without workers torch draws indices late, one batch at a time; gpufeed draws them ahead. After each batch of indices
    the states are noted, and `rewind` restores those that belong to the last batch asked for, each unless somebody else
    has moved that generator since.

    Attributes:
        generators: the given ones, each once.
        states: one entry per note, each with one state per generator; the oldest is where torch's loader would be.
    """

    generators: tuple[torch.Generator, ...]
    states: list[tuple[torch.Tensor, ...]] = field(default_factory=list[tuple[torch.Tensor, ...]])

    def note(self) -> None:
        """A batch of indices was drawn, or refused for there being no more (the first call: before any)."""
        self.states.append(tuple(generator.get_state() for generator in self.generators))

    def asked(self) -> None:
        """The next batch was asked for: torch's loader would draw its indices now."""
        if len(self.states) > 1:
            del self.states[0]

    def rewind(self) -> None:
        """Return to the states after the last batch that was asked for."""
        if len(self.states) > 1:
            for generator, target, last in zip(self.generators, self.states[0], self.states[-1], strict=True):
                if torch.equal(generator.get_state(), last):
                    generator.set_state(target)
        self.states.clear()


def given_generators(generator: object, samplers: Iterable[object]) -> tuple[torch.Generator, ...]:
    """The loader's ``generator`` and those of its samplers, each once."""
    candidates = [generator, *(getattr(sampler, "generator", None) for sampler in samplers)]
    return tuple({id(each): each for each in candidates if isinstance(each, torch.Generator)}.values())


def unwrap(sampler: object) -> list[object]:
    """A sampler and, inside torch's own ``BatchSampler``, the one that it wraps; outermost first."""
    chain = [sampler]
    while type(chain[-1]) is BatchSampler:
        chain.append(chain[-1].sampler)
    return chain
