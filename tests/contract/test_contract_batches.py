"""Batches of indices from anywhere: batch samplers of every kind, indices of every type, in range and out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from contract_harness import CONTRACT, Case, assert_contract, folder
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, ConcatDataset, RandomSampler, SequentialSampler, Subset

import gpufeed


def collate_rows(samples: list[tuple[torch.Tensor, int]]) -> tuple[int, list[int], list[int]]:
    """Works for any batch, an empty one too."""
    return len(samples), [int(image.sum()) for image, _ in samples], [target for _, target in samples]


class Reuses:
    """Gives the same list object again and again, with other indices in it."""

    def __iter__(self) -> Iterator[list[int]]:
        batch = [0, 0]
        for index in range(6):
            batch[:] = [index, index + 1]
            yield batch

    def __len__(self) -> int:
        return 6


class OldSequence:
    """Iterable by ``__getitem__`` alone."""

    def __getitem__(self, position: int) -> list[int]:
        if position >= 3:
            raise IndexError
        return [position, position + 5]

    def __len__(self) -> int:
        return 3


BATCH_SAMPLERS: dict[str, Callable[[], Any]] = {
    "lists of varying sizes": lambda: [[0, 1], [5], [3, 2, 1, 0, 7, 7, 7], [4, 4]],
    "tuples": lambda: [(0, 1), (2, 3), (4,)],
    "arrays": lambda: [np.array([3, 1]), np.array([2], dtype=np.uint8), np.array([-1, 0], dtype=np.int32)],
    "tensors": lambda: torch.arange(12).view(4, 3),
    "small tensors": lambda: [torch.tensor([1, 2], dtype=torch.int32), torch.tensor([3], dtype=torch.uint8)],
    "column tensors": lambda: [torch.tensor([[1], [2]])],
    "sets and ranges": lambda: [{4}, range(3), {2: "two", 1: "one"}],
    "generators": lambda: [(index for index in (6, 5)), iter([1])],
    "scalars in lists": lambda: [[np.int64(2), torch.tensor(3), True]],
    "negative": lambda: [[-1, -16], [-2]],
    "old sequence": OldSequence,
    "BatchSampler": lambda: BatchSampler(RandomSampler(range(9), generator=torch.Generator().manual_seed(1)), 4, False),
    "BatchSampler of BatchSampler's kind": lambda: BatchSampler(SequentialSampler(range(9)), 4, True),
    "nothing": list,
}


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("kind", sorted(BATCH_SAMPLERS))
def test_batch_samplers(root: Path, kind: str, num_workers: int) -> None:
    def arguments() -> dict[str, Any]:
        return {"dataset": folder(root), "batch_sampler": BATCH_SAMPLERS[kind](), "num_workers": num_workers}

    events = assert_contract(Case(arguments, (None, 1, None)))
    assert any(name.startswith("batch") for name, _ in events) == (kind != "nothing")


def test_a_batch_sampler_that_gives_the_same_list_again_and_again(root: Path) -> None:
    assert_contract(Case(lambda: {"dataset": folder(root), "batch_sampler": Reuses()}, (None, 1, None)))


@settings(CONTRACT, max_examples=60)
@given(
    batches=st.lists(st.lists(st.integers(-16, 15), max_size=6), max_size=6),
    generator=st.sampled_from([None, 11]),
    num_workers=st.sampled_from([0, 1]),
    epochs=st.lists(st.sampled_from([None, 1, 2]), min_size=1, max_size=2),
)
def test_any_batches_of_indices(
    root: Path, batches: list[list[int]], generator: int | None, num_workers: int, epochs: list[int | None]
) -> None:
    def arguments() -> dict[str, Any]:
        return {
            "dataset": folder(root),
            "batch_sampler": batches,
            "collate_fn": collate_rows,
            "num_workers": num_workers,
            "generator": None if generator is None else torch.Generator().manual_seed(generator),
        }

    assert_contract(Case(arguments, tuple(epochs)))


def test_an_empty_batch_fails_as_in_torch_where_the_collate_fn_fails(root: Path) -> None:
    case = Case(lambda: {"dataset": folder(root), "batch_sampler": [[1], [], [2]]}, (None,))
    events = assert_contract(case)
    assert [name for name, _ in events if "error" in name] == ["error 0"]


BAD_INDICES: dict[str, Any] = {
    "past the end": [0, 16],
    "before the beginning": [0, -17],
    "far past the end": [2**70],
    "float": [0, 1.0],
    "NumPy float": [np.float64(2.0)],
    "NumPy bool": np.array([True]),
    "string": ["1"],
    "None": [None],
    "list": [[1, 2]],
}


@pytest.mark.parametrize("nested", [False, True, "twice"])
@pytest.mark.parametrize("kind", sorted(BAD_INDICES))
@pytest.mark.parametrize("batch_size", [1, 2, None])
def test_bad_indices_raise_in_their_turn(root: Path, kind: str, batch_size: int | None, nested: bool | str) -> None:
    def arguments() -> dict[str, Any]:
        dataset: Any = folder(root)
        if nested == "twice":
            dataset = Subset(ConcatDataset([Subset(dataset, range(10)), Subset(dataset, range(10, 16))]), range(16))
        elif nested:
            dataset = ConcatDataset([Subset(dataset, range(10)), Subset(dataset, range(10, 16))])
        return {"dataset": dataset, "sampler": [3, 5, *BAD_INDICES[kind]], "batch_size": batch_size}

    events = assert_contract(Case(arguments, (None, None)))
    assert [name for name, _ in events if "error" in name] == ["error 0", "error 1"]
    assert any(name == "batch 0:0" for name, _ in events)


@pytest.mark.parametrize("bad", [3, 2.5, None, np.array(3), torch.tensor(3)])
def test_batches_that_are_none(root: Path, bad: Any) -> None:
    events = assert_contract(Case(lambda: {"dataset": folder(root), "batch_sampler": [[1], bad, [2]]}, (None,)))
    assert [name for name, _ in events if "error" in name] == ["error 0"]


class Raises:
    def __init__(self, at: int) -> None:
        self.at = at
        self.generator = torch.Generator().manual_seed(1)

    def __iter__(self) -> Iterator[int]:
        for number in range(10):
            if number == self.at:
                raise KeyError(number)
            yield int(torch.randint(16, (), generator=self.generator))

    def __len__(self) -> int:
        return 10


@pytest.mark.parametrize("at", [0, 1, 4, 9])
def test_a_sampler_that_raises(root: Path, at: int) -> None:
    case = Case(lambda: {"dataset": folder(root), "sampler": Raises(at), "batch_size": 2}, (None, None))
    events = assert_contract(case)
    assert [name for name, _ in events if "error" in name] == ["error 0", "error 1"]


def test_a_sampler_that_raises_waits_for_its_turn_with_workers_too(root: Path) -> None:
    """An exception to the contract: torch raises as soon as it draws ahead, before the first batch."""
    loader = gpufeed.DataLoader(folder(root), sampler=Raises(5), batch_size=2, num_workers=2)
    iterator = iter(loader)
    for _ in range(2):
        next(iterator)
    with pytest.raises(KeyError):
        next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)


class Late:
    """Draws one index at a time from its generator; the fourth is out of range."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(1)

    def __iter__(self) -> Iterator[int]:
        for number in range(20):
            index = int(torch.randint(16, (), generator=self.generator))
            yield 99 if number == 3 else index

    def __len__(self) -> int:
        return 20


@pytest.mark.parametrize("num_workers", [0, 1, 2])
@pytest.mark.parametrize("batch_size", [1, 2, None])
def test_generators_after_a_bad_index(root: Path, batch_size: int | None, num_workers: int) -> None:
    def arguments() -> dict[str, Any]:
        return {"dataset": folder(root), "sampler": Late(), "batch_size": batch_size, "num_workers": num_workers}

    events = assert_contract(Case(arguments, (None, None)))
    assert [name for name, _ in events if "error" in name] == ["error 0", "error 1"]


class NoIteration:
    def __iter__(self) -> Iterator[int]:
        raise KeyError("no order today")

    def __len__(self) -> int:
        return 3


@pytest.mark.parametrize("which", ["sampler", "batch_sampler"])
@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_sampler_whose_iter_raises(root: Path, which: str, num_workers: int) -> None:
    given: dict[str, Any] = {which: NoIteration()}
    if which == "sampler":
        given["batch_size"] = None
    assert_contract(Case(lambda: {"dataset": folder(root), "num_workers": num_workers, **given}, (None, None)))
