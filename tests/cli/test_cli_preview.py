"""``gpufeed preview``: what is written and said, that nothing is overwritten, and wrong arguments."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from gpufeed.cli import main

SUBJECTS = """
import gpufeed
from gpufeed import ops
from torchvision.transforms import v2
print("hello from the file")
crop = v2.Compose([v2.RandomResizedCrop(40), v2.PILToTensor()])
opaque = v2.Compose([v2.Lambda(lambda image: image), v2.PILToTensor()])

@gpufeed.pipeline
def train(sample, *, size: int = 48):
    return ops.normalize(sample.random_resized_crop(size)), sample.target

@gpufeed.pipeline
def wrong(sample):
    return sample.centre_crop(3)
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.py").write_text(SUBJECTS)


def _preview(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["preview", *arguments, "--device", "cpu"])


def refused(*arguments: str) -> str:
    result = _preview(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    return " ".join(result.stderr.split())


def test_a_pipeline_on_example_data_and_what_is_said() -> None:
    result = _preview("study.py:train", "--out", "sheet.png", "--samples", "2", "--views", "1", "-p", "size=130")
    assert result.exit_code == 0, result.output
    with Image.open("sheet.png") as sheet:
        assert sheet.format == "PNG"
        assert result.stdout == f"sheet.png: {sheet.width} x {sheet.height} pixels, 2 samples with 1 view each\n"
    assert "hello from the file" in result.stderr
    assert "loading 1 views" not in result.stdout
    assert sorted(os.listdir()) == ["sheet.png", "study.py"]


def test_what_there_is_too_little_of_is_said() -> None:
    folder = Path("photos/ant")
    folder.mkdir(parents=True)
    Image.new("RGB", (50, 60), (9, 9, 9)).save(folder / "one.png")
    result = _preview("study.py:crop", "photos", "--out", "sheet.png", "--views", "2")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1:] == ["8 samples were asked for, and the data has 1"]
    assert " 1 sample with 2 views each" in result.stdout


def test_nothing_is_overwritten_without_force() -> None:
    Path("sheet.png").write_bytes(b"precious")
    assert "sheet.png exists, and nothing is overwritten" in refused("study.py:crop", "--out", "sheet.png")
    assert Path("sheet.png").read_bytes() == b"precious"
    result = _preview("study.py:crop", "--out", "sheet.png", "--samples", "1", "--views", "1", "--force")
    assert result.exit_code == 0, result.output
    with Image.open("sheet.png") as sheet:
        assert sheet.format == "PNG"


def test_wrong_arguments_are_sentences() -> None:
    assert "--samples must be at least 1, got 0" in refused("study.py:crop", "--out", "a.png", "--samples", "0")
    assert "--views must be at least 1" in refused("study.py:crop", "--out", "a.png", "--views", "0")
    assert "there is no folder nowhere" in refused("study.py:crop", "--out", "nowhere/a.png")
    assert "must end in .png" in refused("study.py:crop", "--out", "a.jpg")
    assert "Missing option '--out'" in refused("study.py:crop")
    assert "has no name 'crops'; did you mean crop?" in refused("study.py:crops", "--out", "a.png")
    assert "has no parameter 'sice'; did you mean size?" in refused("study.py:train", "--out", "a.png", "-p", "sice=3")
    assert os.listdir() == ["study.py"]


def test_a_transform_that_cant_be_translated_is_refused_with_the_reason() -> None:
    message = refused("study.py:opaque", "--out", "a.png")
    assert "transforms[0]" in message
    assert "a function can't be looked into" in message


def test_a_mistake_in_the_users_file_is_shown_with_its_line() -> None:
    message = refused("study.py:wrong", "--out", "a.png")
    assert "study.py, line 15: return sample.centre_crop(3)" in message
    assert "did you mean sample.center_crop?" in message
    assert os.listdir() == ["study.py"]
