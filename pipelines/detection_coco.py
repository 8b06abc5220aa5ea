"""Detection on COCO's data: images resized as wholes, mirrored to train, with what torchvision's detectors take.

    source = CocoSource("coco/train2017", "coco/annotations/instances_train2017.json")
    loader = DataLoader(source, pipeline="gpufeed:detection_coco:train", batch_size=8, shuffle=True)
    for images, targets in loader:
        losses = model(images, targets)     # 8 of (3, h, w) float32, and 8 dicts

Each dict has the boxes that are left of an image, (N, 4) float32 left, top, right and bottom in its pixels, with their
labels, (N,) int64, COCO's own category ids; which are crowds, (N,) bool; and the image's id. Images without boxes are
kept. A path is opened as a folder with images/ and annotations.json.
"""

from __future__ import annotations

import torch
from PIL import Image
from torch.utils.data import Dataset
from torchvision import tv_tensors
from torchvision.transforms import v2

import gpufeed
from gpufeed import ops
from gpufeed.sources import CocoSource

SIZES = (480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800)  # of the shorter side, as in DETR


@gpufeed.pipeline
def train(sample, *, sizes: tuple[int, ...] = SIZES, max_size: int = 1333, normalize: bool = True):
    """The shorter side to one of some sizes, mirrored half of the time, normalised."""
    image = ops.apply(v2.Compose(training(sizes, max_size)), sample.decode(), sample)
    return finished(sample, image, normalize)


@gpufeed.pipeline
def evaluate(sample, *, size: int = 800, max_size: int = 1333, normalize: bool = True):
    """The shorter side to a size, unless the longer one would be too long then, normalised."""
    return finished(sample, ops.apply(v2.Resize(size, max_size=max_size), sample.decode(), sample), normalize)


def training(sizes, max_size):
    return [v2.RandomShortestSize(list(sizes), max_size), v2.RandomHorizontalFlip()]


def finished(sample, image, normalize: bool):
    # The boxes follow what was done to the image so far; those less than a pixel wide or high go, and all that is
    # said of them.
    boxes, labels, crowd = ops.boxes_like(image, sample.boxes, sample.labels, sample.crowd)
    # torchvision's own models resize and normalise once more: they take normalize=False, floats in [0, 1].
    mean, std = (ops.IMAGENET_MEAN, ops.IMAGENET_STD) if normalize else ((0.0,) * 3, (1.0,) * 3)
    image = ops.ragged(ops.normalize(image, mean, std))  # sizes differ: always a list
    return image, {"boxes": boxes, "labels": labels, "iscrowd": crowd, "image_id": sample.image_id}


# The graph's outputs are a list, or a tensor, of each kind. Models want a dict for each image.
@train.tail
@evaluate.tail
def tail(images, targets):
    return images, [dict(zip(targets, one, strict=True)) for one in zip(*targets.values(), strict=True)]


@train.source
@evaluate.source
def source(root):
    return CocoSource(f"{root}/images", f"{root}/annotations.json")


# The same in torch's workers, for `gpufeed compare` and the tests.
@train.torch_dataset
def train_dataset(source, *, sizes, max_size: int, normalize: bool):
    return TorchCoco(source, training(sizes, max_size), normalize)


@evaluate.torch_dataset
def evaluate_dataset(source, *, size: int, max_size: int, normalize: bool):
    return TorchCoco(source, [v2.Resize(size, max_size=max_size)], normalize)


class TorchCoco(Dataset):
    def __init__(self, source, steps, normalize: bool):
        normalized = [v2.Normalize(ops.IMAGENET_MEAN, ops.IMAGENET_STD)] if normalize else []
        self.source = source
        self.transform = v2.Compose([*steps, v2.ToImage(), v2.ToDtype(torch.float32, scale=True), *normalized])

    def __len__(self):
        return len(self.source)

    def __getitem__(self, index):
        image = Image.open(self.source.name_of(index)).convert("RGB")
        fields = {name: values[0] for name, values in self.source.fields([index]).items()}
        boxes = tv_tensors.BoundingBoxes(fields["boxes"], format="XYXY", canvas_size=(image.height, image.width))
        image, boxes = self.transform(image, boxes)
        # Resized, a box at the rim is over it at times, by a rounding error.
        boxes, kept = v2.functional.sanitize_bounding_boxes(v2.functional.clamp_bounding_boxes(boxes))
        labels, crowd = torch.as_tensor(fields["labels"])[kept], torch.as_tensor(fields["crowd"])[kept]
        target = {
            "boxes": boxes.as_subclass(torch.Tensor),
            "labels": labels,
            "iscrowd": crowd,
            "image_id": torch.tensor(fields["image_id"]),
        }
        return image, target
