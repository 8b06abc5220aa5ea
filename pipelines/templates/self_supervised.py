"""self_supervised.py: two views of each image, cropped and coloured independently, as SimCLR and its kin need them.

    gpufeed check self_supervised.py
    gpufeed preview self_supervised.py --out self_supervised.png
    pytest test_self_supervised.py

The first tells whether it is right, and how fast it is; the second draws what the model will see.
Both use example images unless a folder of yours, with one sub-folder per class (one will do), follows.

In a training script:

    from gpufeed import DataLoader

    loader = DataLoader("path/to/images", pipeline="self_supervised.py:train", batch_size=256, shuffle=True)
    for first, second in loader: ...            # each (256, 3, 224, 224) float32
"""

from __future__ import annotations

import torch
from torch.utils.data import Dataset
from torchvision.transforms import v2

import gpufeed
from gpufeed import ops

FLIP = v2.RandomHorizontalFlip()
COLOUR = v2.Compose(
    [
        v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
        v2.RandomGrayscale(p=0.2),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(ops.IMAGENET_MEAN, ops.IMAGENET_STD),
    ]
)


@gpufeed.pipeline
def train(sample, *, size: int = 224, smallest: float = 0.2):
    """Two views of each image; `smallest` is the least share of the image that a view shows."""
    # This function is called once, to record a graph: a loop over views is fine, each has draws of its own. What it
    # handles are nodes, not pixels, so no torch function takes them; those come in the tail, below.
    views = []
    for _ in range(2):
        image = sample.random_resized_crop(size, scale=(smallest, 1.0))
        image = ops.apply(FLIP, image, sample)
        views.append(ops.to_chw(image))  # uint8, RGB x height x width, as the tail's transforms want it
    return tuple(views)


# After the graph, torch takes over: whole batches (B, 3, size, size) on the device. `samples` has each sample's own
# random numbers, so that a sample is coloured alike for any batch size, number of threads or device.
@train.tail
def train_tail(first, second, *, samples):
    return ops.apply(COLOUR, first, samples), ops.apply(COLOUR, second, samples)


# The same in torch's workers, for `gpufeed compare`. It is optional.
@train.torch_dataset
def train_dataset(folder, *, size: int, smallest: float):
    return TwoViews(folder, size, smallest)


class TwoViews(Dataset):
    """Two views of each image of an image folder."""

    def __init__(self, folder, size: int, smallest: float):
        self.folder = folder
        self.view = v2.Compose([v2.RandomResizedCrop(size, scale=(smallest, 1.0)), FLIP, v2.ToImage(), COLOUR])

    def __len__(self):
        return len(self.folder)

    def __getitem__(self, index):
        image, _ = self.folder[index]
        return self.view(image), self.view(image)
