"""Windows that are written over."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from gpufeed.plan import Erase, EraseToNoise, Op
from gpufeed.spec import ImageSpec
from gpufeed.tail import noise
from gpufeed.tail.kernel import Kernel

__all__ = ["KERNELS", "erase_"]


def erase_(images: torch.Tensor, op: Erase | EraseToNoise, values: NDArray[np.int64]) -> None:
    """Write over a window of each image, in place.

    Args:
        images: (N, C, H, W), changed.
        op: what to write. Element ``e`` of the noise stands in channel, row and column of the window, in this order.
        values: (N, 4) windows, or (N, 6) windows and the keys of the noise.
    """
    for image, (top, left, height, width), key in zip(images, values[:, :4].tolist(), values[:, 4:], strict=True):
        inside = image[:, top : top + height, left : left + width]
        if isinstance(op, EraseToNoise):
            written = noise.normal(key, math.prod(inside.shape), image.device).view(inside.shape)
        else:
            # float32, and from there to the image's dtype, as torchvision's tensor of the value
            written = torch.tensor(op.value, dtype=torch.float32, device=image.device).view(-1, 1, 1)
        inside.copy_(written.to(image.dtype).expand_as(inside))


def _erase(images: torch.Tensor, op: Erase | EraseToNoise, spec: ImageSpec, values: NDArray[np.int64]) -> torch.Tensor:
    del spec
    out = images.clone()
    erase_(out, op, values)
    return out


KERNELS: Mapping[type[Op], Kernel] = {
    Erase: _erase,
    EraseToNoise: _erase,
}
