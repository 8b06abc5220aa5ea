"""The feed: batches of indices in, batches of tensors out, several in flight.

One thread of its own reads and draws the next batch while DALI decodes the current one and the worker pool finishes the
one before (on the CPU). Every job completes by itself, with its images or with its error; a failed job harms no other.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

import torch

from gpufeed.draws import Draws
from gpufeed.sources.base import Source

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
        done: set when ``images`` or ``error`` is there.
        cancelled: set by whoever no longer wants it.
        retried: whether it has failed once without a bad sample being found.
    """

    source: Source
    indices: Sequence[int]
    draws: Draws
    done: threading.Event = field(default_factory=threading.Event)
    images: Images | None = None
    error: BaseException | None = None
    cancelled: bool = False
    retried: bool = False

    def complete(self, images: Images) -> None:
        """The batch is there."""
        self.images = images
        self.done.set()

    def fail(self, error: BaseException) -> None:
        """The batch can't be had."""
        self.error = error
        self.done.set()


class Stages(Protocol):
    """What a `Feed` runs for each job, on its own thread; `start` and `finish` are called in the same order of jobs."""

    def start(self, job: Job) -> None:
        """Read, draw, and set the graph going; returns before the pixels are there. Fails the job where it can't."""
        ...

    def finish(self) -> None:
        """Wait for the oldest job started and bring it to its end, at once or soon."""
        ...

    @property
    def started(self) -> int:
        """Jobs started and not yet finished."""
        ...

    def close(self) -> None:
        """Release graphs and threads; no job is under way any more."""
        ...


class Feed:
    """Runs jobs through stages on a thread of its own.

    Args:
        stages: made on that thread, at the first job.
    """

    def __init__(self, stages: Callable[[], Stages]) -> None:
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._pid = os.getpid()
        self._closed = False
        self._thread = threading.Thread(target=_run, args=(self._queue, stages), name="gpufeed-feed", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job; returns at once."""
        self._queue.put(job)

    @property
    def alive(self) -> bool:
        """Whether jobs are taken: false after `close`, and in a forked child, where the thread doesn't exist."""
        return not self._closed and os.getpid() == self._pid and self._thread.is_alive()

    def close(self, wait: bool = True) -> None:
        """Let the jobs under way end, then release everything.

        Args:
            wait: until that is done: at most the time of the batches in flight, which DALI can't cancel.
        """
        if not self.alive:
            return
        self._closed = True
        self._queue.put(None)
        if wait:
            self._thread.join()


def _run(jobs: queue.SimpleQueue[Job | None], make_stages: Callable[[], Stages]) -> None:
    """The feed's thread. It refers to nothing of the loader's, so that those can be collected."""
    stages: Stages | None = None
    open_ = True
    while open_ or (stages is not None and stages.started):
        job = _next(jobs, wait=stages is None or not stages.started) if open_ else None
        if job is _EMPTY or not open_:
            assert stages is not None
            stages.finish()
            continue
        if job is None:
            open_ = False
            continue
        job = cast(Job, job)
        if job.cancelled:
            continue
        try:
            if stages is None:
                stages = make_stages()
            stages.start(job)
        except BaseException as error:  # handed to the iterating thread, which raises it
            job.fail(error)
        del job
        if stages is not None and stages.started > 1:
            stages.finish()
    if stages is not None:
        stages.close()


_EMPTY = object()


def _next(jobs: queue.SimpleQueue[Job | None], wait: bool) -> object:
    try:
        return jobs.get(block=wait)
    except queue.Empty:
        return _EMPTY
