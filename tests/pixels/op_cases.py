"""One transform at least for each class that becomes ops: for tests that walk all of them on every device."""

from __future__ import annotations

from typing import Any

import torch
from torchvision.transforms import v2

BILINEAR, BICUBIC = v2.InterpolationMode.BILINEAR, v2.InterpolationMode.BICUBIC
ANY = ("pil", "uint8", "float", "image_uint8", "image_float")
TENSORS = ("uint8", "float")
BYTES = ("pil", "uint8")

MIX = torch.eye(120).roll(7, 0) * 0.75
"""For images of 3 x 5 x 8 values."""

CASES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "RandomResizedCrop": (v2.RandomResizedCrop((23, 29)), ANY),
    "RandomResizedCrop, bicubic": (v2.RandomResizedCrop((23, 29), interpolation=BICUBIC), ANY),
    "RandomCrop": (v2.RandomCrop((13, 17), padding=3, pad_if_needed=True), ANY),
    "CenterCrop": (v2.CenterCrop((31, 90)), ANY),
    "FiveCrop": (v2.FiveCrop((13, 17)), ANY),
    "TenCrop": (v2.TenCrop((13, 17)), ANY),
    "Pad": (v2.Pad((3, 5), padding_mode="reflect"), ANY),
    "Resize": (v2.Resize(21), ANY),
    "RandomHorizontalFlip": (v2.RandomHorizontalFlip(), ANY),
    "RandomVerticalFlip": (v2.RandomVerticalFlip(), ANY),
    "Grayscale": (v2.Grayscale(3), ANY),
    "RandomGrayscale": (v2.RandomGrayscale(0.5), ANY),
    "ColorJitter": (v2.ColorJitter(0.5, 0.5, 0.5, 0.2), ANY),
    "RandomPhotometricDistort": (v2.RandomPhotometricDistort(), ANY),
    "RandomInvert": (v2.RandomInvert(), ANY),
    "RandomPosterize": (v2.RandomPosterize(3), BYTES),
    "RandomSolarize": (v2.RandomSolarize(0.4), ("float",)),
    "RandomSolarize of bytes": (v2.RandomSolarize(100), BYTES),
    "RandomAdjustSharpness": (v2.RandomAdjustSharpness(2.0), ANY),
    "RandomAutocontrast": (v2.RandomAutocontrast(), ANY),
    "RandomEqualize": (v2.RandomEqualize(), ANY),
    "RandomChannelPermutation": (v2.RandomChannelPermutation(), ANY),
    "GaussianBlur": (v2.GaussianBlur((5, 9)), ANY),
    "GaussianNoise": (v2.GaussianNoise(), TENSORS),
    "JPEG": (v2.JPEG((20, 90)), BYTES),
    "LinearTransformation": (v2.LinearTransformation(MIX, torch.full((120,), 0.1)), ()),
    "RandomErasing": (v2.RandomErasing(0.8), ANY),
    "RandomErasing, random": (v2.RandomErasing(0.8, value="random"), TENSORS),
    "ElasticTransform": (v2.ElasticTransform(20.0), ANY),
    "RandomRotation": (v2.RandomRotation(40, expand=True), ANY),
    "RandomRotation, bilinear": (v2.RandomRotation(40, interpolation=BILINEAR, fill=7), BYTES),
    "RandomAffine": (v2.RandomAffine(20, (0.1, 0.2), (0.7, 1.3), (-9, 9, -5, 5), interpolation=BILINEAR), ANY),
    "RandomPerspective": (v2.RandomPerspective(0.4, p=0.8), ANY),
    "RandomZoomOut": (v2.RandomZoomOut(fill=3), ANY),
    "RandomResize": (v2.RandomResize(20, 40), ANY),
    "ScaleJitter": (v2.ScaleJitter((40, 50)), ANY),
    "RandomShortestSize": (v2.RandomShortestSize([20, 30], max_size=60), ANY),
    "RandomApply": (v2.RandomApply([v2.RandomInvert(), v2.Pad(1)]), ANY),
    "RandomChoice": (v2.RandomChoice([v2.RandomInvert(1.0), v2.Grayscale(3)]), ANY),
    "RandomOrder": (v2.RandomOrder([v2.RandomInvert(), v2.ColorJitter(0.5), v2.Pad(1)]), ANY),
    "ToTensor": (v2.Compose([v2.PILToTensor(), v2.ConvertImageDtype(torch.float32)]), ("pil",)),
    "ToDtype": (v2.ToDtype(torch.float64, scale=True), TENSORS),
    "Normalize": (v2.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.4)), ("float",)),
}
"""By name: a transform, and the domains that it takes."""
