"""An image folder that pipeline tests share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SIZES_HW = ((61, 83), (97, 71), (120, 160), (48, 200), (131, 131), (77, 59))


def picture(height: int, width: int, seed: int) -> np.ndarray:
    """(H, W, 3) uint8, smooth with edges."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    waves = [127 + 100 * np.sin(x * rng.uniform(0.02, 0.2) + y * rng.uniform(0.02, 0.2)) for _ in range(3)]
    image = np.stack(waves, axis=-1)
    image[(x + 2 * y) % 53 < 17] *= 0.5
    return image.astype(np.uint8)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of eight JPEGs each, of six odd sizes."""
    root = tmp_path_factory.mktemp("pictures")
    for number in range(24):
        height, width = SIZES_HW[number % len(SIZES_HW)]
        path = root / f"class{number % 3}" / f"{number:02d}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(picture(height, width, number)).save(path, quality=92)
    return root
