"""Medians, spreads, ratios with their uncertainty, this machine's noise, drifts and waits of a comparison's rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gpufeed.bench.results import Comparison, ContenderResult, Epoch, Kind, Measurement, Mode

__all__ = [
    "LEAST_EFFECT",
    "MIN_ROUNDS",
    "MUCH_TAKEN",
    "Difference",
    "Drift",
    "Noise",
    "Ratio",
    "Summary",
    "Waits",
    "difference_of",
    "drift_of",
    "median",
    "noise_of",
    "paired_ratio",
    "spread",
    "steady_wait_share",
    "summarize",
    "taken_cpus",
    "unpaired_ratio",
    "waits_of",
]

_RESAMPLES = 10_000  # a 95 % interval's ends then vary by well under a tenth of its width
_INTERVAL_PERCENT = (2.5, 97.5)
_OUTSIDE = 0.05  # of the time the true value may lie outside a 95 % interval
MIN_ROUNDS = 6
"""Below this there is no 95 % to be had: even the range of all n values holds the median in 1 - 2**(1 - n) only."""

LEAST_EFFECT = 0.02
"""Two processes of one program differ by one to two percent from start to start: in where their memory lies and in
which core the system prefers. All rounds of a process share that, so no interval over rounds can show it."""

_TREND_Z = 1.96  # two-sided 5 %
_LEAST_DRIFT = 0.05  # a smaller change over a run moves a median less than rounds differ anyway

MUCH_TAKEN = 0.1
"""CPUs that other programs took: what a system does by itself is below it."""

Difference = Literal["faster", "slower", "none", "too few rounds"]
"""What a ratio shows of a contender against the baseline: ``none`` is "no difference shown", not "equal"."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as fast one contender is as another.

    Attributes:
        median: of the rounds' ratios.
        low: lower end of that median's 95 % interval; ``None`` with too few rounds for one.
        high: its upper end.
        num_rounds: rounds in which both ran.
    """

    median: float
    low: float | None
    high: float | None
    num_rounds: int


@dataclass(frozen=True, slots=True)
class Noise:
    """What a second process of the baseline, measured like any other contender, shows: an A/A comparison.

    Attributes:
        name: the copy's.
        ratio: the copy's to the baseline.
        difference: what that ratio would show if the copy were somebody; ``none`` on a steady machine.
        relative: the effect below which nothing is shown: how far the copy's interval reaches from 1, but at least
            ``LEAST_EFFECT``.
    """

    name: str
    ratio: Ratio
    difference: Difference
    relative: float


@dataclass(frozen=True, slots=True)
class Drift:
    """A contender whose rate had a trend over the rounds.

    Attributes:
        name: the contender's.
        first_images_per_s: where the trend's line begins. [Unit: image/second]
        last_images_per_s: where it ends. [Unit: image/second]
    """

    name: str
    first_images_per_s: float
    last_images_per_s: float

    @property
    def relative(self) -> float:
        """The change over the run as a share of the beginning; negative where it became slower."""
        return self.last_images_per_s / self.first_images_per_s - 1


@dataclass(frozen=True, slots=True)
class Waits:
    """How long the consumer waited for a batch, over all batches of all rounds in a mode.

    Each epoch's first batch is one of them, for which queues are filled from empty.

    Attributes:
        p50_s: the median. [Unit: second]
        p95_s: 95 % were at most this long. [Unit: second]
        p99_s: 99 % were. [Unit: second]
        max_s: the longest. [Unit: second]
        num_batches: how many batches that were.
    """

    p50_s: float
    p95_s: float
    p99_s: float
    max_s: float
    num_batches: int


@dataclass(frozen=True, slots=True)
class Summary:
    """A contender's row in a mode.

    Attributes:
        name: the contender's.
        images_per_s: median over the rounds. [Unit: image/second]
        spread: of images_per_s, see :func:`spread`.
        ratio: to the baseline; ``None`` where they share no round, and for bounds.
        first_batch_s: from the first ``iter()`` to the first batch. [Unit: second]
        cpu_s_per_image: host CPU time of its process tree, median over the rounds. [Unit: second]
        peak_pss_bytes: of its process tree; ``None`` where the platform doesn't tell. [Unit: byte]
        num_rounds: its rounds.
        kind: what it is.
        difference: what the ratio shows; ``None`` for the baseline and without a ratio.
        cpu_cores: host CPU time per time that passed, median over the rounds.
        wait_share: share of the time in which the consumer waited, in [0, 1], median over the rounds; near 1 where
            batches are thrown away.
        waits: of all batches; ``None`` where they weren't taken.
    """

    name: str
    images_per_s: float
    spread: float
    ratio: Ratio | None
    first_batch_s: float
    cpu_s_per_image: float
    peak_pss_bytes: int | None
    num_rounds: int
    kind: Kind
    difference: Difference | None
    cpu_cores: float
    wait_share: float
    waits: Waits | None


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones."""
    return float(np.median(np.asarray(values, dtype=np.float64)))


def spread(values: Sequence[float]) -> float:
    """Half the distance between the first and the third quartile, as a share of the median.

    Half of the values lie within about ``median * (1 ± spread)``. One slow round doesn't change it.
    """
    low, middle, high = np.percentile(np.asarray(values, dtype=np.float64), [25, 50, 75])
    return float((high - low) / 2 / middle)


def paired_ratio(rates: Mapping[int, float], baseline: Mapping[int, float], seed: int) -> Ratio | None:
    """The median over the rounds of ``rate / baseline rate``, with a bootstrap interval.

    Pairing within a round takes out what changes from round to round for all, such as the clock of a shared machine;
    the ratio of the two medians would keep it, as they may stem from different rounds.

    Rounds are resampled with replacement, and the percentiles of the medians taken. For as few rounds as there are
    here these promise too much: with seven they hold the true median in 88 of 100 cases. So the interval is never
    narrower than the one between the order statistics whose exact confidence (of the sign test) is 95 % or more; with
    seven rounds that is their whole range.

    Args:
        rates: by round index.
        baseline: the other contender's, by round index.
        seed: fixes the resampling.

    Returns:
        ``None`` where no round has both; without an interval for fewer than ``MIN_ROUNDS`` rounds.
    """
    shared = sorted(rates.keys() & baseline.keys())
    if not shared:
        return None
    ratios = np.sort(np.array([rates[index] / baseline[index] for index in shared], dtype=np.float64))
    count = len(ratios)
    middle = float(np.median(ratios))
    if count < MIN_ROUNDS:
        return Ratio(middle, None, None, count)
    low, high = np.percentile(_resampled_medians(ratios, np.random.default_rng(seed)), _INTERVAL_PERCENT)
    rank = _exact_rank(count)
    return Ratio(middle, float(min(low, ratios[rank])), float(max(high, ratios[-1 - rank])), count)


def unpaired_ratio(values: Sequence[float], others: Sequence[float], seed: int) -> Ratio | None:
    """The ratio of two medians of rounds that weren't taken together, with a percentile bootstrap interval.

    Both are resampled independently; simulated with 6 to 31 rounds each, it holds the true ratio in 95 % or more.

    Args:
        values: those in the numerator.
        others: those in the denominator.
        seed: fixes the resampling.

    Returns:
        ``None`` where one is empty; without an interval where one has fewer than ``MIN_ROUNDS``.
    """
    if not values or not others:
        return None
    count = min(len(values), len(others))
    middle = median(values) / median(others)
    if count < MIN_ROUNDS:
        return Ratio(middle, None, None, count)
    rng = np.random.default_rng(seed)
    upper = _resampled_medians(np.asarray(values, dtype=np.float64), rng)
    lower = _resampled_medians(np.asarray(others, dtype=np.float64), rng)
    low, high = np.percentile(upper / lower, _INTERVAL_PERCENT)
    return Ratio(middle, float(low), float(high), count)


def _resampled_medians(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    chosen = rng.integers(0, len(values), size=(_RESAMPLES, len(values)))
    return np.asarray(np.median(values[chosen], axis=1), dtype=np.float64)


def _exact_rank(count: int) -> int:
    """How many values may be dropped at each end of ``count`` sorted ones so that the rest still holds the median.

    In 95 % of all cases: a value lies below the true median with probability 1/2, independently.
    """
    outside = 0.0
    for rank in range(count):
        outside += 2 * comb(count, rank) / 2**count
        if outside > _OUTSIDE:
            return max(0, rank - 1)
    return 0


def difference_of(ratio: Ratio, noise: float) -> Difference:
    """What a ratio shows.

    Args:
        ratio: of rates.
        noise: effects up to this are nothing, see `Noise.relative`; ``LEAST_EFFECT`` where it isn't known.

    Returns:
        ``none`` where the interval holds 1 or the effect is at most the noise.
    """
    if ratio.low is None or ratio.high is None:
        return "too few rounds"
    if ratio.low <= 1 <= ratio.high or _effect(ratio.median) <= noise:
        return "none"
    return "faster" if ratio.median > 1 else "slower"


def _effect(ratio: float) -> float:
    """How far from 1, alike for twice and half."""
    return max(ratio, 1 / ratio) - 1


def noise_of(comparison: Comparison, mode: Mode = "loader") -> Noise | None:
    """What the baseline's copy shows; ``None`` where none was measured in this mode."""
    copy = comparison.copy
    ratio = None if copy is None else paired_ratio(_rates(copy, mode), _baseline(comparison, mode), comparison.seed)
    if copy is None or ratio is None:
        return None
    ends = (ratio.median,) if ratio.low is None or ratio.high is None else (ratio.low, ratio.high)
    return Noise(
        name=copy.name,
        ratio=ratio,
        difference=difference_of(ratio, LEAST_EFFECT),
        relative=max(LEAST_EFFECT, *(_effect(end) for end in ends)),
    )


def drift_of(comparison: Comparison, mode: Mode = "loader") -> Drift | None:
    """The baseline's trend over the rounds, if it has one.

    It has one where the Mann-Kendall test finds it at 5 % and the line through the rounds (Theil-Sen: the median of
    the slopes of all pairs) changes by 5 % or more from the first to the last. Ratios are paired by round and hardly
    suffer; the rates in images/s do.
    """
    rates = _baseline(comparison, mode)
    indices = sorted(rates)
    count = len(indices)
    if count < MIN_ROUNDS:
        return None
    pairs = [(one, other) for place, one in enumerate(indices) for other in indices[place + 1 :]]
    rising = sum((rates[other] > rates[one]) - (rates[other] < rates[one]) for one, other in pairs)
    deviation = sqrt(count * (count - 1) * (2 * count + 5) / 18)
    if (abs(rising) - 1) / deviation <= _TREND_Z:  # 1: the correction for continuity
        return None
    slope = median([(rates[other] - rates[one]) / (other - one) for one, other in pairs])
    start = median([rates[index] - slope * (index - indices[0]) for index in indices])
    drift = Drift(comparison.baseline, start, start + slope * (indices[-1] - indices[0]))
    return drift if abs(drift.relative) >= _LEAST_DRIFT else None


def waits_of(measurements: Sequence[Measurement]) -> Waits | None:
    """Percentiles of the waits of all batches; ``None`` where none were taken."""
    waits = np.array([wait for entry in measurements for wait in entry.epoch.waits_s], dtype=np.float64)
    if not len(waits):
        return None
    middle, high, higher, most = np.percentile(waits, [50, 95, 99, 100])
    return Waits(float(middle), float(high), float(higher), float(most), len(waits))


def taken_cpus(comparison: Comparison, mode: Mode = "loader") -> float:
    """How many CPUs other programs took from the loaders, on average over their epochs; 0 where there was enough."""
    epochs = [entry.epoch for result in comparison.loaders for entry in result.in_mode(mode)]
    elapsed_s = sum(epoch.elapsed_s for epoch in epochs)
    return sum(epoch.taken_cpu_s for epoch in epochs) / elapsed_s if elapsed_s else 0.0


def steady_wait_share(result: ContenderResult) -> float | None:
    """Share of the time in which a training loop waited for batches, in [0, 1], median over the rounds.

    Only the second half of each epoch counts: in the first queues are filled, and a loader that is slower than the
    step lives on what it had ready. ``None`` where no epoch with a step has two batches.
    """
    shares = [share for entry in result.in_mode("step") if (share := _second_half_wait_share(entry.epoch)) is not None]
    return median(shares) if shares else None


def _second_half_wait_share(epoch: Epoch) -> float | None:
    count = len(epoch.waits_s)
    late = epoch.waits_s[count // 2 :]
    if count < 2 or not epoch.step_s:
        return None
    return sum(late) / (sum(late) + epoch.step_s * len(late) / count)


def summarize(comparison: Comparison, mode: Mode = "loader") -> tuple[Summary, ...]:
    """A row for each contender, copy and bound that finished a round in this mode, in the results' order."""
    baseline = _baseline(comparison, mode)
    noise = noise_of(comparison, mode) or noise_of(comparison)  # the copy needn't have run with the step
    return tuple(
        _row(result, mode, baseline, comparison, noise) for result in comparison.contenders if result.in_mode(mode)
    )


def _row(
    result: ContenderResult, mode: Mode, baseline: Mapping[int, float], comparison: Comparison, noise: Noise | None
) -> Summary:
    measurements = result.in_mode(mode)
    epochs = [entry.epoch for entry in measurements]
    rates = _rates(result, mode)
    ratio = None if result.kind == "bound" else paired_ratio(rates, baseline, comparison.seed)
    # The copy states the noise; held to its own statement it could never differ.
    least = LEAST_EFFECT if noise is None or result.kind == "copy" else noise.relative
    return Summary(
        name=result.name,
        images_per_s=median(list(rates.values())),
        spread=spread(list(rates.values())),
        ratio=ratio,
        first_batch_s=result.first_batch_s,
        cpu_s_per_image=median([epoch.cpu_s / epoch.num_samples for epoch in epochs]),
        peak_pss_bytes=result.peak_pss_bytes,
        num_rounds=len(measurements),
        kind=result.kind,
        difference=None if ratio is None or result.name == comparison.baseline else difference_of(ratio, least),
        cpu_cores=median([epoch.cpu_s / epoch.elapsed_s for epoch in epochs]),
        wait_share=median([epoch.wait_share for epoch in epochs]),
        waits=waits_of(measurements),
    )


def _baseline(comparison: Comparison, mode: Mode) -> dict[int, float]:
    found = next((result for result in comparison.contenders if result.name == comparison.baseline), None)
    return {} if found is None else _rates(found, mode)


def _rates(result: ContenderResult, mode: Mode) -> dict[int, float]:
    return {entry.round_index: entry.epoch.images_per_s for entry in result.in_mode(mode)}
