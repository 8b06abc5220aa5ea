"""Semantic segmentation: a random crop of image and mask to train, the middle of both to evaluate.

    loader = DataLoader("path/to/data", pipeline="gpufeed:segmentation:train", batch_size=16, shuffle=True)
    for images, masks in loader:            # (16, 3, 480, 480) float32, normalised, and (16, 480, 480) int64
        loss = cross_entropy(model(images)["out"], masks, ignore_index=255)

The folder holds images/*.jpg and masks/*.png of the same names; a pixel's value in a mask is its class, 255 for none.
"""

from __future__ import annotations

import torch
from PIL import Image
from torch.utils.data import Dataset
from torchvision import tv_tensors
from torchvision.transforms import v2

import gpufeed
from gpufeed import ops
from gpufeed.sources import MaskPairSource


@gpufeed.pipeline
def train(
    sample,
    *,
    size: int = 480,
    scale: tuple[float, float] = (0.25, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    hflip_prob: float = 0.5,
):
    """A random crop, resized and mirrored half of the time, and the same of its mask."""
    # Only the cropped region is decoded. ``scale`` is its share of the image's area: a quarter is twice as large then.
    image = sample.random_resized_crop(size, scale=scale, ratio=ratio)
    image = ops.apply(v2.RandomHorizontalFlip(hflip_prob), image, sample)
    # The mask goes where the image went. Its values are classes, so they are taken from the nearest pixel.
    return ops.normalize(image), ops.masks_like(image, sample.mask)


@gpufeed.pipeline
def evaluate(sample, *, size: int = 480):
    """The shorter side resized, then the square in the middle, and the same of its mask."""
    image = sample.center_crop(size, resize=size)
    return ops.normalize(image), ops.masks_like(image, sample.mask)


# Masks are bytes on their way; torch's losses take int64.
@train.tail
@evaluate.tail
def tail(images, masks):
    return images, masks.long()


@train.source
@evaluate.source
def source(root):
    return MaskPairSource(f"{root}/images", f"{root}/masks")


# The same in torch's workers, for `gpufeed compare` and the tests.
@train.torch_dataset
def train_dataset(source, *, size: int, scale, ratio, hflip_prob: float):
    return TorchSegmentation(source, [v2.RandomResizedCrop(size, scale, ratio), v2.RandomHorizontalFlip(hflip_prob)])


@evaluate.torch_dataset
def evaluate_dataset(source, *, size: int):
    return TorchSegmentation(source, [v2.Resize(size), v2.CenterCrop(size)])


class TorchSegmentation(Dataset):
    def __init__(self, source, steps):
        self.source = source
        pixels = [
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(ops.IMAGENET_MEAN, ops.IMAGENET_STD),
        ]
        self.transform = v2.Compose([*steps, *pixels])

    def __len__(self):
        return len(self.source)

    def __getitem__(self, index):
        image = Image.open(self.source.name_of(index)).convert("RGB")
        mask = tv_tensors.Mask(self.source.fields([index])["mask"][0])
        image, mask = self.transform(image, mask)
        return image, mask.long()
