"""Sections about speed: rates, bounds, and what an image costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from xml.etree.ElementTree import Element

from gpufeed.bench.caveats import Caveat, noise_found
from gpufeed.bench.limits import bound_rates, limit_of
from gpufeed.bench.report.charts import Bar, Rung, bar_chart, ladder, shortened
from gpufeed.bench.report.elements import element
from gpufeed.bench.report.figures import Rate, rates, ratio_words
from gpufeed.bench.report.quantities import (
    TIMES,
    compact,
    per_second,
    percent,
    plain_number,
    seconds,
    tick_number,
    tick_seconds,
    unbroken,
)
from gpufeed.bench.report.sections import WHERE, heading, style_of
from gpufeed.bench.report.tables import facts, table
from gpufeed.bench.results import Comparison, Mode
from gpufeed.bench.statistics import noise_of

__all__ = ["bounds", "costs", "throughput"]

_DATA_PARTS = {"read", "decode"}
_COSTS_LEAD = (
    "Each part of loading an image as torch's loaders do, in one thread. The shares are of these parts together; "
    "those in the verdict are of a loader's whole time per image."
)


def throughput(comparison: Comparison, mode: Mode) -> Iterator[Element]:
    """Everybody's rate in a mode, the copy's among them."""
    step = comparison.step
    if mode == "loader" or step is None:
        title, lead = "Throughput", "Batches are fetched and thrown away: what the loader alone can deliver."
    else:
        alone = f"{seconds(step.s_per_batch)} per batch where one is always there"
        title, lead = "Throughput with the step", f"Each batch feeds a training step: {step.what}, {alone}."
    shown = [rate for rate in rates(comparison, mode) if rate.row.kind != "bound"]
    ratios = f" Ratios ({TIMES}) are to {comparison.baseline}." if len(shown) > 1 else ""
    yield from heading(title, f"{lead}{ratios}")
    if not shown:
        yield element("p", "No round was finished.")
        return
    bars = [_rate_bar(rate, comparison) for rate in shown]
    chart = bar_chart(f"chart-rates-{mode}", f"{title}, images per second", bars, tick_number)
    yield element("figure", chart)
    if mode == "loader" or noise_of(comparison, mode) is not None:  # else the loader's is what holds here too
        yield _paragraph(noise_found(comparison, mode))
    yield _rate_table(shown, comparison, mode)
    if comparison.left_out and mode == "loader":
        left = "; ".join(f"{left.name} ({left.reason})" for left in comparison.left_out)
        yield element("p", f"Left out: {left}.", class_="after")


def _rate_bar(rate: Rate, comparison: Comparison) -> Bar:
    row = rate.row
    return Bar(
        label=row.name,
        value=row.images_per_s,
        text=per_second(row.images_per_s),
        style=style_of(row.name, comparison),
        note=ratio_words(row, comparison.baseline),
        low=rate.low,
        high=rate.high,
        marks=rate.rounds,
    )


def _paragraph(caveat: Caveat) -> Element:
    return element("p", unbroken(caveat.text), class_="note" if caveat.is_warning else None)


def _rate_table(shown: Sequence[Rate], comparison: Comparison, mode: Mode) -> Element:
    head = ["contender", "images/s", "95 % interval", f"{TIMES} {comparison.baseline}", "95 % interval"]
    head += ["rounds", "busy share"] if mode == "step" else ["rounds"]
    cells: list[list[str]] = []
    for rate in shown:
        row, ratio = rate.row, rate.row.ratio
        is_baseline = row.name == comparison.baseline
        cells.append(
            [
                row.name,
                plain_number(row.images_per_s),
                _interval(rate.low, rate.high, plain_number),
                "1" if is_baseline else "n/a" if ratio is None else f"{ratio.median:.2f}",
                "" if is_baseline or ratio is None else _interval(ratio.low, ratio.high, lambda end: f"{end:.2f}"),
                str(row.num_rounds),
                *([percent(1 - row.wait_share)] if mode == "step" else []),
            ]
        )
    busy = "; the busy share is 1 - wait share" if mode == "step" else ""
    return table(f"Medians over the rounds, {WHERE[mode]}{busy}", head, cells)


def _interval(low: float | None, high: float | None, words: Callable[[float], str]) -> str:
    return "too few rounds" if low is None or high is None else f"{words(low)} to {words(high)}"


def bounds(comparison: Comparison) -> Iterator[Element]:
    """Each loader as a share of what limits it, and all on one ladder; nothing where no bound was measured."""
    allowed = bound_rates(comparison)
    if not allowed:
        return
    yield from heading(
        "How near to the bounds",
        "No loader can be faster than the slowest thing that it must do. Each is shown as a share of the bound that "
        "limits it.",
    )
    limits = [
        (result.name, limit) for result in comparison.loaders if (limit := limit_of(comparison, result)) is not None
    ]
    shares = [
        Bar(
            label=name,
            value=limit.share,
            text=percent(limit.share),
            style=style_of(name, comparison),
            note=f"of {shortened(limit.bound)}, {per_second(limit.images_per_s)}",
            is_framed=True,
        )
        for name, limit in limits
    ]
    if shares:
        title = "Share of the bound that limits each contender"
        yield element("figure", bar_chart("chart-shares", title, shares, percent, largest=1.0))
    rungs = [Rung(name, rate, per_second(rate), "bound") for name, rate in allowed.items()]
    rungs += [
        Rung(
            rate.row.name, rate.row.images_per_s, per_second(rate.row.images_per_s), style_of(rate.row.name, comparison)
        )
        for rate in rates(comparison, "loader")
        if rate.row.kind == "loader"
    ]
    yield element("h3", "The ladder")
    title = "Bounds and contenders, images per second on a logarithmic scale"
    yield element("figure", ladder("chart-ladder", title, rungs, compact))
    summaries = {result.name: result.summary for result in comparison.bounds}
    yield facts({name: summaries.get(name, "") for name in allowed})


def costs(comparison: Comparison) -> Iterator[Element]:
    """What each part of loading an image costs a thread; nothing where that wasn't measured."""
    if not comparison.costs:
        return
    whole_s = sum(cost.s_per_image for cost in comparison.costs) or 1.0
    bars = [
        Bar(
            label=cost.part.partition("(")[0],
            value=cost.s_per_image,
            text=f"{seconds(cost.s_per_image)}, {percent(cost.s_per_image / whole_s)}",
            style="baseline" if cost.part in _DATA_PARTS else "other",
        )
        for cost in comparison.costs
    ]
    yield from heading("What an image costs", _COSTS_LEAD)
    title = "Time per image of each part of loading, one thread"
    yield element("figure", bar_chart("chart-costs", title, bars, tick_seconds))
