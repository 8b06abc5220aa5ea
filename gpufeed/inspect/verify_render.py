"""A verification as tables for people: rich on a terminal, plain ASCII elsewhere."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TextIO

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpufeed.inspect.verify_results import DrawCheck, OpCheck, Spread, Verification, WholeCheck

__all__ = ["render", "show"]

_WIDTH = 80  # of plain text
_LABEL = 27  # columns for an op in plain text
_GOOD, _BAD = "green", "bold red"


@dataclass(frozen=True, slots=True)
class _Signs:
    """The characters that differ between a terminal and plain ASCII."""

    dot: str
    at_most: str
    more: str
    box: box.Box


_RICH = _Signs(dot=" · ", at_most="≤ ", more="…", box=box.SIMPLE_HEAD)
_UNDERLINED_HEAD = box.Box("\n".join(("    ", "    ", " -- ", *("    ",) * 5, "")))
_ASCII = _Signs(dot=", ", at_most="<= ", more="...", box=_UNDERLINED_HEAD)


def show(verification: Verification, stream: TextIO) -> None:
    """Print it in the form that fits the stream: a terminal that can show it gets colours and signs."""
    if stream.isatty() and (stream.encoding or "").lower().replace("-", "") == "utf8":
        console = Console(file=stream)
        for part in _parts(verification, _RICH, _LABEL + max(console.width - _WIDTH, 0)):
            console.print(part)
    else:
        encoding = stream.encoding or "utf-8"  # a file's name may have signs that the stream lacks
        stream.write(render(verification).encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()


def render(verification: Verification, width: int = _WIDTH) -> str:
    """The verification as plain ASCII text of at most ``width`` columns, ending in a newline."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None, force_terminal=False, legacy_windows=False)
    for part in _parts(verification, _ASCII, _LABEL + max(width - _WIDTH, 0)):
        console.print(part, highlight=False)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def _parts(verification: Verification, signs: _Signs, label: int) -> Iterable[RenderableType]:
    yield Padding(_title(verification, signs), (0, 0, 1, 0))
    yield _ops_table(verification.ops, signs, label)
    if verification.whole is not None:
        yield Padding(_whole_table(verification.whole, signs), (1, 0, 0, 0))
    if verification.draws:
        yield Padding(_draws_table(verification.draws, signs, label), (1, 0, 0, 0))
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


def _table(signs: _Signs) -> Table:
    return Table(box=signs.box, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")


def _ops_table(ops: Iterable[OpCheck], signs: _Signs, label: int) -> Table:
    table = _table(signs)
    table.add_column("op, on torchvision's input\n(differences in 1/255)", no_wrap=True)
    table.add_column("sam-\nples", justify="right", no_wrap=True)
    table.add_column("\nmax", justify="right", no_wrap=True)
    table.add_column("\nmean", justify="right", no_wrap=True)
    table.add_column("\n99.9 %", justify="right", no_wrap=True)
    table.add_column("above\n1/255", justify="right", no_wrap=True)
    table.add_column("\nbound", no_wrap=True)
    table.add_column("", no_wrap=True)
    for check in ops:
        depth = check.place.count(".")
        name = check.short if check.place == "decode" else f"{check.place.rpartition('.')[2]} {check.short}"
        name = _cut(" " * depth + name, label, signs)
        if check.holds_ops:
            table.add_row(name)
            continue
        if check.spread is None:
            verdict = Text("EXCEEDED", style=_BAD) if check.exceeded else Text("not seen")
            table.add_row(name, str(check.num_samples), "", "", "", "", _bound(check, signs), verdict)
            continue
        table.add_row(name, str(check.num_samples), *_numbers(check.spread), _bound(check, signs), _op_verdict(check))
        for where, spread in (("border", check.border), ("interior", check.interior)):
            if spread is not None and check.spread.largest_255 > 0.0:
                table.add_row(" " * (depth + 2) + where, "", *_numbers(spread), style="dim")
    return table


def _cut(text: str, width: int, signs: _Signs) -> str:
    return text if len(text) <= width else text[: width - len(signs.more)] + signs.more


def _numbers(spread: Spread) -> tuple[str, str, str, str]:
    return (
        _number(spread.largest_255),
        _number(spread.mean_255),
        _number(spread.p999_255),
        _percent(spread.share_above_1),
    )


def _number(value: float) -> str:
    if value == 0.0:
        return "0"
    if value >= 1.0:
        return f"{value:.0f}" if abs(value - round(value)) < 1e-3 else f"{value:.1f}"
    return f"{value:.3f}" if value >= 0.0005 else f"{value:.0e}"


def _percent(share: float) -> str:
    if share == 0.0:
        return "0 %"
    return f"{100 * share:.3f} %" if share < 0.1 else f"{100 * share:.0f} %"


def _bound(check: OpCheck, signs: _Signs) -> str:
    if check.bound_kind == "exact":
        return "equal"
    if check.bound_largest_255 is None:
        return f"usual {check.bound_usual_255:.3g}"
    return f"{signs.at_most}{check.bound_largest_255:.3g}"


def _op_verdict(check: OpCheck) -> Text:
    if check.exceeded:
        return Text("EXCEEDED", style=_BAD)
    equal = check.spread is not None and check.spread.largest_255 == 0.0
    return Text("equal" if equal else "within", style=_GOOD)


def _whole_table(whole: WholeCheck, signs: _Signs) -> Table:
    spread, budget = whole.spread, whole.budget
    table = _table(signs)
    table.add_column("the loader against the transform itself", no_wrap=True)
    table.add_column("found", justify="right", no_wrap=True)
    table.add_column("budget", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for name, found, allowed, show_it in (
        ("mean difference, in 1/255", spread.mean_255, budget.mean_255, _number),
        ("99.9 % of values within, in 1/255", spread.p999_255, budget.p999_255, _number),
        ("values more than 1/255 off", spread.share_above_1, budget.share_above_1, _percent),
    ):
        table.add_row(name, show_it(found), show_it(allowed), _verdict_of(found <= allowed))
    kind = f"samples unlike {whole.dtype} {_shape(whole.shape)}"
    for name, count in (
        (kind, whole.num_shape_mismatches),
        ("samples unlike the ops in a row, bit for bit", whole.num_unlike_ops),
        ("samples where plan and transform differ", whole.num_unlike_plan),
    ):
        if count is not None:
            table.add_row(name, str(count), "0", _verdict_of(count == 0))
    return table


def _shape(shape: Iterable[int]) -> str:
    return "x".join(map(str, shape))


def _verdict_of(holds: bool) -> Text:
    return Text("within", style=_GOOD) if holds else Text("EXCEEDED", style=_BAD)


def _draws_table(draws: Iterable[DrawCheck], signs: _Signs, label: int) -> Table:
    table = _table(signs)
    table.add_column("what is drawn", no_wrap=True)
    table.add_column("gpufeed\nmean", justify="right", no_wrap=True)
    table.add_column("torchvision\nmean", justify="right", no_wrap=True)
    table.add_column("distri-\nbutions apart", justify="right", no_wrap=True)
    table.add_column("\nlimit", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    before = ""
    for check in draws:
        name = check.name.rpartition(".")[2]
        leaf = "" if check.place == before else name
        before = check.place
        if leaf:
            table.add_row(_cut(leaf, label, signs))
        table.add_row(
            _cut(f"  {check.quantity}", label, signs),
            f"{check.ours:.3f}",
            f"{check.theirs:.3f}",
            f"{check.statistic:.4f}",
            f"{check.limit:.4f}",
            _verdict_of(check.holds),
        )
    return table


def _paragraphs(verification: Verification, signs: _Signs) -> Iterable[Text]:
    bounded = [check for check in verification.ops if check.bound_words and not check.holds_ops]
    if bounded:
        yield Text(
            "Bounds: " + "; ".join(f"{check.place} {check.name}: {check.bound_words}" for check in bounded) + "."
        )
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
            f"Draws: {counts:,} of gpufeed's for files of these sizes, against torchvision's own. Equal distributions "
            "exceed any of these limits in fewer than 1 of 10,000 runs.",
            style="dim",
        )
    if verification.undrawn:
        yield Text("Not compared as distributions: " + "; ".join(verification.undrawn) + ".")
    if verification.left_out:
        first = verification.left_out[0]
        count = len(verification.left_out)
        yield Text(f"Left out: {count} of the files, the first is {first.file}: {first.reason}.", style="yellow")
    if verification.pictures:
        yield Text(f"Pictures: {', '.join(verification.pictures)}")


def _verdict(verification: Verification) -> Text:
    """The last line: what holds, or what doesn't."""
    stopped = "stopped by you; until then " if verification.interrupted else ""
    took = f" ({verification.elapsed_s:.0f} s)"
    if not verification.failures:
        return Text(f"{stopped}everything holds{took}", style=_GOOD)
    lines = [f"exceeded: {sentence}" for sentence in verification.failures]
    if stopped:
        lines.insert(0, "stopped by you")
    return Text("\n".join(lines), style=_BAD)
