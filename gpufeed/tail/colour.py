"""Colour: what changes values, not places."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from gpufeed.plan import Api, ChannelPermutation, ColorJitter, Grayscale, Op, RandomGrayscale
from gpufeed.spec import ImageSpec
from gpufeed.tail import jitter, tones
from gpufeed.tail.kernel import Kernel, functional
from gpufeed.tensors import from_numpy

__all__ = ["KERNELS", "grayscale", "random_grayscale"]


def grayscale(images: torch.Tensor, spec: ImageSpec, num_output_channels: int, api: Api) -> torch.Tensor:
    """Luma of a batch.

    Args:
        images: (N, 1 or 3, H, W).
        spec: the input's. In the `pil` domain grey is Pillow's L.
        num_output_channels: 1, or 3 equal ones.
        api: whose tensor kernel.

    Returns:
        (N, num_output_channels, H, W); may be an expanded view.
    """
    if spec.container != "pil":
        return functional(api).rgb_to_grayscale(images, num_output_channels=num_output_channels)
    if images.shape[1] == 3:
        # To 3 channels as fast as Pillow, to 1 three times slower: planes cost more than what is done to them, and a
        # product of matrices, which needs none, may be TF32 on a GPU.
        grey = torch.empty_like(images[:, :1], memory_format=torch.contiguous_format)
        for image, result in zip(images, grey, strict=True):
            result.copy_(jitter.luma(jitter.planes_of(image)).to(torch.int16))
        images = grey
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


def _channel_permutation(
    images: torch.Tensor, op: ChannelPermutation, spec: ImageSpec, orders: NDArray[np.int64]
) -> torch.Tensor:
    del op, spec
    index = from_numpy(orders).to(images.device)
    return torch.stack([image[order] for image, order in zip(images, index, strict=True)])


KERNELS: Mapping[type[Op], Kernel] = {
    Grayscale: _grayscale,
    RandomGrayscale: _random_grayscale,
    ChannelPermutation: _channel_permutation,
    ColorJitter: jitter.color_jitter,
    **tones.KERNELS,
}
