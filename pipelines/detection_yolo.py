"""Detection on YOLO's data: mosaics of four images to train, letterboxed images to evaluate.

    loader = DataLoader("path/to/data", pipeline="gpufeed:detection_yolo:train", batch_size=16, shuffle=True)
    for images, objects in loader:                  # images: (16, 3, 640, 640) float32 in [0, 1]
        objects["boxes"], objects["labels"]         # 16 of (N, 4): centre, width and height as shares; 16 of (N,)

The folder holds images/*.jpg and labels/*.txt: class and normalised centre box per line.
"""

from __future__ import annotations

import numpy as np
import torch
from nvidia.dali import fn, types
from nvidia.dali import math as dali_math
from PIL import Image
from torch.utils.data import Dataset
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

import gpufeed
from gpufeed import HostSample, ops
from gpufeed.sources import YoloSource

GREY, MIN_SIZE = 114, 2.0  # what no image covers; boxes less wide or high than this, in pixels, are dropped
HSV = (0.015, 0.7, 0.4)  # how far hue, saturation and value vary


@gpufeed.pipeline
def train(sample, *, size: int = 640, scale: tuple[float, float] = (0.5, 1.5), hsv: tuple[float, float, float] = HSV):
    """Four images around a random point, each resized and mirrored at random, in random colours."""
    point = sample.integers(size // 4, 3 * size // 4, shape=2)  # y, x
    tiles = []
    for corner, one in enumerate([sample, *sample.others(3)]):  # others: any images of the source
        image = ops.apply(v2.ScaleJitter((size, size), scale), one.decode(), one)  # the longer side to size x scale
        image = ops.apply(v2.RandomHorizontalFlip(), image, one)
        # Each has a corner on the point: the first, which lies above and left of it, its bottom right one.
        after = np.array([corner // 2, corner % 2], dtype=np.int32)
        start = (image.shape(dtype=types.INT32)[:2] - point) * (1 - after)
        tiles.append(window(one, image, start, point * (1 - after) + (size - point) * after, point * after))
    (a, b, c, d), *objects = zip(*tiles, strict=True)
    image = fn.cat(fn.cat(a, b, axis=1), fn.cat(c, d, axis=1), axis=0)
    return ops.to_chw(image), [ops.ragged(fn.cat(*each, axis=0)) for each in objects]


@gpufeed.pipeline
def evaluate(sample, *, size: int = 640):
    """The longer side resized, and grey on both sides to make it a square."""
    image = ops.apply(v2.Resize(None, max_size=size), sample.decode(), sample)
    start = -((size - image.shape(dtype=types.INT32)[:2]) // 2)
    image, *objects = window(sample, image, start, start * 0 + size, start * 0)
    return ops.normalize(image, (0.0,) * 3, (1.0,) * 3), [ops.ragged(each) for each in objects]


def window(sample, image, start, shape, place):
    """What a window of an image shows, grey beyond it, and the boxes there when the window is at ``place``; (y, x)."""
    shown = fn.slice(image, start=start, shape=shape, axes=(0, 1), out_of_bounds_policy="pad", fill_values=GREY)
    # The boxes follow resize and mirror; from then on they are numbers like any others, which DALI's operators take.
    boxes, labels = ops.boxes_like(image, sample.boxes, sample.labels, format="cxcywh", normalized=True)
    corners = [boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2]  # top left, bottom right; shares
    corners = [corner * xy(image.shape()) + xy(place - start) for corner in corners]
    return shown, *(dali_math.clamp(corner, xy(place), xy(place + shape)) for corner in corners), labels


def xy(yx):
    return fn.cast(fn.stack(yx[1], yx[0]), dtype=types.FLOAT)


@train.tail
@evaluate.tail
def tail(images, objects, *, samples, size: int, hsv=None):
    # Torch, on whole batches on the device. Pillow's arithmetic ("pil") is the quicker one for colours.
    if hsv is not None:
        images = ops.apply(v2.ColorJitter(hsv[2], 0, hsv[1], hsv[0]), images, samples, container="pil").float() / 255
    # What is left of the boxes, as centre, width and height: those of all samples at once.
    low, high, labels = map(torch.cat, objects)
    seen = (high - low >= MIN_SIZE).all(dim=1)
    counts = [part.sum() for part in seen.split(list(map(len, objects[0])))]
    counts = torch.stack(counts).tolist()
    boxes = torch.cat([(low + high) / 2, high - low], dim=1)[seen] / size
    return images, {"boxes": list(boxes.split(counts)), "labels": list(labels[seen].split(counts))}


@train.source
@evaluate.source
def source(root):
    return YoloSource(f"{root}/images")


# The same by Pillow and torchvision, with the same draws in the same order: for `gpufeed compare` and the tests.
@train.torch_dataset
@evaluate.torch_dataset
def dataset(source, *, size: int, scale=None, hsv=None):
    return TorchYolo(source, size, scale, hsv)


class TorchYolo(Dataset):
    def __init__(self, source, size: int, scale, hsv):
        self.source, self.size, self.scale, self.hsv = source, size, scale, hsv
        self.seed, self.epoch = 0, 0  # of the draws: set the epoch before each, as a DistributedSampler's

    def __len__(self):
        return len(self.source)

    def __getitem__(self, index):
        sample, size = HostSample(index, length=len(self), seed=self.seed, epoch=self.epoch), self.size
        if self.hsv is None:
            image, boxes, labels = self.tile(sample, v2.Resize(None, max_size=size), (size, size), (0, 0), 0.5)
        else:
            y, x = sample.integers(size // 4, 3 * size // 4, shape=2).tolist()
            steps = v2.Compose([v2.ScaleJitter((size, size), self.scale), v2.RandomHorizontalFlip()])
            shapes = [(y, x), (y, size - x), (size - y, x), (size - y, size - x)]
            places, shares = [(0, 0), (0, x), (y, 0), (y, x)], [(1, 1), (1, 0), (0, 1), (0, 0)]
            tiles = map(self.tile, [sample, *sample.others(3)], [steps] * 4, shapes, places, shares)
            (a, b, c, d), boxes, labels = zip(*tiles, strict=True)
            image = torch.cat([torch.cat([a, b], dim=2), torch.cat([c, d], dim=2)], dim=1)
            image = sample.apply(v2.ColorJitter(self.hsv[2], 0, self.hsv[1], self.hsv[0]), F.to_pil_image(image))
            image = F.pil_to_tensor(image)
            boxes, labels = torch.cat(boxes), torch.cat(labels)
        boxes, seen = F.sanitize_bounding_boxes(boxes, "XYXY", (size, size), min_size=MIN_SIZE)
        boxes = F.convert_bounding_box_format(boxes, "XYXY", "CXCYWH")
        return F.to_dtype(image, torch.float32, scale=True), {"boxes": boxes / size, "labels": labels[seen]}

    def tile(self, one, steps, shape, place, share):
        """An image after some steps, padded with grey or cut to a shape, and its boxes at a place; all (y, x)."""
        image = Image.open(self.source.name_of(one.index)).convert("RGB")
        fields, (width, height) = self.source.fields([one.index]), image.size
        boxes = torch.as_tensor(fields["boxes"][0]) * torch.tensor([width, height] * 2)
        boxes = tv_tensors.BoundingBoxes(boxes, format="CXCYWH", canvas_size=(height, width))
        boxes = F.clamp_bounding_boxes(F.convert_bounding_box_format(boxes, new_format="XYXY"))
        image, boxes = one.apply(steps, image, boxes)
        free = np.subtract(shape, (image.height, image.width))
        before = np.floor(free * share).astype(int)
        padding = [*before[::-1].tolist(), *(free - before)[::-1].tolist()]
        image, boxes = F.pad(F.pil_to_tensor(image), padding, fill=GREY), F.pad(boxes, padding)
        return image, boxes + torch.tensor([*place[::-1]] * 2), torch.as_tensor(fields["labels"][0])
