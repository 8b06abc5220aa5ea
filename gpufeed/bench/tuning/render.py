"""A tuning for people: what was chosen, the charts, and every setting that was tried."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TextIO

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpufeed import printing
from gpufeed.bench.tuning.curves import Curve, curves_of, knee_sentence
from gpufeed.bench.tuning.results import Trial, Tuned, Tuning
from gpufeed.bench.tuning.space import cost, describe
from gpufeed.printing import UNDERLINED_HEAD

__all__ = ["memory_text", "render", "show", "trials_table"]

_WIDTH = 80  # of plain text
_LABEL, _VALUE = 4, 9  # columns of a chart's numbers
_MOST_BAR = 60
_MUCH_NOISE = 0.1


@dataclass(frozen=True, slots=True)
class _Signs:
    """The characters that differ between a terminal and plain ASCII."""

    full: str
    parts: str
    dot: str
    box: box.Box


_RICH = _Signs(full="█", parts=" ▏▎▍▌▋▊▉", dot=" · ", box=box.SIMPLE_HEAD)
_ASCII = _Signs(full="#", parts=" ", dot=", ", box=UNDERLINED_HEAD)


def show(tuning: Tuning, stream: TextIO) -> None:
    """Print the tuning in the form that fits the stream: a terminal that can show it gets colours and signs."""
    printing.show(lambda width: _parts(tuning, _RICH, width), lambda: render(tuning), stream)


def render(tuning: Tuning, width: int = _WIDTH) -> str:
    """The tuning as plain ASCII text of at most ``width`` columns, ending in a newline."""
    return printing.as_text(_parts(tuning, _ASCII, width), width)


def memory_text(size: int | None) -> str:
    """Bytes in megabytes."""
    return "memory n/a" if size is None else f"{size / 1e6:,.0f} MB"


def _parts(tuning: Tuning, signs: _Signs, width: int) -> Iterable[RenderableType]:
    facts = [
        tuning.data,
        " ".join((tuning.transform, *tuning.parameters)),
        f"batch {tuning.batch_size}",
        f"{tuning.num_cpus} CPUs",
        tuning.device_name or tuning.device,
        *([f"step {tuning.step}"] if tuning.step else []),
    ]
    yield Text.assemble(("gpufeed tune", "bold"), signs.dot, signs.dot.join(facts))
    for tuned in tuning.loaders:
        yield Padding(_chosen(tuned), (1, 0, 0, 0))
    for tuned in tuning.loaders:
        for curve in curves_of(tuned):
            yield Padding(_chart(curve, signs, width), (1, 0, 0, 0))
    for tuned in tuning.loaders:
        if tuned.trials:
            yield Padding(Text(f"{tuned.loader}: every setting that was tried", style="bold"), (1, 0, 0, 0))
            yield trials_table(tuned, signs.box)
    for sentence in _sentences(tuning):
        yield Padding(Text(sentence), (1, 0, 0, 0))


def _chosen(tuned: Tuned) -> Text:
    trial = tuned.best_trial
    if tuned.best is None or trial is None:
        return Text(
            f"{tuned.loader}: {'no setting can be used' if tuned.trials else 'there was no time to measure it'}"
        )
    return Text.assemble(
        (f"{tuned.loader:8}", "bold"),
        (describe(tuned.best), "bold green"),
        f": {trial.rate:,.0f} images/s, {memory_text(trial.peak_memory_bytes)}",
    )


def _chart(curve: Curve, signs: _Signs, width: int) -> Text:
    unit = "images/s" if curve.quantity == "throughput" else "MB, peak"
    scale = 1.0 if curve.quantity == "throughput" else 1e6
    most = max(point.value for point in curve.points)
    room = max(10, min(_MOST_BAR, width - _LABEL - _VALUE - 12))
    lines = Text.assemble((curve.title, "bold"), f" ({unit}; {curve.note})")
    for point in curve.points:
        bar = _bar(point.value / most * room, signs)
        lines.append(f"\n{point.at:{_LABEL}} ")
        lines.append(f"{bar:{room}}", style="green" if point.is_chosen else "cyan")
        lines.append(f" {point.value / scale:{_VALUE},.0f}{'  chosen' if point.is_chosen else ''}")
    return lines


def _bar(length: float, signs: _Signs) -> str:
    whole = int(length)
    part = signs.parts[int((length - whole) * len(signs.parts))]
    return (signs.full * whole + part).rstrip()


def trials_table(tuned: Tuned, style: box.Box = box.SIMPLE_HEAD, most: int | None = None) -> Table:
    """A row for each setting that was tried, the cheapest first; the chosen one is marked.

    Args:
        tuned: what was tried.
        style: of the lines.
        most: rows; the fastest then.
    """
    table = Table(box=style, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column(tuned.loader)
    table.add_column("images/s", justify="right", no_wrap=True)
    table.add_column("of best", justify="right", no_wrap=True)
    table.add_column("runs", justify="right", no_wrap=True)
    table.add_column("memory", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    best = max((trial.rate for trial in tuned.trials), default=0.0)
    shown = sorted(tuned.trials, key=lambda trial: -trial.rate)[:most]
    for trial in sorted(shown, key=lambda trial: cost(trial.setting)):
        table.add_row(
            describe(trial.setting),
            f"{trial.rate:,.0f}" if trial.images_per_s else "",
            f"{trial.rate / best:.0%}" if trial.images_per_s else "",
            str(len(trial.images_per_s)),
            "" if trial.peak_memory_bytes is None else memory_text(trial.peak_memory_bytes),
            _mark(tuned, trial),
            style="bold" if trial.setting == tuned.best else "",
        )
    return table


def _mark(tuned: Tuned, trial: Trial) -> str:
    if trial.setting == tuned.best:
        return "chosen" if tuned.finished else "best yet"
    if trial.failure:
        return "failed"
    return "too much" if trial.setting in tuned.over_memory else ""


def _sentences(tuning: Tuning) -> Iterable[str]:
    knees = " ".join(filter(None, map(knee_sentence, tuning.loaders)))
    if knees:
        yield knees
    for tuned in tuning.loaders:
        if (tuned.noise or 0.0) > _MUCH_NOISE:
            yield (
                f"{tuned.loader}: epochs of the same setting differed by {tuned.noise:.0%} (standard deviation), so "
                "something else was using this machine, or its clock changed; tune again when it is idle."
            )
    failures = [trial.failure for tuned in tuning.loaders for trial in tuned.trials if trial.failure]
    if failures:
        yield "Failed: " + "; ".join(failures) + "."
    if tuning.left_out:
        yield "Left out: " + "; ".join(f"{left.name} ({left.reason})" for left in tuning.left_out) + "."
    ended = "was stopped by you after" if tuning.interrupted else "took"
    cut = " The time was up before the search was done: a larger --budget would tell more." if _was_cut(tuning) else ""
    limit = "" if tuning.max_memory_bytes is None else f" Above {memory_text(tuning.max_memory_bytes)} none is chosen."
    yield (
        "Of settings within the noise the cheaper is chosen: fewer workers or threads, then fewer batches under way."
        f"{limit} Short epochs, interleaved, each setting in a process of its own, files read before; memory is with "
        f"full queues. It {ended} {tuning.elapsed_s:.0f} of {tuning.budget_s:.0f} s.{cut}"
    )


def _was_cut(tuning: Tuning) -> bool:
    return not tuning.interrupted and any(not tuned.finished for tuned in tuning.loaders)
