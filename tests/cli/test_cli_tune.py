"""``gpufeed tune``: wrong arguments, what is asked for, what is delivered where, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner, Result
from constructed import tuning
from PIL import Image

from gpufeed.bench.tuning.results import Trial, Tuned, Tuning
from gpufeed.bench.tuning.tune import Request
from gpufeed.cli import main, tune
from gpufeed.config import GpufeedSettings, TorchSettings, read_config


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Six small images in two class folders."""
    for index in range(6):
        folder = tmp_path / "photos" / "ab"[index % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (30, 20), (index, 2 * index, 9)).save(folder / f"{index}.jpg")
    return tmp_path / "photos"


_TORCH = [TorchSettings(count, 2, persistent_workers=True) for count in (1, 2)]
_TUNING = tuning(
    Tuned("torch", _TORCH[1], _TORCH[1], tuple(Trial(each, (90.0,), 10**8) for each in _TORCH), main=tuple(_TORCH)),
    Tuned("gpufeed", GpufeedSettings(3), GpufeedSettings(2), (Trial(GpufeedSettings(3), (400.0,), 10**8),)),
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Replaces the measuring, and keeps what was asked for."""
    requests: list[Request] = []

    def tuned(request: Request, *_: object) -> Tuning:
        requests.append(request)
        return _TUNING

    monkeypatch.setattr(tune, "tune", tuned)
    return requests


def _tune(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["tune", *map(str, arguments)])


def test_defaults(photos: Path, asked: list[Request]) -> None:
    assert _tune(photos).exit_code == 0
    (request,) = asked
    assert (request.transform, request.batch_size, request.device, request.budget_s) == ("train", 64, "auto", 120)
    assert (request.step, request.max_memory_bytes) == ("", None)
    assert request.num_cpus == len(os.sched_getaffinity(0))
    assert len(request.files or ()) == 6
    assert list(request.contenders) == ["torch", "gpufeed"]


@pytest.mark.parametrize(
    ("size", "expected"),
    [("2G", 2 * 10**9), ("800M", 8 * 10**8), ("1.5GiB", 3 * 2**29), ("1 TB", 10**12), ("1000", 1000), ("64kib", 65536)],
)
def test_options(photos: Path, asked: list[Request], size: str, expected: int) -> None:
    options = ["--batch-size", 7, "--budget", 33.5, "--step", "25ms", "--device", "cpu", "--max-memory", size]
    assert _tune(photos, *options).exit_code == 0
    (request,) = asked
    assert (request.batch_size, request.budget_s, request.step, request.device) == (7, 33.5, "25ms", "cpu")
    assert request.max_memory_bytes == expected


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["/no/such/folder"], "there is no folder /no/such/folder. Give an image folder with one sub-folder per class"),
        (["--transform", "test"], "the transform must be one of train, eval, or FILE.py:NAME, got 'test'"),
        (["--batch-size", "0"], "--batch-size must be in [1, 1,000,000], got 0"),
        (["--budget", "3"], "--budget must be a finite number of seconds, at least 20, got 3"),
        (["--budget", "nan"], "--budget must be a finite number of seconds, at least 20, got nan"),
        (["--device", "gpu"], "--device must be auto, cpu, cuda or cuda:N, got 'gpu'"),
        (["--step", "resnet"], "the step must be none, resnet18"),
        (
            ["--max-memory", "much"],
            "--max-memory must be a size above 0 such as 800M, 2G or 1.5GiB, at most 1,000T, got 'much'",
        ),
        (["--max-memory", "0G"], "--max-memory must be a size above 0"),
        (["--max-memory", "9" * 400 + "T"], "--max-memory must be a size above 0"),
        (["--max-memory", "0.0000001"], "--max-memory must be a size above 0"),
        (["--out", "x.svg", "--chart", "x.svg"], "--out and --chart both name x.svg"),
        (["--chart", "a.gif"], "--chart must end in .svg or .png, got a.gif"),
        (["--out", "/no/such/folder/x.toml"], "there is no folder /no/such/folder to write x.toml to"),
        (["--out", __file__], "is not a result of gpufeed tune; give --out another name"),
    ],
)
def test_wrong_arguments_give_one_sentence_and_exit_code_2(
    arguments: list[str], sentence: str, asked: list[Request]
) -> None:
    result = _tune(*arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.output
    assert asked == []


def test_the_settings_and_the_charts_are_written(photos: Path, asked: list[Request], tmp_path: Path) -> None:
    out, chart = tmp_path / "gpufeed.toml", tmp_path / "chart.svg"
    result = _tune(photos, "--out", out, "--chart", chart)
    assert result.exit_code == 0
    config = read_config(out)
    assert (config.torch, config.gpufeed) == (_TORCH[1], GpufeedSettings(3))
    assert "torch: throughput over num_workers" in chart.read_text()
    assert result.stdout.startswith("gpufeed tune, photos, train, batch 64, 2 CPUs, cpu\n")
    assert f"the settings are in {out}" in result.stderr


def test_json_alone_is_on_stdout(photos: Path, asked: list[Request]) -> None:
    result = _tune(photos, "--json")
    assert json.loads(result.stdout)["schema"] == "gpufeed.tune"
    assert "gpufeed tune, photos" in result.stderr


def test_an_interrupted_search_is_delivered_with_exit_code_130(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tune, "tune", lambda *_: replace(_TUNING, interrupted=True, loaders=_TUNING.loaders[1:]))
    out, chart = tmp_path / "gpufeed.toml", tmp_path / "chart.svg"
    result = _tune(photos, "--out", out, "--chart", chart)
    assert result.exit_code == 130
    assert "stopped by you after" in " ".join(result.stdout.split())
    assert read_config(out).gpufeed == GpufeedSettings(3)
    assert "there is no chart to draw" in result.stderr
    assert not chart.exists()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_keep_the_best_so_far_and_leave_nothing(
    photos: Path, tmp_path: Path, sent: signal.Signals, short_folder: Path
) -> None:
    out = tmp_path / "gpufeed.toml"
    arguments = ["tune", str(photos), "--batch-size", "2", "--device", "cpu", "--budget", "300", "--out", str(out)]
    with subprocess.Popen(
        [sys.executable, "-m", "gpufeed", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(short_folder)},
    ) as process:
        assert process.stderr is not None
        assert any("images/s" in line for line in process.stderr)
        below = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(sent)
        output, rest = process.communicate()
    assert process.returncode == 130
    assert psutil.wait_procs(below, timeout=30)[1] == []
    assert "stopped by you after" in " ".join(output.split())
    assert read_config(out).torch is not None
    assert "Traceback" not in rest
    assert [left for left in short_folder.iterdir() if left.name.startswith("gpufeed-")] == []
