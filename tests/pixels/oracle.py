"""Loading files by gpufeed and by torchvision with the same draws, and the one place that owns tolerances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torchvision.datasets import ImageFolder

from gpufeed import DataLoader, reference
from gpufeed.draws import Draws, epoch_key
from gpufeed.parameters import draw_parameters
from gpufeed.translation import translate

SEED = 20261130


@dataclass(frozen=True)
class Bound:
    """How far pixels may be from torchvision's, in 1/255 for every dtype.

    The reasons: Pillow and torch's kernel round their weights and passes differently, so that bilinear resizing is up
    to 2 apart; bicubic overshoots, and where one clips before the second pass and the other after it, up to 16. Floats
    are compared within 1e-6 of the unit scale: DALI and torch may fuse a multiplication and an addition.
    """

    largest: float
    mean: float


EXACT = Bound(0.0, 0.0)
FLOAT = Bound(255e-6, 255e-6)
BILINEAR = Bound(2.0, 0.3)
BICUBIC = Bound(16.0, 0.3)


def dataset_of(paths: Sequence[Path], transform: Any) -> ImageFolder:
    """An ``ImageFolder`` of exactly these files; sample k has target k."""
    dataset = ImageFolder(str(paths[0].parent.parent), transform=transform)
    dataset.samples = [(str(path), number) for number, path in enumerate(paths)]
    dataset.imgs = dataset.samples
    dataset.targets = list(range(len(paths)))
    return dataset


def load(paths: Sequence[Path], transform: Any, epoch: int = 0, **arguments: Any) -> list[torch.Tensor]:
    """Each file through gpufeed, on the CPU, in order."""
    options: dict[str, Any] = {"batch_size": 7, "seed": SEED, "device": "cpu", "collate_fn": list} | arguments
    images: dict[int, torch.Tensor] = {}
    with DataLoader(dataset_of(paths, transform), **options) as loader:
        loader.set_epoch(epoch)
        for batch in loader:
            images |= {target: image for image, target in batch}
    return [images[number] for number in range(len(paths))]


def expected(paths: Sequence[Path], transform: Any, epoch: int = 0) -> list[torch.Tensor]:
    """Each file through torchvision on a PIL image, with the draws that gpufeed makes for it."""
    plan = translate(transform).require()
    results: list[torch.Tensor] = []
    for index, path in enumerate(paths):
        with Image.open(path) as file:
            image = file.convert("RGB")
        size = np.array([[image.height, image.width]])
        draws = Draws(epoch_key(SEED, epoch), np.array([index]), np.array([0]))
        results.append(torch.as_tensor(reference.run(transform, image, draw_parameters(plan, size, draws), 0)))
    return results


def assert_pixels(
    actual: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor], bound: Bound, scale: Any = 255.0
) -> None:
    """Compare images: shapes and dtypes equal, values within ``bound``.

    Args:
        actual: gpufeed's.
        wanted: torchvision's.
        bound: in 1/255.
        scale: what a difference is multiplied by to be in 1/255: 255 for floats in [0, 1], 1 for bytes, 255 * std after
            ``Normalize``.
    """
    assert len(actual) == len(wanted)
    for number, (mine, theirs) in enumerate(zip(actual, wanted, strict=True)):
        assert mine.shape == theirs.shape, f"image {number}"
        assert mine.dtype == theirs.dtype, f"image {number}"
        difference = (mine.double() - theirs.double()).abs() * torch.as_tensor(scale, dtype=torch.float64)
        assert difference.max() <= bound.largest, f"image {number} {tuple(mine.shape)}: {difference.max():.3f} at most"
        if mine.numel() > 10_000:
            assert difference.mean() <= bound.mean, (
                f"image {number} {tuple(mine.shape)}: {difference.mean():.3f} on average"
            )
