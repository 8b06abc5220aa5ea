"""The page's body: the verdict, the sections in order, every measurement, and how to read it."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from gpufeed.bench.caveats import drifted, taken_away
from gpufeed.bench.report.elements import element
from gpufeed.bench.report.figures import num_rounds
from gpufeed.bench.report.machine import compared, environment, gpu, processor
from gpufeed.bench.report.quantities import seconds, unbroken
from gpufeed.bench.report.sections import MODES, WHERE, heading
from gpufeed.bench.report.speed import bounds, costs, throughput
from gpufeed.bench.report.tables import table
from gpufeed.bench.report.waiting import first_batch, waiting
from gpufeed.bench.results import Comparison
from gpufeed.bench.verdict import Verdict

__all__ = ["body"]


def body(comparison: Comparison, verdict: Verdict) -> Iterator[Element]:
    """Everything below the page's head, from the verdict to how to read it."""
    yield from _verdict(comparison, verdict)
    yield from throughput(comparison, "loader")
    if comparison.step is not None:
        yield from throughput(comparison, "step")
    yield from bounds(comparison)
    yield from costs(comparison)
    yield from waiting(comparison)
    yield from first_batch(comparison)
    yield from processor(comparison)
    yield from gpu(comparison)
    yield from compared(comparison)
    yield from environment(comparison.environment)
    yield from _all_rounds(comparison)
    yield from _how_to_read(comparison)


def _verdict(comparison: Comparison, verdict: Verdict) -> Iterator[Element]:
    yield element("h1", unbroken(verdict.headline))
    if comparison.interrupted:
        rounds = num_rounds(comparison, "loader")
        yield element("p", f"Stopped early: {rounds} {_plural('round', rounds)} were measured.", class_="note")
    for text in _disturbances(comparison):
        yield element("p", unbroken(text), class_="note")
    yield element("ul", *(element("li", unbroken(sentence)) for sentence in verdict.sentences))


def _disturbances(comparison: Comparison) -> Iterator[str]:
    taken = taken_away(comparison)
    if taken is not None:
        yield taken.text
    for mode in MODES:
        drift = drifted(comparison, mode)
        if drift is not None:
            yield drift.text if mode == "loader" else f"{WHERE[mode].capitalize()}: {drift.text}"


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"


def _all_rounds(comparison: Comparison) -> Iterator[Element]:
    cells = [
        [
            result.name,
            "step" if entry.mode == "step" else "alone",
            str(entry.round_index + 1),
            str(entry.place + 1),
            f"{entry.epoch.images_per_s:,.1f}",
            f"{entry.epoch.elapsed_s:.3f} s",
            seconds(entry.epoch.first_batch_s),
            f"{entry.epoch.cpu_s:.2f} s",
            str(entry.epoch.num_batches),
        ]
        for result in comparison.contenders
        for entry in result.measurements
    ]
    if not cells:
        return
    yield from heading("All rounds")
    head = ("contender", "mode", "round", "place", "images/s", "took", "first batch", "CPU time", "batches")
    yield element(
        "details",
        element("summary", f"Show all {len(cells)} measurements"),
        table("Every measurement, as taken", head, cells),
    )


_PARAGRAPHS = (
    (
        "A bar is the median over the rounds, its whisker the 95 % interval of that median, and the ticks below it are "
        "the single rounds. Where rounds were too few for an interval there is none."
    ),
    (
        "Every round measures every contender once, in rotating order, so that what changes on the machine meets all "
        "of them; bounds are measured less often. A ratio is the median of the rounds' own ratios, not the ratio of "
        "the medians. Where its interval holds 1, or the effect is below the noise, no difference is shown. That "
        "doesn't mean that there is none."
    ),
    (
        "Bounds aren't loaders: each does one part of the work and nothing else. A share above 100 % is a bound that "
        "was measured slower than the loader, within the noise or because the loader has a faster way."
    ),
    (
        "Images differ in size, processors in their cores, disks in everything: these figures hold for this data on "
        "this machine."
    ),
)


def _how_to_read(comparison: Comparison) -> Iterator[Element]:
    yield from heading("How to read this")
    yield from (element("p", unbroken(text)) for text in _PARAGRAPHS)
    if comparison.step is not None:
        yield element(
            "p",
            "Alone, a loader is always waited for. With the step, it works while the step runs: only what it couldn't "
            "hide is a wait, and once the step is slower than the loader, a faster loader changes nothing.",
        )
    if comparison.device == "cpu":
        yield element(
            "p",
            "Without a GPU, reading, decoding and transforming all ran on "
            f"{comparison.num_threads} CPU threads. With one, gpufeed decodes and transforms there.",
        )
    yield element(
        "p",
        "Every measurement is in this file too: as JSON, in the element gpufeed-results near its end.",
    )
