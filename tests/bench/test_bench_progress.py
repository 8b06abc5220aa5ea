"""Progress on a terminal and elsewhere, always on stderr."""

from __future__ import annotations

import io

import pytest

from gpufeed.bench.progress import Reporter, reporter


class _Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def _a_run(progress: Reporter) -> None:
    progress.say("making images")
    for done in range(1, 9):
        progress.count(done, 8)
    progress.budget(90.0)
    progress.say("round 1 of 7")
    progress.detail("torch-tuned")


def test_a_terminal_shows_a_bar_with_stage_detail_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    with reporter() as progress:
        _a_run(progress)
    shown = terminal.getvalue()
    assert "\x1b[" in shown
    last = shown.rsplit("round 1 of 7", maxsplit=1)
    assert len(last) == 2
    assert "of 90 s" in last[0]
    assert "torch-tuned" in last[1]


def test_elsewhere_each_stage_is_a_line_and_counting_is_told_in_quarters(capsys: pytest.CaptureFixture[str]) -> None:
    with reporter() as progress:
        _a_run(progress)
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = [line.strip() for line in captured.err.splitlines()]
    assert lines == ["making images", "2 of 8", "4 of 8", "6 of 8", "8 of 8", "0 s  round 1 of 7"]
