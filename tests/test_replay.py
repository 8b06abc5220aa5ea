"""`gpufeed.replay`: which batches come, how often, and what is the loader's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import TensorDataset

from gpufeed import ArgumentError, PrefetchLoader, replay


def torch_loader(count: int = 14, **arguments: Any) -> TorchDataLoader[Any]:
    return TorchDataLoader(TensorDataset(torch.arange(count)), **{"batch_size": 4, **arguments})


def endless() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1


def test_an_epoch_repeats_the_first_batches_as_often_as_the_loader_has_batches() -> None:
    loader = torch_loader(count=28)
    replayed = replay(loader, batches=3)
    first, second = list(replayed), list(replayed)
    assert len(replayed) == len(loader) == len(first) == 7
    assert [batch[0].tolist() for batch in first[:3]] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert [id(batch) for batch in first] == [id(replayed.batches[number % 3]) for number in range(7)]
    assert [id(batch) for batch in second] == [id(batch) for batch in first]


def test_the_loader_is_asked_once_and_for_no_more_than_is_kept() -> None:
    numbers = endless()
    replayed = replay(numbers, batches=4)
    assert list(islice(replayed, 10)) == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert list(islice(replayed, 2)) == [0, 1]
    assert next(numbers) == 4


def test_without_a_length_there_is_no_end() -> None:
    replayed = replay(endless(), batches=2)
    with pytest.raises(TypeError):
        len(replayed)
    assert replayed
    assert sum(1 for _ in islice(replayed, 1000)) == 1000


def test_a_loader_with_fewer_batches_gives_what_it_has() -> None:
    replayed = replay(torch_loader())
    assert len(replayed.batches) == 4
    assert [len(batch[0]) for batch in replayed] == [4, 4, 4, 2]


def test_other_attributes_are_the_loaders() -> None:
    loader = torch_loader()
    replayed = replay(loader, batches=1)
    assert replayed.dataset is loader.dataset
    assert replayed.batch_size == 4
    assert replayed.sampler is loader.sampler
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = replayed.colour


def test_of_a_prefetching_loader() -> None:
    with PrefetchLoader(torch_loader(), depth=2) as loader:
        replayed = replay(loader, batches=2)
        assert [batch[0].tolist() for batch in replayed] == 2 * [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("batches", [0, -1, True, 2.0, "3"])
def test_a_wrong_number_of_batches(batches: Any) -> None:
    with pytest.raises(ArgumentError, match=r"batches must be an integer of at least 1, got"):
        replay(torch_loader(), batches)


def test_nothing_to_replay() -> None:
    with pytest.raises(ArgumentError, match=r"DataLoader has no batch to replay; look at its dataset and drop_last"):
        replay(torch_loader(count=3, drop_last=True))
    with pytest.raises(ArgumentError, match="loader must be an iterable of batches, got 3"):
        replay(3)


def test_an_error_of_the_loader_passes() -> None:
    def fails() -> Iterator[int]:
        yield 1
        raise KeyError("shard 7")

    with pytest.raises(KeyError, match="shard 7"):
        replay(fails())
    assert list(islice(replay(fails(), batches=1), 3)) == [1, 1, 1]
