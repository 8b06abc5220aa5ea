"""Samples that are tuples of images (``FiveCrop``, ``TenCrop``), collated as torch collates them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from contract_harness import Case, assert_contract, folder
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import v2

from gpufeed import DataLoader, TranslationError

NEAREST = v2.InterpolationMode.NEAREST

TUPLES: dict[str, Any] = {
    "five of one size": v2.Compose([v2.Resize((12, 14), interpolation=NEAREST), v2.FiveCrop(9), v2.ToImage()]),
    "ten": v2.Compose([v2.TenCrop((7, 8), vertical_flip=True), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]),
    "five of unequal images": v2.Compose([v2.FiveCrop(8), v2.PILToTensor()]),
    "ten of plain tensors": v1.Compose([v1.ToTensor(), v1.TenCrop(6)]),
}


@pytest.mark.parametrize("batch_size", [None, 1, 3])
@pytest.mark.parametrize("kind", TUPLES)
def test_types_and_pixels(root: Path, kind: str, batch_size: int | None) -> None:
    assert_contract(Case(lambda: {"dataset": folder(root, 7, TUPLES[kind]), "batch_size": batch_size}))


@pytest.mark.parametrize("kind", TUPLES)
def test_collate_functions_get_tuples(root: Path, kind: str) -> None:
    def by_hand(samples: list[Any]) -> Any:
        assert all(isinstance(images, tuple) for images, _ in samples)
        kinds = {type(image) for images, _ in samples for image in images}
        assert kinds == {torch.Tensor if "Tensor" in str(TUPLES[kind]) else tv_tensors.Image}
        return [torch.stack(images) for images, _ in samples]

    assert_contract(Case(lambda: {"dataset": folder(root, 7, TUPLES[kind]), "batch_size": 3, "collate_fn": by_hand}))


def test_each_image_of_the_batch_is_a_batch_of_its_own(root: Path) -> None:
    images, _ = next(iter(DataLoader(folder(root, 7, TUPLES["five of one size"]), batch_size=5)))
    assert isinstance(images, list)
    assert len(images) == 5
    assert all(image.shape == (5, 3, 9, 9) and image.is_contiguous() for image in images)


def test_random_transforms_behind_a_tuple_draw_once_for_all_its_images(root: Path) -> None:
    """A flip of all five crops, or of none: the crop in the middle of a flipped image is the flipped middle."""
    plain = v2.Compose([v2.FiveCrop(8), v2.ToImage()])
    flipped = v2.Compose([v2.FiveCrop(8), v2.RandomHorizontalFlip(0.5), v2.ToImage()])
    (before, _), (after, _) = (next(iter(DataLoader(folder(root, 7, t), batch_size=7))) for t in (plain, flipped))
    turned = [[torch.equal(a[row], b[row].flip(-1)) for a, b in zip(after, before, strict=True)] for row in range(7)]
    assert all(len(set(row)) == 1 for row in turned)


@pytest.mark.parametrize(
    ("transform", "phrase"),
    [
        (v1.Compose([v1.FiveCrop(8), v1.ToTensor()]), "a tuple of 5 images, and torchvision.transforms takes one"),
        (v2.Compose([v2.ToImage(), v2.ToPureTensor(), v2.TenCrop(8), v2.Grayscale()]), "the first only; put v2.ToImag"),
        (v2.Compose([v2.FiveCrop(8), v2.FiveCrop(3), v2.ToImage()]), "crop each of 5 crops again"),
    ],
)
def test_what_torchvision_would_not_do_to_a_tuple_is_refused(root: Path, transform: Any, phrase: str) -> None:
    with pytest.raises(TranslationError, match=phrase):
        iter(DataLoader(folder(root, 7, transform)))
