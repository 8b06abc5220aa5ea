"""A diagnosis for people: rich on a terminal, plain text of 80 columns elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TextIO, cast, get_args

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpufeed import printing
from gpufeed.inspect.doctor.diagnosis import Diagnosis
from gpufeed.inspect.doctor.findings import Finding, Level, Section, counted

__all__ = ["printable", "render", "show"]

_WIDTH = 80  # of plain text
_SECTIONS = cast("tuple[Section, ...]", get_args(Section))
_STYLES: dict[Level, str] = {"ok": "green", "note": "yellow", "problem": "bold red"}
_ARROW, _PLAIN_ARROW = "→", "->"


def show(diagnosis: Diagnosis, stream: TextIO) -> None:
    """Print the diagnosis in the form that fits the stream: a terminal that can show it gets colours and signs."""
    printing.show(lambda _width: _parts(diagnosis, _ARROW), lambda: render(diagnosis), stream)


def render(diagnosis: Diagnosis, width: int = _WIDTH) -> str:
    """The diagnosis as plain text of at most ``width`` columns, ending in a newline."""
    return printing.as_text(_parts(diagnosis, _PLAIN_ARROW), width)


def _parts(diagnosis: Diagnosis, arrow: str) -> Iterator[RenderableType]:
    for section in _SECTIONS:
        findings = [finding for finding in diagnosis.findings if finding.section == section]
        if findings:
            yield Text(section.capitalize(), style="bold")
            yield Padding(_table(findings, arrow), (0, 0, 1, 0))
    yield _summary(diagnosis)


def _table(findings: list[Finding], arrow: str) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=max(map(len, _STYLES)))
    table.add_column(overflow="fold")
    for finding in findings:
        table.add_row(Text(finding.level, style=_STYLES[finding.level]), _words(finding, arrow))
    return table


def _words(finding: Finding, arrow: str) -> Text:
    topic = f"{finding.topic}: "
    text = Text.assemble((topic, "bold"), printable(finding.what))
    for path in finding.paths:
        text.append(f"\n  {printable(path)}")
    if finding.meaning:
        text.append(f"\n{printable(finding.meaning)}", style="dim")
    if finding.next_step:
        text.append(f"\n{arrow} {printable(finding.next_step)}", style="cyan")
    return text


def printable(text: str) -> str:
    """Names of files may hold line ends, escape sequences or bytes that are no text."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def _summary(diagnosis: Diagnosis) -> Text:
    levels = Counter(finding.level for finding in diagnosis.findings)
    if not levels["problem"] and not levels["note"]:
        return Text("Nothing to mend.", style="green")
    notes = counted(levels["note"], "note")
    if not levels["problem"]:
        return Text(f"No problem, {notes}.", style="green")
    return Text(f"{counted(levels['problem'], 'problem')}, {notes}.", style="bold red")
