"""CPU time and memory of a process and everything below it."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

__all__ = ["MemorySampler", "tree_alone_bytes", "tree_cpu_s", "tree_pss_bytes"]

_Segment = tuple[int, int]  # device and inode

_SEGMENTS = ("/dev/shm/", "/memfd:")
_FEW_BYTES = 1_000_000  # of mapped shared memory, for which the many lines of smaps aren't read
_BLOCK = 512  # bytes: the unit of st_blocks, whatever the file system's is


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

    With it counts shared memory that they hold open and nobody has mapped. Batches that wait between torch's workers
    and the training process are that: the worker has let go of its mapping, the receiver has none yet, and only an
    open descriptor keeps the segment. Segments that have a name in ``/dev/shm`` count only as far as they are mapped:
    a name outlives its processes, and may be a file of the user's.

    Returns:
        Bytes, or ``None`` where the platform doesn't tell (it is Linux that does) or the process has ended.
    """
    total = None
    processes = _tree(pid)
    for process in processes:
        try:
            pss = getattr(process.memory_full_info(), "pss", None)
        except psutil.Error:
            continue  # it ended meanwhile, or belongs to someone else
        if pss is not None:
            total = (total or 0) + int(pss)
    return None if total is None else total + _unmapped_bytes([process.pid for process in processes])


def tree_alone_bytes(pid: int) -> int | None:
    """As `tree_pss_bytes`, but as if no other process on the machine had the same files mapped.

    Another Python that imports torch or DALI takes its part of the libraries' pages, and a proportional set size
    falls by a hundred megabytes and more. Here pages of files count once, in full: the largest such set of a process,
    which in a tree of forks is that of all but for what only a child has mapped.

    Returns:
        Bytes, or ``None`` where the platform doesn't tell or the process has ended.
    """
    own = 0
    most_of_files = 0
    seen: list[int] = []
    for process in _tree(pid):
        with suppress(OSError):  # it ended meanwhile, or belongs to someone else
            # Both from one reading: others may begin or end between two.
            parts = _figures_bytes(process.pid, "smaps_rollup")
            if "Pss" in parts:
                own += parts["Pss"] - parts.get("Pss_File", 0)
                if "Pss_File" in parts:  # older kernels don't split it; files stay among the rest then
                    most_of_files = max(most_of_files, _figures_bytes(process.pid, "status").get("RssFile", 0))
                seen.append(process.pid)
    return own + most_of_files + _unmapped_bytes(seen) if seen else None


def _unmapped_bytes(pids: Sequence[int]) -> int:
    """Shared memory without a name that is open in the processes, as far as they haven't mapped it."""
    held: dict[_Segment, int] = {}
    for pid in pids:
        held.update(_open_segments(pid))
    if not held:
        return 0
    mapped: Counter[_Segment] = Counter()
    for pid in pids:
        for segment, pss in _mapped_segments(pid):
            mapped[segment] += pss
    return sum(max(0, size - mapped[segment]) for segment, size in held.items())


def _open_segments(pid: int) -> Iterator[tuple[_Segment, int]]:
    """Each segment that a process has a descriptor of, and the bytes that are allocated for it."""
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):  # it ended, or belongs to someone else
        for name in os.listdir(folder):
            with suppress(OSError):  # it was closed meanwhile
                path = f"{folder}/{name}"
                if os.readlink(path).startswith(_SEGMENTS):
                    status = os.stat(path)
                    if not status.st_nlink:
                        yield (status.st_dev, status.st_ino), status.st_blocks * _BLOCK


def _mapped_segments(pid: int) -> Iterator[tuple[_Segment, int]]:
    """Each mapping of a process that is of a file, and the part of it that counts in the proportional set size."""
    segment: _Segment | None = None
    with suppress(OSError):
        if _figures_bytes(pid, "status").get("RssShmem", 0) < _FEW_BYTES:
            return
        for line in Path(f"/proc/{pid}/smaps").read_bytes().splitlines():
            key, *values = line.split(None, 5)
            if not key.endswith(b":"):  # 7f00-7f10 rw-s 00000000 00:1a 4711 /dev/shm/name (deleted)
                major, minor = values[2].split(b":")
                inode = int(values[3])
                segment = (os.makedev(int(major, 16), int(minor, 16)), inode) if inode else None
            elif key == b"Pss:" and segment is not None:
                yield segment, int(values[0]) * 1024


def _figures_bytes(pid: int, file: str) -> dict[str, int]:
    """The sizes in ``/proc/PID/FILE``, which are told in kilobytes, by name."""
    lines = Path(f"/proc/{pid}/{file}").read_text(errors="replace").splitlines()
    fields = (line.split() for line in lines if line.endswith(" kB"))
    return {name.rstrip(":"): int(size) * 1024 for name, size, _ in fields}


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
