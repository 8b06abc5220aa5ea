"""ImageNet's classification, as in torchvision's references: a random crop to train, the middle one to evaluate.

    from gpufeed import DataLoader

    train = DataLoader("imagenet/train", pipeline="gpufeed:imagenet:train", batch_size=256, shuffle=True)
    val = DataLoader("imagenet/val", pipeline="gpufeed:imagenet:evaluate", batch_size=256)
    for images, classes in train: ...       # (256, 3, 224, 224) float32, normalised, and (256,) int64

Parameters are given in the name's place by the pipeline itself, ``load_pipeline("gpufeed:imagenet:train")(size=176)``.
A folder with a sub-folder per class is expected, as by torchvision's ``ImageFolder``.
"""

from __future__ import annotations

from typing import Literal

import torch
from torchvision.transforms import InterpolationMode, v2

import gpufeed
from gpufeed import ops

Interpolation = Literal["bilinear", "bicubic", "lanczos"]


@gpufeed.pipeline
def train(
    sample,
    *,
    size: int = 224,
    interpolation: Interpolation = "bilinear",
    hflip_prob: float = 0.5,
    erasing_prob: float = 0.0,
):
    """A random crop, mirrored half of the time, normalised, with its class."""
    # Only the cropped region is decoded. `ops.apply` draws what torchvision's transform would, by the sample's key.
    image = sample.random_resized_crop(size, interpolation=interpolation)
    image = ops.apply(v2.RandomHorizontalFlip(hflip_prob), image, sample)
    return ops.normalize(image), sample.target


# Erasing is nothing that DALI's graph does, so it comes behind it: torch, on whole batches on the device.
@train.tail
def train_tail(images, target, *, samples, erasing_prob: float):
    if erasing_prob > 0:
        images = ops.apply(v2.RandomErasing(erasing_prob), images, samples)
    return images, target


# The same by torchvision, in the same order, so that both draw the same numbers: `gpufeed verify` and the tests compare
# pixels with it, `gpufeed compare` the speed. How near the pixels must be is the decorator's default: 99.9 % of the
# values within 1/255.
@train.reference
def train_torch(*, size: int, interpolation: Interpolation, hflip_prob: float, erasing_prob: float):
    crop = v2.RandomResizedCrop(size, interpolation=InterpolationMode(interpolation))
    erase = [v2.RandomErasing(erasing_prob)] if erasing_prob > 0 else []
    return v2.Compose([crop, v2.RandomHorizontalFlip(hflip_prob), *normalized(), *erase])


@gpufeed.pipeline
def evaluate(sample, *, size: int = 224, resize: int = 256, interpolation: Interpolation = "bilinear"):
    """The shorter side resized, then the square in the middle, normalised, with its class."""
    image = sample.center_crop(size, resize=resize, interpolation=interpolation)
    return ops.normalize(image), sample.target


@evaluate.reference
def evaluate_torch(*, size: int, resize: int, interpolation: Interpolation):
    scale = v2.Resize(resize, interpolation=InterpolationMode(interpolation))
    return v2.Compose([scale, v2.CenterCrop(size), *normalized()])


def normalized():
    """From a PIL image to normalised floats, as `ops.normalize`."""
    to_float = v2.ToDtype(torch.float32, scale=True)
    return [v2.ToImage(), to_float, v2.Normalize(ops.IMAGENET_MEAN, ops.IMAGENET_STD)]
