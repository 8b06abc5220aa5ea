"""``gpufeed compare``: wrong arguments, what is delivered where, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from click.testing import CliRunner, Result
from constructed import comparison
from PIL import Image

from gpufeed.bench import synthetic
from gpufeed.bench.budget import MIN_ROUNDS
from gpufeed.bench.measure import Request
from gpufeed.bench.results import Comparison, ContenderResult, Epoch, Measurement, from_json, write_json
from gpufeed.cli import compare, main
from gpufeed.config import Config, TorchSettings, write_config


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Six small images in two class folders."""
    root = tmp_path / "photos"
    for index in range(6):
        folder = root / "ab"[index % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(index).integers(0, 256, size=(20, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{index}.jpg")
    return root


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Replaces the measuring, and keeps what was asked for."""
    requests: list[Request] = []

    def measured(request: Request, *_: object) -> Comparison:
        requests.append(request)
        return _COMPARISON

    monkeypatch.setattr(compare, "measure", measured)
    return requests


_EPOCH = Epoch(1.0, 0.1, 2.0, 640, 10, 0, "float32", "cpu", (3, 224, 224))
_COMPARISON = comparison(
    ContenderResult("torch-tuned", 0.5, _EPOCH, None, tuple(Measurement(i, 0, _EPOCH) for i in range(MIN_ROUNDS))),
    data="photos",
)


def _compare(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


def test_defaults(photos: Path, asked: list[Request]) -> None:
    assert _compare(photos).exit_code == 0
    (request,) = asked
    assert [contender.name for contender in request.contenders] == [
        "torch-default",
        "torch-tuned",
        "torch-tensor",
        "gpufeed",
    ]
    assert (request.transform, request.batch_size, request.device, request.budget_s) == ("train", 64, "auto", 90)
    assert request.num_threads == len(os.sched_getaffinity(0))
    assert [bound.name for bound in request.bounds] == ["storage", "decode", "region-decode", "cached", "synthetic"]
    assert (request.with_copy, request.step, request.cache) == (True, "none", "warm")
    assert len(request.files) == 6


def test_options(photos: Path, asked: list[Request], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpufeed.cli.workload.nvidia_gpus", lambda: ("a GPU", "another"))
    file = photos / "f.py"
    file.touch()
    options = f"--transform {file}:t --batch-size 7 --num-workers 3 --device cuda:1 --contenders gpufeed --budget 33.5"
    assert _compare(photos, *options.split()).exit_code == 0
    (request,) = asked
    assert [contender.name for contender in request.contenders] == ["gpufeed"]
    assert (request.transform, request.batch_size, request.num_threads) == (f"{file}:t", 7, 3)
    assert (request.device, request.budget_s) == ("cuda:1", 33.5)


def test_options_of_what_is_measured_beside(photos: Path, asked: list[Request], tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text("def mine(workload): ...")
    tuned = tmp_path / "tuned.toml"
    write_config(Config(TorchSettings(num_workers=1, prefetch_factor=3)), tuned)
    options = f"--no-bounds --step 25ms --cache cold --contender {own}:mine --config {tuned}"
    assert _compare(photos, *options.split()).exit_code == 0
    (request,) = asked
    assert (request.bounds, request.step, request.cache) == ((), "25ms", "cold")
    names = [contender.name for contender in request.contenders]
    assert names == ["torch-default", "torch-tuned", "torch-tensor", "gpufeed", "mine"]
    assert dict(request.contenders[1].options) == {"settings": TorchSettings(num_workers=1, prefetch_factor=3)}
    assert request.contenders[4].factory == f"{own}:mine"


def test_a_report_and_a_picture_are_written_beside_the_table(
    photos: Path, asked: list[Request], tmp_path: Path
) -> None:
    page, picture = tmp_path / "report.html", tmp_path / "report.png"
    result = _compare(photos, "--html", page, "--png", picture)
    assert result.exit_code == 0, result.output
    assert page.read_text().startswith("<!doctype html>")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"the report is in {page}" in result.stderr


def test_two_earlier_runs_are_compared_without_measuring(asked: list[Request], tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    write_json(_COMPARISON, old)
    write_json(replace(_COMPARISON, batch_size=32), new)
    refused = _compare("--load", old, new)
    assert refused.exit_code == 2
    assert "give --force to compare all the same" in refused.stderr
    forced = _compare("--load", old, new, "--force")
    assert forced.exit_code == 0
    assert "torch-tuned" in forced.stdout
    as_json = _compare("--load", old, new, "--force", "--json", "-")
    document = json.loads(as_json.stdout)
    assert document["differ_in"] == ["batch size: 64, then 32"]
    assert {change["name"] for change in document["changes"]} >= {"torch-tuned"}
    assert "torch-tuned" in as_json.stderr
    assert _compare("--load", old, new, "--force", "--json", tmp_path / "changes.json").exit_code == 0
    assert json.loads((tmp_path / "changes.json").read_text()) == document
    assert "is not a result of gpufeed compare load" in _compare("--load", old, new, "--json", old).stderr
    assert asked == []


def test_without_data_the_built_in_images_are_made_and_used(
    asked: list[Request], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(synthetic, "NUM_IMAGES", 3)
    result = _compare()
    assert result.exit_code == 0, result.output
    assert len(asked[0].files) == 3
    assert asked[0].data == "512 built-in images"
    assert "making 3 images for this and later runs in" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["/no/such/folder"], "there is no folder /no/such/folder. Give an image folder with one sub-folder per class"),
        ([__file__], "is a file, not an image folder. Give an image folder"),
        (["--transform", "test"], "the transform must be one of train, eval, or FILE.py:NAME, got 'test'"),
        (["--transform", "gone.py:train"], "there is no file gone.py"),
        (["--contenders", "gpufeed,ffcv"], "there is no contender 'ffcv'; there are torch-default"),
        (["--contender", "gone.py:mine"], "there is no file gone.py"),
        (["--contender", f"{__file__}:_compare", "--contender", f"{__file__}:_compare"], "two contenders are named"),
        (["--step", "resnet9"], "the step must be none, resnet18, resnet50, vit_b_16, a time such as 25ms"),
        (["--config", "/no/such.toml"], "/no/such.toml"),
        (["--html", "/no/such/folder/x.html"], "there is no folder /no/such/folder"),
        (["--png", __file__], "test_cli_compare.py"),
        (["--force"], "--force belongs to --load OLD NEW"),
        (["--load", "a", "b", "--budget", "20"], "--load OLD NEW measures nothing, so that --budget means nothing"),
        (["photos", "--load", "a", "b"], "so that DATA means nothing beside it"),
        (["--html", "/tmp/x.html", "--json", "/tmp/x.html"], "--json and --html both name /tmp/x.html"),
        (["--png", "/tmp/x.jpg"], "--png /tmp/x.jpg must end in .png"),
        (["-p", "size=3"], "-p size=3: train is no pipeline, and only pipelines have parameters"),
        ([""], "DATA is empty; give a path, or leave it out"),
        (["--json", ""], "--json is empty"),
        (["--load", "/dev/zero", "/dev/zero"], "/dev/zero is no ordinary file"),
        (["--config", "/dev/zero"], "/dev/zero is no ordinary file"),
        (["--batch-size", "9" * 30], "--batch-size must be in [1, 1,000,000]"),
        (["--load", "/no/old.json", "/no/new.json"], "/no/old.json can't be read"),
        (["--contenders", ","], "name at least one contender of torch-default"),
        (["--batch-size", "0"], "--batch-size must be in [1, 1,000,000], got 0"),
        (["--num-workers", "0"], "--num-workers must be at least 1, got 0"),
        (["--budget", "3"], "--budget must be a finite number of seconds, at least 10, got 3"),
        (["--budget", "nan"], "--budget must be a finite number of seconds, at least 10, got nan"),
        (["--device", "gpu"], "--device must be auto, cpu, cuda or cuda:N, got 'gpu'"),
        (["--json", "/no/such/folder/x.json"], "there is no folder /no/such/folder to write x.json to"),
        (["--json", __file__], "is not a result of gpufeed compare; give --json another name"),
    ],
)
def test_wrong_arguments_give_one_sentence_and_exit_code_2(
    arguments: list[str], sentence: str, asked: list[Request]
) -> None:
    result = _compare(*arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stderr.count("Error:") == 1
    assert "Traceback" not in result.output
    assert asked == []


@pytest.mark.parametrize("option", ["--batch-size", "--budget", "--num-workers"])
def test_what_is_no_number_is_a_usage_error(option: str) -> None:
    result = _compare(option, "many")
    assert result.exit_code == 2
    assert f"Invalid value for '{option}'" in result.stderr


def test_the_table_goes_to_stdout_and_progress_to_stderr(photos: Path, asked: list[Request]) -> None:
    result = _compare(photos)
    assert result.stdout.startswith("gpufeed compare, photos, train, batch 64, 2 threads, cpu\n")
    assert "reading the list of images" in result.stderr
    assert "reading" not in result.stdout.splitlines()[0]


def test_json_to_a_file_and_to_stdout(photos: Path, asked: list[Request], tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    to_file = _compare(photos, "--json", path)
    assert from_json(path.read_text()) == _COMPARISON
    assert "torch-tuned" in to_file.stdout
    to_stdout = _compare(photos, "--json", "-")
    assert from_json(to_stdout.stdout) == _COMPARISON
    assert "gpufeed compare, photos" in to_stdout.stderr


def test_an_interrupted_comparison_is_delivered_with_exit_code_130(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted = replace(_COMPARISON, interrupted=True)
    monkeypatch.setattr(compare, "measure", lambda *_: interrupted)
    path = tmp_path / "result.json"
    result = _compare(photos, "--json", path)
    assert result.exit_code == 130
    assert "stopped by you" in result.stdout
    assert from_json(path.read_text()) == interrupted


def test_ctrl_c_shows_the_rounds_so_far_and_leaves_no_process(photos: Path) -> None:
    arguments = ["compare", str(photos), "--contenders", "torch-tuned", "--batch-size", "2", "--num-workers", "2"]
    arguments += ["--no-bounds"]
    with subprocess.Popen(
        [sys.executable, "-m", "gpufeed", *arguments, "--device", "cpu", "--budget", "300"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert any("round 2" in line for line in process.stderr)
        below = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        output, rest = process.communicate()
    assert process.returncode == 130
    assert len(below) == 6  # the contender's process and its copy's, and two workers each
    assert psutil.wait_procs(below, timeout=30)[1] == []
    assert "stopped by you after" in output
    assert "torch-tuned" in output
    assert "Traceback" not in rest
