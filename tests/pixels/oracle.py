"""Loading files by gpufeed and by torchvision with the same draws, and comparing them within the declared bounds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torchvision.datasets import ImageFolder

from gpufeed import DataLoader, reference
from gpufeed.bounds import EXACT, Bound, bound_of
from gpufeed.draws import Draws, epoch_key
from gpufeed.parameters import draw_parameters
from gpufeed.plan import Resize
from gpufeed.spec import ImageSpec
from gpufeed.translation import translate

__all__ = ["BICUBIC", "BILINEAR", "EXACT", "FLOAT", "Bound", "assert_pixels", "dataset_of", "expected", "load"]

SEED = 20261130


# Tolerances are the product's own, `gpufeed.bounds`; floats behind a conversion are compared within 1e-6 of the unit
# scale, as torch and DALI may fuse a multiplication and an addition.
FLOAT = Bound(255e-6)
BILINEAR = bound_of(Resize((1, 1)), ImageSpec(), "cpu")
BICUBIC = bound_of(Resize((1, 1), interpolation="bicubic"), ImageSpec(), "cpu")

_MOST_ON_AVERAGE = 0.3
"""In 1/255, over an image that was resampled."""


_FLOAT_STEP = 1e-3
"""In 1/255: bytes that became normalised floats differ by 1 and the rounding of float32."""


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
        bound: what holds.
        scale: what a difference is multiplied by to be in 1/255: 255 for floats in [0, 1], 1 for bytes, 255 * std after
            ``Normalize``.
    """
    assert len(actual) == len(wanted)
    for number, (mine, theirs) in enumerate(zip(actual, wanted, strict=True)):
        assert mine.shape == theirs.shape, f"image {number}"
        assert mine.dtype == theirs.dtype, f"image {number}"
        difference = (mine.double() - theirs.double()).abs() * torch.as_tensor(scale, dtype=torch.float64)
        where = f"image {number} {tuple(mine.shape)}"
        assert bound.largest_255 is not None
        assert difference.max() <= bound.largest_255, f"{where}: {difference.max():.3f} at most"
        if mine.numel() > 10_000:
            beyond = difference > bound.usual_255 + _FLOAT_STEP
            assert beyond.double().mean() <= bound.share_beyond, f"{where}: beyond {bound}"
            assert difference.mean() <= _MOST_ON_AVERAGE, f"{where}: {difference.mean():.3f} on average"
