"""classification.py: a random crop of each image, rotated a little and normalised, with its class.

    gpufeed check classification.py
    gpufeed preview classification.py --out classification.png
    pytest test_classification.py

The first tells whether it is right, and how fast it is; the second draws what the model will see.
Both use example images unless a folder of yours, with one sub-folder per class, follows.

In a training script:

    from gpufeed import DataLoader

    loader = DataLoader("path/to/images", pipeline="classification.py:train", batch_size=256, shuffle=True)
    for images, classes in loader: ...          # images: (256, 3, 224, 224) float32, classes: (256,) int64
"""

from __future__ import annotations

import torch
from nvidia.dali import fn
from torchvision.transforms import InterpolationMode, v2

import gpufeed
from gpufeed import ops

MAX_ANGLE = 15  # degrees


@gpufeed.pipeline
def train(sample, *, size: int = 224):
    """A random crop, rotated by up to 15 degrees, with its class."""
    # This function is called once, to record a graph. What it handles are nodes of that graph, not pixels: DALI's
    # operators (`fn`) and gpufeed's (`ops`) take them; `if image.mean() > 0` or a torch function can't.
    #
    # Only the cropped region is decoded. The image is uint8, height x width x RGB.
    image = sample.random_resized_crop(size)

    # Any operator of DALI's may follow. Take random numbers from `sample`, not from `random`, `numpy` or `fn.random`:
    # then a sample is augmented alike for any batch size, number of threads or device, and resuming is exact.
    angle = sample.uniform(-MAX_ANGLE, MAX_ANGLE)
    image = fn.rotate(image, angle=angle, keep_size=True, fill_value=0)

    # uint8 to float32, RGB x height x width. The target passes by the graph, untouched.
    return ops.normalize(image, mean=ops.IMAGENET_MEAN, std=ops.IMAGENET_STD), sample.target


# The same in torchvision, op by op: `gpufeed verify` and the test compare pixels with it, `gpufeed compare` the speed.
# It is optional, and so is the bound: how far, in 1/255, this share of the values may be off. Here the frame of the
# rotated image is what differs: DALI blends it with the fill value, torchvision doesn't.
@train.reference(within_255=1, share=0.98)
def train_torch(*, size: int = 224):
    return v2.Compose(
        [
            v2.RandomResizedCrop(size),
            v2.RandomRotation(MAX_ANGLE, interpolation=InterpolationMode.BILINEAR),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(ops.IMAGENET_MEAN, ops.IMAGENET_STD),
        ]
    )
