"""The search: successive halving along one argument after the other. Pure but for what it asks its bench to measure.

Stage by stage, the first of which varies the number of workers or threads:

1. Every setting of the stage is visited once, but for the winner of the stage before; and in a short budget for the
   smallest where one would take more than its share of it, and those between two powers of two.
2. Those that aren't far behind are visited a second time, later: a machine's slow seconds must not decide.
3. From then on those stay that are near the best and no slower than a cheaper one, at most half of them, and always two
   and a near winner of the stage before; they are visited again, in rotated order, until it is decided.
4. Of the last, the cheapest whose median is within the noise of the best is taken. What counts as noise is measured,
   and never more than 5 %, so that a restless machine gives little away. Where the time ends before that,
   a dearer setting is taken only if it is ahead of all cheaper ones by more than so few epochs may differ by chance.

The following stages keep what was chosen and vary one further argument each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from gpufeed.bench.statistics import median
from gpufeed.bench.tuning.results import Trial, Tuned
from gpufeed.bench.tuning.space import Setting, Space, cost
from gpufeed.config import TorchSettings
from gpufeed.errors import BenchmarkError

__all__ = ["Bench", "Search", "Visit", "cheapest_unbeaten", "cheapest_within", "noise_of", "survivors"]

_VISITS = 4  # to each setting that stays, at the most; many short ones, as what disturbs lasts for seconds
_NUM_EPOCHS = 1  # that count in a visit, after a discarded one
_CLEARLY, _OFTEN = 3.0, 3  # standard deviations of a single epoch; visits, so that a slow one isn't the median
_NOT_FAR, _NEAR = 0.75, 0.85  # of the best, after one visit and after more: so much may it be off, and not more
_LEAST_NOISE, _MOST_NOISE = 0.01, 0.05
_USUAL_NOISE = 0.03  # of a single epoch, where none was repeated
_BY_CHANCE = 1.645  # standard errors: two equal settings differ by more, in this direction, once in twenty times
_DEAREST_VISIT = 0.12  # of the budget
_FIRST_VISITS = 0.35  # of the budget: if one visit to each setting of the first stage took more, some are left out


@dataclass(frozen=True, slots=True)
class Visit:
    """One setting, measured in a process of its own.

    Attributes:
        images_per_s: of each short epoch. [Unit: image/second]
        peak_memory_bytes: with full queues; ``None`` where the platform doesn't tell. [Unit: byte]
        failure: why it can't be used, in words; empty where it can.
    """

    images_per_s: tuple[float, ...] = ()
    peak_memory_bytes: int | None = None
    failure: str = ""


class Bench(Protocol):
    """What measures."""

    def visit(self, setting: Setting, num_epochs: int) -> Visit:
        """Measure a setting: a discarded epoch and ``num_epochs`` that count."""
        ...

    def num_samples(self, setting: Setting) -> int:
        """Samples in an epoch of this setting."""
        ...

    def seconds_left(self) -> float:
        """Until the deadline, negative after it. [Unit: second]"""
        ...


@dataclass(slots=True)
class _Stage:
    """Rates of this stage, and of the stage before for its winner: earlier ones may have met another machine."""

    rates: dict[Setting, list[float]] = field(default_factory=dict[Setting, list[float]])

    def medians(self) -> dict[Setting, float]:
        return {setting: median(rates) for setting, rates in self.rates.items() if rates}


class Search:
    """Finds the settings of one loader.

    Args:
        space: what may be tried.
        bench: what measures.
        max_memory_bytes: settings above it are excluded; ``None``: none is. [Unit: byte]
        tell: is told each trial as it stands after a visit.
    """

    def __init__(
        self,
        space: Space,
        bench: Bench,
        max_memory_bytes: int | None = None,
        tell: Callable[[Trial], None] = lambda _: None,
    ) -> None:
        self._space = space
        self._bench = bench
        self._max_memory_bytes = max_memory_bytes
        self._tell = tell
        self._budget_s = bench.seconds_left()
        self._trials: dict[Setting, Trial] = {}
        self._best: Setting | None = None
        self._depths: tuple[Setting, ...] = ()
        self._finished = False
        self._ran_out = False
        self._last = _Stage()
        self._left_out: set[Setting] | None = None

    def run(self) -> None:
        """Search until it is done or the time is up. What is known after an exception is in `result` too."""
        self._race(self._outward(self._space.main), is_first=True)
        for argument, _ in self._space.others:
            if self._best is None:
                break
            variants = self._space.variants(self._best, argument)
            if argument == "prefetch_factor":
                self._depths = variants
            self._race(variants)
        self._finished = not self._ran_out

    def result(self) -> Tuned:
        """What is known so far."""
        usable = [trial.setting for trial in self._trials.values() if self._is_usable(trial.setting)]
        best = self._best
        if best is None and usable:
            best = self._cheapest_so_far({setting: self._trials[setting].images_per_s for setting in usable})
        return Tuned(
            loader=self._space.loader,
            best=best,
            start=self._space.start,
            trials=tuple(self._trials.values()),
            main=tuple(setting for setting in self._space.main if setting in self._trials),
            depths=tuple(setting for setting in self._depths if setting in self._trials),
            noise=noise_of(trial.images_per_s for trial in self._trials.values()),
            over_memory=tuple(setting for setting in self._trials if self._is_over(setting)),
            finished=self._finished,
        )

    # Stages -----------------------------------------------------------------------------------------------------------

    def _race(self, candidates: Sequence[Setting], *, is_first: bool = False) -> None:
        """Visit candidates rung by rung, and take the cheapest of the best."""
        if len(candidates) < 2 and not is_first:
            return
        stage = _Stage({setting: [] for setting in candidates})
        known = None if is_first else self._best
        if known is not None:
            stage.rates[known] += self._last.rates.get(known, [])
        self._last = stage
        ran_out, self._ran_out = self._ran_out, False
        running = list(candidates)
        for rung in range(_VISITS):
            for setting in [*running[rung:], *running[:rung]]:
                if rung or not stage.rates[setting]:
                    self._visit(setting, stage)
            running = self._survivors(stage, running, known) if rung else self._not_far(stage, running)
            if len(running) < 2 or (rung and self._is_decided(stage, running)):
                break
        measured = stage.medians()
        # Without the one that was the best before, there is nothing that the others were compared with.
        if running and (is_first or self._best is None or self._best in measured):
            if self._ran_out:
                usable = [setting for setting in measured if self._is_usable(setting)]
                self._best = self._cheapest_so_far({setting: stage.rates[setting] for setting in usable})
            else:
                self._best = cheapest_within({setting: measured[setting] for setting in running}, self._noise())
        self._ran_out |= ran_out

    def _is_decided(self, stage: _Stage, running: Sequence[Setting]) -> bool:
        """Whether more rounds would only cost: the cheapest is the fastest too, or one is far ahead of the others."""
        medians = stage.medians()
        second, best = sorted(medians[setting] for setting in running)[-2:]
        if medians[running[0]] == best:
            return True
        noise = noise_of(trial.images_per_s for trial in self._trials.values()) or 0.0
        is_often = all(len(stage.rates[setting]) >= _OFTEN for setting in running)
        return is_often and second < (1 - _CLEARLY * noise) * best

    def _cheapest_so_far(self, rates: Mapping[Setting, Sequence[float]]) -> Setting:
        noise = noise_of(trial.images_per_s for trial in self._trials.values())
        return cheapest_unbeaten(rates, _USUAL_NOISE if noise is None else max(_LEAST_NOISE, noise))

    def _usable(self, stage: _Stage, running: Sequence[Setting]) -> dict[Setting, float]:
        measured = stage.medians()
        return {setting: measured[setting] for setting in running if setting in measured and self._is_usable(setting)}

    def _not_far(self, stage: _Stage, running: Sequence[Setting]) -> list[Setting]:
        usable = self._usable(stage, running)
        best = max(usable.values(), default=0.0)
        return sorted((setting for setting, rate in usable.items() if rate >= _NOT_FAR * best), key=cost)

    def _survivors(self, stage: _Stage, running: Sequence[Setting], known: Setting | None) -> list[Setting]:
        usable = self._usable(stage, running)
        stay = survivors(usable, most=max(2, math.ceil(len(running) / 2)))
        # A single lucky epoch of two dearer ones must not throw out what was measured longer.
        if known in usable and known not in stay and usable[known] >= _NEAR * max(usable.values()):
            stay = sorted([*stay, known], key=cost)
        return stay

    def _visit(self, setting: Setting, stage: _Stage) -> None:
        known = self._trials.get(setting)
        if known is not None and (known.failure or self._is_over(setting)):
            return
        expected_s = self._expected_s(setting)
        if expected_s > self._bench.seconds_left():
            self._ran_out = True
            return
        is_slow = 2 * _size(setting) < _size(self._space.start)
        if known is None and is_slow and expected_s > _DEAREST_VISIT * self._budget_s:
            return
        if known is None and self._is_left_out(setting):
            return
        visit = self._bench.visit(setting, _NUM_EPOCHS)
        if known is None:
            known = Trial(setting)
            self._raise_if_hopeless(visit)
        peaks = [peak for peak in (known.peak_memory_bytes, visit.peak_memory_bytes) if peak is not None]
        trial = replace(
            known,
            images_per_s=(*known.images_per_s, *visit.images_per_s),
            peak_memory_bytes=max(peaks, default=None),
            failure=visit.failure,
        )
        self._trials[setting] = trial
        stage.rates[setting] += visit.images_per_s
        self._tell(trial)

    def _is_left_out(self, setting: Setting) -> bool:
        """Whether this one, between two others, is too much for the budget. Decided when the first pace is known."""
        if not self._trials:
            return False
        if self._left_out is None:
            main = self._space.main
            expected_s = sum(self._expected_s(each) for each in main)
            is_long = expected_s > _FIRST_VISITS * self._budget_s
            ends = {_size(self._space.start), *(_size(each) for each in (main[0], main[-1]))}
            between = {each for each in main if _size(each).bit_count() > 1 and _size(each) not in ends}
            self._left_out = between if is_long else set()
        return setting in self._left_out

    def _raise_if_hopeless(self, visit: Visit) -> None:
        """The first setting is an ordinary one: what fails there fails everywhere."""
        if visit.failure and not self._trials:
            raise BenchmarkError(visit.failure)

    def _outward(self, settings: Sequence[Setting]) -> list[Setting]:
        """The start first, then those beside it, and so on: stopped early, what is likely the best is known."""
        return sorted(
            settings,
            key=lambda setting: (
                abs(math.log((_size(setting) + 0.5) / self._start_size)),
                setting != self._space.start,
            ),
        )

    @property
    def _start_size(self) -> float:
        return _size(self._space.start) + 0.5

    # What is known ----------------------------------------------------------------------------------------------------

    def _expected_s(self, setting: Setting) -> float:
        """From the setting's own rate, or that of the nearest in size, scaled down with the size. [Unit: second]"""
        measured = [trial for trial in self._trials.values() if trial.images_per_s]
        if not measured:
            return 0.0
        known = self._trials.get(setting)
        size = max(1, _size(setting))
        if known is None or not known.images_per_s:
            known = min(measured, key=lambda trial: abs(math.log(max(1, _size(trial.setting)) / size)))
        scale = min(1.0, size / max(1, _size(known.setting)))
        return (1 + _NUM_EPOCHS) * self._bench.num_samples(setting) / (known.rate * scale)

    def _is_over(self, setting: Setting) -> bool:
        peak = self._trials[setting].peak_memory_bytes
        return self._max_memory_bytes is not None and peak is not None and peak > self._max_memory_bytes

    def _is_usable(self, setting: Setting) -> bool:
        trial = self._trials[setting]
        return bool(trial.images_per_s) and not trial.failure and not self._is_over(setting)

    def _noise(self) -> float:
        noise = noise_of(trial.images_per_s for trial in self._trials.values())
        return min(_MOST_NOISE, max(_LEAST_NOISE, noise or 0.0))


def _size(setting: Setting) -> int:
    return setting.num_workers if isinstance(setting, TorchSettings) else setting.num_threads


def survivors(rates: Mapping[Setting, float], most: int) -> list[Setting]:
    """Who is worth another visit, the cheapest first.

    Args:
        rates: by setting, of those that may be taken. [Unit: image/second]
        most: of them stay, but two do in any case.

    Returns:
        Of the settings near the best those that no cheaper one equals; and the best two.
    """
    if not rates:
        return []
    fastest = sorted(rates, key=lambda setting: -rates[setting])
    near = [setting for setting in sorted(rates, key=cost) if rates[setting] >= _NEAR * rates[fastest[0]]]
    kept: list[Setting] = []
    for setting in near:
        if not kept or rates[setting] > rates[kept[-1]]:
            kept.append(setting)
    kept = sorted(
        {*kept, *(setting for setting in fastest[:2] if setting in near)}, key=lambda setting: -rates[setting]
    )
    return sorted(kept[: max(2, most)], key=cost)


def cheapest_within(rates: Mapping[Setting, float], noise: float) -> Setting:
    """The cheapest setting whose rate is at least ``1 - noise`` of the best.

    Args:
        rates: at least one. [Unit: image/second]
        noise: a share of the best rate.
    """
    best = max(rates.values())
    return min((setting for setting, rate in rates.items() if rate >= (1 - noise) * best), key=cost)


def cheapest_unbeaten(rates: Mapping[Setting, Sequence[float]], noise: float) -> Setting:
    """The cheapest setting that the fastest isn't ahead of by more than chance may bring.

    Args:
        rates: of the epochs of each setting, at least one of at least one. [Unit: image/second]
        noise: the standard deviation of a single epoch's rate, as a share.
    """
    medians = {setting: median(epochs) for setting, epochs in rates.items()}
    best = max(medians, key=lambda setting: medians[setting])

    def is_beaten(setting: Setting) -> bool:
        error = noise * math.sqrt(1 / len(rates[setting]) + 1 / len(rates[best]))
        return medians[setting] < max(_NEAR, 1 - _BY_CHANCE * error) * medians[best]

    return min((setting for setting in rates if not is_beaten(setting)), key=cost)


def noise_of(repeats: Iterable[Sequence[float]]) -> float | None:
    """The standard deviation of a single epoch's rate as a share, pooled over settings measured more than once.

    From the mean absolute deviation from the settings' medians, which one slow epoch doesn't rule. ``None`` where
    nothing was measured twice.
    """
    deviations: list[float] = []
    freedom = 0
    for rates in repeats:
        if len(rates) > 1:
            middle = median(rates)
            deviations += [abs(rate / middle - 1) for rate in rates]
            freedom += len(rates) - 1
    return 1.2533 * sum(deviations) / freedom if freedom else None  # sqrt(pi / 2): of a normal distribution
