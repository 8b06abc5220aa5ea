"""Results in the terminal: with colours and signs where it can show them, as plain text elsewhere."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import TextIO

from rich.box import Box
from rich.console import Console, RenderableType

__all__ = ["UNDERLINED_HEAD", "as_text", "show"]

UNDERLINED_HEAD = Box("\n".join(("    ", "    ", " -- ", *("    ",) * 5, "")))
"""A table in ASCII: a line below its head and nothing else."""


def show(parts: Callable[[int], Iterable[RenderableType]], text: Callable[[], str], stream: TextIO) -> None:
    """Print a result in the form that fits the stream.

    Args:
        parts: the terminal's width, in columns, to what is printed where it can show colours and signs.
        text: the plain text for anything else; signs that the stream lacks are escaped.
        stream: written and flushed.
    """
    if stream.isatty() and (stream.encoding or "").lower().replace("-", "") == "utf8":
        console = Console(file=stream)
        for part in parts(console.width):
            console.print(part)
    else:
        encoding = stream.encoding or "utf-8"
        stream.write(text().encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()


def as_text(parts: Iterable[RenderableType], width: int) -> str:
    """Plain text of at most ``width`` columns, without trailing spaces, ending in a newline."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None, force_terminal=False, legacy_windows=False)
    for part in parts:
        console.print(part, highlight=False)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"
