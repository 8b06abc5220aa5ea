"""On one device pixels don't depend on threads, batch size or the order of execution, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from contract_harness import folder
from torch.utils.data import ConcatDataset, Subset
from torchvision.transforms import v2

from gpufeed import DataLoader

TRAINING = v2.Compose(
    [
        v2.RandomResizedCrop((13, 11), antialias=True),
        v2.RandomHorizontalFlip(),
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([0.4, 0.5, 0.6], [0.2, 0.25, 0.3]),
    ]
)
EVALUATION = v2.Compose([v2.Resize(17), v2.CenterCrop((16, 15)), v2.PILToTensor(), v2.RandomGrayscale(0.4)])
UNEQUAL = v2.Compose([v2.RandomVerticalFlip(), v2.Resize(12, max_size=20), v2.PILToTensor()])


def pixels(dataset: Any, **arguments: Any) -> list[torch.Tensor]:
    """Images in the dataset's order, whatever the batches."""
    loader = DataLoader(dataset, seed=6, collate_fn=lambda samples: [image for image, _ in samples], **arguments)
    loader.set_epoch(3)
    with loader:
        return [image.clone() for images in loader for image in images]


@pytest.mark.parametrize("transform", [TRAINING, EVALUATION, UNEQUAL], ids=["training", "evaluation", "unequal"])
def test_pixels_are_equal_bit_for_bit(root: Path, transform: Any) -> None:
    dataset = ConcatDataset([folder(root, 16, transform)] * 5)
    expected = pixels(dataset, batch_size=1, num_threads=1)
    assert len(expected) == 80
    assert len({image.numpy().tobytes() for image in expected}) > 20
    for num_threads in (1, 2, 4):
        for batch_size in (1, 7, 64):
            found = pixels(dataset, batch_size=batch_size, num_threads=num_threads, prefetch_factor=batch_size % 4 + 1)
            assert len(found) == 80
            for index, (image, wanted) in enumerate(zip(found, expected, strict=True)):
                assert image.dtype == wanted.dtype
                assert torch.equal(image, wanted), (num_threads, batch_size, index)


def test_batches_that_grow(root: Path) -> None:
    """A larger batch needs a new graph; those in flight are ended first."""
    dataset = folder(root, 16, TRAINING)
    expected = pixels(dataset, batch_size=1)
    sizes = [[0], [1, 2], [3, 4, 5, 6, 7], [8], list(range(9, 16)), list(range(16)), [15]]
    found = pixels(dataset, batch_sampler=sizes, prefetch_factor=3)
    order = [index for batch in sizes[:5] for index in batch]
    assert order == list(range(16))
    for image, wanted in zip(found[:16], expected, strict=True):
        assert torch.equal(image, wanted)
    # The same indices come again, and are drawn anew: not equal to their first occurrence.
    assert len(found) == 16 + 16 + 1
    assert any(not torch.equal(image, wanted) for image, wanted in zip(found[16:32], expected, strict=True))


def test_the_draws_of_a_subset_belong_to_its_own_indices(root: Path) -> None:
    dataset = folder(root, 16, TRAINING)
    whole = pixels(dataset, batch_size=5)
    front = pixels(Subset(dataset, range(4)), batch_size=3)
    for image, wanted in zip(front, whole, strict=False):
        assert torch.equal(image, wanted)
