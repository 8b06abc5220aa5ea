"""Measuring settings: each visit in a process of its own, forked from one that has only imported the libraries.

A fork takes a millisecond where imports take seconds, and every setting starts from the same clean state. The process
tree that memory is read of includes the one that was forked from, so what they share is counted once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from gpufeed.bench.contenders import Contender
from gpufeed.bench.images import first_broken
from gpufeed.bench.process import ContenderProcess, ContenderRaisedError
from gpufeed.bench.tuning.search import Visit
from gpufeed.bench.tuning.space import LoaderName, Setting, describe
from gpufeed.bench.usage import MemorySampler, tree_alone_bytes
from gpufeed.bench.workload import Workload
from gpufeed.config import TorchSettings
from gpufeed.errors import ArgumentError

__all__ = ["CONTENDERS", "EPOCH_SHARE", "Measuring", "contender_for"]

_HERE = "gpufeed.bench.tuning"

CONTENDERS: dict[LoaderName, Contender] = {
    "torch": Contender("torch", f"{_HERE}.torch_loader:torch_loader", "torch's DataLoader"),
    "gpufeed": Contender("gpufeed", f"{_HERE}.gpufeed_loader:gpufeed_loader", "gpufeed.DataLoader"),
}

_LEAST_BATCHES, _MOST_BATCHES = 4, 256
EPOCH_SHARE, _LONGEST_EPOCH_S = 0.006, 3.0  # of the budget, and at the most: an epoch of the first setting
_PER_WORKER = 2  # batches in an epoch, so that starting and ending aren't most of it


def contender_for(contender: Contender, setting: Setting) -> Contender:
    """The contender with a setting for its factory."""
    return replace(contender, options=(*contender.options, ("settings", setting)))


@dataclass(slots=True)
class _Epochs:
    """How long an epoch is."""

    least_batches: int = _LEAST_BATCHES

    def num_batches(self, setting: Setting) -> int:
        """At least as many as are under way at once; the same number for each worker, as each takes whole batches."""
        workers = setting.num_workers if isinstance(setting, TorchSettings) else 1
        share = max(1, workers)
        wanted = max(self.least_batches, _PER_WORKER * share, setting.batches_in_flight)
        return -(-wanted // share) * share

    def fit(self, images_per_s: float, batch_size: int, epoch_s: float) -> None:
        """Choose the length from the first pace that is known."""
        self.least_batches = round(min(_MOST_BATCHES, max(_LEAST_BATCHES, images_per_s * epoch_s / batch_size)))


class Measuring:
    """Measures settings of one loader; a `gpufeed.bench.tuning.search.Bench`.

    Args:
        process: has imported the loader's libraries, and nothing else.
        make_workload: of so many samples.
        num_threads: torch's own threads in the measured process.
        batch_size: samples per batch.
        step: what each batch feeds, see `gpufeed.bench.steps.check_step`; empty: nothing.
        budget_s: of the whole tuning; an epoch of the first setting takes less than a hundredth of it. [Unit: second]
        deadline_s: by ``time.monotonic()``. [Unit: second]
    """

    def __init__(
        self,
        process: ContenderProcess,
        make_workload: Callable[[int], Workload],
        *,
        num_threads: int,
        batch_size: int,
        step: str,
        budget_s: float,
        deadline_s: float,
    ) -> None:
        self._process = process
        self._make_workload = make_workload
        self._num_threads = num_threads
        self._batch_size = batch_size
        self._step = step
        self._budget_s = budget_s
        self._deadline_s = deadline_s
        self._epochs = _Epochs()
        self._peak_bytes: dict[Setting, int | None] = {}

    def num_samples(self, setting: Setting) -> int:
        """In an epoch of this setting, of whole batches."""
        return self._epochs.num_batches(setting) * self._batch_size

    def seconds_left(self) -> float:
        """Until the deadline, negative after it. [Unit: second]"""
        return self._deadline_s - time.monotonic()

    def visit(self, setting: Setting, num_epochs: int) -> Visit:
        """Fork, warm up with full queues while memory is watched, and measure epochs.

        Raises:
            ArgumentError: an image, the transform, the pipeline or the step is wrong.
            UnsupportedError: the loader can't do this workload.
            BenchmarkError: the process that forks has died or stalls.
        """
        workload = self._make_workload(self.num_samples(setting))
        is_first = not self._peak_bytes
        try:
            contender = contender_for(self._process.contender, setting)
            if setting not in self._peak_bytes:  # memory is known after one visit
                contender = replace(contender, options=(*contender.options, ("fills", True)))
            self._process.fork(contender, self._num_threads)
            visit = self._measured(setting, workload, num_epochs)
        except ContenderRaisedError as error:
            if is_first:
                _raise_if_broken(workload)
            visit = Visit(failure=f"{describe(setting)}: {error}")
        # Only here: after Ctrl-C nobody waits for an epoch's end, the process is ended with all that it has forked.
        with suppress(ContenderRaisedError):  # the child has died: there is nobody to join
            self._process.join()
        if is_first and visit.images_per_s:
            self._epochs.fit(
                visit.images_per_s[-1], self._batch_size, min(_LONGEST_EPOCH_S, EPOCH_SHARE * self._budget_s)
            )
        return visit

    def _measured(self, setting: Setting, workload: Workload, num_epochs: int) -> Visit:
        process = self._process
        process.open(workload)
        with MemorySampler(process.pid, measure=tree_alone_bytes) as memory:
            process.run_epoch(step=self._step)
        rates: list[float] = []
        for _ in range(num_epochs):
            rates.append(process.run_epoch(step=self._step).images_per_s)
            memory.look()
        self._peak_bytes[setting] = memory.peak_bytes
        process.close()
        return Visit(tuple(rates), memory.peak_bytes)


def _raise_if_broken(workload: Workload) -> None:
    broken = first_broken(workload.paths)
    if broken is not None:
        path, why = broken
        raise ArgumentError(f"{path} can't be decoded ({why}); remove it or repair it") from None
