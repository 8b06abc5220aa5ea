"""What ``gpufeed doctor`` says about one thing: how bad it is, the value, what it means, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpufeed.errors import ArgumentError

__all__ = ["Finding", "Level", "Section", "bytes_text", "counted"]

Level = Literal["ok", "note", "problem"]
"""``note``: worth knowing, nothing fails. ``problem``: something fails, or is slow for a cause that can be mended."""

Section = Literal["environment", "data", "training"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        section: the part of the report that it belongs to.
        topic: what it is about, in a word or two; several findings may share one.
        level: how bad it is.
        what: a sentence with the value that was found.
        meaning: what follows from it; empty where the sentence says enough.
        next_step: a command, a setting or an action; empty only where nothing has to be done.
        paths: files that it is about, at most a few.

    Raises:
        ArgumentError: for a problem without a next step.
    """

    section: Section
    topic: str
    level: Level
    what: str
    meaning: str = ""
    next_step: str = ""
    paths: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.level == "problem" and not self.next_step:
            raise ArgumentError(f"a problem must have a next step, got none for {self.topic!r}")


def bytes_text(count: float) -> str:
    """Bytes for people: ``64 MiB``, ``1.5 GiB``; three digits at most behind which nothing is hidden."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if count >= 10 or unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def counted(count: int, thing: str, things: str = "") -> str:
    """``1 file``, ``1,234 files``."""
    return f"{count:,} {thing if count == 1 else things or f'{thing}s'}"
