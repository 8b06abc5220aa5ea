"""The pipeline of classification.py, on a few images that are made here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.datasets import ImageFolder

from gpufeed import DataLoader, ops
from gpufeed.pipelines import load_pipeline

train = load_pipeline(f"{Path(__file__).with_name('classification.py')}:train")
SIZE = 128


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Six images of two classes, of odd sizes, each with its own slow change of colours."""
    for number in range(6):
        height, width = 90 + 13 * number, 161 - 11 * number
        y, x = np.mgrid[:height, :width].astype(np.float32)
        channels = [128 + 100 * np.sin(x / (20 + number)), 128 + 100 * np.cos(y / 25), 255 * x / width]
        path = tmp_path / "cat" if number % 2 else tmp_path / "ant"
        path.mkdir(exist_ok=True)
        Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8)).save(path / f"{number}.jpg", quality=95)
    return str(tmp_path)


def test_pixels_are_those_of_the_reference(folder: str) -> None:
    loader = DataLoader(folder, pipeline=train(size=SIZE), batch_size=6, seed=0)
    images, classes = next(iter(loader))
    # With the same seed torchvision's transforms draw the same numbers, so that pixels can be compared one by one.
    reference = ImageFolder(folder, transform=train(size=SIZE).make_reference())
    expected, expected_classes = next(iter(DataLoader(reference, batch_size=6, seed=0)))

    assert images.shape == (6, 3, SIZE, SIZE)
    assert classes.tolist() == expected_classes.tolist() == [0, 0, 0, 1, 1, 1]
    difference_255 = (images - expected).abs() * torch.tensor(ops.IMAGENET_STD).view(3, 1, 1) * 255
    share = (difference_255 <= train.bound.within_255 + 0.01).float().mean().item()
    assert share >= train.bound.share


def test_epochs_differ_and_a_seed_repeats_them(folder: str) -> None:
    loader = DataLoader(folder, pipeline=train(size=SIZE), batch_size=6, seed=0)
    first, second = next(iter(loader))[0], next(iter(loader))[0]
    again = next(iter(DataLoader(folder, pipeline=train(size=SIZE), batch_size=6, seed=0)))[0]
    assert not torch.equal(first, second)
    assert torch.equal(first, again)
