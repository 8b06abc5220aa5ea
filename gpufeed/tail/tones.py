"""Colour that is the same function for every pixel of a channel, or nearly: inverting, stretching, sharpening."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torchvision.transforms.v2 import functional as functional_v2

from gpufeed.plan import AdjustSharpness, Autocontrast, Equalize, Invert, Op, Posterize, Solarize
from gpufeed.spec import ImageSpec
from gpufeed.tail.kernel import Kernel, functional

__all__ = ["KERNELS"]


def _stacked(results: list[torch.Tensor]) -> torch.Tensor:
    return results[0][None] if len(results) == 1 else torch.stack(results)


def _invert(images: torch.Tensor, op: Invert, spec: ImageSpec, value: None) -> torch.Tensor:
    del op, spec, value
    return functional_v2.invert(images)  # of bytes Pillow's as well


def _posterize(images: torch.Tensor, op: Posterize, spec: ImageSpec, value: None) -> torch.Tensor:
    del spec, value
    return functional_v2.posterize(images, bits=op.bits)  # of bytes Pillow's as well


def _solarize(images: torch.Tensor, op: Solarize, spec: ImageSpec, value: None) -> torch.Tensor:
    del value
    if spec.container != "pil":
        return functional_v2.solarize(images, threshold=op.threshold)
    lowest = math.ceil(min(max(op.threshold, 0.0), 256.0))  # that is inverted
    if lowest > 255:
        return images
    # Neither a comparison of bytes with a number nor torch.where is vectorised on the CPU; this is: 1 where a value is
    # at least the lowest one, as bytes; 255 instead of 1; and inverting is an exclusive or with 255.
    return images.clamp(min=lowest).eq_(images).neg_().bitwise_xor_(images)


def _adjust_sharpness(images: torch.Tensor, op: AdjustSharpness, spec: ImageSpec, value: None) -> torch.Tensor:
    del value
    if spec.container != "pil":
        adjust = functional(op.api).adjust_sharpness
        return _stacked([adjust(image.contiguous(), op.factor) for image in images])
    if min(images.shape[-2:]) < 3:
        return images
    out = images.clone()
    for image, result in zip(images, out, strict=True):
        result[:, 1:-1, 1:-1].copy_(_sharpened(image, op.factor).to(torch.int16))
    return out


def _sharpened(image: torch.Tensor, factor: float) -> torch.Tensor:
    """A (C, H, W) uint8 image without its border as float32 whole numbers, by Pillow's arithmetic.

    ``ImageFilter.SMOOTH`` weighs a pixel by 5/13 and its eight neighbours by 1/13. Whole numbers over 13 are never near
    a half, so how the sum is rounded doesn't matter. Products and sums of the blend are separate calls: a fused one
    would round once where Pillow rounds twice.
    """
    wide = image.to(torch.float32)
    rows = (wide[:, :-2] + wide[:, 1:-1]).add_(wide[:, 2:])
    middle = wide[:, 1:-1, 1:-1]
    blurred = (rows[..., :-2] + rows[..., 1:-1]).add_(rows[..., 2:]).add_(middle, alpha=4)
    blurred.add_(6.5).mul_(1 / 13).floor_()
    single = float(np.float32(factor))
    return (middle - blurred).mul_(single).add_(blurred).clamp_(0, 255).floor_()


def _each_through_tables(images: torch.Tensor, tables_of: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Each channel's values replaced by those of a table.

    Stretching takes about as long as in Pillow, equalizing 1.6 times: its loops count and look up bytes as they are.

    Args:
        images: (N, C, H, W) uint8.
        tables_of: from an image as (C, H W) int32 planes to its tables, (C, 256) whole numbers in [0, 255].
    """
    out = torch.empty(images.shape, dtype=torch.uint8, device=images.device)
    for image, result in zip(images, out, strict=True):
        planes = image.to(torch.int32, memory_format=torch.contiguous_format).view(len(image), -1)
        tables = tables_of(planes).to(torch.uint8)
        for plane, table, place in zip(planes, tables, result.view(planes.shape), strict=True):
            torch.index_select(table, 0, plane, out=place)
    return out


def _autocontrast(images: torch.Tensor, op: Autocontrast, spec: ImageSpec, value: None) -> torch.Tensor:
    del value
    if spec.container != "pil":
        stretch = functional(op.api).autocontrast
        return _stacked([stretch(image.contiguous()) for image in images])
    return _each_through_tables(images, _stretching_tables)


def _stretching_tables(planes: torch.Tensor) -> torch.Tensor:
    """(C, 256) float64 for `_each_through_tables`: from the lowest and highest value to 0 and 255, in double and cut to
    whole numbers, as ``ImageOps.autocontrast`` does; a channel of one value keeps it."""
    lowest, highest = (extreme(dim=1, keepdim=True).to(torch.float64) for extreme in (planes.amin, planes.amax))
    levels = torch.arange(256, dtype=torch.float64, device=planes.device)
    flat = highest == lowest
    span = (highest - lowest).masked_fill_(flat, 255.0)
    scale = torch.full_like(span, 255.0).div_(span)  # 255.0 / span is torch's reciprocal times 255: rounded twice
    stretched = (levels * scale).add_(-lowest * scale).clamp_(0, 255).floor_()
    return torch.where(flat, levels, stretched)


def _equalize(images: torch.Tensor, op: Equalize, spec: ImageSpec, value: None) -> torch.Tensor:
    del op, value
    if spec.container != "pil":
        return _stacked([functional_v2.equalize(image.contiguous()) for image in images])
    return _each_through_tables(images, _equalizing_tables)


def _equalizing_tables(planes: torch.Tensor) -> torch.Tensor:
    """(C, 256) int64 for `_each_through_tables`, as ``ImageOps.equalize`` counts: a value becomes the number of pixels
    below it, in steps of 1/255 of all pixels but those of the highest value."""
    counts = torch.stack([torch.bincount(plane, minlength=256) for plane in planes])
    highest = planes.amax(dim=1, keepdim=True).to(torch.int64)
    step = (planes.shape[1] - counts.gather(1, highest)).div_(255, rounding_mode="floor")
    below = counts.cumsum(1).sub_(counts)
    tables = below.add_(step // 2).div_(step.clamp(min=1), rounding_mode="floor").clamp_(max=255)
    return torch.where(step == 0, torch.arange(256, device=planes.device), tables)


KERNELS: Mapping[type[Op], Kernel] = {
    Invert: _invert,
    Posterize: _posterize,
    Solarize: _solarize,
    AdjustSharpness: _adjust_sharpness,
    Autocontrast: _autocontrast,
    Equalize: _equalize,
}
