"""Colour: what changes values, not places."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from gpufeed.plan import Api, Grayscale, Op, RandomGrayscale
from gpufeed.spec import ImageSpec
from gpufeed.tail.kernel import Kernel, functional
from gpufeed.tensors import from_numpy

__all__ = ["KERNELS", "grayscale", "random_grayscale"]


def grayscale(images: torch.Tensor, spec: ImageSpec, num_output_channels: int, api: Api) -> torch.Tensor:
    """Luma of a batch.

    Args:
        images: (N, 1 or 3, H, W).
        spec: the input's. In the `pil` domain L is Pillow's ``(19595 R + 38470 G + 7471 B + 32768) >> 16`` (Convert.c).
        num_output_channels: 1, or 3 equal ones.
        api: whose tensor kernel.

    Returns:
        (N, num_output_channels, H, W); may be an expanded view.
    """
    if spec.container != "pil":
        return functional(api).rgb_to_grayscale(images, num_output_channels=num_output_channels)
    if images.shape[1] == 3:
        weights = (19595, 38470, 7471)
        total = torch.full_like(images[:, :1], 32768, dtype=torch.int32)
        for channel, weight in enumerate(weights):
            total += images[:, channel : channel + 1].to(torch.int32) * weight
        images = (total >> 16).to(torch.uint8)
    return images.expand(-1, num_output_channels, -1, -1)


def random_grayscale(images: torch.Tensor, spec: ImageSpec, api: Api, applied: NDArray[np.bool_]) -> torch.Tensor:
    """Luma of some images of a batch, in as many channels as they have; the others are untouched.

    Args:
        images: (N, C, H, W), not changed.
        spec: the input's.
        api: whose tensor kernel.
        applied: (N,) which samples.
    """
    if not applied.any():
        return images
    rows = from_numpy(np.flatnonzero(applied)).to(images.device)
    out = images.clone()
    out[rows] = grayscale(images[rows], spec, images.shape[1], api)
    return out


def _grayscale(images: torch.Tensor, op: Grayscale, spec: ImageSpec, value: None) -> torch.Tensor:
    del value
    return grayscale(images, spec, op.num_output_channels, op.api)


def _random_grayscale(
    images: torch.Tensor, op: RandomGrayscale, spec: ImageSpec, applied: NDArray[np.bool_]
) -> torch.Tensor:
    return random_grayscale(images, spec, op.api, applied)


KERNELS: Mapping[type[Op], Kernel] = {
    Grayscale: _grayscale,
    RandomGrayscale: _random_grayscale,
}
