"""A comparison for people: the verdict, then tables; rich on a terminal, plain ASCII elsewhere."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

from rich import box
from rich.console import Console, JustifyMethod, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpufeed import printing
from gpufeed.bench.caveats import drifted, noise_found, taken_away
from gpufeed.bench.gpu_figures import GpuSummary, gpu_summaries
from gpufeed.bench.limits import Limit, limit_of, rate_of
from gpufeed.bench.results import Comparison, Mode
from gpufeed.bench.statistics import Summary, summarize
from gpufeed.bench.verdict import OURS, Verdict, verdict
from gpufeed.printing import UNDERLINED_HEAD

__all__ = ["render", "show"]

_WIDTH = 80  # of plain text
_WIDE = 120  # columns from which the table has all of its own
_LONGEST_NAME = 22  # columns: a longer one goes on in the next line, and no figure is cut
_UNLIMITED = Console(width=1000, file=io.StringIO())  # to ask how wide a table would like to be


@dataclass(frozen=True, slots=True)
class _Signs:
    """The characters that differ between a terminal and plain ASCII."""

    times: str
    plus_minus: str
    dash: str
    dot: str
    box: box.Box


_RICH = _Signs(times="\N{MULTIPLICATION SIGN}", plus_minus="±", dash="\N{EN DASH}", dot=" · ", box=box.SIMPLE_HEAD)
_ASCII = _Signs(times="x", plus_minus="+-", dash="-", dot=", ", box=UNDERLINED_HEAD)


def show(comparison: Comparison, stream: TextIO) -> None:
    """Print the comparison in the form that fits the stream: a terminal that can show it gets colours and signs."""
    printing.show(lambda width: _parts(comparison, _RICH, width), lambda: render(comparison), stream)


def render(comparison: Comparison, width: int = _WIDTH) -> str:
    """The comparison as plain ASCII text of at most ``width`` columns, ending in a newline.

    Names and paths that aren't ASCII stay as they are. From 120 columns on the tables have more columns.
    """
    return printing.as_text(_parts(comparison, _ASCII, width), width)


def _parts(comparison: Comparison, signs: _Signs, width: int) -> Iterable[RenderableType]:
    yield _below(_title(comparison, signs))
    yield from _verdict(verdict(comparison))
    modes: tuple[Mode, ...] = ("loader", "step") if comparison.step is not None else ("loader",)
    for mode in modes:
        rows = [row for row in summarize(comparison, mode) if row.kind == "loader"]
        if not rows:
            continue
        if comparison.step is not None:
            yield Padding(Text(_mode_title(comparison, mode), style="bold"), (0 if mode == "loader" else 1, 0, 0, 0))
        yield _table(comparison, rows, signs, mode, width)
    if comparison.bounds:
        yield Padding(_bounds_table(comparison, signs), (1, 0, 0, 0))
    waiting = [row for row in summarize(comparison, modes[-1]) if row.kind == "loader" and row.waits is not None]
    if waiting:
        yield Padding(_waits_table(waiting, signs, modes[-1]), (1, 0, 0, 0))
    used = gpu_summaries(comparison, modes[-1])
    if used:
        yield Padding(_gpu_table(used, signs, modes[-1]), (1, 0, 0, 0))
    for paragraph in _paragraphs(comparison, signs):
        yield Padding(paragraph, (1, 0, 0, 0))


def _below(text: Text) -> Padding:
    return Padding(text, (0, 0, 1, 0))


def _title(comparison: Comparison, signs: _Signs) -> Text:
    where = comparison.device_name or comparison.device
    facts = [
        comparison.data,
        " ".join((comparison.transform, *comparison.parameters)),
        f"batch {comparison.batch_size}",
        f"{comparison.num_threads} threads",
        where,
    ]
    return Text.assemble(("gpufeed compare", "bold"), signs.dot, signs.dot.join(facts))


def _verdict(found: Verdict) -> Iterable[RenderableType]:
    yield _below(Text(found.headline, style="bold"))
    if found.sentences:
        yield _below(Text(" ".join(found.sentences)))


def _mode_title(comparison: Comparison, mode: Mode) -> str:
    step = comparison.step
    if mode == "loader" or step is None:
        return "Loader alone, batches thrown away"
    return f"With a step: {step.what}, {1000 * step.s_per_batch:.1f} ms per batch alone"


def _table(comparison: Comparison, rows: Sequence[Summary], signs: _Signs, mode: Mode, width: int) -> Table:
    """The loaders in a mode: with all columns where there is room, else with those that matter most and fit."""
    columns = _columns(comparison, rows, mode)
    kept = [column for column in columns if width >= _WIDE or not column.needs_room]
    table = _filled(comparison, rows, signs, kept)
    while Measurement.get(_UNLIMITED, _UNLIMITED.options, table).maximum > width and any(
        column.may_go for column in kept
    ):
        kept.remove([column for column in kept if column.may_go][-1])
        table = _filled(comparison, rows, signs, kept)
    return table


def _columns(comparison: Comparison, rows: Sequence[Summary], mode: Mode) -> list[_Column]:
    limits = {result.name: limit_of(comparison, result, mode) for result in comparison.loaders}
    columns: list[_Column] = []
    if any(limits[row.name] is not None for row in rows):
        columns += [
            _Column("% of\nbound", lambda row: _share(limits[row.name])),
            _Column("its\nbound", lambda row: _name(limits[row.name]), justify="left", needs_room=True),
        ]
    if mode == "step":
        if comparison.device == "cpu":
            columns.append(_Column("busy\nshare", lambda row: f"{100 * (1 - row.wait_share):.0f} %"))
        else:
            columns.append(_Column("\nwaits", lambda row: f"{100 * row.wait_share:.0f} %"))
    columns += [
        _Column("CPU\ncores", lambda row: f"{row.cpu_cores:.1f}", may_go=mode == "step"),
        _Column("CPU per\nimage", lambda row: f"{1000 * row.cpu_s_per_image:.2f} ms", needs_room=True),
    ]
    if mode == "loader":
        columns.append(_Column("first\nbatch", lambda row: f"{row.first_batch_s:.2f} s", may_go=True))
    return [
        *columns,
        _Column("peak\nmemory", lambda row: _memory(row.peak_pss_bytes)),
        _Column("\nrounds", lambda row: str(row.num_rounds), needs_room=True),
    ]


def _filled(comparison: Comparison, rows: Sequence[Summary], signs: _Signs, columns: Sequence[_Column]) -> Table:
    table = _empty_table(signs)
    table.add_column("\ncontender", max_width=_LONGEST_NAME, overflow="fold")
    table.add_column("images/s\nmedian", justify="right", no_wrap=True)
    table.add_column(f"\n{signs.plus_minus}", justify="right", no_wrap=True)
    table.add_column(f"{signs.times} {comparison.baseline}\nmedian  95 %", no_wrap=True)
    for column in columns:
        table.add_column(column.head, justify=column.justify, no_wrap=True)
    for row in rows:
        table.add_row(
            row.name,
            f"{row.images_per_s:,.0f}",
            f"{100 * row.spread:.1f} %",
            _ratio(row, comparison.baseline, signs),
            *(column.cell(row) for column in columns),
            style="bold" if row.name == OURS else "",
        )
    return table


def _bounds_table(comparison: Comparison, signs: _Signs) -> Table:
    table = _empty_table(signs)
    table.add_column("bound, which no\nloader can exceed", no_wrap=True)
    table.add_column("images/s\nmedian", justify="right", no_wrap=True)
    table.add_column("\nwhat is done")
    for bound in comparison.bounds:
        rate = rate_of(bound)
        if rate is not None:
            table.add_row(bound.name, f"{rate:,.0f}", bound.summary)
    return table


def _waits_table(rows: Sequence[Summary], signs: _Signs, mode: Mode) -> Table:
    table = _empty_table(signs)
    table.add_column(
        "waits for a batch, ms\n" + ("with the step" if mode == "step" else "loader alone"),
        max_width=_LONGEST_NAME,
        overflow="fold",
    )
    for head in ("p50", "p95", "p99", "max", "batches"):
        table.add_column(f"\n{head}", justify="right", no_wrap=True)
    for row in rows:
        waits = row.waits
        if waits is not None:
            times = (waits.p50_s, waits.p95_s, waits.p99_s, waits.max_s)
            table.add_row(row.name, *(_milliseconds(time_s) for time_s in times), f"{waits.num_batches:,}")
    return table


def _gpu_table(rows: Sequence[GpuSummary], signs: _Signs, mode: Mode) -> Table:
    table = _empty_table(signs)
    table.add_column(
        "what the GPU did\n" + ("with the step" if mode == "step" else "loader alone"),
        max_width=_LONGEST_NAME,
        overflow="fold",
    )
    for head in ("\nbusy", "JPEG\nengines", "peak\nmemory", "received\nover PCIe"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        received = row.pcie_received_bytes_per_s
        table.add_row(
            row.name,
            _percent(row.busy_share),
            _percent(row.jpeg_share),
            _memory(row.memory_bytes),
            "n/a" if received is None else f"{_memory(round(received))}/s",
        )
    return table


def _paragraphs(comparison: Comparison, signs: _Signs) -> Iterable[Text]:
    yield from _warnings(comparison, signs)
    repeated = comparison.samples_per_round > comparison.num_files
    images = f"{comparison.samples_per_round:,} images" + (f" ({comparison.num_files:,} files)" if repeated else "")
    ended = "stopped by you after" if comparison.interrupted else "took"
    text = (
        f"{comparison.num_rounds} rounds of {images}, interleaved in rotating order after a warm-up, each checked for "
        f"complete work; {ended} {comparison.elapsed_s:.0f} of {comparison.budget_s:.0f} s."
    )
    yield Text(f"{text} {comparison.cache}".rstrip())
    if comparison.torch_side:
        yield Text(f"torch's loaders ran what {comparison.torch_side} gives. {comparison.checked}".rstrip())
    elif comparison.checked:
        yield Text(comparison.checked)
    if comparison.left_out:
        yield Text("Left out: " + "; ".join(f"{left.name} ({left.reason})" for left in comparison.left_out) + ".")
    yield Text(_explained(comparison, signs), style="dim")
    if comparison.device == "cpu":
        yield Text(
            f"Without a GPU: reading, decoding and transforming all ran on {comparison.num_threads} CPU threads. With "
            "one, gpufeed decodes and transforms there and batches end in its memory, while torch's loaders still do "
            "both on the CPU and copy."
        )


def _warnings(comparison: Comparison, signs: _Signs) -> Iterable[Text]:
    """This machine's noise and drift, which say how far to trust the rest."""
    for caveat in (noise_found(comparison, dash=signs.dash), taken_away(comparison), drifted(comparison)):
        if caveat is not None:
            yield Text(caveat.text, style="yellow" if caveat.is_warning else "")


def _explained(comparison: Comparison, signs: _Signs) -> str:
    text = (
        f"{signs.plus_minus} spans the middle half of the rounds. The ratio is the median of the rounds' own ratios, "
        'not the ratio of the medians, and 95 % is its interval; "no difference" stands where that holds 1 or the '
        "effect is within the noise. CPU time and peak memory (PSS) are the host's, worker processes included."
    )
    if comparison.bounds:
        text += " % of bound: of the lowest bound that applies to a contender."
    if any(entry.epoch.waits_s for result in comparison.loaders for entry in result.measurements):
        text += " Waits are those of all batches, each epoch's first one included, for which queues are filled."
    if comparison.step is not None and comparison.device == "cpu":
        text += (
            " Busy share: 1 - the share of the time in which the loop waited for a batch, as there is no GPU to ask. "
            "It is of whole epochs; the verdict's waits are those of their second half, when the queues have settled."
        )
    return text


# Cells ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Column:
    """A column whose cells are text. It is there on wide terminals only, or goes where there is no room."""

    head: str
    cell: Callable[[Summary], str]
    justify: JustifyMethod = "right"
    needs_room: bool = False
    may_go: bool = False


def _empty_table(signs: _Signs) -> Table:
    return Table(box=signs.box, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")


def _ratio(row: Summary, baseline: str, signs: _Signs) -> Text:
    if row.name == baseline:
        return Text(" 1")
    ratio = row.ratio
    if ratio is None:
        return Text("n/a")
    if ratio.low is None or ratio.high is None:
        return Text(f"{ratio.median:5.2f}  too few")
    if row.difference == "none":
        return Text("no difference", style="dim")
    digits = 2 if ratio.high < 10 else 1
    colour = "green" if row.difference == "faster" else "red"
    interval = f"  {ratio.low:.{digits}f}{signs.dash}{ratio.high:.{digits}f}"
    return Text.assemble((f"{ratio.median:5.{digits}f}", colour), interval)


def _share(limit: Limit | None) -> str:
    return "n/a" if limit is None else f"{100 * limit.share:.0f} %"


def _percent(share: float | None) -> str:
    return "n/a" if share is None else f"{100 * share:.0f} %"


def _name(limit: Limit | None) -> str:
    return "" if limit is None else limit.bound


def _memory(size: int | None) -> str:
    if size is None:
        return "n/a"
    if size < 999.5e6:
        return f"{size / 1e6:.0f} MB"
    return f"{size / 1e9:.2f} GB" if size < 9.995e9 else f"{size / 1e9:.1f} GB"


def _milliseconds(time_s: float) -> str:
    return f"{1000 * time_s:,.0f}" if time_s >= 0.1 else f"{1000 * time_s:.2g}"
