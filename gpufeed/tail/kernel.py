"""What the tail calls for an op, and the few things that all of these functions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray
from torchvision.transforms import functional as functional_v1
from torchvision.transforms.v2 import functional as functional_v2

from gpufeed.plan import Api
from gpufeed.spec import ImageSpec

__all__ = ["Kernel", "each", "empty_as", "empty_in_rows", "functional", "in_rows"]

Kernel = Callable[[torch.Tensor, Any, ImageSpec, Any], torch.Tensor]
"""One op on N images of one size, from (images, op, its input's spec, parameters with N rows).

Images are (N, C, H, W) in any memory layout and aren't changed; the result, (N, C', H', W'), may be the images
themselves or a view of them."""


def functional(api: Api) -> Any:
    """torchvision's functions of one generation; untyped, since its annotations leave out PIL images."""
    return functional_v1 if api == "v1" else functional_v2


def empty_as(images: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Uninitialised memory for (N, C, H, W) images, laid out as ``images`` are: copying between layouts is slow."""
    if images.shape[1] > 1 and images.stride(1) == 1:
        return empty_in_rows(shape, images.dtype, images.device)
    return torch.empty(shape, dtype=images.dtype, device=images.device)


def empty_in_rows(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Uninitialised memory for (N, C, H, W) images with the channels of a pixel side by side, as in a PIL image."""
    count, channels, height, width = shape
    return torch.empty((count, height, width, channels), dtype=dtype, device=device).permute(0, 3, 1, 2)


def in_rows(images: torch.Tensor) -> torch.Tensor:
    """(N, C, H, W) images with the strides of torchvision's tensor of a PIL image, copied only where they have others.

    ``ToImage`` and ``PILToTensor`` give a view of rows of pixels, ``ToTensor`` contiguous planes, and torch's sums and
    resampling of floats depend on it in the last bits, at times in more.
    """
    channels, width = images.shape[1], images.shape[3]
    if images.stride()[1:] == (1, width * channels, channels):
        return images
    return empty_in_rows(tuple(images.shape), images.dtype, images.device).copy_(images)


def each(
    images: torch.Tensor, values: NDArray[Any], one: Callable[[torch.Tensor, NDArray[Any]], torch.Tensor]
) -> torch.Tensor:
    """Image by image through one of torchvision's tensor kernels, which is the definition in the tensor domains.

    Each image keeps its layout in memory, on which the order of a sum depends, and so do the results. Images with
    equal parameters could go together only where nothing is summed; this doesn't ask.

    Args:
        images: (N, C, H, W).
        values: (N, ...) parameters.
        one: image (C, H, W) and parameters to the result.
    """
    results = [one(image, value)[None] for image, value in zip(images, values, strict=True)]
    if len(results) == 1:
        return results[0]
    out = empty_as(results[0], (len(results), *results[0].shape[1:]))
    for row, result in enumerate(results):
        out[row : row + 1].copy_(result)
    return out
