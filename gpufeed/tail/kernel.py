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

__all__ = ["Kernel", "each", "empty_as", "functional"]

Kernel = Callable[[torch.Tensor, Any, ImageSpec, Any], torch.Tensor]
"""One op on N images of one size, from (images, op, its input's spec, parameters with N rows).

Images are (N, C, H, W) in any memory layout and aren't changed; the result, (N, C', H', W'), may be the images
themselves or a view of them."""


def functional(api: Api) -> Any:
    """torchvision's functions of one generation; untyped, since its annotations leave out PIL images."""
    return functional_v1 if api == "v1" else functional_v2


def empty_as(images: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Uninitialised memory for (N, C, H, W) images, laid out as ``images`` are: copying between layouts is slow."""
    channels_last = images.shape[1] > 1 and images.stride(1) == 1
    layout = torch.channels_last if channels_last else torch.contiguous_format
    return torch.empty(shape, dtype=images.dtype, device=images.device, memory_format=layout)


def each(
    images: torch.Tensor, values: NDArray[Any], one: Callable[[torch.Tensor, NDArray[Any]], torch.Tensor]
) -> torch.Tensor:
    """Image by image through one of torchvision's tensor kernels, which is the definition in the tensor domains.

    Each gets a contiguous (C, H, W) image of its own, as torchvision's user has: the order in which a sum adds up
    depends on the layout. Images with equal parameters go together only where nothing is summed; this doesn't ask.

    Args:
        images: (N, C, H, W).
        values: (N, ...) parameters.
        one: image and parameters to the result.
    """
    results = [one(image.contiguous(), value) for image, value in zip(images, values, strict=True)]
    return results[0][None] if len(results) == 1 else torch.stack(results)
