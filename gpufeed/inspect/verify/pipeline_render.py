"""A verification of a pipeline as a table for people: rich on a terminal, plain ASCII elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpufeed import printing
from gpufeed.inspect.verify.pipeline import OutputCheck, PipelineVerification
from gpufeed.inspect.verify.render import number_text
from gpufeed.printing import UNDERLINED_HEAD

__all__ = ["render", "show"]

_WIDTH = 80  # of plain text
_LEFT_OUT_SHOWN = 10
_GOOD, _BAD = "green", "bold red"


@dataclass(frozen=True, slots=True)
class _Signs:
    """The characters that differ between a terminal and plain ASCII."""

    dot: str
    box: box.Box


_RICH = _Signs(dot=" · ", box=box.SIMPLE_HEAD)
_ASCII = _Signs(dot=", ", box=UNDERLINED_HEAD)


def show(verification: PipelineVerification, stream: TextIO) -> None:
    """Print it in the form that fits the stream: a terminal that can show it gets colours and signs."""
    printing.show(lambda _: _parts(verification, _RICH), lambda: render(verification), stream)


def render(verification: PipelineVerification, width: int = _WIDTH) -> str:
    """The verification as plain ASCII text of at most ``width`` columns, ending in a newline."""
    return printing.as_text(_parts(verification, _ASCII), width)


def _parts(verification: PipelineVerification, signs: _Signs) -> Iterator[RenderableType]:
    found, chosen = verification.num_compared, verification.num_chosen
    facts = [
        verification.data,
        verification.subject,
        f"{found}{f' of {chosen}' if found != chosen else ''} samples",
        verification.device_name or verification.device,
        f"seed {verification.seed}",
    ]
    yield Padding(Text.assemble(("gpufeed verify", "bold"), signs.dot, signs.dot.join(facts)), (0, 0, 1, 0))
    yield Padding(
        Text(
            f"The pipeline's images against those of @{verification.name}.reference on the same files with the same "
            "draws; differences in 1/255 of full intensity."
        ),
        (0, 0, 1, 0),
    )
    yield _table(verification, signs)
    for paragraph in _paragraphs(verification):
        yield Padding(paragraph, (1, 0, 0, 0))
    yield Padding(_verdict(verification), (1, 0, 0, 0))


def _table(verification: PipelineVerification, signs: _Signs) -> Table:
    table = Table(box=signs.box, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("\noutput", overflow="fold")
    table.add_column("\ngives", no_wrap=True)
    for header in ("\nmax", "\nmean", "\n99.9 %", f"within\n{verification.within_255:g}/255", "must\nbe"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for check in verification.outputs:
        spread = check.spread
        table.add_row(
            check.path,
            _size(check),
            number_text(spread.largest_255),
            number_text(spread.mean_255),
            number_text(spread.p999_255),
            f"{100 * check.share_within:.5g} %",
            f"{100 * verification.share:.6g} %",
            Text("EXCEEDED", style=_BAD) if check.exceeded else Text("within", style=_GOOD),
        )
    return table


def _size(check: OutputCheck) -> str:
    sides = "x".join(map(str, check.shape))
    return f"{check.dtype} {f'{check.shape[0]}xHxW' if check.sizes_vary else sides}"


def _paragraphs(verification: PipelineVerification) -> Iterator[RenderableType]:
    smallest, largest = (f"{height}x{width}" for height, width in verification.sizes_hw)
    sizes = smallest if smallest == largest else f"{smallest} to {largest}"
    yield Text(f"Files of {sizes} pixels.", style="dim")
    if verification.operators:
        calls = dict.fromkeys(f"{one.text} ({Path(one.path).name} line {one.line})" for one in verification.operators)
        yield Text(
            f"DALI's own operators have no bound of their own: {', '.join(calls)}. Only the pipeline's declared bound "
            "is judged here; gpufeed explain shows which ops before them have one."
        )
    for draw in verification.native_draws:
        yield Text(
            f"{draw}, draws by itself, so that no reference gets the same number; use sample.uniform() and so on.",
            style="yellow",
        )
    if verification.left_out:
        yield Text("\n".join(_left_out(verification)), style="yellow")
    if verification.pictures:
        yield Text(f"Pictures: {', '.join(verification.pictures)}")


def _left_out(verification: PipelineVerification) -> Iterator[str]:
    left_out = verification.left_out
    yield f"{len(left_out)} of {verification.num_chosen} samples can't be loaded:"
    for left in left_out[:_LEFT_OUT_SHOWN]:
        yield f"- {left.file}: {left.reason}"
    if len(left_out) > _LEFT_OUT_SHOWN:
        yield f"- and {len(left_out) - _LEFT_OUT_SHOWN} more"


def _verdict(verification: PipelineVerification) -> Text:
    seen, chosen = verification.num_compared, verification.num_chosen
    until = f"stopped by you after {seen} of {chosen} samples; until then " if verification.interrupted else ""
    took = f" ({verification.elapsed_s:.0f} s)"
    if not verification.failures:
        return Text(f"{until}everything holds{took}", style=_GOOD)
    return Text("\n".join(f"{until}exceeded: {sentence}" for sentence in verification.failures), style=_BAD)
