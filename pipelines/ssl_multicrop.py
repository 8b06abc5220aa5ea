"""Several views of one image: SimCLR's two, and DINO's two global and six local crops. The image is decoded once.

    from gpufeed import DataLoader
    loader = DataLoader("path/to/images", pipeline="gpufeed:ssl_multicrop:simclr", batch_size=256, shuffle=True)
    for views, _ in loader:                                 # two of (256, 3, 224, 224) float32 in [0, 1]
        features = model(torch.cat(views))

    loader = DataLoader("path/to/images", pipeline="gpufeed:ssl_multicrop:dino", batch_size=64, shuffle=True)
    for crops, _ in loader:                                 # 2 of (64, 3, 224, 224), 6 of (64, 3, 96, 96), normalised
        loss = dino_loss(student(list(crops)), teacher(list(crops[:2])))

Batches are as those papers' code has them: the views, then the class (of an ``ImageFolder``; one folder will do).
"""

from __future__ import annotations

import torch
from torch.utils.data import Dataset
from torchvision.transforms import InterpolationMode, v2

import gpufeed
from gpufeed import ops

FLIP, BICUBIC = v2.RandomHorizontalFlip(), InterpolationMode.BICUBIC
FLOAT = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]


@gpufeed.pipeline
def simclr(sample, *, size: int = 224, scale: tuple[float, float] = (0.08, 1.0), strength: float = 1.0):
    """Two views in [0, 1], cropped, mirrored, coloured and blurred independently (Chen et al. 2020)."""
    # The loop runs once, while this is recorded: each view has random numbers of its own. The file is decoded once.
    return tuple(cropped(sample, size, scale, "bilinear") for _ in range(2)), sample.target


def cropped(sample, size: int, scale: tuple[float, float], interpolation: str):
    image = sample.random_resized_crop(size, scale=scale, interpolation=interpolation)
    return ops.to_chw(ops.apply(FLIP, image, sample))  # uint8, RGB x height x width, as the tail takes them


# Colours come behind the graph: torch, on whole batches on the device, drawing from `samples`; "pil" asks for Pillow's
# arithmetic, as in the papers' code. Where a crop is 1/255 off Pillow's before, jitter multiplies that, too.
@simclr.tail
def simclr_tail(views, target, *, samples, size: int, strength: float):
    colour = v2.Compose(simclr_colour(size, strength))
    return tuple(ops.apply(colour, view, samples, container="pil") for view in views), target


def simclr_colour(size: int, strength: float):
    jitter = v2.ColorJitter(0.8 * strength, 0.8 * strength, 0.8 * strength, 0.2 * strength)
    blur = v2.GaussianBlur(size // 10 | 1, (0.1, 2.0))  # a tenth of the view, as in the paper; odd
    return [v2.RandomApply([jitter], p=0.8), v2.RandomGrayscale(p=0.2), v2.RandomApply([blur], p=0.5), *FLOAT]


@gpufeed.pipeline
def dino(
    sample,
    *,
    size: int = 224,
    local_size: int = 96,
    local_crops: int = 6,
    global_scale: tuple[float, float] = (0.4, 1.0),
    local_scale: tuple[float, float] = (0.05, 0.4),
):
    """Two global and some local crops, normalised; a scale is a crop's share of the image (Caron et al. 2021)."""
    large = [cropped(sample, size, global_scale, "bicubic") for _ in range(2)]
    small = [cropped(sample, local_size, local_scale, "bicubic") for _ in range(local_crops)]
    return (*large, *small), sample.target


@dino.tail
def dino_tail(views, target, *, samples, size: int, local_size: int, local_crops: int):
    pairs = zip(map(v2.Compose, dino_colours(size, local_size, local_crops)), views, strict=True)
    return tuple(ops.apply(colour, view, samples, container="pil") for colour, view in pairs), target


def dino_colours(size: int, local_size: int, local_crops: int):
    """Of each crop. The first is always blurred, the second hardly ever, but solarised at times."""
    some = [v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8), v2.RandomGrayscale(p=0.2)]
    end = [*FLOAT, v2.Normalize(ops.IMAGENET_MEAN, ops.IMAGENET_STD)]
    blur, local_blur = (v2.GaussianBlur(side // 10 | 1, (0.1, 2.0)) for side in (size, local_size))
    local = [*some, v2.RandomApply([local_blur], p=0.5), *end]
    second = [*some, v2.RandomApply([blur], p=0.1), v2.RandomSolarize(128, p=0.2), *end]
    return [[*some, blur, *end], second, *[local] * local_crops]


# The same in torch's workers, for `gpufeed compare` and the tests: a transform per view, as in the papers' code.
@simclr.torch_dataset
def simclr_dataset(folder, *, size: int, scale, strength: float):
    return Views(folder, [v2.Compose([v2.RandomResizedCrop(size, scale), FLIP, *simclr_colour(size, strength)])] * 2)


@dino.torch_dataset
def dino_dataset(folder, *, size: int, local_size: int, local_crops: int, global_scale, local_scale):
    crops = [v2.RandomResizedCrop(size, global_scale, interpolation=BICUBIC)] * 2
    crops += [v2.RandomResizedCrop(local_size, local_scale, interpolation=BICUBIC)] * local_crops
    pairs = zip(crops, dino_colours(size, local_size, local_crops), strict=True)
    return Views(folder, [v2.Compose([crop, FLIP, *colour]) for crop, colour in pairs])


class Views(Dataset):
    def __init__(self, folder, transforms):
        self.folder, self.transforms = folder, transforms

    def __len__(self):
        return len(self.folder)

    def __getitem__(self, index):
        image, target = self.folder[index]
        return tuple(transform(image) for transform in self.transforms), target
