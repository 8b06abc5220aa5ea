"""Threads of gpufeed's own: how they end with what uses them, at the interpreter's exit, never in a forked child."""

from __future__ import annotations

import atexit
import queue
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = ["OwnThread", "Pool", "at_work", "on_own_thread"]

_EXIT_WAIT_S = 60.0
"""How long the interpreter's exit waits for threads, in all. A thread that is stopped inside DALI may abort the
process, so its batch is waited for; but a file system that never answers must not keep the process alive for ever."""

_running: dict[threading.Thread, Callable[[], None]] = {}
_exiting = threading.Event()
_at_work: set[int] = set()
_hooked = threading.Lock()  # taken once, by whoever registers the hook


class OwnThread(threading.Thread):
    """A daemon thread that is asked to end, and waited for, when the interpreter exits.

    Args:
        target: what it runs.
        args: for ``target``.
        name: of the thread.
        stop: asks ``target`` to return soon; may be called from any thread and any number of times, and never waits.
    """

    def __init__(self, target: Callable[..., None], args: tuple[Any, ...], name: str, stop: Callable[[], None]) -> None:
        super().__init__(target=target, args=args, name=name, daemon=True)
        self._ask_to_end = stop

    def start(self) -> None:
        _end_if_exiting()
        if _hooked.acquire(blocking=False):
            atexit.register(_end_all)
        _running[self] = self._ask_to_end
        try:
            super().start()
        except RuntimeError:  # the system has no more threads
            _running.pop(self, None)
            raise

    def run(self) -> None:
        try:
            super().run()
        finally:
            _running.pop(self, None)


@contextmanager
def at_work() -> Generator[None, None, None]:
    """Around what a thread of the user's does here: the interpreter's exit waits for it, and lets none begin.

    A daemon thread that the interpreter stops inside of torch's C++ aborts the whole process.
    """
    me = threading.get_ident()
    if me in _at_work:  # within another loader's work on this thread
        yield
        return
    _at_work.add(me)
    try:
        _end_if_exiting()
        yield
    finally:
        _at_work.discard(me)


def _end_if_exiting() -> None:
    if not _exiting.is_set():
        return
    if threading.current_thread() is not threading.main_thread():
        raise SystemExit  # ends a daemon thread without a word, as the interpreter is about to do
    raise RuntimeError("the interpreter is exiting, and no thread can be started any more")


def on_own_thread() -> bool:
    """Whether this is a thread of gpufeed's: a garbage collection may run there, and must wait for no other of them."""
    return isinstance(threading.current_thread(), OwnThread)


def _end_all() -> None:
    _exiting.set()
    deadline = time.monotonic() + _EXIT_WAIT_S
    for thread, ask_to_end in list(_running.items()):
        if thread.is_alive():  # false in a forked child, where the thread doesn't exist
            ask_to_end()
            thread.join(max(0.0, deadline - time.monotonic()))
    while _others_at_work() and time.monotonic() < deadline:
        time.sleep(0.001)


def _others_at_work() -> set[int]:
    """Not this thread, nor, in a forked child, those that only the parent has."""
    return _at_work & {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}


_Task = tuple[Callable[..., None], tuple[Any, ...]]


class Pool:
    """Threads that run tasks in the order in which they come.

    ``concurrent.futures`` refuses work as soon as the interpreter begins to exit, while batches are still in flight,
    and makes a future and takes two locks per task, which nobody here asks for.

    Args:
        num_threads: how many.
        name: of the threads, before their numbers.
        initializer: what each thread runs first.
    """

    def __init__(self, num_threads: int, name: str, initializer: Callable[[], None]) -> None:
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._threads: list[OwnThread] = []
        try:
            for number in range(num_threads):
                thread = OwnThread(_work, (self._tasks, initializer), f"{name}_{number}", stop=_nothing)
                thread.start()
                self._threads.append(thread)
        except BaseException:
            self.close()
            raise

    def submit(self, task: Callable[..., None], *args: Any) -> None:
        """Queue a task, which must not raise; returns at once."""
        self._tasks.put((task, args))

    def share(self, function: Callable[[range], None], pieces: Sequence[range]) -> None:
        """Call a function for each piece on the pool's threads; waits for all. Not to be called on one of them.

        Raises:
            BaseException: the first that any of them raised.
        """
        left = len(pieces)
        lock, done = threading.Lock(), threading.Event()
        errors: list[BaseException] = []

        def one(rows: range) -> None:
            nonlocal left
            try:
                function(rows)
            except BaseException as error:  # handed to the caller
                errors.append(error)
            with lock:
                left -= 1
                if left == 0:
                    done.set()

        for rows in pieces:
            self.submit(one, rows)
        if pieces:
            done.wait()
        if errors:
            raise errors[0]

    def close(self) -> None:
        """Run what is queued, then end the threads; waits for them."""
        for _ in self._threads:
            self._tasks.put(None)
        while self._threads:
            self._threads.pop().join()


def _nothing() -> None:
    """A pool's threads are ended by whoever has the pool."""


def _work(tasks: queue.SimpleQueue[_Task | None], initializer: Callable[[], None]) -> None:
    initializer()
    while (task := tasks.get()) is not None:
        task[0](*task[1])
        del task  # nothing of a batch stays alive while this thread waits
