"""Where torch's workers hang for want of a socket, this is said before."""

from __future__ import annotations

import multiprocessing.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gpufeed.temporary import too_long_for_workers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere torch's workers use no sockets")
_MENDS_ITSELF = hasattr(multiprocessing.util, "_get_base_temp_dir")


def _of_length(below: Path, length: int) -> Path:
    folder = below / "ü" / ("x" * (length - len(os.fsencode(below)) - 4))  # bytes count, and ü has two
    folder.mkdir(parents=True)
    assert len(os.fsencode(folder)) == length
    return folder


@pytest.mark.skipif(_MENDS_ITSELF, reason="this Python takes a shorter folder by itself")
@pytest.mark.parametrize(("length", "is_too_long"), [(75, False), (76, True)])
def test_the_limit_is_that_of_the_sockets(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch, length: int, is_too_long: bool
) -> None:
    folder = _of_length(short_folder, length)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    why_not = too_long_for_workers()
    assert bool(why_not) == is_too_long
    if is_too_long:
        assert f"{folder}, has a path of 76 bytes" in why_not
    listens = "import multiprocessing.connection as c; c.Listener(c.arbitrary_address('AF_UNIX')).close()"
    opened = subprocess.run(
        [sys.executable, "-c", listens],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (opened.returncode != 0) == is_too_long, opened.stderr
    assert ("AF_UNIX path too long" in opened.stderr) == is_too_long


def test_a_python_that_takes_a_shorter_folder_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/" + 200 * "x")
    monkeypatch.setattr(multiprocessing.util, "_get_base_temp_dir", lambda: "/tmp", raising=False)
    assert too_long_for_workers() == ""
