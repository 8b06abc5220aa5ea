"""Orders of indices: torch's samplers, asked on the iterating thread, and what gpufeed counts along the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from typing import Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DistributedSampler, RandomSampler, SequentialSampler

__all__ = [
    "EpochCounter",
    "GeneratorRewind",
    "Occurrences",
    "SeededSampler",
    "as_index",
    "as_index_batch",
    "occurrences_for",
    "pass_epoch",
    "unwrap",
]


class SeededSampler(RandomSampler):
    """A shuffled order that is a pure function of (seed, epoch).

    It is `DistributedSampler`'s: ``torch.randperm`` under a generator seeded with ``seed + epoch``. No generator outside
    is read or moved. A subclass of ``RandomSampler``, so that frameworks see that the order is shuffled.
    """

    def __init__(self, data_source: Sized, seed: int) -> None:
        super().__init__(data_source)
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next `__iter__`."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator()
        generator.manual_seed(self.seed + self.epoch)
        yield from cast("list[int]", torch.randperm(len(self.data_source), generator=generator).tolist())


@dataclass(slots=True)
class EpochCounter:
    """Which epoch the next ``iter()`` is.

    ``set_epoch`` since the last ``iter()`` decides, else a given sampler's own integer ``epoch``, else the previous epoch + 1;
    the first is 0.
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
    return epoch if isinstance(epoch, int) and not isinstance(epoch, bool) and epoch >= 0 else None


def pass_epoch(samplers: Iterable[object], epoch: int) -> None:
    """Tell the epoch to every sampler that wants to know."""
    for sampler in samplers:
        set_epoch = getattr(sampler, "set_epoch", None)
        if callable(set_epoch):
            set_epoch(epoch)


class _Indexable(Protocol):
    def __index__(self) -> int: ...


def as_index(index: object) -> int:
    """An index as an int: Python's, NumPy's and tensor scalars alike; anything else raises ``TypeError`` as in a list."""
    if not hasattr(index, "__index__"):
        raise TypeError(f"indices from a sampler must be integers, got {index!r} ({type(index).__name__})")
    return cast("_Indexable", index).__index__()


def as_index_batch(batch: object) -> list[int]:
    """A batch of indices, from whatever iterable a batch sampler gives, as a list of ints."""
    if isinstance(batch, (torch.Tensor, np.ndarray)):
        return [as_index(index) for index in batch.reshape(-1).tolist()] if batch.ndim == 1 else [as_index(batch)]
    if not isinstance(batch, Iterable):
        raise TypeError(f"a batch sampler must give batches of indices, got {batch!r} ({type(batch).__name__})")
    return [as_index(index) for index in cast("Iterable[object]", batch)]


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


def occurrences_for(sampler: object, length: int, dataset: object) -> tuple[Occurrences, int | None]:
    """How to count for an epoch of ``sampler``, and the rank where it must be part of the key.

    Args:
        sampler: what gives the indices, one by one or in batches; the innermost that is known.
        length: number of samples in the dataset.
        dataset: the loader's dataset: a sampler over another one is not a plain one.
    """
    if type(sampler) is DistributedSampler and cast("DistributedSampler[object]", sampler).dataset is dataset:
        distributed = cast("DistributedSampler[object]", sampler)
        return _DistributedOccurrences(length, distributed.num_replicas, distributed.rank), None
    rank = None
    if (
        torch.distributed.is_available()
        and torch.distributed.is_initialized()
        and torch.distributed.get_world_size() > 1
    ):
        rank = torch.distributed.get_rank()
    if type(sampler) is SeededSampler or type(sampler) is SequentialSampler:
        return _UniqueOccurrences(), None if type(sampler) is SeededSampler else rank
    if type(sampler) is RandomSampler and not sampler.replacement and sampler.num_samples <= length:
        return _UniqueOccurrences(), rank
    return _CountedOccurrences(length), rank


@dataclass(slots=True, eq=False)
class GeneratorRewind:
    """Puts a given ``generator`` back to where torch's own loader would have left it after an early end.

    Without workers torch draws indices late, one batch at a time; gpufeed draws them ahead. After each batch of indices
    the state is noted, and `rewind` restores the one that belongs to the last batch handed over, unless somebody else has
    moved the generator since.
    """

    generator: torch.Generator
    states: list[torch.Tensor] = field(default_factory=list[torch.Tensor])

    def note(self) -> None:
        """A batch of indices was drawn (the first call: before any)."""
        self.states.append(self.generator.get_state())

    def handed_over(self) -> None:
        """The oldest batch drawn was handed over; its state is now the one to return to."""
        if len(self.states) > 1:
            del self.states[0]

    def rewind(self) -> None:
        """Return to the state after the last batch that was handed over."""
        if len(self.states) > 1 and torch.equal(self.generator.get_state(), self.states[-1]):
            self.generator.set_state(self.states[0])
        self.states.clear()


def unwrap(sampler: object) -> list[object]:
    """A sampler and, inside torch's own ``BatchSampler``, the one that it wraps; outermost first."""
    chain = [sampler]
    while type(chain[-1]) is torch.utils.data.BatchSampler:
        chain.append(chain[-1].sampler)
    return chain
