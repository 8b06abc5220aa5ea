"""Arguments of `gpufeed compare` that would hang or waste the user's time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpufeed.bench import environment
from gpufeed.cli import main


def error_of(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["compare", *arguments])
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    return result.stderr


@pytest.mark.parametrize("budget", ["inf", "nan", "1e400", "-1", "3"])
def test_a_budget_must_be_a_time(budget: str) -> None:
    assert "--budget must be a finite number of seconds, at least 10, got" in error_of("--budget", budget)


def test_a_device_or_a_pipe_is_no_place_for_json(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/full", str(tmp_path / "pipe")):
        assert f"{path} is no ordinary file; give --json another name" in error_of("--json", path)


def test_cuda_without_a_gpu_is_refused_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpufeed.cli.workload.nvidia_gpus", lambda: ())
    assert "--device cuda:1 needs an NVIDIA GPU, and the driver finds none" in error_of("--device", "cuda:1")


def test_gpus_are_none_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> None:
        raise environment.pynvml.NVMLError(environment.pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(environment.pynvml, "nvmlInit", no_driver)
    assert environment.nvidia_gpus() == ()
