"""The system's cache of files: dropping files from it without special rights, and looking whether they left."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Literal

__all__ = ["CacheState", "cache_sentence", "check_can_drop", "drop", "share_in_cache"]

CacheState = Literal["warm", "cold"]

_LOOKED_AT = 64  # files: enough for a share in per cent


def check_can_drop() -> str | None:
    """Why files can't be dropped on this platform; ``None`` where they can."""
    return None if hasattr(os, "posix_fadvise") else "this platform has no posix_fadvise, which drops files"


def drop(paths: Iterable[str]) -> None:
    """Ask the system to forget what it has of these files; pages that aren't written yet stay.

    Raises:
        OSError: a file can't be opened.
    """
    for path in dict.fromkeys(paths):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def share_in_cache(paths: Sequence[str]) -> float | None:
    """Which share of some of these files begins in the cache, in [0, 1]; ``None`` where the system doesn't tell.

    It reads a byte with the order not to wait for a disk. A file whose first page is there counts.
    """
    distinct = list(dict.fromkeys(paths))
    looked_at = distinct[:: max(1, len(distinct) // _LOOKED_AT)]
    states = [_begins_in_cache(path) for path in looked_at]
    known = [state for state in states if state is not None]
    return sum(known) / len(known) if known else None


def _begins_in_cache(path: str) -> bool | None:
    without_waiting = getattr(os, "RWF_NOWAIT", None)
    if without_waiting is None:
        return None
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.preadv(descriptor, [bytearray(1)], 0, without_waiting) == 1
    except BlockingIOError:
        return False
    except OSError:  # not on this file system
        return None
    finally:
        os.close(descriptor)


def cache_sentence(state: CacheState, num_files: int, share_left: float | None) -> str:
    """What the files' state was, for the report.

    Args:
        state: what was asked for.
        num_files: distinct files in an epoch.
        share_left: see `share_in_cache`, as it was after dropping.
    """
    if state == "warm":
        return f"Warm: all {num_files:,} files had been read before, so none came from a cold disk."
    dropped = f"Cold: the {num_files:,} files were dropped from the page cache before each epoch"
    if share_left is None:
        return f"{dropped}; whether they left can't be told on this file system."
    if share_left > 0:
        return f"{dropped}, but {100 * share_left:.0f} % of those looked at stayed in it."
    return f"{dropped}, and those looked at had left it; a disk's or a host's own cache may still have had them."
