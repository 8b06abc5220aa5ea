"""The same arguments give what torch's own loader gives: batches, order, length, and generators afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from contract_harness import CONTRACT, Case, assert_contract, folder
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import (
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torchvision.datasets import ImageFolder

SIZES = (0, 1, 2, 5, 7, 8, 16)
BATCH_SIZES = (1, 2, 3, 5, 8, 16, 20)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Eager(Sampler[int]):
    """Draws from torch's global generator in ``__iter__`` already, as many samplers in the wild do."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(self.size).tolist())

    def __len__(self) -> int:
        return self.size


class Late(Sampler[int]):
    """Draws one index at a time from its own generator, and once more at the end."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.generator = seeded(3)

    def __iter__(self) -> Iterator[int]:
        for _ in range(self.size):
            yield int(torch.randint(self.size, (), generator=self.generator))
        torch.rand(1, generator=self.generator)

    def __len__(self) -> int:
        return self.size


SAMPLERS: dict[str, Callable[[ImageFolder], Any]] = {
    "sequential": SequentialSampler,
    "random": RandomSampler,
    "random with generator": lambda dataset: RandomSampler(dataset, generator=seeded(1)),
    "with replacement": lambda dataset: RandomSampler(dataset, replacement=True, num_samples=3 * len(dataset)),
    "with replacement and generator": lambda dataset: RandomSampler(dataset, True, 70, generator=seeded(2)),
    "more than once": lambda dataset: RandomSampler(dataset, num_samples=len(dataset) + 3),
    "subset": lambda dataset: SubsetRandomSampler(range(len(dataset) // 2), generator=seeded(4)),
    "subset, global": lambda dataset: SubsetRandomSampler(range(len(dataset) // 2)),
    "weighted": lambda dataset: WeightedRandomSampler([1.0 + i for i in range(len(dataset))], 11, generator=seeded(5)),
    "weighted, global": lambda dataset: WeightedRandomSampler([1.0] * len(dataset), 11),
    "distributed": lambda dataset: DistributedSampler(dataset, num_replicas=3, rank=1),
    "distributed, in order": lambda dataset: DistributedSampler(dataset, 2, 1, shuffle=False, drop_last=True),
    "list": lambda dataset: [0, len(dataset) - 1, 0, -1, -len(dataset), 0],
    "range": lambda dataset: range(len(dataset) - 1, -1, -2),
    "array": lambda dataset: np.arange(len(dataset))[::-1],
    "tensor": lambda dataset: torch.arange(len(dataset)),
    "numpy scalars": lambda dataset: [np.int32(0), np.uint8(len(dataset) - 1), np.int64(-1)],
    "tensor scalars": lambda dataset: [torch.tensor(0), torch.tensor([len(dataset) - 1])],
    "eager": lambda dataset: Eager(len(dataset)),
    "late": lambda dataset: Late(len(dataset)),
}


@st.composite
def plans(draw: st.DrawFn) -> tuple[int | None, ...]:
    """How far to go in each of up to three epochs."""
    return tuple(draw(st.lists(st.sampled_from([None, None, 0, 1, 2, 3]), min_size=1, max_size=3)))


workers = st.sampled_from([0, 0, 0, 1, 2])


@settings(CONTRACT, max_examples=150)
@given(
    count=st.sampled_from(SIZES),
    batch_size=st.sampled_from((*BATCH_SIZES, None)),
    drop_last=st.booleans(),
    shuffle=st.sampled_from([None, False, True]),
    generator=st.sampled_from([None, 11]),
    num_workers=workers,
    prefetch_factor=st.sampled_from([None, 1, 3]),
    persistent=st.booleans(),
    epochs=plans(),
)
def test_default_order(
    root: Path,
    count: int,
    batch_size: int | None,
    drop_last: bool,
    shuffle: bool | None,
    generator: int | None,
    num_workers: int,
    prefetch_factor: int | None,
    persistent: bool,
    epochs: tuple[int | None, ...],
) -> None:
    both = {"num_workers": num_workers}
    ours = {"prefetch_factor": prefetch_factor}
    if num_workers > 0:
        both |= {"prefetch_factor": prefetch_factor, "persistent_workers": persistent}
        ours = {}

    def arguments() -> dict[str, Any]:
        return {
            "dataset": folder(root, count),
            "batch_size": batch_size,
            "shuffle": shuffle,
            "drop_last": drop_last,
            "generator": None if generator is None else seeded(generator),
            **both,
        }

    assert_contract(Case(arguments, epochs, ours))


@settings(CONTRACT, max_examples=150)
@given(
    kind=st.sampled_from(sorted(SAMPLERS)),
    count=st.sampled_from([2, 5, 8, 16]),
    batch_size=st.sampled_from((*BATCH_SIZES, None)),
    drop_last=st.booleans(),
    generator=st.sampled_from([None, 11]),
    num_workers=workers,
    prefetch_factor=st.sampled_from([None, 1, 3]),
    epochs=plans(),
)
def test_given_sampler(
    root: Path,
    kind: str,
    count: int,
    batch_size: int | None,
    drop_last: bool,
    generator: int | None,
    num_workers: int,
    prefetch_factor: int | None,
    epochs: tuple[int | None, ...],
) -> None:
    def arguments() -> dict[str, Any]:
        dataset = folder(root, count)
        return {
            "dataset": dataset,
            "batch_size": batch_size,
            "sampler": SAMPLERS[kind](dataset),
            "drop_last": drop_last and batch_size is not None,
            "generator": None if generator is None else seeded(generator),
            "num_workers": num_workers,
            **({"prefetch_factor": prefetch_factor} if num_workers else {}),
        }

    assert_contract(Case(arguments, epochs, {} if num_workers else {"prefetch_factor": prefetch_factor}))
