"""A check as text for people: rich on a terminal, plain ASCII elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpufeed import printing
from gpufeed.inspect.check.results import Check, CheckedOutput, Fault
from gpufeed.printing import UNDERLINED_HEAD

__all__ = ["render", "show"]

_WIDTH = 80  # of plain text
_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@dataclass(frozen=True, slots=True)
class _Signs:
    """The characters that differ between a terminal and plain ASCII."""

    dot: str
    box: box.Box


_RICH = _Signs(dot=" · ", box=box.SIMPLE_HEAD)
_ASCII = _Signs(dot=", ", box=UNDERLINED_HEAD)


def show(check: Check, stream: TextIO) -> None:
    """Print a check in the form that fits the stream: a terminal that can show it gets colours and signs."""
    printing.show(lambda _width: _parts(check, _RICH), lambda: render(check), stream)


def render(check: Check, width: int = _WIDTH) -> str:
    """A check as plain text of at most ``width`` columns, ending in a newline."""
    return printing.as_text(_parts(check, _ASCII), width)


def _parts(check: Check, signs: _Signs) -> Iterator[RenderableType]:
    head = signs.dot.join(filter(None, (check.pipeline, check.data)))
    yield Padding(Text.assemble(("gpufeed check", "bold"), signs.dot, head), (0, 0, 1, 0))
    if check.outputs:
        yield Padding(_outputs(check.outputs, signs), (0, 0, 1, 0))
    yield _facts(check)
    if check.notes:
        yield Padding(_notes(check.notes), (1, 0, 0, 0))
    if check.faults:
        yield Padding(_faults(check.faults), (1, 0, 0, 0))
    yield Padding(_verdict(check), (1, 0, 0, 0))


def _outputs(outputs: Sequence[CheckedOutput], signs: _Signs) -> Table:
    table = Table(box=signs.box, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for header in ("output", "shape", "dtype", "range", "device"):
        table.add_column(header, overflow="fold")
    for output in outputs:
        table.add_row(Text(output.name), output.shape, output.dtype, _range(output), output.device)
    return table


def _range(output: CheckedOutput) -> str:
    if output.low is None or output.high is None:
        return ""
    return f"{_number(output.low)} to {_number(output.high)}" + (", and NaN or inf" if output.not_finite else "")


def _number(value: float) -> str:
    if value.is_integer() and abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.1f}" if 100 <= abs(value) < 1e7 else f"{value:.3g}"


# What holds -----------------------------------------------------------------------------------------------------------


def _facts(check: Check) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in (
        ("CPU", _cpu(check)),
        ("GPU", _gpu(check)),
        ("exactness", _exactness(check)),
        ("reference", _reference(check)),
        ("speed", _speed(check)),
    ):
        table.add_row(name, text)
    return table


def _good(text: str) -> Text:
    return Text(text, style="green")


def _bad(text: str) -> Text:
    return Text(text, style="red")


def _idle(text: str) -> Text:
    return Text(text, style="dim")


def _faulty(check: Check, concern: str) -> bool:
    return any(fault.concern == concern for fault in check.faults)


def _cpu(check: Check) -> Text:
    if check.num_batches:
        plural = "es" * (check.num_batches != 1)
        ran = f"ran {check.num_batches} batch{plural}, {check.num_samples} samples"
        return _bad(f"{ran}, and failed later") if _faulty(check, "cpu") else _good(ran)
    return _bad("fails") if _faulty(check, "cpu") else _idle("did not run")


def _gpu(check: Check) -> Text:
    fit = check.gpu
    if fit is None:
        return _bad("doesn't fit") if _faulty(check, "gpu") else _idle("not looked at")
    if not fit.on_gpu + fit.on_host:
        return _good("fits the GPU, where its graph has nothing to do")
    nodes = f"{fit.on_gpu} node{'s' * (fit.on_gpu != 1)} of its graph run{'s' * (fit.on_gpu == 1)} there"
    return _good(f"fits the GPU: {nodes}, {fit.on_host or 'none'} on the host")


def _exactness(check: Check) -> Text:
    if not check.comparisons:
        return _idle("not looked at")
    if _faulty(check, "exactness"):
        return _bad("order or draws are not exact")
    tried = [one.circumstance for one in check.comparisons]
    listed = f"{', '.join(tried[:-1])} and {tried[-1]}" if len(tried) > 1 else tried[0]
    by_batch = [output.name for output in check.outputs if output.by_batch]
    if len(by_batch) == len(check.outputs):
        return Text("all outputs depend on the batch, so that only equal batches can be compared: those are the same")
    but = f", but for {', '.join(by_batch)}" if by_batch else ""
    return _good(
        f"order and draws are exact: {listed} give{'s' * (len(tried) == 1)} the same samples, bit for bit{but}"
    )


def _reference(check: Check) -> Text:
    if check.reference is not None:
        made = f"{check.reference.shape} {check.reference.dtype}"
        return _good(f"the {check.reference.kind} makes images of the same kind: {made}")
    if _faulty(check, "reference"):
        return _bad("doesn't agree")
    return _idle("none, or nothing to compare" if check.num_batches else "not looked at")


def _speed(check: Check) -> Text:
    speed = check.speed
    if speed is None:
        return _idle("not measured")
    threads = f"{speed.num_threads} thread{'s' * (speed.num_threads != 1)}"
    pace = f"{1000 * speed.batch_s:.1f} ms per batch of {check.batch_size}, {_rounded(speed.images_per_s)} images/s"
    return Text(f"{pace} on this machine's CPU ({threads}, {speed.num_batches} batches)")


def _rounded(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


# What doesn't ---------------------------------------------------------------------------------------------------------


def _notes(notes: Sequence[str]) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    for note in notes:
        table.add_row(Text("note:", style="bold"), Text(f"{note}."))
    return table


def _faults(faults: Sequence[Fault]) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for number, fault in enumerate(faults, start=1):
        place = [Text(f"{_short_path(fault.path)}, line {fault.line}", style="bold")] if fault.path else []
        code = [Padding(Text(fault.code, style="cyan"), (0, 0, 0, 4))] if fault.code else []
        table.add_row(f"{number}.", Group(*place, *code, Text(_sentence(fault.text), style="red")))
    return table


def _short_path(path: str) -> str:
    """Relative to the current directory where it lies below."""
    try:
        return str(Path(path).resolve().relative_to(Path.cwd()))
    except ValueError:
        return path


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _verdict(check: Check) -> Text:
    count = len(check.faults)
    if not count:
        return _good("No faults.")
    number = _COUNTS[count] if count < len(_COUNTS) else str(count)
    return _bad(f"{number.capitalize()} fault{'s' * (count != 1)}.")
