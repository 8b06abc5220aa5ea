"""Small image folders, and a verification of a transform that is written as source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gpufeed.bench.images import list_image_folder
from gpufeed.bench.progress import Silent
from gpufeed.inspect.verify.results import Verification
from gpufeed.inspect.verify.verification import Request, verify

SIZES_HW = ((61, 83), (83, 61), (128, 128), (97, 211), (53, 59), (140, 77))
HEAD = """
import torch
from torchvision import transforms as v1
from torchvision.transforms import v2

TO_FLOAT = v2.ToDtype(torch.float32, scale=True)
NORMALIZE = v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""


def pixels(height: int, width: int, seed: int) -> np.ndarray:
    """(H, W, 3) uint8 with areas, edges and noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = [120 + 90 * np.sin(x * rng.uniform(0.02, 0.2) + y * rng.uniform(0.02, 0.2) + c) for c in range(3)]
    image = np.stack(waves, axis=-1) + rng.normal(0, 8, (height, width, 3))
    image[(3 * x + 5 * y) % 61 < 17] += 50
    return np.clip(image, 0, 255).astype(np.uint8)


def write_photos(root: Path) -> Path:
    """A dozen images of unequal sizes in two classes: JPEG, PNG, WebP; colour, grey, with alpha."""
    for number in range(12):
        folder = root / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(pixels(*SIZES_HW[number % len(SIZES_HW)], number))
        if number == 3:
            image.convert("L").save(folder / f"{number:02d}.jpg", quality=88)
        elif number == 5:
            image.putalpha(Image.fromarray(pixels(*SIZES_HW[5], 99)[..., 0]))
            image.save(folder / f"{number:02d}.png")
        elif number == 8:
            image.save(folder / f"{number:02d}.webp", lossless=True)
        else:
            image.save(folder / f"{number:02d}.jpg", quality=88)
    return root


def transform_file(folder: Path, expression: str) -> str:
    """The reference of a transform, written into a file."""
    path = folder / "transforms.py"
    path.write_text(f"{HEAD}\ntrain = {expression}\n")
    return f"{path}:train"


def verified(photos: Path, transform: str, **options: Any) -> Verification:
    """A verification on the CPU, of all files if not told otherwise."""
    request = Request(list_image_folder(photos), "photos", transform, device="cpu", **options)
    return verify(request, Silent())
