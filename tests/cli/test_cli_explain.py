"""``gpufeed explain``: what goes where, exit codes, and wrong usage."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpufeed.cli import main
from gpufeed.inspect.explain.explanation import ENDS_IN_PIL

TEXT = """
import os
from torchvision.transforms import InterpolationMode, v2
print("hello from the file")
os.system("echo hello from its child")
train = v2.Compose([v2.RandomResizedCrop(24), v2.RandomHorizontalFlip(), v2.PILToTensor()])
lambdas = v2.Compose([v2.Lambda(lambda x: x), v2.CenterCrop(9)])
box = v2.Compose([v2.Resize((9, 9), interpolation=InterpolationMode.BOX), v2.PILToTensor()])
pil = v2.Compose([v2.Resize(9), v2.CenterCrop(7)])
number = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(TEXT)
    return str(path)


def _explain(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["explain", *arguments])


def test_the_tables_go_to_stdout(file: str) -> None:
    result = _explain(f"{file}:train", "--device", "cpu")
    assert result.exit_code == 0, result.output
    # Without spaces: a long path is broken anywhere.
    assert "".join(result.stdout.split()).startswith(f"gpufeedexplain,{file}:train,oncpu")
    assert "RandomAreaCrop" in result.stdout
    assert "hello" not in result.stdout
    assert "hello from the file" in result.stderr


def test_json_alone_is_on_stdout_whatever_the_file_prints(file: str) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "gpufeed", "explain", f"{file}:train", "--device", "cuda", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    document = json.loads(finished.stdout)
    assert (document["schema"], document["device"], document["subject"]) == ("gpufeed.explain", "cuda", f"{file}:train")
    assert sorted(finished.stderr.splitlines()) == ["hello from its child", "hello from the file"]


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_refused_transform_is_exit_code_1(file: str, form: tuple[str, ...]) -> None:
    result = _explain(f"{file}:lambdas", "--device", "cpu", *form)
    assert result.exit_code == 1
    assert "a function can't be looked into" in " ".join(result.stdout.split())
    assert _explain(f"{file}:box", "--device", "cpu", *form).exit_code == 0
    assert _explain(f"{file}:box", "--device", "cuda", *form).exit_code == 1


def test_a_transform_that_ends_in_a_pil_image_is_shown_and_refused(file: str) -> None:
    result = _explain(f"{file}:pil", "--device", "cpu")
    assert result.exit_code == 1
    text = " ".join(result.stdout.split())
    assert "CenterCrop" in text
    assert f"Refused: {ENDS_IN_PIL}." in text
    document = json.loads(_explain(f"{file}:pil", "--device", "cpu", "--json").stdout)
    assert document["unfit"] == ENDS_IN_PIL
    assert not document["refused"]


@pytest.mark.parametrize("gpus", [(), ("a GPU",)])
def test_the_default_device_is_that_of_the_machine(
    file: str, gpus: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpufeed.bench.environment.nvidia_gpus", lambda: gpus)
    assert f"on {'cuda' if gpus else 'cpu'} " in " ".join(_explain(f"{file}:train").stdout.split())


def test_weights_by_name() -> None:
    result = _explain("--weights", "ResNet50_Weights.IMAGENET1K_V2", "--device", "cpu")
    assert result.stdout.startswith("gpufeed explain, ResNet50_Weights.IMAGENET1K_V2, on cpu\n")
    assert "ImageClassification" in result.stdout
    assert result.exit_code == ("refused" in result.stdout)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "expected either FILE.py:NAME or --weights NAME, got neither"),
        (["FILE:train", "--weights", "x"], "expected either FILE.py:NAME or --weights NAME, got both"),
        (["FILE"], "mine.py holds the transforms train, lambdas, box, pil; name one, as in "),
        (["FILE:number"], "mine.py:number is of type int, not a transform; name an object such as Compose"),
        (["FILE:tarin"], "mine.py has no name 'tarin'; did you mean train?"),
        (["FILE:xyz"], "mine.py has no name 'xyz'; it holds the transforms train, lambdas, box, pil"),
        (["train"], "expected FILE.py:NAME, such as transforms.py:train, got 'train'"),
        (["gone.py:train"], "there is no file gone.py"),
        (["gone.py"], "there is no file gone.py"),
        (["--weights", "ResNet50_Weights.V2"], "torchvision has no weights named 'ResNet50_Weights.V2'; there are"),
    ],
)
def test_wrong_usage_gives_one_sentence_and_exit_code_2(file: str, arguments: list[str], sentence: str) -> None:
    result = _explain(*(argument.replace("FILE", file) for argument in arguments))
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stderr.count("Error:") == 1
    assert result.stdout == ""


def test_another_device_is_a_usage_error(file: str) -> None:
    result = _explain(f"{file}:train", "--device", "tpu")
    assert result.exit_code == 2
    assert "'tpu' is not one of 'cpu', 'cuda'" in result.stderr


def test_help_has_an_example_and_imports_neither_torch_nor_dali() -> None:
    code = (
        "import sys\nfrom gpufeed.cli import main\nmain(['explain', '--help'], standalone_mode=False)\n"
        "assert not {'torch', 'torchvision', 'nvidia.dali'} & sys.modules.keys()\n"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert "gpufeed explain transforms.py:train" in finished.stdout


def test_nothing_of_dali_is_imported(file: str) -> None:
    code = (
        f"import sys\nfrom gpufeed.cli import main\nmain(['explain', {file + ':train'!r}, '--device', 'cuda'],"
        " standalone_mode=False)\nassert 'nvidia.dali' not in sys.modules\n"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
