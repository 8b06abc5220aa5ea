"""segmentation.py: a random crop of each image, mirrored half of the time, and the same of its mask.

    gpufeed check segmentation.py
    gpufeed preview segmentation.py --out segmentation.png
    pytest test_segmentation.py

The first tells whether it is right, and how fast it is; the second draws what the model will see.
Both use example images unless a folder of yours follows, with images/*.jpg and masks/*.png: same stems, and a
pixel's value is its class.

In a training script:

    from gpufeed import DataLoader

    loader = DataLoader("path/to/data", pipeline="segmentation.py:train", batch_size=64, shuffle=True)
    for images, masks in loader: ...            # images: (64, 3, 256, 256) float32, masks: (64, 256, 256) uint8
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

SCALE = (0.5, 1.0)  # the share of the image that a crop shows


@gpufeed.pipeline
def train(sample, *, size: int = 256):
    """A random crop, mirrored half of the time, with its mask."""
    # This function is called once, to record a graph: it handles nodes, not pixels. `ops` and DALI's operators
    # (`from nvidia.dali import fn`) take them; torch functions don't, they would come in a tail, under @train.tail.
    image = sample.random_resized_crop(size, scale=SCALE)
    image = ops.apply(v2.RandomHorizontalFlip(), image, sample)

    # The mask follows the image through its crop and flip. Its values are classes, so they are taken from the nearest
    # pixel, never blended.
    return ops.normalize(image), ops.masks_like(image, sample.mask)


# How the data at a path is opened. The fields of a source are attributes of the sample, here `mask`.
@train.source
def train_source(root):
    return MaskPairSource(f"{root}/images", f"{root}/masks")


# The same in torch's workers, for `gpufeed compare`. It is optional.
@train.torch_dataset
def train_dataset(source, *, size: int):
    return TorchSegmentation(source, size)


class TorchSegmentation(Dataset):
    def __init__(self, source, size: int):
        self.source = source
        geometry = [v2.RandomResizedCrop(size, scale=SCALE), v2.RandomHorizontalFlip()]
        dtypes = v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True)
        normalize = v2.Normalize(ops.IMAGENET_MEAN, ops.IMAGENET_STD)
        self.transform = v2.Compose([*geometry, v2.ToImage(), dtypes, normalize])

    def __len__(self):
        return len(self.source)

    def __getitem__(self, index):
        image = Image.open(self.source.name_of(index)).convert("RGB")
        mask = tv_tensors.Mask(torch.as_tensor(self.source.fields([index])["mask"][0]))
        return self.transform(image, mask)
