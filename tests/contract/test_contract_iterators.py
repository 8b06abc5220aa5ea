"""Iterators: several at once, the same one again, left early, and after errors."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from contract_harness import CONTRACT, Case, ModelledWorkers, assert_contract, assert_same, folder
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader as TorchDataLoader

from gpufeed import DataLoader, GpufeedError

Steps = Sequence[tuple[str, int]]


def interleave(loader_class: type, arguments: dict[str, Any], steps: Steps) -> list[tuple[str, Any]]:
    """Open, advance and drop up to three iterators of one loader, in the order of ``steps``."""
    torch.manual_seed(5)
    loader = loader_class(**arguments)
    live: dict[int, Any] = {}
    events: list[tuple[str, Any]] = []
    for action, number in steps:
        if action == "open":
            live[number] = iter(loader)
        elif action == "drop":
            live.pop(number, None)
        elif number in live:
            events.append((f"next {number}", next(live[number], None)))
        events.append(("global generator", torch.get_rng_state()))
        if arguments.get("generator") is not None and arguments.get("num_workers"):
            events.append(("generator", arguments["generator"].get_state()))
    return events


@settings(CONTRACT, max_examples=60)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["open", "next", "next", "next", "drop"]), st.integers(0, 2)), min_size=4, max_size=30
    ),
    batch_size=st.sampled_from([1, 3, 8, None]),
    shuffle=st.booleans(),
    num_workers=st.sampled_from([0, 2]),
    generator=st.booleans(),
)
def test_several_iterators_at_once(
    root: Path, steps: Steps, batch_size: int | None, shuffle: bool, num_workers: int, generator: bool
) -> None:
    def arguments() -> dict[str, Any]:
        return {
            "dataset": folder(root, 7),
            "batch_size": batch_size,
            "shuffle": shuffle,
            "num_workers": num_workers,
            # Without workers iterators that share a generator draw from it at other moments: a listed exception.
            "generator": torch.Generator().manual_seed(9) if generator and num_workers else None,
        }

    assert_same(interleave(ModelledWorkers, arguments(), steps), interleave(DataLoader, arguments(), steps))


def test_zip_of_a_loader_with_itself(root: Path) -> None:
    """``zip`` calls both ``iter`` first: without workers torch's samplers are then seeded at the first ``next``."""

    def run(loader_class: type) -> list[list[torch.Tensor]]:
        torch.manual_seed(3)
        loader = loader_class(folder(root), batch_size=4, shuffle=True)
        return [[first[0], second[0]] for first, second in zip(loader, loader, strict=True)]

    for theirs, ours in zip(run(TorchDataLoader), run(DataLoader), strict=True):
        assert torch.equal(ours[0], theirs[0])
        assert torch.equal(ours[1], theirs[1])
        assert not torch.equal(ours[0], ours[1])


def test_nothing_is_drawn_before_the_first_next_without_workers(root: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    loader = DataLoader(folder(root), batch_size=4, shuffle=True, generator=generator)
    iterator = iter(loader)
    one_number = torch.Generator().manual_seed(1)
    torch.empty((), dtype=torch.int64).random_(generator=one_number)  # the base seed
    assert torch.equal(generator.get_state(), one_number.get_state())
    del iterator
    assert torch.equal(generator.get_state(), one_number.get_state())


def test_drawn_ahead_without_workers_is_put_back_on_leaving(root: Path) -> None:
    """The listed exception: while an epoch runs, a given generator may be ahead; afterwards it is where torch's is."""

    def run(loader_class: type) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(1)
        sampler = torch.utils.data.RandomSampler(range(16), True, 96, generator=generator)
        iterator = iter(loader_class(folder(root), batch_size=15, sampler=sampler))
        for _ in range(2):
            next(iterator)
        during = generator.get_state()
        del iterator
        return during, generator.get_state()

    (their_during, their_after), (our_during, our_after) = run(TorchDataLoader), run(DataLoader)
    assert torch.equal(their_during, their_after)
    assert not torch.equal(our_during, our_after)
    assert torch.equal(our_after, their_after)


def test_a_generator_that_somebody_else_has_moved_is_left_alone(root: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    loader = DataLoader(folder(root), batch_size=8, shuffle=True, generator=generator)
    iterator = iter(loader)
    next(iterator)
    torch.rand(1, generator=generator)
    moved = generator.get_state()
    del iterator
    assert torch.equal(generator.get_state(), moved)


def test_two_loaders_share_a_generator(root: Path) -> None:
    def run(loader_class: type) -> list[Any]:
        generator = torch.Generator().manual_seed(1)
        loaders = [loader_class(folder(root), batch_size=5, shuffle=True, generator=generator) for _ in range(2)]
        targets: list[Any] = []
        for _ in range(2):
            for batch in loaders[0]:
                targets.append(batch)
                if len(targets) % 2:
                    break
            targets.extend(loaders[1])
        return [*targets, generator.get_state()]

    theirs, ours = run(TorchDataLoader), run(DataLoader)
    assert_same([("batch", each) for each in theirs], [("batch", each) for each in ours])


# The same iterator again -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_workers", [0, 2])
def test_persistent_workers_give_the_same_iterator(root: Path, num_workers: int) -> None:
    loader = DataLoader(folder(root), batch_size=3, shuffle=True, num_workers=num_workers, persistent_workers=True)
    first = iter(loader)
    batches = list(first)
    assert len(batches) == 6
    assert iter(loader) is first
    assert len(list(first)) == 6
    assert list(first) == []


@pytest.mark.parametrize("taken", [0, 1, 3, 6])
def test_a_persistent_iterator_begins_anew_in_the_middle(root: Path, taken: int) -> None:
    def run(loader_class: type) -> list[tuple[str, Any]]:
        torch.manual_seed(2)
        generator = torch.Generator().manual_seed(1)
        loader = loader_class(
            folder(root), batch_size=3, shuffle=True, num_workers=1, persistent_workers=True, generator=generator
        )
        events: list[tuple[str, Any]] = []
        for _ in range(3):
            iterator = iter(loader)
            events += [("batch", next(iterator)) for _ in range(taken)]
            events.append(("generator", generator.get_state()))
        events += [("batch", batch) for batch in loader]
        return events

    assert_same(run(ModelledWorkers), run(DataLoader))


def test_without_persistent_workers_each_iterator_is_new(root: Path) -> None:
    loader = DataLoader(folder(root), batch_size=8)
    assert iter(loader) is not iter(loader)


# Left early, used up, failed ---------------------------------------------------------------------------------------


def test_a_finished_iterator_stays_finished(root: Path) -> None:
    iterator = iter(DataLoader(folder(root), batch_size=8))
    assert len(list(iterator)) == 2
    assert list(iterator) == []
    with pytest.raises(StopIteration):
        next(iterator)


def test_after_an_error_the_iterator_is_finished_and_the_loader_usable(root: Path) -> None:
    """The iterator is a listed exception: torch's without workers goes on with the next batch."""
    calls: list[int] = []

    def fails_once(samples: list[Any]) -> int:
        calls.append(len(samples))
        if len(calls) == 2:
            raise ValueError("the second")
        return len(samples)

    loader = DataLoader(folder(root), batch_size=5, collate_fn=fails_once)
    iterator = iter(loader)
    assert next(iterator) == 5
    with pytest.raises(ValueError, match="the second"):
        next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)
    assert list(loader) == [5, 5, 5, 1]


def test_many_epochs_left_early(root: Path) -> None:
    assert_contract(Case(lambda: {"dataset": folder(root), "batch_size": 2, "shuffle": True}, (*range(8), *range(8))))


def test_an_iterator_cannot_be_pickled_or_copied(root: Path) -> None:
    """As in torch."""
    for loader_class in (TorchDataLoader, DataLoader):
        iterator = iter(loader_class(folder(root)))
        with pytest.raises(NotImplementedError):
            pickle.dumps(iterator)
        with pytest.raises(NotImplementedError):
            copy.copy(iterator)


# Batches belong to the caller --------------------------------------------------------------------------------------


def test_a_batch_never_changes_after_it_is_handed_over(root: Path) -> None:
    loader = DataLoader(folder(root), batch_size=4, prefetch_factor=3)
    kept = [(batch, batch[0].clone()) for _ in range(4) for batch in loader]
    for batch, copied in kept:
        assert torch.equal(batch[0], copied)


def test_a_view_keeps_its_batch(root: Path) -> None:
    loader = DataLoader(folder(root), batch_size=4)
    views = [(batch[0][1, 0, 2:], batch[0][1, 0, 2:].clone()) for batch in loader]
    arrays = [(batch[0].numpy()[2], batch[0].numpy()[2].copy()) for batch in loader]
    gc.collect()
    for _ in range(3):
        for _ in loader:
            pass
    for view, copied in views:
        assert torch.equal(view, copied)
    for view, copied in arrays:
        assert (view == copied).all()


def test_batches_may_be_written_to(root: Path) -> None:
    loader = DataLoader(folder(root), batch_size=4, collate_fn=None)
    for images, targets in loader:
        images.zero_()
        targets.add_(1)
    first = next(iter(loader))
    assert first[0].any()
    assert first[1].tolist() == [0, 0, 0, 0]


def test_memory_is_used_again(root: Path) -> None:
    """Where nothing refers to a batch any more; the same few buffers serve an epoch."""
    loader = DataLoader(folder(root), batch_size=1, prefetch_factor=1, num_threads=1)
    places = {images.data_ptr() for _ in range(4) for images, _ in loader}
    assert len(places) < 16


def test_torch_keeps_its_own_number_of_threads(root: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        for _ in DataLoader(folder(root), batch_size=8, num_threads=2):
            assert torch.get_num_threads() == 3
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_timeout(root: Path) -> None:
    """An exception: without workers torch refuses a timeout."""
    batches = list(DataLoader(folder(root), batch_size=8, timeout=100))
    assert len(batches) == 2


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_batch_that_takes_longer_than_the_timeout(
    root: Path, monkeypatch: pytest.MonkeyPatch, num_workers: int
) -> None:
    import threading

    from gpufeed import FeedTimeoutError
    from gpufeed.stages import CpuStages

    go_on = threading.Event()
    start = CpuStages.start

    def slow(self: CpuStages, job: Any) -> None:
        go_on.wait()
        start(self, job)

    loader = DataLoader(folder(root), batch_size=8, timeout=0.01, num_workers=num_workers)
    with monkeypatch.context() as patch:
        patch.setattr(CpuStages, "start", slow)
        iterator = iter(loader)
        with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.01 seconds") as caught:
            next(iterator)
        assert isinstance(caught.value, FeedTimeoutError)
        assert isinstance(caught.value, GpufeedError)
        assert "class0" in str(caught.value)  # the first file of the batch
        with pytest.raises(StopIteration):
            next(iterator)
        go_on.set()
        loader.close()
    loader.timeout = 0
    assert len(list(loader)) == 2
