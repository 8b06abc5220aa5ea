"""What may happen to a dataset, a thread or an argument between the drawing of a batch and its handing over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from gpufeed import DataLoader


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(24):
        place = tmp_path / f"class{number % 3}"
        place.mkdir(exist_ok=True)
        Image.fromarray(np.full((5, 7, 3), 10 * number, dtype=np.uint8)).save(place / f"{number:02d}.png")
    return tmp_path


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_file_keeps_its_target_when_samples_are_edited_in_place(folder: Path, num_workers: int) -> None:
    dataset = ImageFolder(str(folder), v2.PILToTensor())
    right = {int(dataset[index][0][0, 0, 0]): dataset.samples[index][1] for index in range(24)}
    seen: list[tuple[int, int]] = []
    with DataLoader(dataset, batch_size=2, num_workers=num_workers, device="cpu") as loader:
        for number, (images, targets) in enumerate(loader):
            seen += zip(images[:, 0, 0, 0].tolist(), targets.tolist(), strict=True)
            if number == 2:
                dataset.samples.reverse()
    assert len(seen) == 24
    assert all(right[value] == target for value, target in seen)


def test_a_shrunk_dataset_raises_at_the_batch_that_it_lacks(folder: Path) -> None:
    dataset = ImageFolder(str(folder), v2.PILToTensor())
    with DataLoader(dataset, batch_size=4, device="cpu") as loader:
        iterator = iter(loader)
        next(iterator)  # with it, the next ones are drawn
        del dataset.samples[8:]
        rest: list[int] = []
        with pytest.raises(IndexError):
            rest.extend(len(images) for images, _ in iterator)
    assert rest == [] or set(rest) == {4}


def test_a_huge_prefetch_factor_draws_what_there_is(folder: Path) -> None:
    drawn: list[int] = []

    class Counted(list[int]):
        def __iter__(self):  # type: ignore[no-untyped-def]
            for index in range(24):
                drawn.append(index)
                yield index

    dataset = ImageFolder(str(folder), v2.PILToTensor())
    with DataLoader(dataset, batch_size=4, sampler=Counted(), prefetch_factor=10**15, device="cpu") as loader:
        assert torch.cat([targets for _, targets in loader]).shape == (24,)
    assert drawn == list(range(24))


def test_nothing_is_started_while_the_interpreter_exits(folder: Path) -> None:
    code = (
        "import atexit, sys\n"
        "def late():\n"
        "    try:\n"
        "        next(iter(loader))\n"
        "    except RuntimeError as error:\n"
        "        print(error)\n"
        "atexit.register(late)  # first registered, last run: gpufeed's threads are ended by then\n"
        "from torchvision.transforms import v2\n"
        "from gpufeed import DataLoader\n"
        "loader = DataLoader(sys.argv[1], 2, pipeline=v2.PILToTensor(), device='cpu')\n"
        "next(iter(loader))\n"
    )
    result = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "the interpreter is exiting" in result.stdout
