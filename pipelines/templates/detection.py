"""detection.py: a random crop of each image, mirrored half of the time, with the boxes that remain in it.

    gpufeed check detection.py
    gpufeed preview detection.py --out detection.png
    pytest test_detection.py

The first tells whether it is right, and how fast it is; the second draws what the model will see.
Both use example images unless a folder of yours follows, with images/*.jpg and labels/*.txt: class and normalised
centre box per line, as YOLO has them.

In a training script:

    from gpufeed import DataLoader

    loader = DataLoader("path/to/data", pipeline="detection.py:train", batch_size=64, shuffle=True)
    for images, objects in loader: ...          # images: (64, 3, 320, 320) float32; objects["boxes"]: 64 x (N, 4)
"""

from __future__ import annotations

import torch
from PIL import Image
from torch.utils.data import Dataset
from torchvision import tv_tensors
from torchvision.transforms import v2

import gpufeed
from gpufeed import ops
from gpufeed.sources import YoloSource

SCALE = (0.3, 1.0)  # the share of the image that a crop shows
MIN_SIZE = 2.0  # pixels; boxes that are narrower after the crop are dropped


@gpufeed.pipeline
def train(sample, *, size: int = 320):
    """A random crop, mirrored half of the time, with its boxes: centre, width and height as shares of the crop."""
    # This function is called once, to record a graph: it handles nodes, not pixels, so `if len(boxes) > 0` can't work.
    image = sample.random_resized_crop(size, scale=SCALE)
    image = ops.apply(v2.RandomHorizontalFlip(), image, sample)

    # Boxes follow the image through its crop and flip; labels of boxes that vanish go with them. As the number of boxes
    # varies, both come as lists with a tensor per sample; `ops.pad` would make one tensor with lengths of them.
    fields = (sample.boxes, sample.labels)
    boxes, labels = ops.boxes_like(image, *fields, format="cxcywh", normalized=True, min_size=MIN_SIZE)
    return ops.normalize(image), {"boxes": boxes, "labels": labels}


# How the data at a path is opened. The fields of a source are attributes of the sample, here `boxes` and `labels`.
@train.source
def train_source(root):
    return YoloSource(f"{root}/images")


# The same in torch's workers, for `gpufeed compare`. It is optional.
@train.torch_dataset
def train_dataset(source, *, size: int):
    return TorchDetection(source, size)


class TorchDetection(Dataset):
    def __init__(self, source, size: int):
        self.source = source
        self.size = size
        geometry = [v2.RandomResizedCrop(size, scale=SCALE), v2.RandomHorizontalFlip()]
        geometry.append(v2.SanitizeBoundingBoxes(min_size=MIN_SIZE))
        to_float, normalize = v2.ToDtype(torch.float32, scale=True), v2.Normalize(ops.IMAGENET_MEAN, ops.IMAGENET_STD)
        self.transform = v2.Compose([*geometry, v2.ToImage(), to_float, normalize])

    def __len__(self):
        return len(self.source)

    def __getitem__(self, index):
        image = Image.open(self.source.name_of(index)).convert("RGB")
        fields = self.source.fields([index])
        boxes = torch.as_tensor(fields["boxes"][0]) * torch.tensor([image.width, image.height] * 2)
        boxes = tv_tensors.BoundingBoxes(boxes, format="CXCYWH", canvas_size=(image.height, image.width))
        labels = torch.as_tensor(fields["labels"][0])
        image, objects = self.transform(image, {"boxes": boxes, "labels": labels})
        return image, {**objects, "boxes": objects["boxes"].as_subclass(torch.Tensor) / self.size}
