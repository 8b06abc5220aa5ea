"""What the page and the picture draw and no other part of the results has: rates' intervals and last rounds."""

from __future__ import annotations

from dataclasses import dataclass

from gpufeed.bench.report.quantities import TIMES
from gpufeed.bench.results import Comparison, ContenderResult, Epoch, Mode
from gpufeed.bench.statistics import MIN_ROUNDS, Difference, Summary, paired_ratio, summarize

__all__ = ["Rate", "last_rounds", "num_rounds", "rates", "ratio_words"]


@dataclass(frozen=True, slots=True)
class Rate:
    """A contender's rate in one mode, with what is drawn around it.

    Attributes:
        row: its figures.
        low: lower end of the 95 % interval of the median rate; ``None`` with too few rounds for one.
            [Unit: image/second]
        high: its upper end. [Unit: image/second]
        rounds: every round's rate, in order. [Unit: image/second]
    """

    row: Summary
    low: float | None
    high: float | None
    rounds: tuple[float, ...]


def num_rounds(comparison: Comparison, mode: Mode) -> int:
    """Rounds of a mode that at least one contender finished."""
    return len({entry.round_index for result in comparison.contenders for entry in result.in_mode(mode)})


def rates(comparison: Comparison, mode: Mode) -> tuple[Rate, ...]:
    """A row for each contender, copy and bound that finished a round, in the results' order."""
    results = {result.name: result for result in comparison.contenders}
    return tuple(_rate(row, results[row.name], mode, comparison.seed) for row in summarize(comparison, mode))


def _rate(row: Summary, result: ContenderResult, mode: Mode, seed: int) -> Rate:
    by_round = {entry.round_index: entry.epoch.images_per_s for entry in result.in_mode(mode)}
    own = paired_ratio(by_round, dict.fromkeys(by_round, 1.0), seed)  # to 1 in every round: the rate itself
    return Rate(row, own.low if own else None, own.high if own else None, tuple(by_round.values()))


def ratio_words(row: Summary, baseline: str) -> str:
    """What the ratio to the baseline shows, as ``2.13 × (2.09 to 2.17)``; empty for a bound and without a ratio."""
    ratio = row.ratio
    if row.name == baseline:
        return "the baseline"
    if ratio is None or row.kind == "bound":
        return ""
    if ratio.low is None or ratio.high is None:
        return f"{ratio.median:.2f} {TIMES}, fewer than {MIN_ROUNDS} rounds"
    return f"{ratio.median:.2f} {TIMES} ({ratio.low:.2f} to {ratio.high:.2f}){_DIFFERENCES[row.difference]}"


_DIFFERENCES: dict[Difference | None, str] = {
    "none": ", no difference shown",
    "faster": "",
    "slower": ", slower",
    "too few rounds": "",
    None: "",
}


def last_rounds(comparison: Comparison, mode: Mode) -> dict[str, Epoch]:
    """Each loader's last round of a mode, where the wait for each batch was taken."""
    found = {result.name: result.in_mode(mode) for result in comparison.loaders}
    return {
        name: measurements[-1].epoch
        for name, measurements in found.items()
        if measurements and measurements[-1].epoch.waits_s
    }
