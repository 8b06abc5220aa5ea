"""torch's real worker processes, where the other tests model them: few cases, since they are slow to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from contract_harness import Case, ModelledWorkers, assert_same, folder, trace
from torch.utils.data import BatchSampler, RandomSampler, Sampler
from torch.utils.data import DataLoader as TorchDataLoader

from gpufeed import DataLoader

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create 2 worker processes"),  # on a machine with one CPU
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),  # from Python 3.12 on
]


class Eager(Sampler[int]):
    """Draws in ``__iter__``, which torch's loader calls twice for the first epoch with workers."""

    calls = 0

    def __iter__(self) -> Iterator[int]:
        type(self).calls += 1
        return iter(torch.randperm(16).tolist())

    def __len__(self) -> int:
        return 16


CASES: dict[str, dict[str, Any]] = {
    "shuffled": {"batch_size": 3, "shuffle": True},
    "generator": {"batch_size": 3, "shuffle": True, "generator": 5},
    "with replacement": {"batch_size": 3, "sampler": lambda: RandomSampler(range(16), True, 50), "generator": 5},
    "no batches": {"batch_size": None, "shuffle": True, "generator": 5},
    "eager": {"batch_size": None, "sampler": Eager},
    "drop_last": {"batch_size": 5, "drop_last": True, "shuffle": True, "generator": 5},
    "few": {"batch_size": 10, "shuffle": True, "generator": 5, "prefetch_factor": 4},
    "batch_sampler": {"batch_sampler": lambda: BatchSampler(RandomSampler(range(16)), 4, False), "generator": 5},
    "persistent": {"batch_size": 4, "shuffle": True, "generator": 5, "persistent_workers": True},
}


def arguments_of(root: Path, kind: str) -> dict[str, Any]:
    given = dict(CASES[kind])
    for name in ("sampler", "batch_sampler"):
        if name in given:
            given[name] = given[name]()
    if "generator" in given:
        given["generator"] = torch.Generator().manual_seed(given["generator"])
    return {"dataset": folder(root), "num_workers": 2, **given}


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(CASES))
def test_real_workers_the_model_of_them_and_gpufeed_agree(root: Path, kind: str) -> None:
    case = Case(lambda: arguments_of(root, kind), (None, 1, None))
    theirs = trace(TorchDataLoader, case)
    assert sum(name.startswith("batch") for name, _ in theirs) > 3
    assert_same(theirs, trace(ModelledWorkers, case))
    assert_same(theirs, trace(DataLoader, case))


def test_the_sampler_is_asked_for_an_iterator_as_often_as_in_torch(root: Path) -> None:
    def calls(loader_class: type, num_workers: int) -> int:
        Eager.calls = 0
        torch.manual_seed(1)
        for _ in range(2):
            list(loader_class(folder(root), batch_size=None, sampler=Eager(), num_workers=num_workers))
        return Eager.calls

    assert calls(DataLoader, 0) == calls(TorchDataLoader, 0) == 2
    assert calls(DataLoader, 1) == calls(ModelledWorkers, 1) == 4
