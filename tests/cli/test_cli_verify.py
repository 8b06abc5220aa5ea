"""``gpufeed verify``: exit codes, what is delivered where, and Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from PIL import Image

from gpufeed.bench import synthetic
from gpufeed.cli import main
from gpufeed.inspect.verify import verification as verify_module
from gpufeed.inspect.verify.results import from_json
from gpufeed.plan import Resize
from gpufeed.tail import program


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight small images in two class folders."""
    root = tmp_path_factory.mktemp("data") / "photos"
    for index in range(8):
        folder = root / "ab"[index % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(index).integers(0, 256, size=(40 + index, 50, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{index}.jpg")
    return root


def _verify(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["verify", *map(str, arguments)])


def transform_file(folder: Path, expression: str) -> str:
    path = folder / "transforms.py"
    path.write_text(f"import torch\nfrom torchvision.transforms import v2\ntrain = {expression}\n")
    return f"{path}:train"


def test_what_holds_ends_with_0_and_says_so(photos: Path) -> None:
    result = _verify(photos, "--samples", 3, "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"gpufeed verify, {photos}"[:40])
    assert "Resize size=(224, 224)" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("everything holds (")
    assert "comparing the pixels of 3 samples" in result.stderr
    assert "comparing the pixels" not in result.stdout


def test_what_is_exceeded_ends_with_1_and_names_op_amount_and_file(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any) -> torch.Tensor:
        return kernel(*arguments) ^ 8

    kernel = program.KERNELS[Resize]
    monkeypatch.setitem(program.KERNELS, Resize, broken)  # type: ignore[arg-type]
    expression = "v2.Compose([v2.Resize((20, 21)), v2.PILToTensor()])"
    result = _verify(photos, "--transform", transform_file(tmp_path, expression), "--device", "cpu")
    assert result.exit_code == 1
    words = " ".join(result.stdout.split())
    assert "exceeded: op 0 (Resize size=(20, 21)) is " in words
    assert "/255 off torchvision and must be within 2/255: " in words
    assert "EXCEEDED" in result.stdout
    assert "Traceback" not in result.output


def test_json_to_a_file_and_to_stdout(photos: Path, tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    assert _verify(photos, "--samples", 2, "--json", path, "--device", "cpu", "--seed", -5).exit_code == 0
    found = from_json(path.read_text())
    assert (found.seed, found.num_chosen, found.num_files, found.device) == (-5, 2, 8, "cpu")
    to_stdout = _verify(photos, "--samples", 2, "--json", "-", "--device", "cpu", "--seed", -5)
    document = json.loads(to_stdout.stdout)
    assert (document["schema"], document["schema_version"], document["failures"]) == ("gpufeed.verify", 1, [])
    assert replace(from_json(to_stdout.stdout), elapsed_s=found.elapsed_s, environment=found.environment) == found
    assert "gpufeed verify, " in to_stdout.stderr


def test_pictures_go_to_a_new_folder(photos: Path, tmp_path: Path) -> None:
    result = _verify(photos, "--samples", 2, "--save", tmp_path / "worst", "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert len(list((tmp_path / "worst").glob("*.png"))) == 2
    again = _verify(photos, "--samples", 2, "--save", tmp_path / "worst", "--device", "cpu")
    assert again.exit_code == 2
    assert "worst isn't empty, and --save overwrites nothing; give it a new or an empty folder" in again.stderr
    assert "comparing" not in again.stderr


def test_without_data_the_built_in_images_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(synthetic, "NUM_IMAGES", 3)
    result = _verify("--transform", "eval", "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("gpufeed verify, 512 built-in images, eval, 3 samples, cpu, seed 0\n")


def test_every_refusal_is_listed_and_ends_with_2(photos: Path, tmp_path: Path) -> None:
    expression = "v2.Compose([v2.Lambda(abs), v2.ToImage(), abs])"
    result = _verify(photos, "--transform", transform_file(tmp_path, expression))
    assert result.exit_code == 2
    assert "Error: gpufeed can't do 2 of these transforms exactly:" in result.stderr
    assert "- transforms[0] (torchvision.transforms.v2.Lambda): a function can't be looked into" in result.stderr
    assert "- transforms[2] (" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["/no/such/folder"], "there is no folder /no/such/folder"),
        (["--transform", "test"], "the transform must be one of train, eval, or FILE.py:NAME, got 'test'"),
        (["--transform", "trian"], "FILE.py:NAME, got 'trian'; did you mean train?"),
        (["--transform", "train", "--weights", "x"], "expected either --transform or --weights, got both"),
        (["--transform", "gone.py"], "there is no file gone.py"),
        (["--transform", "gone.py:train"], "there is no file gone.py"),
        (["--samples", "0"], "--samples must be at least 1, got 0"),
        (["--seed", str(2**63)], "--seed must be in [-2**63, 2**63), got 9223372036854775808"),
        (["--json", "/no/such/folder/x.json"], "there is no folder /no/such/folder to write x.json to"),
        (["--json", __file__], "is not a result of gpufeed verify; give --json another name"),
        (["--save", __file__], "is a file; give --save the name of a folder"),
    ],
)
def test_wrong_arguments_give_one_sentence_and_exit_code_2(arguments: list[str], sentence: str) -> None:
    result = _verify(*arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stderr.count("Error:") == 1
    assert "Traceback" not in result.output


def test_the_transform_of_weights_by_name(photos: Path) -> None:
    result = _verify(photos, "--samples", 1, "--weights", "ResNet50_Weights.IMAGENET1K_V2", "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1].startswith("everything holds (")
    wrong = _verify(photos, "--weights", "ResNet50_Weights.V2", "--device", "cpu")
    assert wrong.exit_code == 2
    assert "torchvision has no weights named 'ResNet50_Weights.V2'; there are " in wrong.stderr


def test_a_wrong_name_in_a_file_is_answered_with_close_ones(photos: Path, tmp_path: Path) -> None:
    reference = transform_file(tmp_path, "v2.CenterCrop(9)")
    result = _verify(photos, "--transform", reference.replace(":train", ":trian"), "--device", "cpu")
    assert result.exit_code == 2
    assert "has no name 'trian'; did you mean train?" in result.stderr


def test_a_folder_of_loose_images_is_refused(tmp_path: Path) -> None:
    Image.new("RGB", (9, 9)).save(tmp_path / "one.jpg")
    result = _verify(tmp_path)
    assert result.exit_code == 2
    assert "has 1 image but no class folders" in result.stderr
    assert "measure" not in result.stderr


def test_wrong_devices_are_refused(photos: Path) -> None:
    result = _verify(photos, "--device", "tpu")
    assert result.exit_code == 2
    assert "device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got 'tpu'" in result.stderr
    if not torch.cuda.is_available():
        result = _verify(photos, "--device", "cuda")
        assert result.exit_code == 2
        assert "device='cuda' needs a CUDA device, and torch finds none" in result.stderr


def test_an_interrupted_run_is_delivered_with_exit_code_130(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = verify_module._Run._sample

    def interrupted(self: Any, index: int, *rest: Any) -> None:
        if index == 3:
            raise KeyboardInterrupt
        sample(self, index, *rest)

    monkeypatch.setattr(verify_module._Run, "_sample", interrupted)
    result = _verify(photos, "--json", tmp_path / "found.json", "--device", "cpu")
    assert result.exit_code == 130
    assert "3 of 8 samples" in " ".join(result.stdout.split())
    assert "stopped by you after 3 of 8 samples; until then everything holds" in result.stdout
    assert from_json((tmp_path / "found.json").read_text()).interrupted


def test_ctrl_c_shows_what_was_verified_so_far(tmp_path: Path) -> None:
    folder = tmp_path / "photos" / "a"
    folder.mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 256, size=(375, 500, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "0.jpg")
    for index in range(1, 300):
        (folder / f"{index}.jpg").hardlink_to(folder / "0.jpg")
    arguments = ["verify", str(folder.parent), "--samples", "300", "--device", "cpu"]
    with subprocess.Popen(
        [sys.executable, "-m", "gpufeed", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert any("75 of 300" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        output, rest = process.communicate()
    assert process.returncode == 130
    assert "stopped by you after " in output
    assert "until then everything holds" in output
    assert "Traceback" not in rest


def test_help_has_an_example_and_imports_neither_torch_nor_dali() -> None:
    code = (
        "import sys\nfrom gpufeed.cli import main\nmain(['verify', '--help'], standalone_mode=False)\n"
        "print(*{'torch', 'torchvision', 'nvidia', 'numpy'} & {name.partition('.')[0] for name in sys.modules})"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "gpufeed verify photos --transform transforms.py:train --save worst" in finished.stdout
    assert finished.stdout.splitlines()[-1] == ""
    assert "verify" in CliRunner().invoke(main, ["--help"]).output
