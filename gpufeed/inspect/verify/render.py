"""A verification as tables for people: rich on a terminal, plain ASCII elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpufeed import printing
from gpufeed.inspect.places import number_of
from gpufeed.inspect.verify.results import DrawCheck, OpCheck, Spread, Verification, WholeCheck
from gpufeed.printing import UNDERLINED_HEAD

__all__ = ["number_text", "render", "show"]

_WIDTH = 80  # of plain text
_SHORTEST_LABEL = 4
_LEFT_OUT_SHOWN = 10
_GOOD, _BAD = "green", "bold red"


@dataclass(frozen=True, slots=True)
class _Signs:
    """The characters that differ between a terminal and plain ASCII."""

    dot: str
    at_most: str
    more: str
    box: box.Box


_RICH = _Signs(dot=" · ", at_most="≤ ", more="…", box=box.SIMPLE_HEAD)
_ASCII = _Signs(dot=", ", at_most="<= ", more="...", box=UNDERLINED_HEAD)


def show(verification: Verification, stream: TextIO) -> None:
    """Print it in the form that fits the stream: a terminal that can show it gets colours and signs."""
    printing.show(lambda width: _parts(verification, _RICH, width), lambda: render(verification), stream)


def render(verification: Verification, width: int = _WIDTH) -> str:
    """The verification as plain ASCII text of at most ``width`` columns, ending in a newline."""
    return printing.as_text(_parts(verification, _ASCII, width), width)


def _parts(verification: Verification, signs: _Signs, width: int) -> Iterable[RenderableType]:
    yield Padding(_title(verification, signs), (0, 0, 1, 0))
    yield Padding(Text("Each op on torchvision's own input; differences in 1/255 of full intensity."), (0, 0, 1, 0))
    yield _ops_table(verification.ops, signs, width)
    if verification.whole is not None:
        yield Padding(_whole_table(verification.whole, signs, width), (1, 0, 0, 0))
    if verification.draws:
        yield Padding(_draws_table(verification.draws, signs, width), (1, 0, 0, 0))
    for paragraph in _paragraphs(verification, signs):
        yield Padding(paragraph, (1, 0, 0, 0))
    yield Padding(_verdict(verification), (1, 0, 0, 0))


def _title(verification: Verification, signs: _Signs) -> Text:
    found = verification.whole.num_samples if verification.whole is not None else 0
    of = f" of {verification.num_chosen}" if found != verification.num_chosen else ""
    facts = [
        verification.data,
        verification.transform,
        f"{found}{of} samples",
        verification.device_name or verification.device,
        f"seed {verification.seed}",
    ]
    return Text.assemble(("gpufeed verify", "bold"), signs.dot, signs.dot.join(facts))


@dataclass(slots=True)
class _Rows:
    """A table of which only one column is cut where it is too wide: all others are shown whole.

    Attributes:
        headers: of the columns.
        left: the columns that are aligned to the left.
        label: the column that is cut.
    """

    headers: Sequence[str]
    left: Sequence[int]
    label: int
    rows: list[tuple[Sequence[str | Text], str]] = field(default_factory=list[tuple[Sequence[str | Text], str]])

    def add(self, *cells: str | Text, style: str = "") -> None:
        """A row; cells that aren't given are empty."""
        self.rows.append(((*cells, *[""] * (len(self.headers) - len(cells))), style))

    def table(self, signs: _Signs, width: int) -> Table:
        """The table in ``width`` columns."""
        table = Table(box=signs.box, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        last = len(self.headers) - 1
        for number, header in enumerate(self.headers):
            table.add_column(header, justify="left" if number in self.left else "right", no_wrap=True)
        others = sum(self._widest(number) + 2 for number in range(last + 1) if number != self.label)  # 2 for the gap
        label = max(width - others, _SHORTEST_LABEL)
        for cells, style in self.rows:
            shown = [_cut(str(one), label, signs) if at == self.label else one for at, one in enumerate(cells)]
            table.add_row(*shown, style=style)
        return table

    def _widest(self, number: int) -> int:
        texts = [self.headers[number], *(str(cells[number]) for cells, _ in self.rows)]
        return max(len(line) for text in texts for line in (text.splitlines() or [""]))


def _ops_table(ops: Iterable[OpCheck], signs: _Signs, width: int) -> Table:
    rows = _Rows(("", "\nop", "\nfiles", "\nmax", "\nmean", "\n99.9 %", "above\n1/255", "\nbound", ""), (0, 1, 7, 8), 1)
    for check in ops:
        indent = " " * check.place.count(".")
        name = indent + check.short
        if check.holds_ops:
            rows.add(check.number, name)
            continue
        if check.spread is None:
            verdict = Text("EXCEEDED", style=_BAD) if check.exceeded else Text("not seen")
            rows.add(check.number, name, str(check.num_samples), "", "", "", "", _bound(check, signs), verdict)
            continue
        found = (str(check.num_samples), *_numbers(check.spread))
        rows.add(check.number, name, *found, _bound(check, signs), _op_verdict(check))
        for where, spread in (("border", check.border), ("interior", check.interior)):
            if spread is not None and check.spread.largest_255 > 0.0:
                rows.add("", f"{indent}  {where}", "", *_numbers(spread), style="dim")
    return rows.table(signs, width)


def _cut(text: str, width: int, signs: _Signs) -> str:
    return text if len(text) <= width else text[: width - len(signs.more)] + signs.more


def _numbers(spread: Spread) -> tuple[str, str, str, str]:
    return (
        number_text(spread.largest_255),
        number_text(spread.mean_255),
        number_text(spread.p999_255),
        _percent(spread.share_above_1),
    )


def number_text(value: float) -> str:
    """A difference in 1/255, short."""
    if value == 0.0:
        return "0"
    if value >= 1.0:
        return f"{value:.0f}" if abs(value - round(value)) < 1e-3 else f"{value:.1f}"
    return f"{value:.3f}" if value >= 0.0005 else f"{value:.0e}"


def _percent(share: float) -> str:
    if share == 0.0:
        return "0 %"
    if share < 5e-6:
        return f"{100 * share:.0e} %"
    return f"{100 * share:.3f} %" if share < 0.1 else f"{100 * share:.0f} %"


def _whole_percent(share: float) -> str:
    return f"{100 * share:.6g} %"


def _bound(check: OpCheck, signs: _Signs) -> str:
    if check.bound_kind == "exact":
        return "equal"
    if check.bound_largest_255 is None:
        return f"{check.bound_usual_255:.3g} for\n{_whole_percent(1 - check.bound_share_beyond)}"
    return f"{signs.at_most}{check.bound_largest_255:.3g}"


def _op_verdict(check: OpCheck) -> Text:
    if check.exceeded:
        return Text("EXCEEDED", style=_BAD)
    equal = check.spread is not None and check.spread.largest_255 == 0.0
    return Text("equal" if equal else "within", style=_GOOD)


def _whole_table(whole: WholeCheck, signs: _Signs, width: int) -> Table:
    spread, budget = whole.spread, whole.budget
    rows = _Rows(("the loader against the transform itself", "found", "budget", ""), (0, 3), 0)
    for name, found, allowed, show_it in (
        ("mean difference, in 1/255", spread.mean_255, budget.mean_255, _precise),
        ("99.9 % of values within, in 1/255", spread.p999_255, budget.p999_255, _precise),
        ("values more than 1/255 off", spread.share_above_1, budget.share_above_1, _percent),
    ):
        rows.add(name, show_it(found), show_it(allowed), _verdict_of(found <= allowed))
    kind = f"samples: not {whole.dtype} {_shape(whole.shape)}"
    for name, count in (
        (kind, whole.num_shape_mismatches),
        ("samples: loader unlike its ops one after the other", whole.num_unlike_ops),
        ("samples: torchvision's objects unlike its functions", whole.num_unlike_plan),
    ):
        if count is not None:
            rows.add(name, str(count), "0", _verdict_of(count == 0))
    return rows.table(signs, width)


def _precise(value: float) -> str:
    """Three digits, so that what is found and what is allowed don't look alike where they differ."""
    return f"{value:.3g}"


def _shape(shape: Iterable[int]) -> str:
    return "x".join(map(str, shape))


def _verdict_of(holds: bool) -> Text:
    return Text("within", style=_GOOD) if holds else Text("EXCEEDED", style=_BAD)


def _draws_table(draws: Iterable[DrawCheck], signs: _Signs, width: int) -> Table:
    headers = (
        "",
        "\n\nwhat is drawn",
        "\ngpufeed\nmean",
        "\ntorchvision\nmean",
        "Kolmogorov-\nSmirnov\ndistance",
        "\n\nlimit",
        "",
    )
    rows = _Rows(headers, (0, 1, 6), 1)
    before = ""
    for check in draws:
        if check.place != before:
            rows.add(number_of(check.place), check.name.rpartition(".")[2])
        before = check.place
        rows.add(
            "",
            f"  {check.quantity}",
            f"{check.ours:.3f}",
            f"{check.theirs:.3f}",
            f"{check.statistic:.4f}",
            f"{check.limit:.4f}",
            _verdict_of(check.holds),
        )
    return rows.table(signs, width)


def _paragraphs(verification: Verification, signs: _Signs) -> Iterable[RenderableType]:
    bounded = [check for check in verification.ops if check.bound_words and not check.holds_ops]
    if bounded:
        yield _listed("Bounds:", dict.fromkeys(map(_bound_line, bounded)))
    if verification.whole is not None:
        yield Text(
            "Bounds hold for one op on torchvision's own input and don't compose. The budget of the whole is 1.5 times "
            "the sum of what each op's own differences amount to in the end, with torchvision doing the rest; without "
            "any it is a millionth of full intensity.",
            style="dim",
        )
    if verification.draws:
        counts = max(check.num_ours for check in verification.draws)
        yield Text(
            f"Draws: {counts:,} of gpufeed's for files of these sizes, against torchvision's own. The distance is the "
            "largest one between their distribution functions; that of a rate is the difference of the rates, and of "
            "several outcomes the one that is farthest off is shown. Equal distributions exceed any of these limits in "
            "fewer than 1 of 10,000 runs.",
            style="dim",
        )
    if verification.undrawn:
        yield Text("Not compared as distributions: " + "; ".join(verification.undrawn) + ".")
    if verification.left_out:
        yield _left_out(verification)
    if verification.pictures:
        yield Text(f"Pictures: {', '.join(verification.pictures)}")


def _bound_line(check: OpCheck) -> str:
    """What is promised, and where a share of the values may be farther off how large that share is."""
    op = " ".join(part for part in (check.number, check.name if check.number else check.short) if part)
    line = f"{op}: {check.bound_words}"
    spread = check.spread
    if spread is None or not check.bound_share_beyond:
        return line
    found, allowed = f"{100 * spread.share_beyond:.3g} %", _whole_percent(check.bound_share_beyond)
    line += f"; beyond: {found} of {allowed} allowed"
    num_beyond = round(spread.share_beyond * spread.num_values)
    if check.bound_share_beyond * spread.num_values < num_beyond <= check.num_beyond_allowed:
        line += f" ({num_beyond} of {spread.num_values:,} values, {check.num_beyond_allowed} may be)"
    return line


def _listed(title: str, lines: Iterable[str], style: str = "") -> Table:
    """A title and indented lines."""
    table = Table.grid(padding=(0, 1, 0, 0))
    for line in lines:
        table.add_row(Text("-", style=style), Text(line, style=style, overflow="fold"))
    whole = Table.grid()
    whole.add_row(Text(title, style=style))
    whole.add_row(table)
    return whole


def _left_out(verification: Verification) -> Table:
    """The files that can't be loaded, and why."""
    left_out = verification.left_out
    lines = [f"{left.file}: {left.reason}" for left in left_out[:_LEFT_OUT_SHOWN]]
    if len(left_out) > _LEFT_OUT_SHOWN:
        lines.append(f"and {len(left_out) - _LEFT_OUT_SHOWN} more")
    return _listed(f"{len(left_out)} of {verification.num_chosen} files can't be loaded:", lines, "yellow")


def _verdict(verification: Verification) -> Text:
    """The last line: what holds, for how many of the files, or what doesn't."""
    seen, chosen = verification.whole.num_samples if verification.whole else 0, verification.num_chosen
    left_out = f"; {len(verification.left_out)} can't be loaded" if verification.left_out else ""
    stopped = f"stopped by you after {seen} of {chosen} samples" if verification.interrupted else ""
    of = f"{stopped}; until then " if stopped else f"{seen} of {chosen} files: " if left_out else ""
    took = f" ({verification.elapsed_s:.0f} s)"
    if not verification.failures:
        return Text(f"{of}everything holds{left_out}{took}", style=_GOOD)
    lines = [f"exceeded: {sentence}" for sentence in verification.failures]
    if stopped or left_out:
        lines.insert(0, f"{stopped or f'compared: {seen} of {chosen} files'}{left_out}")
    return Text("\n".join(lines), style=_BAD)
