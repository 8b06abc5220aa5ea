"""The pipeline of self_supervised.py, on a few images that are made here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from gpufeed import DataLoader, ops
from gpufeed.pipelines import load_pipeline

train = load_pipeline(f"{Path(__file__).with_name('self_supervised.py')}:train")
SIZE = 48


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Six images of odd sizes: each its own shade of grey, so that a view tells which image it is of."""
    (tmp_path / "all").mkdir()
    for number in range(6):
        grey = np.full((81 + 10 * number, 120, 3), 30 + 40 * number, dtype=np.uint8)
        Image.fromarray(grey).save(tmp_path / "all" / f"{number}.png")
    return str(tmp_path)


def first_batch(folder: str, batch_size: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    return next(iter(DataLoader(folder, pipeline=train(size=SIZE), batch_size=batch_size, seed=0)))


def test_two_views_that_differ_in_colour(folder: str) -> None:
    first, second = first_batch(folder)
    assert first.shape == second.shape == (6, 3, SIZE, SIZE)
    assert first.dtype == torch.float32
    assert not torch.allclose(first, second, atol=0.05)


def test_views_are_those_of_their_image(folder: str) -> None:
    # Brightness and contrast change by a factor of 0.6 to 1.4 each: a view stays within their product.
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (ops.IMAGENET_MEAN, ops.IMAGENET_STD))
    for view in first_batch(folder):
        shade = (view * std + mean).mean((1, 2, 3)) * 255
        original = torch.arange(6) * 40 + 30
        assert (shade >= original * 0.6 - 2).all()
        assert (shade <= (original * 1.4 + 2).clamp(max=256)).all()


def test_the_batch_size_changes_nothing(folder: str) -> None:
    for whole, part in zip(first_batch(folder), first_batch(folder, batch_size=2), strict=True):
        assert torch.equal(whole[:2], part)


def test_the_torch_dataset_gives_the_same_shapes(folder: str) -> None:
    dataset = train(size=SIZE).make_torch_dataset(train.make_source(folder))
    assert [view.shape for view in dataset[0]] == [(3, SIZE, SIZE)] * 2
