"""CPU time and memory of a process and everything below it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import psutil

__all__ = ["MemorySampler", "tree_cpu_s", "tree_pss_bytes"]


def tree_cpu_s(pid: int) -> float:
    """User and system time that ``pid`` and its descendants, ended ones included, have used so far. [Unit: second]"""
    total = 0.0
    for process in _tree(pid):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue  # it ended between the listing and now
        total += times.user + times.system
        # Linux and macOS also tell what children used that were waited for.
        total += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return total


def tree_pss_bytes(pid: int) -> int | None:
    """Proportional set size of ``pid`` and its descendants: shared pages are split among those that share them.

    Returns:
        Bytes, or ``None`` where the platform doesn't tell (it is Linux that does) or the process has ended.
    """
    total = None
    for process in _tree(pid):
        try:
            pss = getattr(process.memory_full_info(), "pss", None)
        except psutil.Error:
            continue  # it ended meanwhile, or belongs to someone else
        if pss is not None:
            total = (total or 0) + int(pss)
    return total


def _tree(pid: int) -> Sequence[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


class MemorySampler:
    """Looks at a process tree's memory now and then, in a thread, and keeps the peak.

    Reading it makes the kernel walk the process's pages (some milliseconds for each), so it isn't done while a round
    is timed.

    Args:
        pid: the tree's root.
        interval_s: between two looks. [Unit: second]
        measure: what tells the memory of a process tree. [Unit: byte]
    """

    def __init__(
        self, pid: int, interval_s: float = 0.25, measure: Callable[[int], int | None] = tree_pss_bytes
    ) -> None:
        self.peak_bytes: int | None = None
        self._pid = pid
        self._interval_s = interval_s
        self._measure = measure
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpufeed-memory", daemon=True)

    def __enter__(self) -> MemorySampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.look()

    def look(self) -> None:
        """Take one sample now."""
        now = self._measure(self._pid)
        if now is not None:
            self.peak_bytes = max(now, self.peak_bytes or 0)

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            self.look()
