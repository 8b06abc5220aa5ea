"""The feed and its threads, with stages that do as the test says: any order of events, no DALI, no clock."""

from __future__ import annotations

import gc
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from gpufeed.draws import Draws
from gpufeed.feed import Feed, Job
from gpufeed.threads import OwnThread, Pool, on_own_thread

PATIENCE_S = 20.0
"""For what must happen at once; a test that hangs should end some day."""


def job() -> Job:
    nothing = np.empty(0, dtype=np.int64)
    return Job(cast(Any, None), [1], Draws((0, 0), nothing, nothing))


class Script:
    """Stages that tell what is called, and wait where they are told to."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.go_on = threading.Semaphore(0)
        self.waits = False
        self.jobs: deque[Job] = deque()
        self.fails: Callable[[str], BaseException | None] = lambda call: None

    @property
    def started(self) -> int:
        return len(self.jobs)

    def _called(self, name: str) -> None:
        self.calls.put(name)
        if self.waits:
            assert self.go_on.acquire(timeout=PATIENCE_S)
        error = self.fails(name)
        if error is not None:
            raise error

    def start(self, job: Job) -> None:
        self._called("start")
        self.jobs.append(job)

    def finish(self) -> None:
        finished = self.jobs.popleft()
        self._called("finish")
        finished.complete([])

    def close(self) -> None:
        self._called("close")

    def next_call(self) -> str:
        return self.calls.get(timeout=PATIENCE_S)


def ended(thread: threading.Thread) -> bool:
    thread.join(PATIENCE_S)
    return not thread.is_alive()


def test_jobs_complete_in_order() -> None:
    script = Script()
    feed = Feed(lambda: script)
    jobs = [job() for _ in range(5)]
    for each in jobs:
        feed.submit(each)
    for each in jobs:
        assert each.done.wait(PATIENCE_S)
        assert each.result == []
    feed.close()
    calls = [script.next_call() for _ in range(11)]
    assert sorted(calls) == ["close"] + ["finish"] * 5 + ["start"] * 5
    assert calls[-1] == "close"
    assert not feed.alive


def test_at_most_two_jobs_are_started() -> None:
    script = Script()
    most = 0
    start = script.start

    def counting(each: Job) -> None:
        nonlocal most
        start(each)
        most = max(most, script.started)

    script.start = counting  # type: ignore[method-assign]
    feed = Feed(lambda: script)
    jobs = [job() for _ in range(20)]
    for each in jobs:
        feed.submit(each)
    assert all(each.done.wait(PATIENCE_S) for each in jobs)
    feed.close()
    assert most == 2


def test_a_job_whose_start_fails_harms_no_other() -> None:
    script = Script()
    script.fails = lambda call: KeyError(call) if call == "start" and script.calls.qsize() == 1 else None
    feed = Feed(lambda: script)
    first, second = job(), job()
    feed.submit(first)
    feed.submit(second)
    assert first.done.wait(PATIENCE_S)
    assert isinstance(first.error, KeyError)
    assert second.done.wait(PATIENCE_S)
    assert second.error is None
    feed.close()


def test_stages_that_cannot_be_made_fail_each_job() -> None:
    def make() -> Any:
        raise MemoryError

    feed = Feed(make)
    for _ in range(2):
        each = job()
        feed.submit(each)
        assert each.done.wait(PATIENCE_S)
        assert isinstance(each.error, MemoryError)
    assert feed.alive
    feed.close()


def test_cancelled_jobs_are_not_started() -> None:
    script = Script()
    script.waits = True
    feed = Feed(lambda: script)
    jobs = [job() for _ in range(3)]
    for each in jobs:
        feed.submit(each)
    assert script.next_call() == "start"
    for each in jobs[1:]:
        each.cancel()
        assert each.done.is_set()
    script.waits = False
    script.go_on.release()
    assert jobs[0].done.wait(PATIENCE_S)
    feed.close()
    assert [script.next_call() for _ in range(2)] == ["finish", "close"]


def test_closing_cancels_what_is_queued_and_ends_what_is_under_way() -> None:
    script = Script()
    script.waits = True
    feed = Feed(lambda: script)
    jobs = [job() for _ in range(3)]
    for each in jobs:
        feed.submit(each)
    assert script.next_call() == "start"
    feed.close(wait=False)
    assert not feed.alive
    script.waits = False
    script.go_on.release()
    feed.close()
    assert [each.cancelled for each in jobs] == [False, True, True]
    assert all(each.done.is_set() for each in jobs)
    assert [script.next_call() for _ in range(2)] == ["finish", "close"]


def test_a_feed_that_is_collected_ends_its_thread() -> None:
    script = Script()
    feed = Feed(lambda: script)
    first = job()
    feed.submit(first)
    assert first.done.wait(PATIENCE_S)
    thread = feed._thread
    del feed
    assert ended(thread)
    assert [script.next_call() for _ in range(3)] == ["start", "finish", "close"]


def test_a_feed_in_a_cycle_ends_its_thread_when_collected() -> None:
    feed = Feed(Script)
    cycle: list[Any] = [feed]
    cycle.append(cycle)
    thread = feed._thread
    del feed, cycle
    gc.collect()
    assert ended(thread)


def test_nothing_of_a_job_stays_alive_while_the_feed_waits() -> None:
    class Watched(list):  # type: ignore[type-arg]
        pass

    script = Script()
    feed = Feed(lambda: script)
    first = job()
    indices = Watched([1])
    first.indices = indices
    gone = threading.Event()
    weakref.finalize(indices, gone.set)
    feed.submit(first)
    assert first.done.wait(PATIENCE_S)
    del first, indices
    assert gone.wait(PATIENCE_S)
    feed.close()


def test_closing_from_a_thread_of_its_own_does_not_wait_for_itself() -> None:
    """A garbage collection may run there, and close a loader."""
    feeds: list[Feed] = []
    script = Script()

    def closes(each: Job) -> None:
        assert on_own_thread()
        feeds[0].close()
        each.complete([])

    script.start = closes  # type: ignore[method-assign]
    feeds.append(Feed(lambda: script))
    first = job()
    feeds[0].submit(first)
    assert first.done.wait(PATIENCE_S)
    assert ended(feeds[0]._thread)


def test_a_forked_child_has_no_part_in_a_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script()
    feed = Feed(lambda: script)
    with monkeypatch.context() as patch:
        patch.setattr("os.getpid", lambda: -1)
        assert feed.foreign
        assert not feed.alive
        feed.close()
    assert feed.alive
    feed.close()
    assert ended(feed._thread)


# The pool ----------------------------------------------------------------------------------------------------------


def test_a_pool_runs_everything_and_ends() -> None:
    initialised = threading.Semaphore(0)
    pool = Pool(3, "test", initialised.release)
    done: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(50):
        pool.submit(done.put, number)
    pool.close()
    assert sorted(done.get(timeout=PATIENCE_S) for _ in range(50)) == list(range(50))
    assert all(initialised.acquire(timeout=PATIENCE_S) for _ in range(3))
    assert not any(thread.name.startswith("test_") for thread in threading.enumerate())
    pool.close()  # again: nothing to do


def test_nothing_of_a_task_stays_alive_while_the_pool_waits() -> None:
    class Watched:
        pass

    pool = Pool(1, "test", lambda: None)
    argument = Watched()
    gone = threading.Event()
    weakref.finalize(argument, gone.set)
    pool.submit(lambda given: None, argument)
    del argument
    assert gone.wait(PATIENCE_S)
    pool.close()


def test_a_pool_that_cannot_start_all_threads_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def starts_two(thread: threading.Thread) -> None:
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starts_two)
    with pytest.raises(RuntimeError, match="can't start"):
        Pool(3, "test", lambda: None)
    assert len(started) == 2
    assert all(ended(thread) for thread in started)


def test_own_threads_are_forgotten_when_they_end() -> None:
    from gpufeed import threads

    thread = OwnThread(lambda: None, (), "test", lambda: None)
    thread.start()
    assert ended(thread)
    assert thread not in threads._running
    assert not on_own_thread()
