"""Images as torchvision holds them, and its functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np
import PIL.Image
import torch
import torchvision.transforms.functional as functional_v1
from numpy.typing import NDArray
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as functional_v2

from gpufeed.errors import ArgumentError
from gpufeed.plan import Api
from gpufeed.reference.values import LeafValues
from gpufeed.spec import ImageSpec

__all__ = ["F1", "F2", "Function", "Image", "Leaf", "functional", "ints", "spec_of"]

Image: TypeAlias = PIL.Image.Image | torch.Tensor | tuple[Any, ...]
"""A PIL image, a plain CHW tensor or a ``tv_tensors.Image``; after ``FiveCrop`` a tuple of them."""

Leaf: TypeAlias = Callable[[Any, LeafValues, Any], Any]
"""A transform object, what was drawn for it, and one image, to the image that the class's own code makes."""

Function: TypeAlias = Callable[[Any, Any, Any], Any]
"""An op, one image and the op's parameters for this sample, to what torchvision's function for the op makes."""

F1 = cast(Any, functional_v1)  # torchvision annotates images as tensors and leaves out PIL images
F2 = cast(Any, functional_v2)


def functional(api: Api) -> Any:
    """torchvision's functions of one generation."""
    return F1 if api == "v1" else F2


def ints(values: NDArray[Any]) -> list[int]:
    """Whole numbers as Python's."""
    return [int(value) for value in np.asarray(values).reshape(-1)]


def spec_of(image: Image) -> ImageSpec:
    """What an image is, its size left open.

    Raises:
        ArgumentError: a PIL image that is neither RGB nor grey, or a tensor that isn't one image.
    """
    if isinstance(image, PIL.Image.Image):
        if image.mode not in ("RGB", "L"):
            raise ArgumentError(f"a PIL image must have mode RGB or L here, got {image.mode}")
        return ImageSpec(channels=len(image.getbands()))
    if not isinstance(image, torch.Tensor):
        raise ArgumentError(f"image must be a PIL image or a tensor, got {type(image).__name__}")
    if image.ndim != 3:
        raise ArgumentError(f"a tensor must be one image of 3 dimensions (C, H, W), got shape {tuple(image.shape)}")
    container = "tv_image" if isinstance(image, tv_tensors.Image) else "tensor"
    return ImageSpec(container, str(image.dtype).removeprefix("torch."), int(image.shape[0]), value_range=None)
