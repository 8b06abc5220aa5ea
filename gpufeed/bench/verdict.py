"""What a comparison's figures mean: what holds the baseline back, what gpufeed changes, what holds gpufeed back then.

Pure: from raw results alone. The rules, in the order in which they are tried:

1. **undecided**: the baseline has fewer than ``MIN_ROUNDS`` rounds.
2. **step-bound**: there is a step, and with the baseline the loop waits at most ``WAITS_AT_MOST`` of the time for
   batches (in the second half of epochs, see :func:`~gpufeed.bench.statistics.steady_wait_share`): a loader that costs
   nothing could gain no more than that.
3. Otherwise the time per image that the baseline takes alone, ``1 / rate``, is split up:

   - *reading*: what the storage bound takes, or what one thread takes by the number of threads; the longer, as a slow
     disk shows in the one and a slow answer of it in the other.
   - *decoding*: likewise.
   - *transforms*: what one thread takes by the number of CPUs that the threads can use.
   - *everything else*: what is left: collating, passing batches between processes, copies, and waiting for any of it.

   Everything else is to blame only if it is more than ``ELSE_AT_LEAST`` of the time, as two threads on one core run at
   half to two thirds of their speed alone, and that lands there too. Else the largest of the three is.
   **storage-bound**, **decode-bound**, **transform-bound** and **loader-overhead-bound** are these four. Where the
   transforms' costs weren't measured, only a part of at least half is named; else it is **undecided**.
4. **no-difference** takes the place of decode-bound, loader-overhead-bound and undecided where gpufeed was measured and
   no difference to the baseline is shown: both do the same work equally well. Where the storage or a transform holds
   both back, that remains the verdict, since it says what to change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from gpufeed.bench.limits import STEP, Limit, bound_rates, limit_of, step_rate
from gpufeed.bench.results import Comparison, ContenderResult, Mode
from gpufeed.bench.statistics import (
    LEAST_EFFECT,
    MIN_ROUNDS,
    Ratio,
    Summary,
    noise_of,
    steady_wait_share,
    summarize,
)
from gpufeed.bench.time_parts import TimeParts, time_parts

__all__ = ["ELSE_AT_LEAST", "OURS", "WAITS_AT_MOST", "Verdict", "VerdictKind", "verdict"]

OURS = "gpufeed"
"""The contender that a verdict is about."""

WAITS_AT_MOST = 0.05
"""Of a step-bound loop's time. No loader can gain more than 1 / (1 - 0.05), and less is hardly told from noise."""

ELSE_AT_LEAST = 0.5
"""Of the time must be accounted for by nothing else before the loader itself is blamed."""

_NEAR_A_BOUND = 0.75
"""Of a bound: nearer, the bound is what holds a loader back, as another third is the most that is left."""

_NEARLY = 0.8
"""Of the largest part: then the headline names both."""

_LONGEST_NAME = 40  # characters of a transform in a sentence

_FAR_ABOVE_A_BOUND = 1.25
"""Of a bound: bounds are measured in few rounds, but not so few."""

VerdictKind = Literal[
    "step-bound",
    "storage-bound",
    "decode-bound",
    "transform-bound",
    "loader-overhead-bound",
    "no-difference",
    "undecided",
]

_DOING = {
    "storage": "reading the files",
    "decode": "decoding whole images",
    "region-decode": "decoding the region that is needed",
    "cached": "handing batches over",
    "synthetic": "handing batches over",
    STEP: "the step",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A comparison's meaning in words.

    Attributes:
        kind: what holds the baseline back, or that nothing differs.
        headline: one sentence.
        sentences: the reasons and what follows, each with its figures.
        figures: the same figures as numbers; those that couldn't be had are missing. ``baseline_images_per_s``,
            ``gpufeed_images_per_s``, ``step_images_per_s``: rates. ``ratio``, ``ratio_low``, ``ratio_high``: gpufeed to
            the baseline, end to end where there is a step, else alone. ``loader_ratio``: alone. ``noise``: the relative
            effect below which nothing is shown. ``expected_gain``: times as fast, end to end where there is a step.
            ``baseline_wait_share``, ``gpufeed_wait_share``: of a training loop. ``read_share``, ``decode_share``,
            ``transform_share``, ``else_share``: of the baseline's time per image. ``dearest_share``: of the dearest
            transform. ``gpufeed_bound_share``: of the lowest bound.
    """

    kind: VerdictKind
    headline: str
    sentences: tuple[str, ...]
    figures: dict[str, float]


def verdict(comparison: Comparison) -> Verdict:
    """What the comparison means; see the module's docstring for the rules."""
    facts = _Facts.of(comparison)
    if facts.baseline is None or facts.baseline.num_rounds < MIN_ROUNDS:
        return _too_few_rounds(facts)
    if _is_step_bound(facts):
        kind: VerdictKind = "step-bound"
    else:
        kind = _held_back_by(facts.parts)
        if kind in ("decode-bound", "loader-overhead-bound", "undecided") and facts.effect == "none":
            kind = "no-difference"
    sentences = (*_cause(facts), *_change(facts), *_now(facts), *_fastest(facts))
    return Verdict(kind, _headline(kind, facts), sentences, _figures(facts))


@dataclass(frozen=True, slots=True)
class _Facts:
    """What sentences are made of. ``deciding`` is the mode whose ratio counts: with the step where there is one."""

    comparison: Comparison
    rows: dict[tuple[str, Mode], Summary]
    parts: TimeParts | None
    step_images_per_s: float | None
    waits: dict[str, float]
    limit: Limit | None
    noise: float

    @classmethod
    def of(cls, comparison: Comparison) -> _Facts:
        modes: tuple[Mode, Mode] = ("loader", "step")
        rows: dict[tuple[str, Mode], Summary] = {
            (row.name, mode): row for mode in modes for row in summarize(comparison, mode)
        }
        results: dict[str, ContenderResult] = {result.name: result for result in comparison.loaders}
        waits = {name: share for name, found in results.items() if (share := steady_wait_share(found)) is not None}
        mode: Mode = "step" if (OURS, "step") in rows else "loader"
        noise = noise_of(comparison, mode) or noise_of(comparison)
        return cls(
            comparison=comparison,
            rows=rows,
            parts=time_parts(comparison),
            step_images_per_s=step_rate(comparison),
            waits=waits,
            limit=limit_of(comparison, results[OURS], "loader") if OURS in results else None,
            noise=LEAST_EFFECT if noise is None else noise.relative,
        )

    @property
    def name(self) -> str:
        return self.comparison.baseline

    @property
    def baseline(self) -> Summary | None:
        return self.rows.get((self.name, "loader"))

    @property
    def ours(self) -> Summary | None:
        return None if self.name == OURS else self.rows.get((OURS, "loader"))

    @property
    def deciding(self) -> Summary | None:
        return None if self.name == OURS else self.rows.get((OURS, "step"), self.ours)

    @property
    def effect(self) -> str | None:
        return None if self.deciding is None else self.deciding.difference

    @property
    def most_gain(self) -> float | None:
        """What a loader that costs nothing would bring a training loop."""
        wait = self.waits.get(self.name)
        return None if wait is None or wait >= 1 else 1 / (1 - wait)

    @property
    def expected_gain(self) -> float | None:
        """Times as fast, by gpufeed's rate or, where it wasn't measured, at most by decoding alone.

        With a step by ``min(loader, step)``, and no more than what a loader that costs nothing would bring: where
        both share the processor, a loader alone is faster than it can be beside the step.
        """
        baseline = self.baseline
        if baseline is None:
            return None
        reachable = self.ours.images_per_s if self.ours is not None else _decoding_rate(self.comparison)
        if reachable is None:
            return None
        step = self.step_images_per_s
        if step is None:
            return reachable / baseline.images_per_s
        gain = min(reachable, step) / min(baseline.images_per_s, step)
        return gain if self.most_gain is None else min(gain, self.most_gain)


def _decoding_rate(comparison: Comparison) -> float | None:
    bounds = bound_rates(comparison)
    rates = [bounds[name] for name in ("decode", "region-decode") if name in bounds]
    return min(max(rates), bounds.get("storage", max(rates))) if rates else None


def _held_back_by(parts: TimeParts | None) -> VerdictKind:
    """What rule 3 makes of the parts."""
    if parts is None:
        return "undecided"
    known: dict[VerdictKind, float] = {
        "storage-bound": parts.read,
        "decode-bound": parts.decode,
        "transform-bound": parts.transforms or 0.0,
    }
    kind = max(known, key=lambda entry: known[entry])
    if parts.transforms is None:
        return kind if known[kind] >= ELSE_AT_LEAST else "undecided"
    return "loader-overhead-bound" if parts.other > ELSE_AT_LEAST else kind


def _is_step_bound(facts: _Facts) -> bool:
    wait = facts.waits.get(facts.name)
    if wait is not None:
        return wait <= WAITS_AT_MOST
    step = facts.step_images_per_s  # no epoch with a step was finished: by the rates alone
    return step is not None and facts.baseline is not None and facts.baseline.images_per_s >= step


def _delivered(facts: _Facts, name: str) -> float | None:
    """How much of what the step takes a loader delivers, in [0, 1]."""
    wait = facts.waits.get(name)
    if wait is not None:
        return 1 - wait
    row, step = facts.rows.get((name, "loader")), facts.step_images_per_s
    return None if row is None or step is None else min(1.0, row.images_per_s / step)


def _too_few_rounds(facts: _Facts) -> Verdict:
    rounds = 0 if facts.baseline is None else facts.baseline.num_rounds
    headline = f"Undecided: {facts.name} has {_count(rounds, 'round')}, and a verdict needs {MIN_ROUNDS}."
    return Verdict("undecided", headline, ("Give a longer --budget, or let it run to its end.",), _figures(facts))


# Headlines -----------------------------------------------------------------------------------------------------------


def _headline(kind: VerdictKind, facts: _Facts) -> str:
    parts = facts.parts
    if kind == "step-bound":
        delivered = _percent(_delivered(facts, facts.name) or 0.0)
        start = f"Step-bound: {facts.name} already delivers {delivered} of what the step takes"
        return f"{start}; {_step_bound_effect(facts)}."
    if kind == "no-difference" and facts.deciding is not None and facts.deciding.ratio is not None:
        return (
            f"No difference shown: gpufeed is {_times(facts.deciding.ratio)} as fast as {facts.name}, and effects up "
            f"to {_percent(facts.noise)} are nothing here."
        )
    if kind == "undecided" or parts is None:
        return f"{_effect_sentence(facts)}; what holds {facts.name} back can't be told from what was measured."
    time = f"of {facts.name}'s time per image"
    start = {
        "storage-bound": f"Storage-bound: reading takes {_percent(parts.read)} {time}",
        "decode-bound": f"Decode-bound: decoding takes {_percent(parts.decode)} {time}",
        "transform-bound": f"Transform-bound: transforms take {_percent(parts.transforms or 0.0)} {time}, "
        f"{_short(parts.dearest)} alone {_percent(parts.dearest_share)}",
        "loader-overhead-bound": f"Loader-overhead-bound: {_percent(parts.other)} {time} is neither reading, decoding "
        "nor transforming",
    }[kind]
    return f"{start}{_runner_up(kind, parts)}; {_effect_sentence(facts)}."


def _runner_up(kind: VerdictKind, parts: TimeParts) -> str:
    """What takes nearly as long as what the verdict names: another run might name that."""
    known: dict[VerdictKind, tuple[str, float]] = {
        "storage-bound": ("reading", parts.read),
        "decode-bound": ("decoding", parts.decode),
        "transform-bound": ("transforms", parts.transforms or 0.0),
    }
    if kind not in known:
        return ""
    _, most = known.pop(kind)
    what, share = max(known.values(), key=lambda entry: entry[1])
    return f", {what} {_percent(share)}" if share >= _NEARLY * most else ""


def _step_bound_effect(facts: _Facts) -> str:
    deciding = facts.deciding
    if deciding is not None and deciding.ratio is not None and (OURS, "step") in facts.rows:
        if facts.effect == "faster":
            return f"gpufeed still makes the loop {_times(deciding.ratio)} as fast"
        if facts.effect == "slower":
            return f"gpufeed makes the loop slower: {_times(deciding.ratio)} as fast"
    return "gpufeed can't help"


def _effect_sentence(facts: _Facts) -> str:
    """What gpufeed changes, without a full stop."""
    deciding = facts.deciding
    if deciding is None or deciding.ratio is None:
        gain = facts.expected_gain
        if gain is None or facts.name == OURS:
            return "only gpufeed was measured" if facts.name == OURS else "gpufeed wasn't measured"
        return f"gpufeed wasn't measured, and decoding alone would be {gain:.2f} times as fast"
    times = _times(deciding.ratio)
    where = " end to end" if (OURS, "step") in facts.rows else ""
    if facts.effect == "faster":
        return f"gpufeed is {times} as fast{where}"
    if facts.effect == "slower":
        return f"gpufeed is slower{where}: {times} as fast"
    if facts.effect == "none":
        return f"gpufeed makes no difference that shows{where}: {times} as fast"
    return f"gpufeed is {deciding.ratio.median:.2f} times as fast{where} in too few rounds for an interval"


# Sentences -----------------------------------------------------------------------------------------------------------


def _cause(facts: _Facts) -> Iterable[str]:
    """What holds the baseline back."""
    comparison, parts = facts.comparison, facts.parts
    wait, step = facts.waits.get(facts.name), comparison.step
    if step is not None and wait is not None:
        yield (
            f"With {facts.name} the loop waits {_percent(wait)} of the time for batches, so that no loader could make "
            f"it more than {facts.most_gain or 1:.2f} times as fast; the step ({step.what}) alone takes "
            f"{1000 * step.s_per_batch:.1f} ms per batch."
        )
        yield from _contended(facts)
    if parts is None:
        yield "Why isn't known: bounds and costs weren't measured."
        return
    alone = " alone" if step is not None else ""
    pieces = [f"reading {_percent(parts.read)}", f"decoding {_percent(parts.decode)}"]
    rest = "transforms and everything else"
    if parts.transforms is not None:
        named = f" ({_short(parts.dearest)} {_percent(parts.dearest_share)})" if parts.dearest else ""
        pieces.append(f"transforms {_percent(parts.transforms)}{named}")
        rest = "everything else"
    yield f"Of the time per image that {facts.name}{alone} takes, {', '.join(pieces)}, {rest} {_percent(parts.other)}."


def _contended(facts: _Facts) -> Iterable[str]:
    """Whether the step itself runs slower beside the loader."""
    row, alone = facts.rows.get((facts.name, "step")), facts.step_images_per_s
    wait = facts.waits.get(facts.name)
    if row is None or alone is None or wait is None or wait >= 1:
        return
    result = next(found for found in facts.comparison.loaders if found.name == facts.name)
    steps = [entry.epoch for entry in result.in_mode("step") if entry.epoch.step_s]
    if not steps:
        return
    ratio = sum(epoch.step_s for epoch in steps) * alone / sum(epoch.num_samples for epoch in steps)
    if ratio > 1 + WAITS_AT_MOST:
        yield f"The step takes {ratio:.2f} times as long beside {facts.name} as alone: they share the processor."


def _change(facts: _Facts) -> Iterable[str]:
    """What gpufeed changes, loader alone and end to end."""
    baseline, ours = facts.baseline, facts.ours
    if baseline is None or ours is None or ours.ratio is None:
        return
    yield (
        f"Batches thrown away, gpufeed delivers {ours.images_per_s:,.0f} images/s and {facts.name} "
        f"{baseline.images_per_s:,.0f}: {_times(ours.ratio)} as fast{_unshown(ours)}."
    )
    gain = facts.expected_gain if facts.step_images_per_s is not None else None
    expected = "" if gain is None else f"min(loader, step) lets one expect {gain:.2f} times end to end"
    end, end_baseline = facts.rows.get((OURS, "step")), facts.rows.get((facts.name, "step"))
    if end is not None and end_baseline is not None and end.ratio is not None:
        yield (
            f"With the step it is {end.images_per_s:,.0f} and {end_baseline.images_per_s:,.0f} images/s: "
            f"{_times(end.ratio)} as fast{_unshown(end)}; {expected}."
        )
    elif expected:
        yield f"No epoch with the step was measured of both; {expected}."


def _unshown(row: Summary) -> str:
    return ", no difference shown" if row.difference == "none" else ""


def _now(facts: _Facts) -> Iterable[str]:
    """What holds gpufeed back now."""
    if facts.ours is None:
        return
    wait = facts.waits.get(OURS)
    if wait is not None and wait <= WAITS_AT_MOST:
        yield f"With gpufeed the loop waits {_percent(wait)} of the time: the step is what holds it back now."
        return
    waiting = "" if wait is None else f"With gpufeed the loop still waits {_percent(wait)} of the time. "
    limit = facts.limit
    if limit is None:
        if waiting:
            yield waiting.rstrip()
        return
    if limit.share > _FAR_ABOVE_A_BOUND:
        yield (
            f"{waiting}gpufeed delivers {limit.share:.1f} times what {_DOING.get(limit.bound, limit.bound)} allows "
            f"({limit.images_per_s:,.0f} images/s): it does without that, and what holds it back now wasn't measured."
        )
        return
    reached = f"{waiting}gpufeed reaches {_percent(limit.share)} of what {_DOING.get(limit.bound, limit.bound)} allows"
    reached += f" ({limit.images_per_s:,.0f} images/s)"
    if limit.share >= _NEAR_A_BOUND:
        yield f"{reached}: that is what holds it back now."
    else:
        yield f"{reached}; the rest goes to transforms, batching and handing over."


def _fastest(facts: _Facts) -> Iterable[str]:
    """Who beats gpufeed; losses are told too."""
    ours = facts.deciding
    if ours is None:
        return
    mode: Mode = "step" if (OURS, "step") in facts.rows else "loader"
    rivals = [
        row
        for (name, measured), row in facts.rows.items()
        if measured == mode and row.kind == "loader" and name not in (OURS, facts.name)
    ]
    fastest = max(rivals, key=lambda row: row.images_per_s, default=None)
    if fastest is None or fastest.images_per_s <= ours.images_per_s * (1 + facts.noise):
        return
    yield (
        f"The fastest here is {fastest.name} with {fastest.images_per_s:,.0f} images/s, "
        f"{fastest.images_per_s / ours.images_per_s:.2f} times gpufeed's."
    )


def _figures(facts: _Facts) -> dict[str, float]:
    parts, deciding = facts.parts, facts.deciding
    ratio = None if deciding is None else deciding.ratio
    found = {
        "baseline_images_per_s": None if facts.baseline is None else facts.baseline.images_per_s,
        "gpufeed_images_per_s": None if facts.ours is None else facts.ours.images_per_s,
        "step_images_per_s": facts.step_images_per_s,
        "ratio": None if ratio is None else ratio.median,
        "ratio_low": None if ratio is None else ratio.low,
        "ratio_high": None if ratio is None else ratio.high,
        "loader_ratio": None if facts.ours is None or facts.ours.ratio is None else facts.ours.ratio.median,
        "noise": facts.noise,
        "expected_gain": facts.expected_gain,
        "baseline_wait_share": facts.waits.get(facts.name),
        "gpufeed_wait_share": facts.waits.get(OURS),
        "read_share": None if parts is None else parts.read,
        "decode_share": None if parts is None else parts.decode,
        "transform_share": None if parts is None else parts.transforms,
        "else_share": None if parts is None else parts.other,
        "dearest_share": parts.dearest_share if parts is not None and parts.dearest else None,
        "gpufeed_bound_share": None if facts.limit is None else facts.limit.share,
    }
    return {name: value for name, value in found.items() if value is not None}


def _times(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{ratio.median:.2f} times"
    return f"{ratio.median:.2f} times ({ratio.low:.2f} to {ratio.high:.2f})"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _short(transform: str) -> str:
    """A transform in a sentence: as it prints itself, or its class alone where that is long."""
    return transform if len(transform) <= _LONGEST_NAME else transform.partition("(")[0][:_LONGEST_NAME]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
