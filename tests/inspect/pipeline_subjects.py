"""Pipelines to explain and to verify, named as ``pipeline_subjects.py:NAME``; tests tell their lines by their text."""

from __future__ import annotations

import torch
from nvidia.dali import fn
from torchvision.transforms import InterpolationMode, v2

import gpufeed
from gpufeed import ops
from gpufeed.sources import YoloSource

FLOATS = (
    v2.ToImage(),
    v2.ToDtype(torch.float32, scale=True),
    v2.Normalize(ops.IMAGENET_MEAN, ops.IMAGENET_STD),
)


@gpufeed.pipeline
def rotated(sample, *, size: int = 40):
    """A crop, rotated."""
    image = sample.random_resized_crop(size)
    image = fn.rotate(image, angle=sample.uniform(-15, 15), keep_size=True, fill_value=0)
    return ops.normalize(image), sample.target


@rotated.reference(within_255=1, share=0.9)
def rotated_torch(*, size):
    turn = v2.RandomRotation(15, interpolation=InterpolationMode.BILINEAR)
    return v2.Compose([v2.RandomResizedCrop(size), turn, *FLOATS])


@gpufeed.pipeline
def views(sample):
    """Two views, each drawing its own numbers."""
    images = []
    for _ in range(2):
        image = ops.apply(v2.RandomHorizontalFlip(), sample.random_resized_crop(32), sample)
        images.append(ops.normalize(image))
    return {"target": sample.target, "views": tuple(images)}


@views.reference
def views_torch():
    view = v2.Compose([v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(), *FLOATS])
    return view, view


@gpufeed.pipeline
def flipped_early(sample):
    """Draws in another order than its reference."""
    coin = sample.coin()
    return ops.normalize(fn.flip(sample.random_resized_crop(32), horizontal=coin)), sample.target


@flipped_early.reference
def flipped_early_torch():
    return v2.Compose([v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(), *FLOATS])


@gpufeed.pipeline
def bytes_last(sample):
    """Ends in another layout than its reference."""
    return sample.center_crop(33), sample.target


bytes_last.reference(lambda: v2.Compose([v2.CenterCrop(33), v2.PILToTensor()]))


@gpufeed.pipeline
def alone(sample):
    """Without a reference, with a tail and draws of DALI's own."""
    noise = fn.random.uniform(range=(0, 1))
    image = ops.to_chw(sample.center_crop(32))
    return image, noise, sample.index, sample.normal(shape=3)


@alone.tail
def alone_tail(image, noise, index, normal, *, samples):
    return ops.apply(v2.RandomVerticalFlip(), image, samples), noise, index, normal


@gpufeed.pipeline
def boxed(sample):
    """A source of its own."""
    image = ops.apply(v2.RandomHorizontalFlip(), sample.random_resized_crop(32), sample)
    return ops.normalize(image), ops.boxes_like(image, sample.boxes, format="cxcywh", normalized=True)


@boxed.source
def boxed_source(root):
    return YoloSource(f"{root}/images")


boxed.reference(lambda: v2.Compose([v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(), *FLOATS]))
