"""``gpufeed check``: exit codes, what is shown, several pipelines, wrong arguments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpufeed.cli import main
from gpufeed.inspect.check import checking as check_module
from gpufeed.inspect.example_data import example_data

TEXT = """
import os
from nvidia.dali import fn
from torchvision.transforms import v2
import gpufeed
from gpufeed import ops
print("hello from the file")
os.system("echo hello from its child")
@gpufeed.pipeline
def train(sample, *, size: int = 24):
    '''Crops.'''
    return ops.normalize(sample.random_resized_crop(size)), sample.target
@gpufeed.pipeline
def wrong(sample, *, size: int = 24):
    return fn.rotat(sample.decode(), angle=3.0)
flip = v2.RandomHorizontalFlip()
"""


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_module, "_TIMED_S", 0.0)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(example_data(tmp_path_factory.mktemp("check"), count=9).folders)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "study.py"
    path.write_text(TEXT)
    return str(path)


def _check(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["check", *arguments])


def _words(text: str) -> str:
    return " ".join(text.split())


def test_a_good_pipeline_exits_with_0(file: str, folders: str) -> None:
    result = _check(f"{file}:train", folders, "-p", "size=20", "--batch-size", "4", "--batches", "2")
    assert result.exit_code == 0, result.output
    assert "(4, 3, 20, 20)" in result.stdout
    assert "ran 2 batches, 8 samples" in result.stdout
    assert "order and draws are exact" in result.stdout
    assert "No faults." in result.stdout
    assert "hello" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_fault_exits_with_1_and_shows_the_line(file: str, folders: str) -> None:
    result = _check(f"{file}:wrong", folders)
    assert result.exit_code == 1, result.output
    assert "study.py,line15" in "".join(result.stdout.split())  # a long path is broken anywhere
    assert "return fn.rotat(sample.decode(), angle=3.0)" in result.stdout
    assert "did you mean fn.rotate" in _words(result.stdout)
    assert "Traceback" not in result.output


def test_each_pipeline_of_a_file_is_checked(file: str, folders: str) -> None:
    result = _check(file, folders, "--batches", "1")
    assert result.exit_code == 1, result.output
    squeezed = "".join(result.stdout.split())
    assert all(f"study.py:{name}" in squeezed for name in ("train", "wrong"))
    assert "No faults." in result.stdout
    assert "One fault." in result.stdout


def test_json_is_all_of_stdout(file: str, folders: str) -> None:
    result = _check(file, folders, "--batches", "1", "--json")
    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout)
    assert [bool(one["faults"]) for one in document["checks"]] == [False, True]
    assert document["checks"][1]["faults"][0]["line"] == 15


def test_example_data_is_made_and_removed(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    result = _check(f"{file}:train", "--batches", "1")
    assert result.exit_code == 0, result.output
    assert "32 built-in example images" in _words(result.stdout)
    assert not list(temporary.glob("gpufeed-check-*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{file}:train", "{folders}", "--batch-size", "0"], "--batch-size must be at least 1, got 0"),
        (["{file}:train", "{folders}", "--batches", "-1"], "--batches must be at least 1, got -1"),
        (["{file}:train", "{folders}", "-p", "size=big"], "size must be int, got 'big'"),
        (["{file}:train", "{folders}", "-p", "width=3"], "no parameter 'width'"),
        (["{file}:trian", "{folders}"], "did you mean train"),
        (["{file}:flip", "{folders}"], "gpufeed explain"),
        (["nothing.py", "{folders}"], "there is no file nothing.py"),
        (["{file}:train", "{file}.d"], "can't be opened as"),
        (["gpufeed:nothing"], "gpufeed ships no pipeline module 'nothing'"),
    ],
)
def test_wrong_arguments_exit_with_2(arguments: list[str], message: str, file: str, folders: str) -> None:
    result = _check(*(argument.format(file=file, folders=folders) for argument in arguments))
    assert result.exit_code == 2, result.output
    assert message in _words(result.stderr)
    assert result.stdout == ""


def test_help_names_an_example() -> None:
    result = _check("--help")
    assert result.exit_code == 0
    assert "gpufeed check study.py" in result.stdout
