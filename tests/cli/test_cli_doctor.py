"""``gpufeed doctor``: what goes where, exit codes, and wrong usage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from gpufeed.bench.progress import Silent
from gpufeed.cli import main
from gpufeed.inspect.doctor import diagnosis as doctor
from gpufeed.inspect.doctor.diagnosis import SCHEMA_VERSION, Diagnosis, Request, diagnose, to_json
from gpufeed.inspect.doctor.environment import Environment
from gpufeed.inspect.doctor.findings import Finding
from gpufeed.inspect.doctor.gpus import NoDriver
from gpufeed.inspect.doctor.mounts import FileSystem
from gpufeed.inspect.doctor.render import render

GOOD = Environment(
    driver=NoDriver(installed=False, reason=""),
    pci_gpus=0,
    versions={"torch": "2.14.1", "torchvision": "0.29.1", "pillow": "13.0.0", "nvidia-dali-cuda120": "2.4.0"},
    required={},
    torch_cuda=None,
    logical_cpus=8,
    usable_cpus=8,
    variables={},
    shm_bytes=8 << 30,
    open_files=(65536, 65536),
    memory_bytes=16 << 30,
    memory_limit_bytes=None,
    file_system=FileSystem("ext4", "local", "/", 1 << 30),
)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine is, the command sees a good one."""
    monkeypatch.setattr(doctor, "diagnose", lambda request, progress: diagnose(request, progress, lambda _: GOOD))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    (folder / "cats").mkdir(parents=True)
    for number in range(3):
        Image.new("RGB", (40, 30)).save(folder / "cats" / f"{number}.jpg")
    return folder


def _doctor(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["doctor", *map(str, arguments)])


@pytest.mark.usefixtures("machine")
def test_a_good_machine_and_good_files_are_exit_code_0(photos: Path) -> None:
    result = _doctor(photos)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Environment\nok ")
    assert "\nData\nok " in result.stdout
    assert "3 images below" in result.stdout
    assert result.stdout.endswith("\nNothing to mend.\n")
    assert result.stderr == ""


@pytest.mark.usefixtures("machine")
def test_problems_are_exit_code_1_and_named(photos: Path) -> None:
    (photos / "broken.jpg").touch()
    result = _doctor(photos)
    assert result.exit_code == 1
    assert "problem  files: 1 of 4 (25 %) is empty." in result.stdout
    assert "broken.jpg\n" in result.stdout
    assert result.stdout.endswith("\n1 problem, 0 notes.\n")


@pytest.mark.usefixtures("machine")
def test_notes_are_exit_code_0(photos: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (40, 30)).save(photos / "turned.jpg", exif=exif)
    result = _doctor(photos)
    assert result.exit_code == 0
    assert result.stdout.endswith("\nNo problem, 1 note.\n")


@pytest.mark.usefixtures("machine")
def test_all_files_are_looked_at_when_asked(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpufeed.inspect.doctor.diagnosis.MOST_FILES", 2)
    assert "headers of 2 looked at" in " ".join(_doctor(photos).stdout.split())
    assert "all headers looked at" in " ".join(_doctor(photos, "--all").stdout.split())


@pytest.mark.usefixtures("machine")
def test_json_is_versioned_and_alone_on_stdout(photos: Path) -> None:
    (photos / "broken.jpg").touch()
    result = _doctor(photos, "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert (document["schema"], document["schema_version"]) == ("gpufeed.doctor", SCHEMA_VERSION)
    assert document["problems"] == 1
    assert document["environment"]["usable_cpus"] == 8
    assert document["data"]["num_images"] == 4
    assert document["data"]["faults"]["empty"]["files"] == [[str(photos / "broken.jpg"), ""]]
    assert document["training"] is None
    problem = next(finding for finding in document["findings"] if finding["level"] == "problem")
    assert (problem["section"], problem["paths"]) == ("data", [str(photos / "broken.jpg")])


def test_this_machine_can_be_looked_at() -> None:
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-m", "gpufeed", "doctor"], capture_output=True, text=True, check=False
    )
    assert finished.returncode in (0, 1), finished.stderr
    assert finished.stderr == ""
    assert max(map(len, finished.stdout.splitlines())) <= 80


# Training -------------------------------------------------------------------------------------------------------------


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpufeed", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_training_is_started_watched_and_ended() -> None:
    finished = _run("--train", "sh -c 'echo hello; exec sleep 1000'", "--seconds", "1", "--json")
    assert finished.returncode in (0, 1), finished.stderr
    training = json.loads(finished.stdout)["training"]
    assert training["num_looks"] >= 1
    assert not training["ended"]
    assert "hello" in finished.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(training["pid"], 0)


def test_a_failing_training_is_a_problem() -> None:
    finished = _run("--train", f"{sys.executable} -c 'raise SystemExit(3)'", "--seconds", "30")
    assert finished.returncode == 1
    assert "The training ended by itself, with exit code 3." in finished.stdout
    assert "\nTraining\n" in finished.stdout


@pytest.mark.usefixtures("machine")
def test_ctrl_c_shows_what_was_seen_and_is_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpufeed.inspect.doctor.watch.time.monotonic", _clock(interrupted))
    result = _doctor("--pid", str(os.getpid()))
    assert result.exit_code == 130
    assert "Training" in result.stdout


def _clock(interrupt: Any) -> Any:
    calls: list[None] = []

    def monotonic() -> float:
        calls.append(None)
        if len(calls) == 2:
            interrupt()
        return float(len(calls))

    return monotonic


# Wrong usage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--train", "true", "--pid", "1"], "expected either --train or --pid, got both"),
        (["--all"], "--all is about the files of DATA, and none is given"),
        (["--pid", "1", "--keep"], "--keep is about what --train starts"),
        (["--pid", "1", "--seconds", "0.1"], "--seconds must be in [1, 3600], got 0.1"),
        (["--pid", "1", "--seconds", "nan"], "--seconds must be in [1, 3600], got nan"),
        (["--train", "'"], "can't be split into words"),
        (["--pid", "-5"], "--pid must be a running process's id, got -5"),
        (["/no/such/folder"], "there is no folder /no/such/folder"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(arguments: list[str], message: str) -> None:
    result = _doctor(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert (result.stdout, len(result.stderr.splitlines())) == ("", 1)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom gpufeed.cli import main\nmain(['doctor', '--help'], standalone_mode=False)\n"
        "assert not {'torch', 'torchvision', 'nvidia.dali', 'numpy', 'PIL'} & sys.modules.keys()\n"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert "gpufeed doctor --pid 4711" in finished.stdout


# What it looks like ---------------------------------------------------------------------------------------------------


def test_names_of_files_cannot_break_the_output() -> None:
    names = ("a\nb.jpg", "\x1b[31mred.jpg", "caf\u00e9.jpg", os.fsdecode(b"\xff.jpg"))
    finding = Finding("data", "files", "problem", "4 are empty.", "", "Remove them", names)
    diagnosis = Diagnosis(GOOD, None, None, (finding,))
    lines = [line.strip() for line in render(diagnosis).splitlines()]
    assert lines[2:6] == ["a\\nb.jpg", "\\x1b[31mred.jpg", "caf\u00e9.jpg", "\\udcff.jpg"]
    assert json.loads(to_json(diagnosis))["findings"][0]["paths"][0] == "a\nb.jpg"


def test_markup_in_a_name_is_no_markup() -> None:
    finding = Finding("data", "files", "note", "[bold]1[/bold] of 2", paths=("[red]x[/red].jpg",))
    assert "[red]x[/red].jpg" in render(Diagnosis(GOOD, None, None, (finding,)))


@pytest.mark.parametrize("width", [60, 80, 140])
def test_no_line_is_longer_than_the_width(width: int, photos: Path) -> None:
    for number in range(4):
        (photos / f"{'long' * 30}{number}.jpg").touch()
    bad = replace(GOOD, shm_bytes=1 << 20, open_files=(64, 64), versions={})
    diagnosis = diagnose(Request(photos), Silent(), lambda _: bad)
    assert len(diagnosis.problems) >= 6
    assert max(map(len, render(diagnosis, width).splitlines())) <= width
