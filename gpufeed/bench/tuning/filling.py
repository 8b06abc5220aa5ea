"""Letting a loader's queues get full, so that its memory is what it is beside a slow model."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator

from gpufeed.bench.contenders import Batch
from gpufeed.bench.usage import tree_cpu_s

__all__ = ["Filling"]

_POLL_S = 0.1
_IDLE_SHARE = 0.2  # of one CPU; a working loader takes several, and clocks tick in hundredths of a second
_IDLE_POLLS = 3
_MOST_TIMES = 3.0  # as long as it should take, at the most
_SPARE_S = 2.0


class Filling:
    """Epochs of a loader, in the first of which the consumer pauses after the first batch until the loader is idle.

    A consumer that only fetches keeps the queues empty, and batches that wait are most of a loader's memory. That first
    epoch is a warm-up, whose time isn't used.

    Args:
        epochs: the loader.
        depth: batches that each of its workers, or it itself, makes one after the other after the first of them before
            it has to wait, or the epoch has no more.
        used_cpu_s: CPU time that it has used so far, less what asking takes. [Unit: second]
        clock_s: a clock. [Unit: second]
        sleep: waits. [Unit: second]
    """

    def __init__(
        self,
        epochs: Iterable[Batch],
        depth: int,
        used_cpu_s: Callable[[], float] = lambda: tree_cpu_s(os.getpid()) - time.thread_time(),
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._epochs = epochs
        self._depth = depth
        self._used_cpu_s = used_cpu_s
        self._clock_s = clock_s
        self._sleep = sleep
        self._is_first = True

    def __iter__(self) -> Iterator[Batch]:
        if not self._is_first:
            return iter(self._epochs)
        self._is_first = False
        return self._filled()

    def _filled(self) -> Iterator[Batch]:
        started_s = self._clock_s()
        for index, batch in enumerate(self._epochs):
            if index == 0:
                self._pause(self._clock_s() - started_s)
            yield batch
            del batch

    def _pause(self, first_batch_s: float) -> None:
        """Wait as long as the rest of the queue takes at the first batch's pace, and then until nothing is done."""
        started_s = self._clock_s()
        least_s = self._depth * first_batch_s
        most_s = _MOST_TIMES * least_s + _SPARE_S
        idle = 0
        used_s = self._used_cpu_s()
        while (passed_s := self._clock_s() - started_s) < most_s and (passed_s < least_s or idle < _IDLE_POLLS):
            self._sleep(_POLL_S)
            before_s, used_s = used_s, self._used_cpu_s()
            idle = idle + 1 if used_s - before_s < _IDLE_SHARE * _POLL_S else 0
