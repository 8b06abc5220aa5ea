"""What a loader's epoch was like: how long its consumer waited, and where the time of a batch went."""

from __future__ import annotations

import textwrap
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

__all__ = ["EpochRecord", "LoaderStats", "StageClock", "Timed"]

_KEPT_BATCHES = 10_000
"""Batches that percentiles and medians are taken over: the latest. A p99 of so many is known well, in about 3 MB."""

_COLUMNS = 80


@dataclass(frozen=True, slots=True)
class LoaderStats:
    """Figures of a loader's current epoch, or of its last one. All are zero before the first batch.

    Waiting is the time that the consumer spends inside ``iter()`` and ``next()``, whatever the loader does there.
    Percentiles and medians are over the latest 10,000 batches, everything else over the whole epoch.

    Attributes:
        batches: handed over.
        samples: in them; ``None`` where the loader can't know.
        ended: whether the epoch has come to its end, or to an error; not where it was left early.
        epoch_s: from ``iter()`` to the end, or, of an epoch that hasn't ended, to its latest batch. [Unit: second]
        wait_p50_s: the wait for a batch that half of the batches don't exceed. [Unit: second]
        wait_p95_s: that 95 % don't. [Unit: second]
        wait_p99_s: that 99 % don't. [Unit: second]
        wait_max_s: the longest; usually the first, while threads start and queues are empty. [Unit: second]
        wait_share: the share of ``epoch_s`` in which the consumer waited, in [0, 1].
        in_flight_mean: batches that were under way or complete whenever one was asked for, on average.
        ready_mean: how many of those were complete.
        none_ready: how often the batch that was asked for wasn't complete.
        stage_s: the median time of a batch in each stage, in the order of the stages; not to be changed. Stages run at
            the same time for different batches: where a stage takes batches one after the other, a batch's time begins
            when the one before it is done, so that the dearest stage is the one that limits the loader.
            ``collate`` is part of the consumer's waiting. [Unit: second]
    """

    batches: int = 0
    samples: int | None = 0
    ended: bool = False
    epoch_s: float = 0.0
    wait_p50_s: float = 0.0
    wait_p95_s: float = 0.0
    wait_p99_s: float = 0.0
    wait_max_s: float = 0.0
    wait_share: float = 0.0
    in_flight_mean: float = 0.0
    ready_mean: float = 0.0
    none_ready: int = 0
    stage_s: Mapping[str, float] = field(default_factory=dict[str, float])

    def as_dict(self) -> dict[str, object]:
        """The attributes by name, as numbers, strings and one dict: what JSON and loggers take."""
        found: dict[str, object] = {name: getattr(self, name) for name in self.__slots__}
        found["stage_s"] = dict(self.stage_s)
        return found

    def __str__(self) -> str:
        """A few lines of at most 80 columns."""
        if not self.batches:
            return "no batch yet"
        lines = [self._counts(), self._waits(), self._flight()]
        if self.stage_s:
            stages = ", ".join(f"{stage} {_as_text(spent_s)}" for stage, spent_s in self.stage_s.items())
            lines.append(f"a batch's time: {stages}")
        return "\n".join(textwrap.fill(line, _COLUMNS, subsequent_indent="  ") for line in lines)

    def _counts(self) -> str:
        samples = "" if self.samples is None else f", {self.samples:,} samples"
        rate = f" ({self.samples / self.epoch_s:,.0f} samples/s)" if self.samples and self.epoch_s else ""
        what = "epoch" if self.ended else "so far"
        return f"{what}: {self.batches:,} batches{samples} in {_as_text(self.epoch_s)}{rate}"

    def _waits(self) -> str:
        waits = {"p50": self.wait_p50_s, "p95": self.wait_p95_s, "p99": self.wait_p99_s, "max": self.wait_max_s}
        by_name = ", ".join(f"{name} {_as_text(wait_s)}" for name, wait_s in waits.items())
        return f"waited: {100 * self.wait_share:.1f} % of the time; for a batch: {by_name}"

    def _flight(self) -> str:
        return (
            f"in flight: {self.in_flight_mean:.1f} batches on average, {self.ready_mean:.1f} of them ready; "
            f"not ready when asked for: {self.none_ready:,}"
        )


_SIZES_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


def _as_text(value_s: float) -> str:
    """Three digits with a unit."""
    unit = next((unit for unit, size_s in _SIZES_S.items() if value_s >= size_s), "us")
    scaled = value_s / _SIZES_S[unit]
    digits = 0 if scaled >= 99.5 else 1 if scaled >= 9.95 else 2
    return f"{scaled:,.{digits}f} {unit}"


class EpochRecord:
    """What an epoch's iterator writes down, on the thread that iterates; made when ``iter()`` begins.

    A few additions and one tuple for each batch. `stats` may be called from any thread.

    Args:
        counts_samples: whether the loader knows how many samples a batch has.
    """

    def __init__(self, counts_samples: bool = True) -> None:
        self._counts_samples = counts_samples
        self._began_at = self._latest_at = time.perf_counter()
        self._waited_s = 0.0
        self._longest_s = 0.0
        self._batches = 0
        self._samples = 0
        self._in_flight = 0
        self._ready = 0
        self._none_ready = 0
        self._ended = False
        self._kept: deque[tuple[float, Mapping[str, float]]] = deque(maxlen=_KEPT_BATCHES)

    def begun(self) -> None:
        """``iter()`` returns."""
        self._latest_at = time.perf_counter()
        self._waited_s = self._latest_at - self._began_at

    def handed_over(
        self,
        asked_at: float,
        spent_s: Mapping[str, float],
        in_flight: int,
        ready: int,
        first_ready: bool,
        samples: int = 0,
    ) -> None:
        """``next()`` returns a batch.

        Args:
            asked_at: ``time.perf_counter()`` when it began.
            spent_s: the batch's time in each stage; kept. [Unit: second]
            in_flight: batches under way or complete at that time.
            ready: how many of them were complete.
            first_ready: whether the batch itself was.
            samples: in the batch.
        """
        now = time.perf_counter()
        waited_s = now - asked_at
        self._latest_at = now
        self._waited_s += waited_s
        if waited_s > self._longest_s:
            self._longest_s = waited_s
        self._batches += 1
        self._samples += samples
        self._in_flight += in_flight
        self._ready += ready
        self._none_ready += not first_ready
        self._kept.append((waited_s, spent_s))

    def end(self, asked_at: float) -> None:
        """``next()`` has no batch to return; only the first call counts."""
        if not self._ended:
            self._ended = True
            self._latest_at = time.perf_counter()
            self._waited_s += self._latest_at - asked_at

    def stats(self) -> LoaderStats:
        """The figures until now."""
        kept = self._kept.copy()
        if not kept:
            return LoaderStats(samples=0 if self._counts_samples else None, ended=self._ended)
        p50, p95, p99 = np.percentile([waited_s for waited_s, _ in kept], [50, 95, 99])
        epoch_s = self._latest_at - self._began_at
        return LoaderStats(
            batches=self._batches,
            samples=self._samples if self._counts_samples else None,
            ended=self._ended,
            epoch_s=epoch_s,
            wait_p50_s=float(p50),
            wait_p95_s=float(p95),
            wait_p99_s=float(p99),
            wait_max_s=self._longest_s,
            wait_share=min(1.0, self._waited_s / epoch_s) if epoch_s else 0.0,
            in_flight_mean=self._in_flight / self._batches,
            ready_mean=self._ready / self._batches,
            none_ready=self._none_ready,
            stage_s=_medians([spent_s for _, spent_s in kept]),
        )


def _medians(batches: list[Mapping[str, float]]) -> dict[str, float]:
    by_stage: dict[str, list[float]] = {}
    for spent_s in batches:
        for stage, value_s in spent_s.items():
            by_stage.setdefault(stage, []).append(value_s)
    return {stage: float(np.median(values_s)) for stage, values_s in by_stage.items()}


class Timed:
    """Adds the time inside of a ``with`` block to a stage's.

    Args:
        spent_s: the batch's times by stage. [Unit: second]
        stage: which one.
    """

    __slots__ = ("_began_at", "_spent_s", "_stage")

    def __init__(self, spent_s: dict[str, float], stage: str) -> None:
        self._spent_s = spent_s
        self._stage = stage

    def __enter__(self) -> None:
        self._began_at = time.perf_counter()

    def __exit__(self, *exc_info: object) -> None:
        spent_s = time.perf_counter() - self._began_at
        self._spent_s[self._stage] = self._spent_s.get(self._stage, 0.0) + spent_s


class StageClock:
    """The time of a stage that takes batches one after the other: none of it is spent on two of them."""

    __slots__ = ("_free_at",)

    def __init__(self) -> None:
        self._free_at = 0.0

    def spent_s(self, given_at: float) -> float:
        """A batch is done: the time since it was given, or since the one before it was done. [Unit: second]

        Args:
            given_at: ``time.perf_counter()`` when the stage could have begun with it.
        """
        now = time.perf_counter()
        spent_s = now - max(given_at, self._free_at)
        self._free_at = now
        return max(0.0, spent_s)  # another thread may have been here in between
