"""What can be seen while a tuning runs: a live table on a terminal, plain lines elsewhere. Always on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from gpufeed.bench.progress import Reporter
from gpufeed.bench.tuning.render import memory_text, trials_table
from gpufeed.bench.tuning.results import Trial, Tuned
from gpufeed.bench.tuning.space import describe

__all__ = ["PlainWatcher", "Watcher", "watching"]

_TABLE_HEAD = 3  # lines
_REFRESH_PER_S = 2  # drawing takes CPU time from what is being measured


class Watcher(Reporter, Protocol):
    """Takes notes of progress, and of what was measured."""

    def tried(self, tuned: Tuned, trial: Trial) -> None:
        """A setting was visited.

        Args:
            tuned: what is known of its loader now.
            trial: the setting's.
        """
        ...


@contextmanager
def watching(stream: TextIO | None = None) -> Generator[Watcher]:
    """A watcher that fits the stream, stderr if not given. What it draws on a terminal is gone when it is left."""
    out: TextIO = sys.stderr if stream is None else stream
    if not out.isatty():
        yield PlainWatcher(out)
        return
    with Live(console=Console(file=out), refresh_per_second=_REFRESH_PER_S, transient=True) as live:
        yield _LiveWatcher(live)


class PlainWatcher:
    """A line for each stage and each visit, with the seconds since the budget began."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._started_s: float | None = None

    def budget(self, seconds: float) -> None:
        """The clock starts."""
        self._started_s = time.monotonic()

    def say(self, text: str) -> None:
        """A line."""
        passed = "" if self._started_s is None else f"{time.monotonic() - self._started_s:4.0f} s  "
        self._stream.write(f"{passed}{text}\n")
        self._stream.flush()

    def detail(self, text: str) -> None:
        """Ignored."""

    def count(self, done: int, total: int) -> None:
        """A line now and then."""
        if total and (done * 4) % total < 4:
            self.say(f"{done} of {total}")

    def tried(self, tuned: Tuned, trial: Trial) -> None:
        """A line with the setting's figures."""
        figures = trial.failure or f"{trial.rate:,.0f} images/s, {memory_text(trial.peak_memory_bytes)}"
        self.say(f"{tuned.loader}: {describe(trial.setting)}: {figures}")


class _LiveWatcher:
    """A table that grows, below a line that says what is being done."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._started_s = time.monotonic()
        self._budget_s: float | None = None
        self._text = ""
        self._tuned: dict[str, Tuned] = {}

    def budget(self, seconds: float) -> None:
        self._started_s, self._budget_s = time.monotonic(), seconds
        self._draw()

    def say(self, text: str) -> None:
        self._text = text
        self._draw()

    def detail(self, text: str) -> None:
        pass

    def count(self, done: int, total: int) -> None:
        self.say(f"{done} of {total}")

    def tried(self, tuned: Tuned, trial: Trial) -> None:
        self._tuned[tuned.loader] = tuned
        self._draw()

    def _draw(self) -> None:
        passed = f"{time.monotonic() - self._started_s:3.0f} s"
        clock = passed if self._budget_s is None else f"{passed} of {self._budget_s:.0f}"
        head = Text.assemble((self._text, "bold"), f"  {clock}, Ctrl-C keeps the best so far")
        room = (self._live.console.height - 1) // max(1, len(self._tuned)) - _TABLE_HEAD
        tables = [trials_table(tuned, most=max(1, room)) for tuned in self._tuned.values()]
        self._live.update(Group(head, *tables))
