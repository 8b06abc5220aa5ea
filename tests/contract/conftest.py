"""Small images, each recognisable, of sizes that all differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

COUNT = 16
CLASSES = 4


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 16 images in 4 classes, PNG and JPEG in turn, none smaller than 9 x 9."""
    folder = tmp_path_factory.mktemp("folder")
    write_folder(folder)
    return folder


@pytest.fixture
def own_root(tmp_path: Path) -> Path:
    """The same folder, for a test that damages it."""
    write_folder(tmp_path)
    return tmp_path


def write_folder(folder: Path) -> None:
    random = np.random.default_rng(7)
    for number in range(COUNT):
        place = folder / f"class{number * CLASSES // COUNT}"
        place.mkdir(exist_ok=True)
        height, width = 9 + number, 11 + 2 * ((number * 5) % COUNT)
        pixels = random.integers(0, 40, (height, width, 3)) + np.array([number * 13, 200 - number * 11, number * 7])
        image = Image.fromarray(pixels.astype(np.uint8))
        if number % 2:
            image.save(place / f"{number:02}.jpg", quality=90)
        else:
            image.save(place / f"{number:02}.png")
