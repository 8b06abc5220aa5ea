"""Brightness, contrast, saturation and hue in a drawn order."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpufeed.plan import ColorJitter
from gpufeed.spec import ImageSpec
from gpufeed.tail.kernel import each, functional
from gpufeed.tensors import from_numpy

__all__ = ["color_jitter", "luma", "planes_of"]


def color_jitter(images: torch.Tensor, op: ColorJitter, spec: ImageSpec, values: NDArray[np.float64]) -> torch.Tensor:
    """Each image by its own factors, in its own order.

    Args:
        images: (N, 1 or 3, H, W).
        op: ``api`` matters, in the tensor domains.
        spec: the input's.
        values: (N, 8): the order, then the factors; NaN for what isn't done.
    """
    if np.isnan(values[:, 4:]).all():
        return images
    if spec.container != "pil":
        return each(images, values, functools.partial(_by_torchvision, functional(op.api)))
    out = torch.empty(images.shape, dtype=torch.uint8, device=images.device)
    for image, value, result in zip(images, values, out, strict=True):
        # float to uint8 isn't vectorised on the CPU; by way of int16 it takes a third of the time
        result.copy_(_by_pillow(planes_of(image), value).to(torch.int16))
    return out


def _steps(value: NDArray[np.float64]) -> list[tuple[int, float]]:
    """The adjustments that are done, in their order: number and factor."""
    factors = value[4:]
    return [(int(step), float(factors[int(step)])) for step in value[:4] if not np.isnan(factors[int(step)])]


def _by_torchvision(functions: Any, image: torch.Tensor, value: NDArray[np.float64]) -> torch.Tensor:
    adjust = (
        functions.adjust_brightness,
        functions.adjust_contrast,
        functions.adjust_saturation,
        functions.adjust_hue,
    )
    for step, factor in _steps(value):
        image = adjust[step](image, factor)
    return image


def _by_pillow(planes: torch.Tensor, value: NDArray[np.float64]) -> torch.Tensor:
    for step, factor in _steps(value):
        planes = _ADJUST_PLANES[step](planes, factor)
    return planes


# Pillow's arithmetic -------------------------------------------------------------------------------------------------
#
# An image is held as contiguous float32 planes of whole numbers in [0, 255], on which every step is a few vectorised
# passes, one image at a time, so that it stays in the processor's cache. Products and sums are separate calls: a fused
# one would round once where Pillow's float arithmetic rounds twice.


def planes_of(image: torch.Tensor) -> torch.Tensor:
    """(C, H, W) uint8 of any memory layout as contiguous float32, a copy."""
    return image.to(torch.float32, memory_format=torch.contiguous_format)


def luma(planes: torch.Tensor) -> torch.Tensor:
    """Pillow's L of float32 planes (3, H, W): ``(19595 R + 38470 G + 7471 B + 32768) >> 16`` (Convert.c), as (H, W)
    float32. Every sum is a whole number below 2**24, so float32 is exact."""
    total = planes[0].mul(19595).add_(planes[1], alpha=38470).add_(planes[2], alpha=7471)
    return total.add_(32768).mul_(2.0**-16).floor_()


def _blend_(planes: torch.Tensor, degenerate: torch.Tensor | None, factor: float) -> torch.Tensor:
    """``degenerate + factor (planes - degenerate)`` in float32, clamped and cut to whole numbers (Blend.c), in place.

    Args:
        planes: (C, H, W), changed.
        degenerate: broadcast to it; ``None`` for black.
        factor: rounded to float32, as Pillow's argument is.
    """
    single = float(np.float32(factor))
    if degenerate is None:
        planes.mul_(single)
    else:
        planes.sub_(degenerate).mul_(single).add_(degenerate)
    return planes.clamp_(0, 255).floor_()


def _brightness_(planes: torch.Tensor, factor: float) -> torch.Tensor:
    return _blend_(planes, None, factor)


def _contrast_(planes: torch.Tensor, factor: float) -> torch.Tensor:
    grey = luma(planes) if len(planes) == 3 else planes[0]
    mean = grey.sum(dtype=torch.float64) / grey.numel()
    return _blend_(planes, mean.add_(0.5).floor_().to(torch.float32), factor)


def _saturation_(planes: torch.Tensor, factor: float) -> torch.Tensor:
    return _blend_(planes, luma(planes), factor) if len(planes) == 3 else planes


def _hue(planes: torch.Tensor, factor: float) -> torch.Tensor:
    """A shift of H in Pillow's 8-bit HSV and back; ``planes`` are left as they are.

    From HSV each channel is ``round(V - V S G / 255**2)``, where G goes from 0 to 255 and back with the distance of
    6 H, in [0, 1530], from the channel's place on the wheel; that equals the six cases of Convert.c. V S G is a whole
    number below 2**24, and the quotient in float32 is near enough: a test compares all 2**24 colours.
    """
    if len(planes) != 3:
        return planes
    red, green, blue = planes
    value = torch.maximum(red, green)
    torch.maximum(value, blue, out=value)
    chroma = torch.minimum(red, green)
    torch.minimum(chroma, blue, out=chroma)
    torch.sub(value, chroma, out=chroma)
    # the number of (R - B, G - B) in the table
    index = red.mul(511).add_(green).sub_(blue, alpha=512).add_(255 * 512).to(torch.int32)
    hue = torch.index_select(_hue_table(planes.device), 0, index.view(-1)).view(index.shape)
    hue.add_(int(factor * 255) & 255)  # wraps around, as uint8 does
    hue6 = hue.to(torch.float32).mul_(6)
    value_saturation = chroma.div_(value.clamp(min=1)).mul_(255).floor_().mul_(value)
    value.add_(0.5)  # for rounding
    out = torch.empty_like(planes)
    for channel, (place, nearest) in enumerate(_WHEEL):
        share = torch.sub(hue6, place, out=out[channel]).abs_()
        if nearest:
            share.sub_(255)
        else:
            share.neg_().add_(510)
        share.clamp_(0, 255).mul_(value_saturation).mul_(-1 / 255**2).add_(value).floor_()
    return out


_WHEEL = ((765, False), (510, True), (1020, True))
"""For R, G, B the place on the wheel that is measured from: where green and blue are fullest, and opposite of red."""

_ADJUST_PLANES = (_brightness_, _contrast_, _saturation_, _hue)


@functools.cache
def _hue_table(device: torch.device) -> torch.Tensor:
    """(511 * 511,) uint8: Pillow's H for each R - B and G - B, which it depends on alone.

    As Convert.c computes it, in float where C does and in double where that does. A grey pixel has 0.
    """
    difference = np.arange(-255, 256)
    red, green = np.meshgrid(difference, difference, indexing="ij")
    blue = np.maximum(0, -np.minimum(red, green))
    red, green = red + blue, green + blue
    highest = np.maximum(np.maximum(red, green), blue)
    chroma = highest - np.minimum(np.minimum(red, green), blue)
    divisor = np.maximum(chroma, 1).astype(np.float32)
    r, g, b = ((highest - channel).astype(np.float32) / divisor for channel in (red, green, blue))
    from_green = (2.0 + r.astype(np.float64) - b).astype(np.float32)
    from_blue = (4.0 + g.astype(np.float64) - r).astype(np.float32)
    sixth = np.where(red == highest, b - g, np.where(green == highest, from_green, from_blue))
    turn = np.fmod(sixth.astype(np.float64) / 6.0 + 1.0, 1.0).astype(np.float32)
    hue = np.floor(turn.astype(np.float64) * 255.0)
    # differences of more than 255 between R and G are no colours
    return from_numpy(np.where((chroma > 0) & (chroma < 256), hue, 0).astype(np.uint8).reshape(-1)).to(device)
