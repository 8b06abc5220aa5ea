"""The README is a promise: every code block and every command in it is run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from constructed import comparison, result
from PIL import Image

from gpufeed.bench.results import to_json
from gpufeed.config import Config, GpufeedSettings, TorchSettings, write_config

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
PYTHON = [code for language, code in BLOCKS if language == "python"]
COMMANDS = [
    line.partition("#")[0].strip()
    for language, code in BLOCKS
    if language == "sh"
    for line in code.splitlines()
    if line
]
SHORT = {
    "compare": ["--budget", "45", "--batch-size", "8", "--contenders", "torch-tuned,gpufeed"],
    "tune": ["--budget", "30"],
}
"""What is added to a documented command, which would take a minute and a half or more by itself."""


SHOWN = {
    "check": ("No faults.",),
    "compare": ("gpufeed  ", "before.json"),
    "explain": ("runs as one", "Draws, by the sample's key"),
    "new": ("wrote demo.py",),
    "pipelines": ("gpufeed:imagenet:train",),
    "preview": (" pixels, ",),
    "tune": ("gpufeed tune, ",),
    "verify": ("the loader against the transform", "everything holds"),
}
"""What a documented command prints, whichever of its forms it is."""


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """What the README's reader has: an image folder, a file with a transform, and what earlier commands wrote."""
    for number in range(96):
        folder = tmp_path / "photos" / f"class{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        y, x = np.mgrid[0:180, 0 : 200 + number]
        pixels = np.stack([127 + 100 * np.sin(x / (9 + c) + y / (17 + number)) for c in range(3)], axis=-1)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:02d}.jpg")
    (tmp_path / "transforms.py").write_text(
        "from torchvision.transforms import v2\n"
        "train = v2.Compose([v2.RandomResizedCrop(96), v2.RandomHorizontalFlip(), v2.PILToTensor()])\n"
    )
    for code in PYTHON:
        named = re.match(r"# (\w+\.py)\n", code)
        if named is not None:  # a file that later commands use
            (tmp_path / named[1]).write_text(code, encoding="utf-8")
    write_config(Config(TorchSettings(2, 2), GpufeedSettings(2)), tmp_path / "gpufeed.toml")
    for number, name in enumerate(("before", "after")):
        measured = comparison(result("torch-tuned", 500), result("gpufeed", 1200 + 100 * number))
        (tmp_path / f"{name}.json").write_text(to_json(measured), encoding="utf-8")
    return tmp_path


def test_the_readme_has_the_blocks_that_are_run_here() -> None:
    assert {language for language, _ in BLOCKS} == {"python", "sh", ""}
    assert len(PYTHON) >= 3
    assert len(COMMANDS) >= 5


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_python_blocks_run_without_a_warning(workplace: Path, number: int) -> None:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", PYTHON[number]],
        cwd=workplace,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(workplace: Path, command: str) -> None:
    words = shlex.split(command)
    shown: tuple[str, ...] = ("gpufeed  ",)
    if "demo.py" in words:  # what an earlier command wrote
        subprocess.run(
            [sys.executable, "-m", "gpufeed", "new", "demo", "--task", "detection"], cwd=workplace, check=True
        )
    for written in {"--json", "--out"} & set(words):  # nothing of somebody else's is overwritten
        (workplace / words[words.index(written) + 1]).unlink(missing_ok=True)
    if words[0] == "gpufeed":
        shown = SHOWN[words[1]]
        words = [sys.executable, "-m", *words, *(SHORT.get(words[1], []) if "--load" not in words else [])]
    else:
        assert words[0] == "bash"
        words[1] = str(ROOT / words[1])
        words += SHORT["compare"] if words[1].endswith("compare.sh") else ["tests/test_draws.py"]
    result = subprocess.run(words, cwd=workplace, capture_output=True, text=True, check=False)
    for more in (1, 2, 4):  # on a machine that does much else; the command says what it takes
        longer = re.search(r"is too short here.*give --budget (\d+)", result.stderr)
        if longer is None:
            break
        longest = [*words, "--budget", str(more * int(longer[1]))]
        result = subprocess.run(longest, cwd=workplace, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert any(part in result.stdout for part in (*shown, " passed"))


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="this machine may have a GPU; there the check itself is run")
def test_the_device_check_says_what_it_needs(tmp_path: Path) -> None:
    result = subprocess.run(
        ["bash", str(ROOT / "scripts" / "gpu_check.sh"), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHON": sys.executable},
    )
    assert result.returncode != 0
    assert "torch finds no CUDA device" in result.stderr


def test_every_dependency_has_its_reason() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for requirement in project["dependencies"]:
        name = re.split(r"[<>=\[]", requirement)[0]
        assert re.search(rf"^\| {re.escape(name)} \| \S", README, flags=re.MULTILINE), name
