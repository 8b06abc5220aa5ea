"""Pipelines for tests, named as ``pipeline_modules.py:NAME``: with a reference, with a Dataset, and with neither."""

from __future__ import annotations

import torch
from torch.utils.data import Dataset
from torchvision.transforms import v2

import gpufeed
from gpufeed import ops
from gpufeed.sources import YoloSource

CROP = (
    v2.ToImage(),
    v2.ToDtype(torch.float32, scale=True),
    v2.Normalize(ops.IMAGENET_MEAN, ops.IMAGENET_STD),
)


@gpufeed.pipeline
def train(sample, *, size: int = 12):
    """Images and targets."""
    return ops.normalize(sample.center_crop(size)), sample.target


@train.reference
def train_torch(*, size: int = 12):
    return v2.Compose([v2.CenterCrop(size), *CROP])


@gpufeed.pipeline
def bytes_only(sample):
    """Like ``train`` but for the dtype."""
    return ops.to_chw(sample.center_crop(12)), sample.target


bytes_only.reference(lambda: v2.Compose([v2.CenterCrop(12), *CROP]))


@gpufeed.pipeline
def alone(sample):
    """Nothing for torch."""
    return ops.normalize(sample.center_crop(12)), sample.target


@gpufeed.pipeline
def boxes(sample, *, size: int = 12):
    """Its own source, ragged outputs, a Dataset."""
    image = sample.random_resized_crop(size)
    found, labels = ops.boxes_like(image, sample.boxes, sample.labels, format="cxcywh", normalized=True)
    return ops.normalize(image), {"boxes": found, "labels": labels}


@boxes.source
def boxes_source(root):
    return YoloSource(f"{root}/images")


@boxes.torch_dataset
def boxes_dataset(source, *, size):
    return _Boxes(source, size)


class _Boxes(Dataset):
    def __init__(self, source, size):
        self.source, self.size = source, size

    def __len__(self):
        return len(self.source)

    def __getitem__(self, index):
        fields = self.source.fields([index])
        found = {name: torch.as_tensor(fields[name][0]) for name in ("boxes", "labels")}
        return torch.full((3, self.size, self.size), float(index)), found


@gpufeed.pipeline
def sourced(sample):
    """Its own source and a reference."""
    return ops.normalize(sample.center_crop(12)), sample.target


sourced.source(boxes_source)
sourced.reference(lambda: v2.Compose([v2.CenterCrop(12), *CROP]))


@gpufeed.pipeline
def shortened(sample):
    """A Dataset of another length than its source."""
    return ops.normalize(sample.center_crop(12)), sample.target


@shortened.torch_dataset
def shortened_dataset(source):
    return torch.utils.data.Subset(source, range(2))
