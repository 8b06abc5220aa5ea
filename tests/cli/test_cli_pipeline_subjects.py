"""``compare``, ``verify`` and ``explain`` with a pipeline in place of a transform."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from gpufeed.bench.measure import Request
from gpufeed.cli import compare, main

TEXT = """
import torch
import gpufeed
from gpufeed import ops
from gpufeed.sources import YoloSource
from torchvision.transforms import v2
print("hello from the file")

@gpufeed.pipeline
def train(sample, *, size: int = 24):
    "A crop."
    return ops.normalize(sample.center_crop(size)), sample.target

@train.reference
def train_torch(*, size):
    to_float = v2.ToDtype(torch.float32, scale=True)
    return v2.Compose([v2.CenterCrop(size), v2.ToImage(), to_float, v2.Normalize(ops.IMAGENET_MEAN, ops.IMAGENET_STD)])
"""
BOXES = """

@train.source
def source(root):
    return YoloSource(f"{root}/images")
"""


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Four images in two class folders."""
    root = tmp_path / "photos"
    for index in range(4):
        folder = root / "ab"[index % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(index).integers(0, 256, size=(30 + index, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{index}.jpg")
    return root


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "study.py"
    path.write_text(TEXT)
    return path


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


# compare --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """What is asked to be measured; the command ends there."""
    requests: list[Request] = []

    def measured(request: Request, *_: Any) -> None:
        example = None if request.example is None else request.example()
        requests.append(request)
        assert example is None or (Path(example[0]) / "annotations.json").is_file()
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "measure", measured)
    return requests


def test_compare_passes_parameters_on_without_running_the_file(
    asked: list[Request], photos: Path, module: Path
) -> None:
    result = _run("compare", photos, "--transform", module, "-p", "size=16", "--param", "other=1")
    assert result.exit_code == 130
    assert "hello" not in result.output
    (request,) = asked
    assert (request.transform, request.parameters, request.root) == (str(module), ("size=16", "other=1"), str(photos))
    assert request.files is not None
    assert len(request.files) == 4


def test_compare_takes_data_that_is_no_image_folder_for_a_file_alone(
    asked: list[Request], tmp_path: Path, module: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    assert _run("compare", data, "--transform", f"{module}:train").exit_code == 130
    assert (asked[0].files, asked[0].root) == (None, str(data))
    result = _run("compare", data)
    assert result.exit_code == 2
    assert "has no class folders" in result.stderr
    result = _run("compare", tmp_path / "gone", "--transform", module)
    assert result.exit_code == 2
    assert "there is no folder" in result.stderr


# verify ---------------------------------------------------------------------------------------------------------------


def test_verify_holds_a_pipeline_to_its_reference(photos: Path, module: Path, tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    arguments = ["verify", photos, "--transform", module, "-p", "size=16", "--device", "cpu"]
    result = _run(*arguments, "--samples", 3, "--json", path)
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    assert words.replace(" ", "").startswith(f"gpufeedverify,{photos},{module}size=16,3samples,cpu,seed0")
    assert "[0] float32 3x16x16 0 0 0 100 % 99.9 % within" in words
    assert "hello from the file" in result.stderr
    assert "hello" not in result.stdout
    document = json.loads(path.read_text())
    assert (document["kind"], document["num_compared"], document["num_files"]) == ("pipeline", 3, 4)
    assert _run(*arguments, "--json", path).exit_code == 0  # an earlier result may be replaced


def test_verify_ends_with_1_where_the_bound_is_exceeded(photos: Path, module: Path) -> None:
    module.write_text(TEXT.replace("[v2.CenterCrop(size)", "[v2.RandomCrop(size)"))
    result = _run("verify", photos, "--transform", module, "--device", "cpu")
    assert result.exit_code == 1
    assert "EXCEEDED" in result.stdout
    assert "in the pipeline's order" in " ".join(result.stdout.split())


def test_verify_uses_example_data_for_a_source_of_its_own(module: Path) -> None:
    module.write_text(TEXT + BOXES)
    result = _run("verify", "--transform", module, "--samples", 2, "--device", "cpu", "--json", "-")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["data"] == "32 built-in example images"


def test_a_file_with_one_transform_is_taken_without_its_name(photos: Path, tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text("from torchvision.transforms import v2\ncrop = v2.Compose([v2.CenterCrop(9), v2.PILToTensor()])\n")
    result = _run("verify", photos, "--transform", path, "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert "everything holds" in result.stdout
    assert _run("explain", path, "--device", "cpu").exit_code == 0


# explain --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_explain_shows_a_pipeline(module: Path, device: str) -> None:
    result = _run("explain", module, "-p", "size=17", "--device", device)
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    squeezed = words.replace(" ", "")  # a long path is broken anywhere
    assert squeezed.startswith(f"gpufeedexplain,{module}size=17,on{device}train(size=17),study.pyline")
    assert "CenterCrop" in words
    assert "sample.target: bypasses DALI" in words
    assert "hello" not in result.stdout
    document = json.loads(_run("explain", module, "--device", device, "--json").stdout)
    assert (document["kind"], document["parameters"], document["device"]) == ("pipeline", {"size": 24}, device)


# wrong usage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["explain", "MODULE", "-p", "sise=3"], "has no parameter 'sise'; did you mean size?"),
        (["explain", "MODULE", "-p", "size"], "expected NAME=VALUE, such as size=160, got 'size'"),
        (["explain", "MODULE:tarin"], "study.py has no name 'tarin'; did you mean train?"),
        (["explain", "--weights", "x", "-p", "a=1"], "the transform of weights has no parameters; leave out -p a=1"),
        (["verify", "--transform", "MODULE", "-p", "size=big"], "size must be int, got 'big'"),
        (["verify", "-p", "size=3"], "train is no pipeline, and only pipelines have parameters; leave out -p size=3"),
        (["verify", "--transform", "gpufeed:no_such_module"], "gpufeed ships no pipeline module 'no_such_module'"),
        (["explain", "TRANSFORM", "-p", "a=1"], "one.py:crop is no pipeline, and only pipelines have parameters"),
    ],
)
def test_wrong_usage_gives_one_sentence_and_exit_code_2(
    module: Path, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    one = tmp_path / "one.py"
    one.write_text("from torchvision.transforms import v2\ncrop = v2.CenterCrop(9)\n")
    places = {"MODULE": str(module), "TRANSFORM": f"{one}:crop"}
    for name, place in places.items():
        arguments = [argument.replace(name, place) for argument in arguments]
    result = _run(*arguments, "--device", "cpu")
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stderr.count("Error:") == 1
    assert "Traceback" not in result.output


def test_a_mistake_in_the_pipeline_is_shown_with_its_line(photos: Path, module: Path) -> None:
    module.write_text(TEXT.replace("sample.center_crop(size)", "sample.centre_crop(size)"))
    line = 1 + TEXT.splitlines().index("    return ops.normalize(sample.center_crop(size)), sample.target")
    for command in (["explain", module], ["verify", photos, "--transform", module]):
        result = _run(*command, "--device", "cpu")
        assert result.exit_code == 2
        assert f"{module}, line {line}:" in result.stderr


@pytest.mark.parametrize("command", ["compare", "verify", "explain"])
def test_help_has_an_example_with_a_module(command: str) -> None:
    text = _run(command, "--help").output
    assert "-p, --param NAME=VALUE" in text
    assert "study.py:train -p size=160" in text
