"""`gpufeed.PrefetchLoader`: the loader's batches in its order, ahead of the consumer, and how it ends."""

from __future__ import annotations

import gc
import linecache
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import DistributedSampler, TensorDataset
from torchvision import tv_tensors

import gpufeed
from gpufeed import ArgumentError, LoaderStats, PrefetchLoader, UnsupportedError

PATIENCE_S = 30.0


class Held:
    """A loader of numbered batches that makes one only when the test lets it, and writes down what is done with it.

    Each epoch's batches are ``(epoch, number)``.
    """

    def __init__(self, count: int = 6, open_for: int = 0) -> None:
        self.count = count
        self.let = threading.Semaphore(open_for)
        self.asked: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        self.closed: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.epochs = 0
        self.at_work = 0
        self.overlaps = 0
        self.taken = 0
        self.most_ahead = 0
        self.threads: list[str] = []

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[tuple[int, int]]:
        epoch = self.epochs
        self.epochs += 1
        self.threads.append(threading.current_thread().name)
        return self.batches(epoch)

    def batches(self, epoch: int) -> Iterator[tuple[int, int]]:
        try:
            for number in range(self.count):
                self.at_work += 1
                self.overlaps += self.at_work > 1
                self.most_ahead = max(self.most_ahead, number + 1 - self.taken)
                self.asked.put((epoch, number))
                assert self.let.acquire(timeout=PATIENCE_S)
                self.at_work -= 1
                yield epoch, number
        finally:
            self.closed.put(epoch)

    def wait_asked(self, count: int) -> list[tuple[int, int]]:
        """Wait until so many more batches were asked for."""
        return [self.asked.get(timeout=PATIENCE_S) for _ in range(count)]

    def wait_closed(self) -> int:
        return self.closed.get(timeout=PATIENCE_S)

    def open(self, count: int = 10_000) -> None:
        self.let.release(count)


def prefetch_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "gpufeed-prefetch"]


def all_ended(threads: list[threading.Thread]) -> bool:
    for thread in threads:
        thread.join(PATIENCE_S)
    return not any(thread.is_alive() for thread in threads)


@pytest.fixture(autouse=True)
def _no_threads_are_left() -> Iterator[None]:
    gc.collect()
    assert all_ended(prefetch_threads())
    yield
    gc.collect()
    assert all_ended(prefetch_threads())


def in_thread(function: Callable[[], object]) -> queue.SimpleQueue[Any]:
    """Run it on another thread; its result, or its error, comes out of the queue."""
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def run() -> None:
        try:
            results.put(function())
        except BaseException as error:
            results.put(error)

    threading.Thread(target=run, daemon=True).start()
    return results


def numbered(count: int = 5) -> list[dict[str, Any]]:
    return [{"images": torch.full((2, 3), number), "names": ["a", "b"]} for number in range(count)]


# What comes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2, 5, 50])
@pytest.mark.parametrize("across_epochs", [False, True])
def test_the_loaders_batches_in_its_order_epoch_by_epoch(depth: int, across_epochs: bool) -> None:
    inner = Held(open_for=10_000)
    with PrefetchLoader(inner, depth, across_epochs=across_epochs) as loader:
        for epoch in range(3):
            assert list(loader) == [(epoch, number) for number in range(6)]
    assert inner.overlaps == 0


def test_any_iterable() -> None:
    batches = numbered()
    assert list(map(id, PrefetchLoader(batches))) == list(map(id, batches))
    assert list(PrefetchLoader(number * number for number in range(4))) == [0, 1, 4, 9]
    assert list(PrefetchLoader([])) == []


def test_torchs_loader_with_its_own_order() -> None:
    def loader_of() -> TorchDataLoader[Any]:
        generator = torch.Generator().manual_seed(3)
        return TorchDataLoader(TensorDataset(torch.arange(23)), batch_size=4, shuffle=True, generator=generator)

    plain, ahead = loader_of(), PrefetchLoader(loader_of(), depth=2)
    for _ in range(2):
        expected = [batch[0].tolist() for batch in plain]
        assert [batch[0].tolist() for batch in ahead] == expected
    assert len(ahead) == 6


@pytest.mark.slow
def test_torchs_persistent_workers_left_early_and_begun_anew() -> None:
    inner = TorchDataLoader(TensorDataset(torch.arange(40)), batch_size=2, num_workers=2, persistent_workers=True)
    loader = PrefetchLoader(inner, depth=3)
    for _ in range(3):
        kept_alive = iter(loader)
        assert next(kept_alive)[0].tolist() == [0, 1]
        assert [batch[0].tolist() for batch in loader] == [[2 * row, 2 * row + 1] for row in range(20)]
        assert list(kept_alive) == []  # torch's iterator is the same one, begun anew


class Persistent:
    """Has one iterator, which ``iter()`` begins anew, as torch's loader with persistent workers."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.left: Iterator[int] = iter(())

    def __iter__(self) -> Persistent:
        self.left = iter(range(self.count))
        return self

    def __next__(self) -> int:
        return next(self.left)


def test_an_iterator_that_is_begun_anew_is_left_to_the_latest_epoch() -> None:
    loader = PrefetchLoader(Persistent(30), depth=2)
    kept_alive = iter(loader)
    assert next(kept_alive) == 0
    latest = iter(loader)
    assert list(kept_alive) == []
    assert list(latest) == list(range(30))


# How far ahead -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 3])
def test_filling_begins_with_iter_and_stays_within_depth(depth: int) -> None:
    inner = Held(count=20)
    loader = PrefetchLoader(inner, depth)
    assert inner.epochs == 0
    iterator = iter(loader)
    assert inner.threads == [threading.current_thread().name]
    inner.open()
    assert inner.wait_asked(depth) == [(0, number) for number in range(depth)]  # and nothing was taken yet
    for number in range(20):
        inner.taken += 1
        assert next(iterator) == (0, number)
        if depth + number < 20:
            assert inner.wait_asked(1) == [(0, depth + number)]
    assert inner.most_ahead == depth


def test_a_queue_shorter_than_what_is_waited_for() -> None:
    inner = Held(count=9, open_for=100)
    iterator = iter(PrefetchLoader(inner, depth=1))
    collected = in_thread(lambda: [next(iterator) for _ in range(9)])
    assert len(collected.get(timeout=PATIENCE_S)) == 9
    assert list(iterator) == []


def test_no_next_epoch_is_begun_without_being_asked_for() -> None:
    inner = Held(count=2, open_for=100)
    loader = PrefetchLoader(inner, depth=5)
    assert len(list(loader)) == 2
    assert all_ended(prefetch_threads())
    assert inner.epochs == 1


def test_two_iterators_at_once_never_use_the_loader_at_once() -> None:
    for _ in range(20):  # one time is enough if a thread that is let in comes at once
        inner = Held(count=2, open_for=1)
        loader = PrefetchLoader(inner, depth=1)
        first = iter(loader)
        assert inner.wait_asked(1) == [(0, 0)]
        second = iter(loader)
        assert inner.wait_asked(1) == [(1, 0)]  # and it is held there
        assert next(first) == (0, 0)  # makes room: the thread would go on with (0, 1)
        inner.open()
        assert list(second) == [(1, 0), (1, 1)]
        assert list(first) == [(0, 1)]
        assert inner.overlaps == 0


# Across epochs -------------------------------------------------------------------------------------------------------


def test_across_epochs_the_next_one_is_filled_while_the_last_batches_are_used() -> None:
    inner = Held(count=3)
    loader = PrefetchLoader(inner, depth=4, across_epochs=True)
    iterator = iter(loader)
    inner.open()
    assert inner.wait_asked(4) == [(0, 0), (0, 1), (0, 2), (1, 0)]  # nothing was taken yet
    assert list(iterator) == [(0, 0), (0, 1), (0, 2)]
    assert inner.wait_asked(2) == [(1, 1), (1, 2)]  # without an iter()
    assert inner.epochs == 2  # and no epoch more, though there is room
    assert list(loader) == [(1, 0), (1, 1), (1, 2)]
    assert inner.wait_asked(1) == [(2, 0)]
    loader.close()


class EpochSampler:
    """Shuffled by its epoch, as ``DistributedSampler``."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.epoch = 0
        self.orders = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        self.orders += 1
        generator = torch.Generator().manual_seed(self.epoch)
        return iter(torch.randperm(self.count, generator=generator).tolist())


def with_sampler(sampler: Any) -> TorchDataLoader[Any]:
    return TorchDataLoader(TensorDataset(torch.arange(12)), batch_size=3, sampler=sampler)


def expected_epochs(epochs: range) -> list[list[Any]]:
    sampler = EpochSampler(12)
    loader = with_sampler(sampler)
    found: list[list[Any]] = []
    for epoch in epochs:
        sampler.set_epoch(epoch)
        found.append([batch[0].tolist() for batch in loader])
    return found


@pytest.mark.parametrize("across_epochs", [False, True])
@pytest.mark.parametrize("through", ["loader", "sampler"])
def test_the_order_is_the_samplers_whoever_is_told_the_epoch(across_epochs: bool, through: str) -> None:
    sampler = EpochSampler(12)
    with PrefetchLoader(with_sampler(sampler), depth=8, across_epochs=across_epochs) as loader:
        found: list[list[Any]] = []
        for epoch in range(4):
            (loader if through == "loader" else sampler).set_epoch(epoch)
            found.append([batch[0].tolist() for batch in loader])
    assert found == expected_epochs(range(4))


def test_an_epoch_told_early_is_filled_ahead_and_used() -> None:
    sampler = EpochSampler(12)
    with PrefetchLoader(with_sampler(sampler), depth=2, across_epochs=True) as loader:
        found: list[list[Any]] = []
        for epoch in range(4):
            loader.set_epoch(epoch)
            found.append([])
            for number, batch in enumerate(loader):
                found[-1].append(batch[0].tolist())
                if number == 0:
                    loader.set_epoch(epoch + 1)
        assert found == expected_epochs(range(4))
        assert sampler.orders <= 5  # none of them was drawn in vain, save the one that is ahead


def test_an_epoch_told_early_is_told_again_when_it_was_dropped() -> None:
    """gpufeed's loader takes an epoch once, and counts on after that."""

    class Counted(Held):
        told: int | None = None

        def set_epoch(self, epoch: int) -> None:
            self.told = epoch

        def __iter__(self) -> Iterator[tuple[int, int]]:
            self.epochs = self.epochs if self.told is None else self.told
            self.told = None
            return super().__iter__()

    inner = Counted(count=2, open_for=1000)
    with PrefetchLoader(inner, depth=1, across_epochs=True) as loader:
        loader.set_epoch(7)
        iterator = iter(loader)
        inner.wait_asked(1)
        loader.set_epoch(8)  # before the thread has room for another batch
        assert [next(iterator), next(iterator)] == [(7, 0), (7, 1)]
        assert inner.wait_asked(2) == [(7, 1), (8, 0)]
        del iterator  # leaves epoch 7 before its end, and drops what is ahead
        loader.set_epoch(8)
        assert list(loader) == [(8, 0), (8, 1)]


def test_an_epoch_that_nobody_takes() -> None:
    with pytest.raises(UnsupportedError, match=r"set_epoch\(3\) has nobody to tell: neither list nor a sampler"):
        PrefetchLoader(numbered()).set_epoch(3)


def test_torchs_distributed_sampler() -> None:
    def loader_of() -> TorchDataLoader[Any]:
        dataset = TensorDataset(torch.arange(20))
        sampler = DistributedSampler(dataset, num_replicas=2, rank=1, seed=5)
        return TorchDataLoader(dataset, batch_size=2, sampler=sampler)

    plain = loader_of()
    with PrefetchLoader(loader_of(), across_epochs=True) as ahead:
        for epoch in (0, 1, 5):
            plain.sampler.set_epoch(epoch)
            ahead.set_epoch(epoch)
            assert [batch[0].tolist() for batch in ahead] == [batch[0].tolist() for batch in plain]


# Errors --------------------------------------------------------------------------------------------------------------


def fails_after(count: int, error: BaseException) -> Iterator[int]:
    yield from range(count)
    raise error


@pytest.mark.parametrize("error", [KeyError("shard 3"), SystemExit(3), KeyboardInterrupt()])
def test_an_error_of_the_loader_comes_at_its_turn_with_its_traceback(error: BaseException) -> None:
    iterator = iter(PrefetchLoader(fails_after(3, error), depth=5))
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(type(error)) as caught:
        next(iterator)
    assert caught.value is error
    assert "fails_after" in {frame.name for frame in traceback.extract_tb(caught.value.__traceback__)}
    assert list(iterator) == []
    assert all_ended(prefetch_threads())


def test_an_error_of_iter_comes_from_iter() -> None:
    class Fails:
        def __iter__(self) -> Iterator[int]:
            raise OSError("no such shard")

    with pytest.raises(OSError, match="no such shard"):
        iter(PrefetchLoader(Fails()))
    assert prefetch_threads() == []


def test_an_error_of_an_iter_ahead_comes_from_the_next_iter() -> None:
    class FailsLater(Held):
        def __iter__(self) -> Iterator[tuple[int, int]]:
            if self.epochs == 1:
                self.epochs = 2
                raise OSError("no such shard")
            return super().__iter__()

    loader = PrefetchLoader(FailsLater(count=2, open_for=100), across_epochs=True)
    assert len(list(loader)) == 2
    with pytest.raises(OSError, match="no such shard"):
        iter(loader)
    assert list(loader) == [(2, 0), (2, 1)]
    loader.close()


def test_an_error_keeps_nothing_alive() -> None:
    class Batch:
        pass

    kept: list[weakref.ref[Any]] = []

    def fails() -> Iterator[Batch]:
        batch = Batch()
        kept.append(weakref.ref(batch))
        yield batch
        del batch
        raise KeyError

    gc.collect()
    gc.disable()
    try:
        loader: Any = PrefetchLoader(fails())
        iterator = iter(loader)
        kept += [weakref.ref(iterator), weakref.ref(loader)]
        next(iterator)
        with pytest.raises(KeyError):
            next(iterator)
        assert all_ended(prefetch_threads())
        del iterator, loader
        assert [reference() for reference in kept] == [None] * 3
    finally:
        gc.enable()


@pytest.mark.parametrize("depth", [0, -1, True, 2.0, None, 10**30])
def test_a_wrong_depth(depth: Any) -> None:
    with pytest.raises(ArgumentError, match=r"depth must be an integer in \[1, 100,000\], got"):
        PrefetchLoader(numbered(), depth)


def test_other_wrong_arguments() -> None:
    def generator() -> Iterator[int]:
        yield 1

    with pytest.raises(ArgumentError, match=r"loader must be an iterable of batches, got .*; call it, and give what"):
        PrefetchLoader(generator)
    with pytest.raises(ArgumentError, match="device must be 'auto'"):
        PrefetchLoader(numbered(), device="gpu")
    with pytest.raises(ArgumentError, match="across_epochs must be True or False, got 1"):
        PrefetchLoader(numbered(), across_epochs=1)  # type: ignore[arg-type]


# Ending --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", [0, 1, 4])
@pytest.mark.parametrize("across_epochs", [False, True])
def test_leaving_a_loop_early_ends_the_thread_and_the_loaders_epoch(taken: int, across_epochs: bool) -> None:
    inner = Held(count=50, open_for=1000)
    loader = PrefetchLoader(inner, across_epochs=across_epochs)
    iterator = iter(loader)
    for _ in range(taken):
        next(iterator)
    inner.wait_asked(taken + 1)
    threads = prefetch_threads()
    assert threads
    del iterator
    assert inner.wait_closed() == 0
    assert all_ended(threads)
    assert next(iter(loader)) == (1, 0)
    loader.close()


def test_collecting_the_loader_while_its_iterator_lives() -> None:
    iterator = iter(PrefetchLoader(Held(open_for=100), across_epochs=True))
    gc.collect()
    assert len(list(iterator)) == 6
    assert all_ended(prefetch_threads())  # no epoch is filled that nobody could ask for


def test_collecting_a_loader_with_an_epoch_ahead() -> None:
    loader = PrefetchLoader(Held(open_for=100), across_epochs=True)
    list(loader)
    threads = prefetch_threads()
    assert threads
    del loader
    assert all_ended(threads)


@pytest.mark.parametrize("taken", [2, None])
@pytest.mark.parametrize("across_epochs", [False, True])
def test_without_a_cycle_nothing_needs_the_collector(taken: int | None, across_epochs: bool) -> None:
    """torch's workers are stopped by their iterator's ``__del__``, which in a collection comes too late for that."""
    gc.collect()
    gc.disable()
    try:
        inner: Any = Held(open_for=1000)
        loader: Any = PrefetchLoader(inner, across_epochs=across_epochs)
        iterator = iter(loader)
        references = [weakref.ref(inner), weakref.ref(loader), weakref.ref(iterator)]
        list(zip(iterator, range(taken), strict=False)) if taken is not None else list(iterator)
        threads = prefetch_threads()
        del inner, loader, iterator
        assert all_ended(threads)
        del threads
        assert [reference() for reference in references] == [None] * 3
    finally:
        gc.enable()


def test_batches_go_with_their_iterator() -> None:
    batches = numbered(5)
    references = [weakref.ref(batch["images"]) for batch in batches]
    popped = iter(lambda: batches.pop() if batches else None, None)
    loader = PrefetchLoader(popped, depth=5)
    iterator = iter(loader)
    next(iterator)
    threads = prefetch_threads()
    del iterator
    assert all_ended(threads)
    taken = 5 - len(batches)
    assert [reference() for reference in references[5 - taken :]] == [None] * taken


def test_a_new_epoch_waits_until_the_one_left_early_is_out_of_the_loader() -> None:
    inner = Held(count=5)
    loader = PrefetchLoader(inner, depth=2)
    iterator = iter(loader)
    inner.wait_asked(1)  # the thread is inside of the loader
    del iterator
    found = in_thread(lambda: list(loader))
    with pytest.raises(queue.Empty):
        found.get_nowait()
    inner.open()
    assert found.get(timeout=PATIENCE_S) == [(1, number) for number in range(5)]
    assert inner.wait_closed() == 0
    assert inner.overlaps == 0


def test_close_tells_a_waiting_consumer_at_once_and_waits_for_the_batch_under_way() -> None:
    inner = Held()
    loader = PrefetchLoader(inner)
    iterator = iter(loader)
    waiting = in_thread(lambda: list(iterator))
    inner.wait_asked(1)
    closing = in_thread(loader.close)
    assert waiting.get(timeout=PATIENCE_S) == []
    assert closing.empty()
    assert prefetch_threads()
    inner.open()
    assert closing.get(timeout=PATIENCE_S) is None
    assert prefetch_threads() == []
    assert list(loader) == [(1, number) for number in range(6)]


def test_close_leaves_the_loader_open() -> None:
    class Closable(Held):
        closes = 0

        def close(self) -> None:
            self.closes += 1

    inner = Closable(open_for=100)
    with PrefetchLoader(inner) as loader:
        next(iter(loader))
    loader.close()
    assert inner.closes == 0


def test_an_interrupt_while_waiting_for_a_batch() -> None:
    inner = Held()
    loader = PrefetchLoader(inner)
    asks, noticed = threading.Event(), threading.Event()

    def interrupt() -> None:
        assert asks.wait(PATIENCE_S)
        for _ in range(3):  # where it falls into a collection Python swallows it, and a person presses again
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            if noticed.wait(PATIENCE_S / 5):
                return

    def ask(iterator: Iterator[Any]) -> object:
        asks.set()
        return next(iterator)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    iterator = iter(loader)
    with pytest.raises(KeyboardInterrupt):
        ask(iterator)
    noticed.set()
    interrupter.join()
    assert list(iterator) == []
    inner.open()
    assert len(list(loader)) == 6


def test_no_wait_of_the_consumer_is_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python doesn't notice a signal that arrives just before a wait: the wait must end, and another one begin."""
    from gpufeed import filling

    waits: list[float | None] = []
    make_queue = queue.SimpleQueue

    class Watched:
        def __init__(self) -> None:
            self.queue: queue.SimpleQueue[Any] = make_queue()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.queue, name)

        def get(self, timeout: float | None = None) -> Any:
            if threading.current_thread() is threading.main_thread():
                waits.append(timeout)
                if len(waits) < 3:
                    raise queue.Empty
            return self.queue.get(timeout=timeout)

    monkeypatch.setattr(filling.queue, "SimpleQueue", Watched)
    assert list(PrefetchLoader([1, 2])) == [1, 2]
    assert len(waits) > 3
    assert all(timeout is not None and timeout <= 1 for timeout in waits)


class Interrupt:
    """Raises KeyboardInterrupt at the n-th line of the loader's that this thread runs.

    Lines with ``with`` are left out: Python runs a lock's release there without a look at signals, but traces it.
    """

    FILES = ("prefetch.py", "filling.py")

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        path = frame.f_code.co_filename
        if not path.endswith(self.FILES):
            return None
        if event == "line" and not linecache.getline(path, frame.f_lineno).lstrip().startswith("with "):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def run_epochs(loader: PrefetchLoader, trace: Interrupt | None) -> list[int]:
    """An epoch that is left early, and two whole ones."""
    found: list[int] = []
    before = sys.gettrace()
    sys.settrace(trace or before)
    try:
        for taken in (2, None, None):
            for number, batch in enumerate(loader):
                found.append(batch)
                if taken is not None and number == taken - 1:
                    break
        loader.close()
    finally:
        sys.settrace(before)
    return found


@pytest.mark.parametrize("every", [37, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("across_epochs", [False, True])
def test_interrupts_at_many_lines(across_epochs: bool, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    swallowed: list[type[BaseException] | None] = []  # by Python, in finalizers
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: swallowed.append(raised.exc_type))
    expected = [1, 2, *range(1, 5), *range(1, 5)]
    counter = Interrupt(at=-1)
    assert run_epochs(PrefetchLoader(range(1, 5), 2, across_epochs=across_epochs), counter) == expected
    interrupted = 0
    for at in range(1, -counter.left, every):
        loader = PrefetchLoader(range(1, 5), 2, across_epochs=across_epochs)
        try:
            run_epochs(loader, Interrupt(at))
        except KeyboardInterrupt:
            interrupted += 1
        assert run_epochs(loader, None) == expected, at
        assert all_ended(prefetch_threads()), at
    assert set(swallowed) <= {KeyboardInterrupt}
    assert interrupted + len(swallowed) == len(range(1, -counter.left, every))


HEAD = """
import os, sys, threading
from gpufeed import PrefetchLoader, UnsupportedError

def say(*words):
    print(*words, flush=True)
"""

LEAVING = {
    "live iterator": "iterator = iter(PrefetchLoader(iter(int, 1)))\nnext(iterator)",
    "ahead": "loader = PrefetchLoader([1, 2, 3], across_epochs=True)\nfor batch in loader: pass",
    "a batch under way": """
import time
begun = threading.Event()
def batches():
    yield 1
    begun.set()
    time.sleep(0.2)
    say("done")
    yield 2
iterator = iter(PrefetchLoader(batches()))
begun.wait()
""",
    "a consumer on a daemon thread": """
waits = threading.Event()
def batches():
    yield 1
    waits.set()
    threading.Event().wait(0.5)
    yield 2
threading.Thread(target=lambda: list(PrefetchLoader(batches())), daemon=True).start()
waits.wait()
""",
    "an error on the way": "iterator = iter(PrefetchLoader(map(int, 'x')))\nraise SystemExit(0)",
}


def run_script(code: str) -> tuple[str, str, int]:
    environment = {**os.environ, "PYTHONPATH": str(Path(gpufeed.__file__).parents[1])}
    result = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", HEAD + code],
        capture_output=True,
        text=True,
        timeout=100,
        env=environment,
        check=False,
    )
    return result.stdout, result.stderr, result.returncode


@pytest.mark.parametrize("how", LEAVING)
def test_the_interpreter_exits_in_the_middle(how: str) -> None:
    output, errors, code = run_script(LEAVING[how])
    assert (errors, code) == ("", 0)
    assert output == ("done\n" if how == "a batch under way" else "")


FORK = """
loader = PrefetchLoader(range(1000), depth=3, across_epochs=True)
iterator = iter(loader)
next(iterator)
child = os.fork()
if child == 0:
    try:
        next(iterator)
    except UnsupportedError as error:
        say(error)
    say(list(iterator), list(loader) == list(range(1000)))
    loader.close()
    sys.exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
say(next(iterator))
loader.close()
"""


FORKED = (
    "this iterator was made before the process was forked, and its thread is in the parent; "
    "call iter(loader) in this process"
)


def test_a_forked_child_has_no_part_in_the_iterator_and_can_begin_its_own() -> None:
    output, errors, code = run_script(FORK)
    assert output.splitlines() == [
        FORKED,
        "[] True",
        "1",
    ]
    assert (errors, code) == ("", 0)


# What it looks like --------------------------------------------------------------------------------------------------


def test_other_attributes_are_the_loaders() -> None:
    inner = with_sampler(EpochSampler(12))
    loader = PrefetchLoader(inner)
    assert loader.loader is inner
    assert loader.dataset is inner.dataset
    assert loader.batch_size == 3
    assert loader.sampler is inner.sampler
    assert len(loader) == len(iter(loader)) == 4
    loader.worker_init_fn = print
    assert inner.worker_init_fn is print
    assert (loader.depth, loader.device) == (5, None)
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = loader.colour
    with pytest.raises(AttributeError):
        loader.depth = 3  # type: ignore[misc]


def test_without_a_length() -> None:
    loader = PrefetchLoader(iter([1]))
    with pytest.raises(TypeError):
        len(loader)
    assert loader
    assert list(loader) == [1]


def test_a_copy_begins_anew() -> None:
    loader = PrefetchLoader([1, 2, 3], depth=2, device="cpu", across_epochs=True)
    list(loader)
    again = pickle.loads(pickle.dumps(loader))
    assert (again.loader, again.depth, again.device) == ([1, 2, 3], 2, "cpu")
    assert list(again) == [1, 2, 3]
    again.close()
    loader.close()


class Pair(NamedTuple):
    image: Any
    target: Any


def test_on_the_cpu_batches_are_the_same_objects() -> None:
    batches: list[Any] = [Pair(tv_tensors.Image(torch.ones(3, 2, 2)), [torch.ones(2), "x"]), {"a": 1}, "text", None]
    found = list(PrefetchLoader(batches, device="cpu"))
    assert list(map(id, found)) == list(map(id, batches))


def test_tensors_elsewhere_are_brought_to_the_device() -> None:
    """Without a GPU, torch's device that has no memory stands for another one."""
    batch = Pair(torch.ones(2, device="cpu"), {"t": [torch.ones(2), 3]})
    loader = PrefetchLoader([batch])
    loader._resolved = torch.device("meta")
    (found,) = loader
    assert type(found) is Pair
    assert found.image.is_meta
    assert found.target["t"][0].is_meta
    assert found.target["t"][1] == 3


# Figures -------------------------------------------------------------------------------------------------------------


def test_stats() -> None:
    inner = Held(count=4)
    loader = PrefetchLoader(inner, depth=2)
    assert loader.stats() == LoaderStats(samples=None)
    iterator = iter(loader)
    inner.wait_asked(1)
    waiting = in_thread(lambda: next(iterator))
    inner.open()
    waiting.get(timeout=PATIENCE_S)
    assert not loader.stats().ended
    list(iterator)
    stats = loader.stats()
    assert (stats.batches, stats.samples, stats.ended) == (4, None, True)
    assert list(stats.stage_s) == ["load"]
    assert 0 < stats.wait_p50_s <= stats.wait_p95_s <= stats.wait_p99_s <= stats.wait_max_s <= stats.epoch_s
    assert 0 < stats.in_flight_mean <= 2  # none at the end, where there is nothing left to make
    assert 0 < stats.wait_share <= 1
    assert "samples" not in str(stats)


# On CUDA -------------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("stream", ["default", "own"])
def test_batches_arrive_on_cuda_ordered_on_the_callers_stream(stream: str) -> None:
    batches = [(torch.full((64, 3, 224, 224), float(number)), [torch.tensor(number), "x"]) for number in range(12)]
    loader = PrefetchLoader(batches, depth=3, device="cuda")
    current = torch.cuda.current_stream() if stream == "default" else torch.cuda.Stream()
    with torch.cuda.stream(current):
        sums = [(images.sum(), images.device, rest) for images, rest in loader]
    for number, (total, device, rest) in enumerate(sums):
        assert device == loader.device == torch.device("cuda", torch.cuda.current_device())
        assert total.item() == number * 64 * 3 * 224 * 224
        assert rest[0].item() == number
        assert rest[0].is_cuda
        assert rest[1] == "x"
    assert list(loader.stats().stage_s) == ["load", "copy"]


@pytest.mark.gpu
def test_memory_of_batches_is_not_written_while_the_callers_stream_reads_it() -> None:
    def batches() -> Iterator[torch.Tensor]:
        for number in range(60):
            yield torch.full((1 << 20,), number, dtype=torch.int32)

    results: list[torch.Tensor] = []
    for batch in PrefetchLoader(batches(), depth=4, device="cuda"):
        torch.cuda._sleep(3_000_000)  # the caller's stream lags behind, while the batch's memory is given back
        results.append(torch.stack([batch.amin(), batch.amax()]))
        del batch
    assert [result.tolist() for result in results] == [[number, number] for number in range(60)]


@pytest.mark.gpu
def test_what_a_loader_makes_on_cuda_itself_is_waited_for() -> None:
    def batches() -> Iterator[torch.Tensor]:
        for number in range(20):
            torch.cuda._sleep(5_000_000)
            yield torch.full((1 << 18,), number, device="cuda")

    torch.zeros(1, device="cuda")  # CUDA is in use
    with torch.cuda.stream(torch.cuda.Stream()):
        results = [batch.sum() for batch in PrefetchLoader(batches(), depth=4)]
        assert [result.item() for result in results] == [number * (1 << 18) for number in range(20)]


@pytest.mark.gpu
def test_a_subclass_of_tensors_stays_one_on_cuda() -> None:
    image = tv_tensors.Image(torch.ones(3, 5, 5))
    (found,) = PrefetchLoader([{"image": image}], device="cuda")
    assert type(found["image"]) is tv_tensors.Image
    assert found["image"].is_cuda
