"""The classes of torchvision that aren't translated, each with its reason and the way out."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from torchvision import transforms as v1
from torchvision.transforms import _presets, v2

__all__ = ["REFUSALS", "WAYS_OUT"]

WAYS_OUT = (
    "apply it to each image in a collate_fn (it gets the samples after the other transforms, one by one), "
    "or keep torch's DataLoader for this dataset"
)

_FUNCTION = (
    "a function can't be looked into; if it makes a transform, call it and give what it returns; else write it with "
    f"the classes of torchvision.transforms.v2, {WAYS_OUT}"
)
_PIL = (
    "a batch holds tensors, and this makes a PIL image; remove it: what stands behind takes tensors as well, in "
    "torchvision.transforms.v2"
)
_AUTOMATIC = (
    "automatic augmentation isn't translated yet, and it wants bytes; end the transform with PILToTensor() and do "
    "this, scaling and normalising image by image in a collate_fn, or keep torch's DataLoader for this dataset"
)
_BATCH = (
    "it mixes the samples of a whole batch; call it on each batch that the loader gives, or in a collate_fn behind "
    "default_collate"
)
_BOXES = "it needs bounding boxes beside the image, and a folder's sample has none; remove it"
_KEY_POINTS = "it needs key points beside the image, and a folder's sample has none; remove it"
_VIDEO = "it is for videos, and a sample here is an image; load videos with torch's DataLoader"
_FLOW = "it is for pairs of images, and a sample here is one; load pairs with torch's DataLoader"
_BASE = f"it is the class that others are made from and does nothing itself, torchvision fails on it; {WAYS_OUT}"

REFUSALS: Mapping[type[object], str] = MappingProxyType(
    {
        v1.Lambda: _FUNCTION,
        v2.Lambda: _FUNCTION,
        v1.ToPILImage: _PIL,
        v2.ToPILImage: _PIL,
        v1.AutoAugment: _AUTOMATIC,
        v2.AutoAugment: _AUTOMATIC,
        v1.RandAugment: _AUTOMATIC,
        v2.RandAugment: _AUTOMATIC,
        v1.TrivialAugmentWide: _AUTOMATIC,
        v2.TrivialAugmentWide: _AUTOMATIC,
        v1.AugMix: _AUTOMATIC,
        v2.AugMix: _AUTOMATIC,
        v2.CutMix: _BATCH,
        v2.MixUp: _BATCH,
        v2.RandomIoUCrop: _BOXES,
        v2.SanitizeBoundingBoxes: _BOXES,
        v2.SanitizeKeyPoints: _KEY_POINTS,
        v2.Transform: _BASE,
        _presets.VideoClassification: _VIDEO,
        _presets.OpticalFlow: _FLOW,
    }
)
"""The reason and the way out of each class."""
