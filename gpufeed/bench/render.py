"""A comparison as a table for people: rich on a terminal, plain ASCII elsewhere."""

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
from gpufeed.bench.results import Comparison
from gpufeed.bench.statistics import Ratio, Summary, summarize
from gpufeed.printing import UNDERLINED_HEAD

__all__ = ["render", "show"]

_WIDTH = 80  # of plain text
_OURS = "gpufeed"


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
    printing.show(lambda _: _parts(comparison, _RICH), lambda: render(comparison), stream)


def render(comparison: Comparison, width: int = _WIDTH) -> str:
    """The comparison as plain ASCII text of at most ``width`` columns, ending in a newline."""
    return printing.as_text(_parts(comparison, _ASCII), width)


def _parts(comparison: Comparison, signs: _Signs) -> Iterable[RenderableType]:
    yield Padding(_title(comparison, signs), (0, 0, 1, 0))
    yield _table(comparison, summarize(comparison), signs)
    for paragraph in _paragraphs(comparison, signs):
        yield Padding(paragraph, (1, 0, 0, 0))


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


def _table(comparison: Comparison, rows: Iterable[Summary], signs: _Signs) -> Table:
    table = Table(box=signs.box, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("\ncontender", no_wrap=True)
    table.add_column("images/s\nmedian", justify="right", no_wrap=True)
    table.add_column(f"\n{signs.plus_minus}", justify="right", no_wrap=True)
    table.add_column(f"{signs.times} {comparison.baseline}\nmedian  95 %", no_wrap=True)
    table.add_column("first\nbatch", justify="right", no_wrap=True)
    table.add_column("CPU per\nimage", justify="right", no_wrap=True)
    table.add_column("peak\nmemory", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.name,
            f"{row.images_per_s:,.0f}",
            f"{100 * row.spread:.1f} %",
            _ratio(row, comparison.baseline, signs),
            f"{row.first_batch_s:.2f} s",
            f"{1000 * row.cpu_s_per_image:.2f} ms",
            _memory(row.peak_pss_bytes),
            style="bold" if row.name == _OURS else "",
        )
    return table


def _ratio(row: Summary, baseline: str, signs: _Signs) -> Text:
    if row.name == baseline:
        return Text(" 1")
    ratio = row.ratio
    if ratio is None:
        return Text("n/a")
    interval = "  too few" if ratio.low is None else f"  {ratio.low:.2f}{signs.dash}{ratio.high:.2f}"
    return Text.assemble((f"{ratio.median:5.2f}", _colour(ratio)), interval)


def _colour(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None or ratio.low <= 1 <= ratio.high:
        return ""
    return "green" if ratio.low > 1 else "red"


def _memory(size: int | None) -> str:
    return "n/a" if size is None else f"{size / 1e6:,.0f} MB"


def _paragraphs(comparison: Comparison, signs: _Signs) -> Iterable[Text]:
    repeated = comparison.samples_per_round > comparison.num_files
    images = f"{comparison.samples_per_round:,} images" + (f" ({comparison.num_files:,} files)" if repeated else "")
    ended = "stopped by you after" if comparison.interrupted else "took"
    yield Text(
        f"{comparison.num_rounds} rounds of {images}, interleaved in rotating order after a warm-up, each checked for "
        f"complete work; {ended} {comparison.elapsed_s:.0f} of {comparison.budget_s:.0f} s."
    )
    if comparison.torch_side:
        yield Text(f"torch's loaders ran what {comparison.torch_side} gives. {comparison.checked}".rstrip())
    elif comparison.checked:
        yield Text(comparison.checked)
    if comparison.left_out:
        yield Text("Left out: " + "; ".join(f"{left.name} ({left.reason})" for left in comparison.left_out) + ".")
    yield Text(
        f"{signs.plus_minus} spans the middle half of the rounds. The ratio is the median of the rounds' own ratios, "
        "not the ratio of the medians, and 95 % is its interval. CPU time and peak memory (PSS) are the host's, worker "
        "processes included. First batch: in a fresh process, libraries imported.",
        style="dim",
    )
    if comparison.device == "cpu":
        yield Text(
            f"Without a GPU: reading, decoding and transforming all ran on {comparison.num_threads} CPU threads. With "
            "one, gpufeed decodes and transforms there and batches end in its memory, while torch's loaders still do "
            "both on the CPU and copy."
        )
