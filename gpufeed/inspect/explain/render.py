"""An explanation as tables for people: rich on a terminal, plain ASCII elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TextIO

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpufeed import printing
from gpufeed.bounds import Bound
from gpufeed.inspect.explain.explanation import ExplainedGroup, ExplainedOp, ExplainedStep, Explanation
from gpufeed.inspect.places import number_of
from gpufeed.printing import UNDERLINED_HEAD
from gpufeed.spec import ImageSpec

__all__ = ["Notes", "exactness_of", "render", "show", "spec_text"]

_WIDTH = 80  # of plain text
_WIDE = 104  # from here on there is room for the inputs too
_LONGEST_WORD = 28  # of what is called; a call's arguments may be cut
_NOTHING = "passed through"


@dataclass(frozen=True, slots=True)
class _Signs:
    """The characters that differ between a terminal and plain ASCII."""

    dot: str
    box: box.Box


_RICH = _Signs(dot=" · ", box=box.SIMPLE_HEAD)
_ASCII = _Signs(dot=", ", box=UNDERLINED_HEAD)


def show(explanation: Explanation, stream: TextIO) -> None:
    """Print the explanation in the form that fits the stream: a terminal that can show it gets colours and signs."""
    printing.show(lambda width: _parts(explanation, _RICH, width), lambda: render(explanation), stream)


def render(explanation: Explanation, width: int = _WIDTH) -> str:
    """The explanation as plain text of at most ``width`` columns, ending in a newline."""
    return printing.as_text(_parts(explanation, _ASCII, width), width)


def _parts(explanation: Explanation, signs: _Signs, width: int) -> Iterable[RenderableType]:
    notes = Notes()
    facts = signs.dot.join((explanation.subject, f"on {explanation.device}"))
    yield Padding(Text.assemble(("gpufeed explain", "bold"), signs.dot, facts), (0, 0, 1, 0))
    yield _before(explanation, notes, signs, width)
    if notes.texts:
        yield Padding(notes.table(), (1, 0, 0, 0))
    if explanation.groups:
        yield Padding(_after(explanation, signs), (1, 0, 0, 0))
    if explanation.refused:
        yield Padding(_refusals(explanation), (1, 0, 0, 0))
    if explanation.sizes_vary and not explanation.unfit:
        yield Padding(
            Text("Images of unequal size need a collate_fn: the output's size follows the file's."), (1, 0, 0, 0)
        )
    yield Padding(_verdict(explanation), (1, 0, 0, 0))
    if explanation.unfit:
        yield Padding(Text(f"Refused: {explanation.unfit}.", style="red"), (1, 0, 0, 0))


@dataclass(slots=True)
class Notes:
    """What is said about bounds below the table, each once."""

    texts: list[str] = field(default_factory=list[str])

    def sign(self, text: str) -> str:
        """What stands in the table for a text."""
        if text not in self.texts:
            self.texts.append(text)
        return f"[{self.texts.index(text) + 1}]"

    def table(self) -> Table:
        """The signs, each with its text."""
        table = Table.grid(padding=(0, 1, 0, 0))
        for text in self.texts:
            table.add_row(Text(self.sign(text)), Text(text))
        return table


def _before(explanation: Explanation, notes: Notes, signs: _Signs, width: int) -> Table:
    """Per transform the ops that it became: side by side, or where that needs words to be cut one below the other."""
    wide = width >= _WIDE
    runs = any(explained.stage for step in explanation.each_step() for explained in step.ops)
    rows = [_Row(transform="the decoded image", dim=True, output=explanation.input)]
    for step, depth in _each_step(explanation.steps):
        rows += _rows(step, depth, notes, wide)
    for beside, with_input in ((True, wide), (False, wide), (False, False)):
        shown = rows if beside else [one for row in rows for one in _below(row)]
        columns = [
            _Column("", lambda row: row.number),
            _Column("transform", lambda row: row.padded(row.transform, row.depth), fold=True),
            *([_Column("becomes", lambda row: row.padded(row.op, row.op_depth), fold=True)] if beside else []),
            *([_Column("runs in", lambda row: row.runs_in)] if runs else []),
            *([_Column("input", lambda row: spec_text(row.input))] if with_input else []),
            _Column("output", lambda row: spec_text(row.output)),
            _Column("exactness", lambda row: row.exactness),
        ]
        least = [column.least(shown) for column in columns]
        if sum(least) + 2 * (len(columns) - 1) <= width:
            break
    table = Table(box=signs.box, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for column, narrowest in zip(columns, least, strict=True):
        header = "transform, and what it becomes" if column.header == "transform" and not beside else column.header
        table.add_column(header, no_wrap=not column.fold, overflow="fold", min_width=narrowest)
    for row in shown:
        table.add_row(*(column.cell(row) for column in columns))
    return table


def _below(row: _Row) -> Iterator[_Row]:
    """A row as one or two: the op below the transform, except where it is called as that, or that without Random."""
    if not row.op:
        yield row
    elif row.transform.partition("(")[0].removeprefix("Random") == row.op.removeprefix("Random"):
        yield replace(row, op="")
    elif row.op == _NOTHING:
        yield replace(row, op="", transform=f"{row.transform}: {row.op}")
    else:
        if row.transform:
            yield _Row(row.number, row.transform, row.depth, dim=row.dim)
        yield replace(row, number="", transform=f"-> {row.op}", depth=row.op_depth + 1, op="")


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the first table: a transform, or one of its ops; each as deep as it is inside of others."""

    number: str = ""
    transform: str = ""
    depth: int = 0
    op: str = ""
    op_depth: int = 0
    runs_in: str = ""
    input: ImageSpec | None = None
    output: ImageSpec | None = None
    exactness: Text = field(default_factory=Text)
    dim: bool = False

    def padded(self, text: str, depth: int) -> Padding:
        """A text of this row, indented; its lines too where it is folded."""
        return Padding(Text(text, style="dim" if self.dim or text == _NOTHING else ""), (0, 0, 0, 2 * depth))


@dataclass(frozen=True, slots=True)
class _Column:
    header: str
    cell: Callable[[_Row], str | Text | Padding]
    fold: bool = False

    def least(self, rows: Iterable[_Row]) -> int:
        """The columns that it needs; where it may be folded those of its longest word, but not for a whole call."""
        return max([len(self.header), *(self._needs(self.cell(row)) for row in rows)])

    def _needs(self, cell: str | Text | Padding) -> int:
        if isinstance(cell, Padding):
            words = str(cell.renderable).replace("-> ", "->_").split()
            return cell.left + min(max(map(len, words), default=0), _LONGEST_WORD)
        return max(map(len, str(cell).splitlines()), default=0)


def _each_step(steps: Iterable[ExplainedStep], depth: int = 0) -> Iterator[tuple[ExplainedStep, int]]:
    for step in steps:
        yield step, depth
        for branch in step.branches:
            yield from _each_step(branch, depth + 1)


def _rows(step: ExplainedStep, depth: int, notes: Notes, wide: bool) -> Iterator[_Row]:
    called = step.text if wide and not step.text.startswith("<") else _short(step.name)
    row = _Row(number_of(step.place), called, depth)
    if step.refusal is not None:
        yield replace(row, exactness=Text("refused", style="red"))
    elif step.passes_through:
        yield replace(row, op=_NOTHING, op_depth=depth)
    elif not step.ops:  # a container with something refused in it
        yield row
    for explained, inner_depth in _each_op(step, depth):
        yield replace(
            row,
            op=type(explained.op).__name__,
            op_depth=inner_depth,
            runs_in="" if explained.stage is None else f"{explained.stage}\n{explained.runs_on}",
            input=explained.input,
            output=explained.output,
            exactness=exactness_of(explained, notes),
        )
        row = _Row()


def _each_op(step: ExplainedStep, depth: int = 0) -> Iterator[tuple[ExplainedOp, int]]:
    """A step's ops; also those inside of them where no steps show them, as for a policy of many."""
    for explained in step.ops:
        yield explained, depth
        if not step.branches:
            yield from _ops_inside(explained, depth + 1, set())


def _ops_inside(explained: ExplainedOp, depth: int, seen: set[object]) -> Iterator[tuple[ExplainedOp, int]]:
    """The ops inside of an op, each kind of row once."""
    for branch in explained.branches:
        for inner in branch:
            row = (type(inner.op), inner.input, inner.output, inner.bound)
            if inner.branches or row not in seen:
                seen.add(row)
                yield inner, depth
                yield from _ops_inside(inner, depth + 1, seen)


def _short(name: str) -> str:
    """The class alone where it is torchvision's or torch's."""
    return name.rpartition(".")[2] if name.startswith(("torchvision.", "torch.")) else name


def spec_text(spec: ImageSpec | None) -> str:
    """In lines: how many where it is a tuple, what it is, and its shape."""
    if spec is None:
        return ""
    tuple_of = "" if spec.tuple_of is None else f"tuple of {spec.tuple_of}\n"
    kind = f"{spec.container} {spec.dtype}"
    return f"{tuple_of}{kind}\n{str(spec).rpartition(f'{kind} ')[2]}"


def exactness_of(explained: ExplainedOp, notes: Notes) -> Text:
    """How equal an op is, in a word, and the sign of what else there is to say."""
    bound = explained.bound
    if bound is None:
        return Text("")
    word = _word(bound)
    if bound.refused:
        return Text(word, style="red")
    return Text(f"{word} {notes.sign(bound.detail)}" if bound.detail else word, style="" if bound.detail else "green")


def _word(bound: Bound) -> str:
    return bound.kind if bound.measured or bound.refused else "expected"


_SENTENCES = {
    "decode": "decodes the whole image",
    "operator": "one operator of DALI's",
    "scale": "one kernel: mirrors, scales, normalises, makes CHW",
    "layout": "makes CHW",
    "sample": "sample by sample",
    "batch": "several samples at once",
    "write": "writes into the batch, then works in place",
}


def _after(explanation: Explanation, signs: _Signs) -> Table:
    """What runs as one."""
    table = Table(box=signs.box, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("runs as one", overflow="fold")
    table.add_column("runs in", no_wrap=True)
    table.add_column("how", overflow="fold")
    for group in explanation.groups:
        table.add_row(_together(group), f"{group.stage} {group.runs_on}", _how(group))
    return table


def _together(group: ExplainedGroup) -> str:
    own = {"decode": ("decode",), "layout": ("transpose",)}.get(group.kind, ())
    return ", ".join((*own, *group.ops))


def _how(group: ExplainedGroup) -> str:
    return "decodes only the window" if group.kind == "decode" and group.ops else _SENTENCES[group.kind]


def _refusals(explanation: Explanation) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    for refused in explanation.refused:
        table.add_row(Text("-"), Text.assemble((f"{refused.place} ({refused.name}): ", "bold"), f"{refused.reason}."))
    return table


def _verdict(explanation: Explanation) -> Text:
    steps = list(explanation.each_step())
    if explanation.refused:
        return Text(f"Refused: {len(explanation.refused)} of {len(steps)} transforms.", style="red")
    shown = [explained for step in steps for explained, _ in _each_op(step)]
    ops = [explained for explained in shown if not explained.branches]
    kinds = Counter(_word(explained.bound) for explained in ops if explained.bound)
    counted = ", ".join(f"{count} {kind}" for kind in ("exact", "bounded", "expected") if (count := kinds[kind]))
    unmeasured = " Expected is what was not measured." if kinds["expected"] else ""
    return Text(
        f"Of {len(ops)} ops: {counted or 'nothing to do'}. A bound holds for one op, on torchvision's own input; "
        f"bounds don't compose.{unmeasured}",
        style="dim",
    )
