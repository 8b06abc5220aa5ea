"""Threads and memory end with what uses them: leaving early, closing, collecting, failing, interrupting."""

from __future__ import annotations

import gc
import os
import queue
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from contract_harness import folder
from torchvision.transforms import v2

from gpufeed import DataLoader, SampleError
from gpufeed.feed import Job
from gpufeed.stages import CpuStages

PATIENCE_S = 20.0


def own_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("gpufeed")]


def native_threads() -> set[str]:
    """The kernel's, DALI's included."""
    return set(os.listdir("/proc/self/task"))


def gone(natives: set[str]) -> bool:
    """Whether the kernel's threads end, which takes a moment longer than joining them."""
    deadline = time.monotonic() + PATIENCE_S
    while natives & native_threads() and time.monotonic() < deadline:
        os.sched_yield()
    return not natives & native_threads()


@pytest.fixture(autouse=True)
def _no_threads_are_left() -> Iterator[None]:
    """Neither by other tests before, nor by the test itself."""
    gc.collect()
    assert all_ended(own_threads())
    gc.freeze()  # what is there by now is not looked at again: collecting is quick
    yield
    gc.collect()
    gc.unfreeze()
    assert all_ended(own_threads())


def loader_of(root: Path, **arguments: Any) -> DataLoader:
    return DataLoader(folder(root), **{"batch_size": 3, "num_threads": 2, **arguments})


def all_ended(threads: list[threading.Thread]) -> bool:
    for thread in threads:
        thread.join(PATIENCE_S)
    return not any(thread.is_alive() for thread in threads)


class Gate:
    """Holds the feed's thread at the beginning of a job, until the test lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.arrived: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.let = threading.Semaphore(0)
        start = CpuStages.start

        def held(stages: CpuStages, job: Job) -> None:
            self.arrived.put(job)
            assert self.let.acquire(timeout=PATIENCE_S)
            start(stages, job)

        monkeypatch.setattr(CpuStages, "start", held)

    def wait(self) -> Job:
        return self.arrived.get(timeout=PATIENCE_S)

    def open(self) -> None:
        self.let.release(10_000)


def in_thread(function: Any) -> queue.SimpleQueue[Any]:
    """Run it on another thread; its result, or its error, comes out of the queue."""
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def run() -> None:
        try:
            results.put(function())
        except BaseException as error:
            results.put(error)

    threading.Thread(target=run, daemon=True).start()
    return results


# Close -------------------------------------------------------------------------------------------------------------


def test_close_releases_all_threads(root: Path) -> None:
    loader = loader_of(root)
    list(loader)  # what DALI and torch make once and keep
    loader.close()
    before = native_threads()
    for _ in range(2):
        assert len(list(loader)) == 6
        assert len(own_threads()) == 3
        new = native_threads() - before
        assert len(new) > 3  # DALI's too
        loader.close()
        assert own_threads() == []
        assert gone(new)
    loader.close()


def test_the_loader_is_a_context_manager(root: Path) -> None:
    with loader_of(root) as loader:
        assert type(loader) is DataLoader
        iterator = iter(loader)
        next(iterator)
        assert own_threads()
    assert own_threads() == []
    assert list(iterator) == []
    assert len(list(loader)) == 6
    loader.close()


@pytest.mark.parametrize("persistent_workers", [False, True])
def test_close_ends_a_running_epoch(root: Path, persistent_workers: bool) -> None:
    loader = loader_of(root, persistent_workers=persistent_workers)
    first, second = iter(loader), iter(loader)
    next(first)
    loader.close()
    assert own_threads() == []
    for iterator in (first, second):
        with pytest.raises(StopIteration):
            next(iterator)
    assert iter(loader) is not first
    assert len(list(loader)) == 6
    loader.close()


def test_close_while_another_thread_waits_for_a_batch(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The waiting thread is told at once, though the batch under way can't be cancelled."""
    gate = Gate(monkeypatch)
    loader = loader_of(root)
    waiting = in_thread(lambda: list(loader))
    gate.wait()
    closing = in_thread(loader.close)
    assert waiting.get(timeout=PATIENCE_S) == []
    gate.open()
    assert closing.get(timeout=PATIENCE_S) is None
    assert own_threads() == []


def test_close_by_a_collection_on_a_thread_of_the_pool(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a trainer whose ``__del__`` closes its loader is collected there."""
    from gpufeed import stages

    loader = loader_of(root)
    finish_chunk = stages._finish_chunk
    closed = threading.Event()

    def collects(*arguments: Any) -> None:
        if not closed.is_set():
            loader.close()
            closed.set()
        finish_chunk(*arguments)

    monkeypatch.setattr(stages, "_finish_chunk", collects)
    list(loader)
    assert closed.wait(PATIENCE_S)
    assert all_ended(own_threads())


# Leaving early -----------------------------------------------------------------------------------------------------


def test_no_thread_is_left_over_by_epochs_left_early(root: Path) -> None:
    loader = loader_of(root, shuffle=True)
    list(loader)
    before = native_threads()
    feeds = {thread.ident for thread in own_threads()}
    for _ in range(50):
        for _ in loader:
            break
    assert {thread.ident for thread in own_threads()} == feeds  # the same feed all the time
    assert gone(native_threads() - before)
    loader.close()


def test_an_epoch_begins_while_batches_of_the_one_before_are_under_way(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [batch[0] for batch in loader_of(root, sampler=range(15, 0, -1))]
    order: list[int] = list(range(16))
    gate = Gate(monkeypatch)
    loader = loader_of(root, sampler=order, prefetch_factor=4)
    abandoned = in_thread(lambda: next(iter(loader)))  # waits for the first batch
    stale = gate.wait()
    order[:] = range(15, 0, -1)
    iterator = iter(loader)  # gets a feed of its own, since the other epoch goes on
    batches = in_thread(lambda: list(iterator))
    gate.open()
    abandoned.get(timeout=PATIENCE_S)
    found = batches.get(timeout=PATIENCE_S)
    assert stale.indices == [0, 1, 2]
    assert len(found) == len(expected)
    for (images, _), wanted in zip(found, expected, strict=True):
        assert torch.equal(images, wanted)
    loader.close()


def test_leaving_does_not_wait_for_what_is_in_flight(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    loader = loader_of(root, prefetch_factor=3, num_workers=1, persistent_workers=True)
    iterator = iter(loader)
    stale = gate.wait()  # held, and two more are queued
    loader.collate_fn = lambda samples: [target for _, target in samples]
    assert iter(loader) is iterator  # begins anew: the jobs before are cancelled
    assert stale.cancelled
    assert stale.done.is_set()
    gate.open()
    assert sum(map(len, iterator)) == 16
    loader.close()


@pytest.mark.parametrize("how", ["loader first", "iterator first", "in a cycle"])
@pytest.mark.parametrize("taken", [0, 1, 6])
def test_collection_releases_threads(root: Path, how: str, taken: int) -> None:
    loader: Any = loader_of(root, num_workers=1)
    list(loader)
    loader.close()
    before = native_threads()
    iterator: Any = iter(loader)
    for _ in range(taken):
        next(iterator)
    threads = own_threads()
    assert threads
    new = native_threads() - before
    assert new
    if how == "loader first":
        del loader
        assert set(threads) <= set(own_threads())
        del iterator
    elif how == "iterator first":
        del iterator
        assert set(threads) <= set(own_threads())
        del loader
    else:
        cycle: list[Any] = [loader, iterator]
        cycle.append(cycle)
        del loader, iterator, cycle
        gc.collect()
    assert all_ended(threads)
    assert gone(new)


def test_an_iterator_outlives_its_loader(root: Path) -> None:
    iterator = iter(loader_of(root))
    gc.collect()
    assert len(list(iterator)) == 6


def test_without_a_cycle_nothing_needs_the_collector(root: Path, own_root: Path) -> None:
    """Iterators, batches and failed epochs go when the last reference goes, threads with the loader."""
    (own_root / "class1" / "05.jpg").write_bytes(b"")
    gc.collect()
    gc.disable()
    try:
        for source, taken in ((root, 2), (root, 6), (own_root, 6)):
            loader: Any = loader_of(source)
            iterator: Any = iter(loader)
            references = [weakref.ref(iterator), weakref.ref(loader)]
            try:
                references += [weakref.ref(next(iterator)[0]) for _ in range(taken)]
            except SampleError as error:
                references.append(weakref.ref(error))
            threads = own_threads()
            del iterator, loader
            assert all_ended(threads)
            assert [reference() for reference in references] == [None] * len(references)
    finally:
        gc.enable()


def test_a_sampler_that_fails_keeps_nothing_alive(root: Path) -> None:
    def fails() -> Iterator[int]:
        yield 1
        raise KeyError

    gc.collect()
    gc.disable()
    try:
        loader: Any = loader_of(root, sampler=fails())
        iterator = iter(loader)
        reference = weakref.ref(iterator)
        with pytest.raises(KeyError):
            list(iterator)
        threads = own_threads()
        del loader, iterator
        assert all_ended(threads)
        assert reference() is None
    finally:
        gc.enable()


def test_an_error_of_a_sampler_that_nobody_asks_for_keeps_nothing_alive(root: Path) -> None:
    def fails() -> Iterator[int]:
        yield from range(4)
        raise KeyError

    gc.collect()
    gc.disable()
    try:
        for sampler in (fails(), [0, 1, 2, 3, 99]):
            loader: Any = loader_of(root, sampler=sampler, batch_size=1, num_workers=6)
            iterator = iter(loader)
            reference = weakref.ref(iterator)
            next(iterator)
            threads = own_threads()
            del loader, iterator
            assert reference() is None
            assert all_ended(threads)
    finally:
        gc.enable()


def test_a_sampler_that_closes_the_loader(root: Path) -> None:
    def closes() -> Iterator[int]:
        yield from range(6)
        loader.close()
        yield from range(6)

    loader = loader_of(root, sampler=closes(), batch_size=4)
    assert list(loader) == []
    loader.close()


def test_another_transform_makes_another_feed_and_ends_the_old_one(root: Path) -> None:
    loader = loader_of(root)
    list(loader)
    old = own_threads()
    loader.dataset.transform = v2.Compose([v2.CenterCrop(4), v2.PILToTensor()])
    list(loader)
    assert all_ended(old)
    new = own_threads()
    assert len(new) == 3
    list(loader)
    assert own_threads() == new
    loader.close()


def test_one_feed_is_kept_of_several_iterators(root: Path) -> None:
    loader = loader_of(root)
    iterators = [iter(loader) for _ in range(3)]
    for iterator in iterators:
        next(iterator)
    feeds = [thread for thread in own_threads() if thread.name == "gpufeed-feed"]
    assert len(feeds) == 3
    for iterator in iterators:
        list(iterator)
    assert all_ended(feeds[1:])
    list(loader)
    assert [thread for thread in own_threads() if thread.name == "gpufeed-feed"] == feeds[:1]
    del iterators, iterator
    loader.close()


# Interrupts --------------------------------------------------------------------------------------------------------

OUR_FILES = {"iteration.py", "feed.py", "loader.py", "sampling.py", "threads.py", "tensors.py", "folders.py"}


class Interrupt:
    """Raises KeyboardInterrupt at the n-th line of gpufeed's that this thread runs."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        if Path(frame.f_code.co_filename).name not in OUR_FILES:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def run_epochs(loader: DataLoader) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for taken in (2, None):
        for number, (images, _) in enumerate(loader):
            found.append(images)
            if taken is not None and number == taken - 1:
                break
    return found


def count_lines(root: Path, **arguments: Any) -> int:
    counter = Interrupt(at=-1)
    loader = loader_of(root, batch_size=5, **arguments)
    before = sys.gettrace()
    sys.settrace(counter)
    try:
        run_epochs(loader)
        loader.close()
    finally:
        sys.settrace(before)
    return -counter.left


def interrupted_everywhere(root: Path, arguments: dict[str, Any], every: int) -> None:
    expected = run_epochs(loader_of(root, batch_size=5, **arguments))
    lines = count_lines(root, **arguments)
    assert lines > 200
    interrupted = 0
    for at in range(1, lines + 1, every):
        generator = torch.Generator().manual_seed(1)
        loader = loader_of(root, batch_size=5, generator=generator, **arguments)
        before = sys.gettrace()
        sys.settrace(Interrupt(at))
        try:
            run_epochs(loader)
            loader.close()
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(before)
        found = run_epochs(loader)
        assert len(found) == len(expected)
        for images, wanted in zip(found, expected, strict=True):
            assert torch.equal(images, wanted), at
        threads = own_threads()
        loader.close()
        del loader
        gc.collect()
        assert all_ended(threads), at
    assert interrupted > 0.8 * len(range(1, lines + 1, every))  # some hit a collection, which swallows them


SWALLOWED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@SWALLOWED
@pytest.mark.parametrize("arguments", [{}, {"num_workers": 1, "persistent_workers": True}])
def test_interrupts_at_some_lines(root: Path, arguments: dict[str, Any]) -> None:
    interrupted_everywhere(root, arguments, every=23)


@SWALLOWED
@pytest.mark.slow
@pytest.mark.parametrize("arguments", [{}, {"num_workers": 1, "persistent_workers": True}])
def test_interrupts_at_every_line(root: Path, arguments: dict[str, Any]) -> None:
    interrupted_everywhere(root, arguments, every=1)


def test_an_interrupt_while_waiting_for_a_batch(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    loader = loader_of(root)
    noticed = threading.Event()

    def interrupt() -> None:
        gate.wait()
        for _ in range(3):  # where it falls into a collection Python swallows it, and a person presses again
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # while it waits, or is about to
            if noticed.wait(PATIENCE_S / 5):
                return

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    iterator = iter(loader)
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    noticed.set()
    interrupter.join()
    with pytest.raises(StopIteration):
        next(iterator)
    gate.open()
    assert len(list(loader)) == 6
    loader.close()


def test_no_wait_for_a_batch_is_without_an_end(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python doesn't notice a signal that arrives just before a wait: the wait must end, and another one begin."""
    gate = Gate(monkeypatch)
    waits: list[float | None] = []
    wait = threading.Event.wait

    def counted(event: threading.Event, timeout: float | None = None) -> bool:
        if threading.current_thread() is threading.main_thread():
            waits.append(timeout)
            if len(waits) == 3:
                gate.open()
            if len(waits) < 4:
                return False
        return wait(event, timeout)

    iterator = iter(loader_of(root, num_workers=1))
    gate.wait()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Event, "wait", counted)
        next(iterator)
    assert len(waits) > 3
    assert all(timeout is not None and timeout <= 1 for timeout in waits)
