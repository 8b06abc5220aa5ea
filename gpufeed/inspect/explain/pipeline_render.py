"""An explanation of a pipeline as tables for people: rich on a terminal, plain ASCII elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpufeed import printing
from gpufeed.inspect.explain.explanation import ExplainedOp
from gpufeed.inspect.explain.pipeline import ExplainedImage, ExplainedOutput, ExplainedPipeline
from gpufeed.inspect.explain.render import Notes, exactness_of, spec_text
from gpufeed.inspect.pipeline_graph import UserOperator
from gpufeed.plan import DECODED
from gpufeed.printing import UNDERLINED_HEAD

__all__ = ["render", "show"]

_WIDTH = 80  # of plain text
_OF_DALI = "what DALI's operators give is DALI's own: no bound is known for them"


@dataclass(frozen=True, slots=True)
class _Signs:
    """The characters that differ between a terminal and plain ASCII."""

    dot: str
    box: box.Box


_RICH = _Signs(dot=" · ", box=box.SIMPLE_HEAD)
_ASCII = _Signs(dot=", ", box=UNDERLINED_HEAD)


def show(explained: ExplainedPipeline, stream: TextIO) -> None:
    """Print the explanation in the form that fits the stream: a terminal that can show it gets colours and signs."""
    printing.show(lambda _: _parts(explained, _RICH), lambda: render(explained), stream)


def render(explained: ExplainedPipeline, width: int = _WIDTH) -> str:
    """The explanation as plain text of at most ``width`` columns, ending in a newline."""
    return printing.as_text(_parts(explained, _ASCII), width)


def _parts(explained: ExplainedPipeline, signs: _Signs) -> Iterator[RenderableType]:
    facts = signs.dot.join((explained.subject, f"on {explained.device}"))
    yield Text.assemble(("gpufeed explain", "bold"), signs.dot, facts)
    yield Padding(Text(_what(explained), style="dim"), (0, 0, 1, 0))
    notes = Notes()
    yield _outputs(explained, notes, signs)
    if notes.texts:
        yield Padding(notes.table(), (1, 0, 0, 0))
    for paragraph in _paragraphs(explained):
        yield Padding(paragraph, (1, 0, 0, 0))


def _what(explained: ExplainedPipeline) -> str:
    values = ", ".join(f"{name}={value!r}" for name, value in explained.parameters.items())
    summary = f": {explained.summary}" if explained.summary else ""
    return f"{explained.name}({values}), {_place(explained.path, explained.line)}{summary}"


def _place(path: str, line: int) -> str:
    return f"{Path(path).name} line {line}"


def _outputs(explained: ExplainedPipeline, notes: Notes, signs: _Signs) -> Table:
    """Per output its images' ops, then the user's operators, in order."""
    table = Table(box=signs.box, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("output, and what becomes of it", overflow="fold", ratio=1)
    for header in ("runs in", "gives", "exactness"):
        table.add_column(header, no_wrap=True)
    for output in explained.outputs:
        for row in _rows(output, notes):
            table.add_row(*row)
    return table


_Row = tuple[RenderableType, RenderableType, RenderableType, RenderableType]


def _rows(output: ExplainedOutput, notes: Notes) -> Iterator[_Row]:
    yield Text.assemble((output.path, "bold"), _beside(output)), "", "", ""
    for image in output.images:
        yield from _image_rows(image, notes)
    for operator in output.operators:
        yield _operator_row(operator, notes)


def _beside(output: ExplainedOutput) -> str:
    """What stands behind an output's path."""
    ragged = "; a list with an entry per sample" if output.ragged else ""
    if output.is_field:
        return f" {output.values[0]}: bypasses DALI, collated as torch does{ragged}"
    if not output.enters_graph and output.values:
        return f" {output.values[0]}: computed on the host{ragged}"
    with_values = f" with {', '.join(output.values)}" if output.values else ""
    return f"{with_values}{ragged}"


def _image_rows(image: ExplainedImage, notes: Notes) -> Iterator[_Row]:
    yield _indented(image.name, dim=True), "", spec_text(image.ops[0].input if image.ops else DECODED), ""
    for explained in image.ops:
        yield (
            _indented(type(explained.op).__name__),
            _runs_in(explained),
            _gives(explained),
            exactness_of(explained, notes),
        )


def _operator_row(operator: UserOperator, notes: Notes) -> _Row:
    what = _indented(f"{operator.text}, {_place(operator.path, operator.line)}")
    return what, f"DALI\n{operator.runs_on}", "", Text(f"DALI's {notes.sign(_OF_DALI)}")


def _indented(text: str, *, dim: bool = False) -> Padding:
    return Padding(Text(text, style="dim" if dim else ""), (0, 0, 0, 2))


def _runs_in(explained: ExplainedOp) -> str:
    return "" if explained.stage is None else f"{explained.stage}\n{explained.runs_on}"


def _gives(explained: ExplainedOp) -> str:
    return spec_text(explained.output)


def _paragraphs(explained: ExplainedPipeline) -> Iterator[RenderableType]:
    if explained.draws:
        yield _listed(
            "Draws, by the sample's key, in this order:",
            [
                (str(draw.number), draw.what + (f", {_place(draw.path, draw.line)}" if draw.line else ""))
                for draw in explained.draws
            ],
        )
    for operator, line in explained.native_draws:
        yield Text(
            f"{operator}, line {line}, draws by itself: by the place in the batch, not by the sample's key; use "
            "sample.uniform(), sample.coin() and so on, and the draws are exact.",
            style="yellow",
        )
    tail = explained.tail
    if tail is not None:
        draws = f"; its draws are numbered from {tail.first_number} on" if tail.draws else ""
        where = f"{_place(tail.path, tail.line)}, in torch on {explained.device}"
        yield Text(f"Tail: {tail.name}, {where}, on whole batches{draws}.")
    yield Text(_verdict(explained), style="dim")


def _listed(title: str, lines: Iterable[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(justify="right")
    table.add_column(overflow="fold")
    for number, text in lines:
        table.add_row(f"  {number}", Text(text))
    whole = Table.grid()
    whole.add_row(Text(title))
    whole.add_row(table)
    return whole


def _verdict(explained: ExplainedPipeline) -> str:
    name = explained.name
    own = sum(len(output.operators) for output in explained.outputs)
    if explained.bound:
        return f"@{name}.reference promises {explained.bound} of its own; gpufeed verify holds the pipeline to it."
    if own or explained.tail is not None:
        return f"There is no @{name}.reference, so nothing is promised about pixels."
    return "Bounds hold for one op, on torchvision's own input; they don't compose."
