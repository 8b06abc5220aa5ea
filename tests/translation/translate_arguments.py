"""How an object of each translated class is made, for tests that walk all of them."""

from __future__ import annotations

import warnings
from typing import Any

import torch

ARGUMENTS: dict[str, dict[str, Any]] = {
    "Resize": {"size": 20},
    "CenterCrop": {"size": 20},
    "FiveCrop": {"size": 15},
    "ImageClassification": {"crop_size": 15},
    "SemanticSegmentation": {"resize_size": 15},
    "ConvertBoundingBoxFormat": {"format": "XYWH"},
    "SetClampingMode": {"clamping_mode": "hard"},
    "UniformTemporalSubsample": {"num_samples": 3},
    "TenCrop": {"size": 15},
    "RandomCrop": {"size": 20, "padding": 2},
    "RandomResizedCrop": {"size": 20},
    "Pad": {"padding": 2},
    "ToDtype": {"dtype": torch.int16},
    "ConvertImageDtype": {"dtype": torch.int16},
    "Normalize": {"mean": [0.5], "std": [0.25]},
    "GaussianBlur": {"kernel_size": 3},
    "JPEG": {"quality": 50},
    "LinearTransformation": {"transformation_matrix": torch.eye(12), "mean_vector": torch.zeros(12)},
    "ElasticTransform": {"sigma": 1.0},
    "RandomPosterize": {"bits": 4},
    "RandomSolarize": {"threshold": 0.5},
    "RandomAdjustSharpness": {"sharpness_factor": 2},
    "RandomRotation": {"degrees": 30},
    "RandomAffine": {"degrees": 30},
    "RandomResize": {"min_size": 10, "max_size": 20},
    "ScaleJitter": {"target_size": (30, 40)},
    "RandomShortestSize": {"min_size": [10, 20]},
}
"""How an object of each class is made; without arguments where there is none."""


def make(transform_class: type[Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # v2.ToTensor warns of its deprecation
        return transform_class(**ARGUMENTS.get(transform_class.__name__, {}))
