"""Saying what is going on: a live line on a terminal, plain lines elsewhere. Always on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["Late", "Reporter", "Silent", "reporter"]

_REFRESH_PER_S = 2  # drawing takes CPU time from what is being measured
_PLAIN_STEPS = 4  # a counted stage is told in quarters


class Reporter(Protocol):
    """Takes notes of progress."""

    def budget(self, seconds: float) -> None:
        """From now on progress is the share of ``seconds`` that has passed. [Unit: second]"""
        ...

    def say(self, text: str) -> None:
        """A new stage begins."""
        ...

    def detail(self, text: str) -> None:
        """What is being done within the stage; only worth a live display."""
        ...

    def count(self, done: int, total: int) -> None:
        """``done`` of ``total`` pieces of the stage are finished, where progress isn't a matter of time."""
        ...


@contextmanager
def reporter() -> Generator[Reporter]:
    """A reporter that fits stderr. What it draws on a terminal is gone when it is left."""
    if not sys.stderr.isatty():
        yield _Plain()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
    from rich.progress_bar import ProgressBar

    class TimeBar(ProgressColumn):
        """The share of the budget that has passed; while counting, the share that is done."""

        def render(self, task: Task) -> ProgressBar:
            budget_s = task.fields["budget_s"]
            if budget_s is None:
                return BarColumn(bar_width=20).render(task)
            return ProgressBar(total=budget_s, completed=min(budget_s, task.elapsed or 0.0), width=20)

    class Seconds(ProgressColumn):
        """Seconds passed, of those allowed."""

        def render(self, task: Task) -> str:
            budget_s = task.fields["budget_s"]
            return "" if budget_s is None else f"{task.elapsed or 0.0:2.0f} of {budget_s:.0f} s"

    progress = Progress(
        SpinnerColumn(),
        TimeBar(),
        Seconds(),
        TextColumn("{task.description}", style="bold"),
        TextColumn("{task.fields[detail]}"),
        console=Console(stderr=True),
        refresh_per_second=_REFRESH_PER_S,
        transient=True,
    )
    with progress:
        yield _Live(progress, progress.add_task("", total=None, budget_s=None, detail=""))


class _Live:
    """One line with a bar."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def budget(self, seconds: float) -> None:
        self._progress.reset(self._task, budget_s=seconds, detail="")  # restarts the clock

    def say(self, text: str) -> None:
        self._progress.update(self._task, description=text, detail="")

    def detail(self, text: str) -> None:
        self._progress.update(self._task, detail=text)

    def count(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total)


class _Plain:
    """A line for each stage, with the seconds since the budget began."""

    def __init__(self) -> None:
        self._started_s: float | None = None

    def budget(self, seconds: float) -> None:
        self._started_s = time.monotonic()

    def say(self, text: str) -> None:
        passed = "" if self._started_s is None else f"{time.monotonic() - self._started_s:4.0f} s  "
        print(f"{passed}{text}", file=sys.stderr, flush=True)

    def detail(self, text: str) -> None:
        pass

    def count(self, done: int, total: int) -> None:
        if (done * _PLAIN_STEPS) % total < _PLAIN_STEPS:
            self.say(f"{done} of {total}")


_WORTH_TELLING_S = 2.0


class Late:
    """Passes notes on once two seconds have gone: what is done by then needs none.

    Args:
        reporter: gets them.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._from_s = time.monotonic() + _WORTH_TELLING_S

    def _due(self) -> bool:
        return time.monotonic() >= self._from_s

    def budget(self, seconds: float) -> None:
        """Passed on at once."""
        self._reporter.budget(seconds)

    def say(self, text: str) -> None:
        """Passed on when it is due."""
        if self._due():
            self._reporter.say(text)

    def detail(self, text: str) -> None:
        """Passed on when it is due."""
        if self._due():
            self._reporter.detail(text)

    def count(self, done: int, total: int) -> None:
        """Passed on when it is due."""
        if self._due():
            self._reporter.count(done, total)


class Silent:
    """Takes no notes."""

    def budget(self, seconds: float) -> None:
        """Ignored."""

    def say(self, text: str) -> None:
        """Ignored."""

    def detail(self, text: str) -> None:
        """Ignored."""

    def count(self, done: int, total: int) -> None:
        """Ignored."""
