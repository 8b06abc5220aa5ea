"""The feed: batches of indices in, batches of tensors out, several in flight.

One thread of its own reads and draws the next batch while DALI decodes the current one and the worker pool finishes the
one before (on the CPU). Every job completes by itself, with its result or with its error; a failed job harms no other.
"""

from __future__ import annotations

import os
import queue
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import torch

from gpufeed.draws import Draws
from gpufeed.sources.base import Source
from gpufeed.threads import OwnThread, on_own_thread

__all__ = ["Feed", "Images", "Job", "Stages"]

Images = torch.Tensor | list[torch.Tensor]
"""A batch (B, C, H, W), or, where sizes differ, B tensors (C, H, W)."""


@dataclass(slots=True, eq=False)
class Job:
    """One batch on its way.

    Attributes:
        source: where the samples come from.
        indices: B indices in [0, len(source)).
        draws: the batch's.
        done: set when ``result`` or ``error`` is there, or when the job is cancelled.
        result: the batch: `Images` of a plan, what a pipeline's stages make else.
        cancelled: nobody wants it any more.
        retried: whether it has failed once without a bad sample being found.
        spent_s: its time in each stage, complete when it is done. [Unit: second]
    """

    source: Source
    indices: Sequence[int]
    draws: Draws
    done: threading.Event = field(default_factory=threading.Event)
    result: Any = None
    error: BaseException | None = None
    cancelled: bool = False
    retried: bool = False
    spent_s: dict[str, float] = field(default_factory=dict[str, float])

    def complete(self, result: Any) -> None:
        """The batch is there."""
        self.result = result
        self.done.set()

    def fail(self, error: BaseException) -> None:
        """The batch can't be had."""
        self.error = error
        self.done.set()

    def cancel(self) -> None:
        """The batch isn't wanted; whoever waits for it wakes up."""
        self.cancelled = True
        self.done.set()


class Stages(Protocol):
    """What a `Feed` runs for each job, on its own thread; `start` and `finish` are called in the same order of jobs."""

    def start(self, job: Job) -> None:
        """Read, draw, and set the graph going; returns before the pixels are there. Raises where it can't."""
        ...

    def finish(self) -> None:
        """Wait for the oldest job started and bring it to its end, at once or soon; never raises."""
        ...

    @property
    def started(self) -> int:
        """Jobs started and not yet finished."""
        ...

    def close(self) -> None:
        """Release graphs and threads; no job is under way any more."""
        ...


class _Closing:
    """Whether a feed is to end, shared between it and its thread, which mustn't keep it alive."""

    asked = False


class Feed:
    """Runs jobs through stages on a thread of its own, which ends when the feed is closed or collected.

    Args:
        stages: made on that thread, at the first job.
    """

    def __init__(self, stages: Callable[[], Stages]) -> None:
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._closing = _Closing()
        self._pid = os.getpid()
        stop = partial(_ask_to_end, self._closing, self._queue)
        weakref.finalize(self, stop).atexit = False  # before the thread exists, so that it can't be left behind
        self._thread = OwnThread(_run, (self._queue, self._closing, stages), "gpufeed-feed", stop)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job; returns at once."""
        self._queue.put(job)

    @property
    def alive(self) -> bool:
        """Whether jobs are taken: false after `close`, and in a forked child, where the thread doesn't exist."""
        return not self._closing.asked and not self.foreign

    @property
    def foreign(self) -> bool:
        """Whether this is a forked child, which has the feed's objects and not its thread."""
        return os.getpid() != self._pid

    def close(self, wait: bool = True) -> None:
        """Cancel the jobs that are queued, let those under way end, then release everything.

        Args:
            wait: until that is done: at most the time of the batches in flight, which DALI can't cancel. A garbage
                collection on a thread of gpufeed's own doesn't wait.
        """
        if self.foreign:
            return
        _ask_to_end(self._closing, self._queue)
        if wait and not on_own_thread():
            self._thread.join()


def _ask_to_end(closing: _Closing, jobs: queue.SimpleQueue[Job | None]) -> None:
    closing.asked = True
    jobs.put(None)


def _run(jobs: queue.SimpleQueue[Job | None], closing: _Closing, make_stages: Callable[[], Stages]) -> None:
    """The feed's thread. It refers to nothing of the loader's, so that those can be collected."""
    stages: Stages | None = None
    while True:
        if stages is not None and stages.started and jobs.empty():
            stages.finish()
            continue
        job = jobs.get()
        if job is None:
            break
        if job.cancelled or closing.asked:
            job.cancel()
            continue
        try:
            if stages is None:
                stages = make_stages()
            stages.start(job)
        except BaseException as error:  # handed to the iterating thread, which raises it
            job.fail(error)
        del job  # nothing of a batch stays alive while this thread waits
        if stages is not None and stages.started > 1:
            stages.finish()
    while stages is not None and stages.started:
        stages.finish()
    if stages is not None:
        stages.close()
