"""Median, spread, and the paired ratio of two contenders with its uncertainty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpufeed.bench.results import Comparison, ContenderResult

__all__ = ["Ratio", "Summary", "median", "paired_ratio", "spread", "summarize"]

_RESAMPLES = 10_000  # a 95 % interval's ends then vary by well under a tenth of its width
_INTERVAL_PERCENT = (2.5, 97.5)
_MIN_ROUNDS = 6
"""Below this there is no 95 % to be had: even the range of all n values holds the median in 1 - 2**(1 - n) only."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as fast one contender is as another.

    Attributes:
        median: of the rounds' ratios.
        low: lower end of the 95 % bootstrap interval of that median; ``None`` with too few rounds for one.
        high: its upper end.
        num_rounds: rounds in which both ran.
    """

    median: float
    low: float | None
    high: float | None
    num_rounds: int


@dataclass(frozen=True, slots=True)
class Summary:
    """A contender's row.

    Attributes:
        name: the contender's.
        images_per_s: median over the rounds. [Unit: image/second]
        spread: of images_per_s, see :func:`spread`.
        ratio: to the baseline; ``None`` where they share no round.
        first_batch_s: from the first ``iter()`` to the first batch. [Unit: second]
        cpu_s_per_image: host CPU time of its process tree, median over the rounds. [Unit: second]
        peak_pss_bytes: of its process tree; ``None`` where the platform doesn't tell. [Unit: byte]
        num_rounds: its rounds.
    """

    name: str
    images_per_s: float
    spread: float
    ratio: Ratio | None
    first_batch_s: float
    cpu_s_per_image: float
    peak_pss_bytes: int | None
    num_rounds: int


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
    """The median over the rounds of ``rate / baseline rate``, with a percentile bootstrap interval.

    Rounds are resampled with replacement. Pairing within a round takes out what changes from round to round for all,
    such as the clock of a shared machine.

    Args:
        rates: by round index.
        baseline: the other contender's, by round index.
        seed: fixes the resampling.

    Returns:
        ``None`` where no round has both; without an interval for fewer than 6 rounds.
    """
    shared = sorted(rates.keys() & baseline.keys())
    if not shared:
        return None
    ratios: NDArray[np.float64] = np.array([rates[index] / baseline[index] for index in shared], dtype=np.float64)
    middle = float(np.median(ratios))
    if len(ratios) < _MIN_ROUNDS:
        return Ratio(middle, None, None, len(ratios))
    rounds = np.random.default_rng(seed).integers(0, len(ratios), size=(_RESAMPLES, len(ratios)))
    low, high = np.percentile(np.median(ratios[rounds], axis=1), _INTERVAL_PERCENT)
    return Ratio(middle, float(low), float(high), len(ratios))


def summarize(comparison: Comparison) -> tuple[Summary, ...]:
    """A row for each contender that finished a round, in the results' order."""
    rates = {result.name: _rates(result) for result in comparison.contenders if result.measurements}
    baseline = rates.get(comparison.baseline, {})
    return tuple(
        Summary(
            name=result.name,
            images_per_s=median(list(rates[result.name].values())),
            spread=spread(list(rates[result.name].values())),
            ratio=paired_ratio(rates[result.name], baseline, comparison.seed),
            first_batch_s=result.first_batch_s,
            cpu_s_per_image=median([entry.epoch.cpu_s / entry.epoch.num_samples for entry in result.measurements]),
            peak_pss_bytes=result.peak_pss_bytes,
            num_rounds=len(result.measurements),
        )
        for result in comparison.contenders
        if result.measurements
    )


def _rates(result: ContenderResult) -> dict[int, float]:
    return {entry.round_index: entry.epoch.images_per_s for entry in result.measurements}
