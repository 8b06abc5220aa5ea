"""Sections about waiting: for batches, and for the first one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

from gpufeed.bench.report.charts import Bar, Strip, bar_chart, wait_strips
from gpufeed.bench.report.elements import element
from gpufeed.bench.report.figures import last_rounds
from gpufeed.bench.report.quantities import percent, seconds, tick_seconds, unbroken
from gpufeed.bench.report.sections import MODES, WHERE, heading, style_of
from gpufeed.bench.report.tables import table
from gpufeed.bench.results import Comparison, Epoch, Mode
from gpufeed.bench.statistics import Summary, median, summarize

__all__ = ["first_batch", "waiting"]


def waiting(comparison: Comparison) -> Iterator[Element]:
    """Every loader's waits in its last round, batch by batch, and percentiles over all rounds."""
    found: dict[Mode, dict[str, Epoch]] = {mode: last_rounds(comparison, mode) for mode in MODES}
    if not any(found.values()):
        return
    yield from heading(
        "Waiting for batches",
        "How long the consumer waited for each batch of the last round: a column is a batch, from the first on the "
        "left to the last on the right, and its height is the wait. An arrow at the top marks a wait beyond the "
        "scale: the first batch mostly, for which queues are filled from empty.",
    )
    for mode, waits in found.items():
        if not waits:
            continue
        rows = {row.name: row for row in summarize(comparison, mode)}
        step = comparison.step if mode == "step" else None
        yield element("h3", WHERE[mode].capitalize())
        if step is not None:
            lead = (
                f"The dashed line is the step, {seconds(step.s_per_batch)} per batch. Shares are of whole rounds; the "
                "verdict's are of their second halves, when queues aren't being filled any more."
            )
            yield element("p", unbroken(lead), class_="lead")
        strips = [
            Strip(name, _wait_words(epoch, mode), epoch.waits_s, style_of(name, comparison))
            for name, epoch in waits.items()
        ]
        title = f"Wait for each batch of the last round, {WHERE[mode]}"
        step_s = None if step is None else step.s_per_batch
        yield element("figure", wait_strips(f"chart-waits-{mode}", title, strips, seconds, step_s))
        yield _wait_table([rows[name] for name in waits], mode)


def _wait_words(epoch: Epoch, mode: Mode) -> str:
    waiting = f"waits {percent(epoch.wait_share)}, " if mode == "step" else ""
    return f"{waiting}median {seconds(median(epoch.waits_s))}, max {seconds(max(epoch.waits_s))}"


def _wait_table(rows: Sequence[Summary], mode: Mode) -> Element:
    cells = [
        [
            row.name,
            *(seconds(value) for value in (row.waits.p50_s, row.waits.p95_s, row.waits.p99_s, row.waits.max_s)),
            *([percent(row.wait_share)] if mode == "step" else []),
            str(row.waits.num_batches),
        ]
        for row in rows
        if row.waits is not None
    ]
    caption = f"Waits over all rounds, {WHERE[mode]}"
    share = ["time waited"] if mode == "step" else []
    return table(caption, ["contender", "p50", "p95", "p99", "max", *share, "batches"], cells)


def first_batch(comparison: Comparison) -> Iterator[Element]:
    """How soon every loader has its first batch."""
    shown = [result for result in comparison.loaders if result.in_mode("loader")]
    if not shown:
        return
    yield from heading(
        "Time to the first batch", "In a fresh process whose libraries were imported already. Shorter is better."
    )
    bars = [
        Bar(result.name, result.first_batch_s, seconds(result.first_batch_s), style_of(result.name, comparison))
        for result in shown
    ]
    title = "Time to the first batch in a fresh process"
    yield element("figure", bar_chart("chart-first-batch", title, bars, tick_seconds))
