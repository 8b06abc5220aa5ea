"""The pipeline of segmentation.py, on a few images that are made here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from gpufeed import DataLoader, ops
from gpufeed.pipelines import load_pipeline

train = load_pipeline(f"{Path(__file__).with_name('segmentation.py')}:train")
SIZE = 80


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Six grey images of odd sizes, each with a red part whose class is its number plus one."""
    (tmp_path / "images").mkdir()
    (tmp_path / "masks").mkdir()
    for number in range(6):
        height, width = 101 + 10 * number, 180 - 12 * number
        mask = np.zeros((height, width), dtype=np.uint8)
        mask[30 : 60 + 5 * number, 20 : 70 + number] = number + 1
        pixels = np.where(mask[..., None] > 0, (255, 0, 0), (128, 128, 128)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{number}.png")
        Image.fromarray(mask).save(tmp_path / "masks" / f"{number}.png")
    return str(tmp_path)


def test_masks_cover_what_is_red(folder: str) -> None:
    images, masks = next(iter(DataLoader(folder, pipeline=train(size=SIZE), batch_size=6, seed=0)))
    assert images.shape == (6, 3, SIZE, SIZE)
    assert masks.shape == (6, SIZE, SIZE)
    assert masks.dtype == torch.uint8
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (ops.IMAGENET_MEAN, ops.IMAGENET_STD))
    for number, (image, mask) in enumerate(zip(images * std + mean, masks, strict=True)):
        assert set(mask.unique().tolist()) <= {0, number + 1}
        red = image[0] - image[1] > 0.5
        # The rim of the red part is blurred by the resize, so that a few pixels there are neither.
        assert ((mask > 0) == red).float().mean() > 0.97
    assert (masks > 0).float().mean() > 0.02


def test_the_torch_dataset_gives_the_same_shapes(folder: str) -> None:
    dataset = train(size=SIZE).make_torch_dataset(train.make_source(folder))
    image, mask = dataset[5]
    assert image.shape == (3, SIZE, SIZE)
    assert mask.shape == (SIZE, SIZE)
    assert set(mask.unique().tolist()) <= {0, 6}
