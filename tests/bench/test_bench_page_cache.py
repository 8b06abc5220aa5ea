"""Dropping files from the page cache, and what is said of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gpufeed.bench import page_cache
from gpufeed.bench.page_cache import cache_sentence, check_can_drop, drop, share_in_cache


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Three files on the disk, as a file system with a cache has them."""
    paths = [tmp_path / f"{index}" for index in range(3)]
    for path in paths:
        path.write_bytes(bytes(20_000))
        with path.open("rb") as file:
            os.fsync(file.fileno())  # a page that isn't written can't be dropped
            file.read()
    return [str(path) for path in paths]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is in the cache")
def test_dropped_files_leave_the_cache_and_come_back_when_read(files: list[str]) -> None:
    if share_in_cache(files) is None:
        pytest.skip("this file system doesn't tell what is in the cache")
    assert share_in_cache(files) == 1
    drop(files[:1])
    left = share_in_cache(files)
    if left == 1:
        pytest.skip("this file system keeps its files in memory")
    assert left == pytest.approx(2 / 3)
    Path(files[0]).read_bytes()
    assert share_in_cache(files) == 1


def test_each_file_is_dropped_once(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[tuple[int, int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _, *rest: dropped.append(rest), raising=False)
    drop([*files, *files])
    assert dropped == [(0, 0, os.POSIX_FADV_DONTNEED)] * 3


def test_a_platform_without_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    assert check_can_drop() == "this platform has no posix_fadvise, which drops files"


def test_where_the_system_does_not_tell_the_share_is_unknown(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "_begins_in_cache", lambda _: None)
    assert share_in_cache(files) is None


@pytest.mark.parametrize(
    ("state", "share", "words"),
    [
        ("warm", None, "Warm: all 1,200 files had been read before, so none came from a cold disk."),
        ("cold", None, "whether they left can't be told on this file system."),
        ("cold", 0.25, "but 25 % of those looked at stayed in it."),
        ("cold", 0.0, "and those looked at had left it; a disk's or a host's own cache may still have had them."),
    ],
)
def test_the_sentence(state: page_cache.CacheState, share: float | None, words: str) -> None:
    assert cache_sentence(state, 1200, share).endswith(words)
    assert cache_sentence(state, 1200, share).startswith(state.capitalize())
