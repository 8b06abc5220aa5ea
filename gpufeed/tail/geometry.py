"""Windows, borders and mirrors: moved pixels, never computed ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torchvision.transforms.v2 import functional as functional_v2

from gpufeed.plan import CenterCrop, FiveCrop, Flip, Op, Pad, RandomAreaCrop, RandomCrop, TenCrop, ZoomOut
from gpufeed.spec import ImageSpec
from gpufeed.tail.kernel import Kernel, empty_as
from gpufeed.tensors import from_numpy

__all__ = ["KERNELS", "crop", "flip_", "pad"]


def crop(image: torch.Tensor, window: NDArray[np.int64]) -> torch.Tensor:
    """Take a window, with zeros where it reaches beyond the image.

    Args:
        image: (N, C, H, W).
        window: (4,) top, left, height, width in pixels.

    Returns:
        (N, C, height, width); a view of ``image`` where the window lies inside.
    """
    top, left, height, width = (int(value) for value in window)
    inner = image[..., max(top, 0) : max(top + height, 0), max(left, 0) : max(left + width, 0)]
    if inner.shape[-2] == height and inner.shape[-1] == width:
        return inner
    out = image.new_zeros((*image.shape[:-2], height, width))
    if inner.numel():
        row, column = max(-top, 0), max(-left, 0)
        out[..., row : row + inner.shape[-2], column : column + inner.shape[-1]] = inner
    return out


def pad(image: torch.Tensor, op: Pad, spec: ImageSpec, padding: NDArray[np.int64]) -> torch.Tensor:
    """Add a border.

    Args:
        image: (N, C, H, W).
        op: fill and mode.
        spec: the input's.
        padding: (4,) left, top, right, bottom in pixels; negative values crop.
    """
    left, top, right, bottom = (int(value) for value in padding)
    if spec.container != "pil":
        fill = op.fill[0] if len(op.fill) == 1 else list(op.fill)
        return cast(Any, functional_v2).pad(image, [left, top, right, bottom], fill=fill, padding_mode=op.mode)
    if op.mode == "constant":
        return _pad_constant(image, op.fill, left, top, right, bottom)
    # NumPy's own modes are what torchvision applies to PIL images; here they move indices instead of pixels.
    rows = _padded_index(image.shape[-2], top, bottom, op.mode)
    columns = _padded_index(image.shape[-1], left, right, op.mode)
    device = image.device
    return image.index_select(-2, from_numpy(rows).to(device)).index_select(-1, from_numpy(columns).to(device))


def _padded_index(length: int, before: int, after: int, mode: str) -> NDArray[np.int64]:
    index = np.arange(max(-before, 0), length - max(-after, 0))
    return np.pad(index, (max(before, 0), max(after, 0)), mode=cast(Any, mode))


def _pad_constant(
    image: torch.Tensor, fill: tuple[float, ...], left: int, top: int, right: int, bottom: int
) -> torch.Tensor:
    channels, height, width = image.shape[-3:]
    out = empty_as(image, (image.shape[0], channels, top + height + bottom, left + width + right))
    values = torch.tensor(fill, device=image.device).to(image.dtype).expand(channels)
    out.copy_(values.view(1, channels, 1, 1).expand_as(out))
    inner = image[..., max(-top, 0) : height - max(-bottom, 0), max(-left, 0) : width - max(-right, 0)]
    row, column = max(top, 0), max(left, 0)
    out[..., row : row + inner.shape[-2], column : column + inner.shape[-1]] = inner
    return out


def flip_(images: torch.Tensor, op: Flip, applied: NDArray[np.bool_]) -> None:
    """Mirror some images of a batch in place.

    Args:
        images: (N, C, H, W), changed.
        op: which axis.
        applied: (N,) which samples.
    """
    dim = -1 if op.axis == "horizontal" else -2
    for row in np.flatnonzero(applied):
        images[row].copy_(images[row].flip(dim))


def _crop_each(images: torch.Tensor, op: Op, spec: ImageSpec, windows: NDArray[np.int64]) -> torch.Tensor:
    del op
    if len(images) == 1 or (windows == windows[0]).all():
        return crop(images, windows[0])
    height, width = windows[0, 2:].tolist()
    fits = height <= images.shape[2] and width <= images.shape[3]
    if spec.container == "pil" or not fits:
        out = empty_as(images, (*images.shape[:2], height, width))
    else:  # torchvision's crop of a tensor is a view: with the strides of the whole
        out = empty_as(images, tuple(images.shape))[..., :height, :width]
    for row, window in enumerate(windows):
        out[row : row + 1].copy_(crop(images[row : row + 1], window))
    return out


def _pad_equally(images: torch.Tensor, op: Pad, spec: ImageSpec, pads: NDArray[np.int64]) -> torch.Tensor:
    return pad(images, op, spec, pads[0])


def _zoom_out(images: torch.Tensor, op: ZoomOut, spec: ImageSpec, pads: NDArray[np.int64]) -> torch.Tensor:
    return _pad_equally(images, Pad(fill=op.fill), spec, pads)


def _flip(images: torch.Tensor, op: Flip, spec: ImageSpec, applied: NDArray[np.bool_]) -> torch.Tensor:
    del spec
    if not applied.any():
        return images
    images = images.clone()
    flip_(images, op, applied)
    return images


def _five_crops(images: torch.Tensor, op: FiveCrop | TenCrop, spec: ImageSpec, value: None) -> torch.Tensor:
    """(N, C, H, W) to (5 N, C, h, w): the crops of an image one after the other (torchvision's ``five_crop``)."""
    del spec, value
    (height, width), (crop_h, crop_w) = images.shape[-2:], op.size_hw
    bottom, right = height - crop_h, width - crop_w
    # Python rounds half to even, as torchvision's center_crop does.
    corners = ((0, 0), (0, right), (bottom, 0), (bottom, right), (round(bottom / 2.0), round(right / 2.0)))
    return _interleaved([images[..., top : top + crop_h, left : left + crop_w] for top, left in corners])


def _interleaved(parts: list[torch.Tensor]) -> torch.Tensor:
    """K times (N, C, h, w) to (K N, C, h, w): all parts of the first image, then those of the second, and so on."""
    out = empty_as(parts[0], (len(parts) * len(parts[0]), *parts[0].shape[1:]))
    for number, part in enumerate(parts):
        out[number :: len(parts)].copy_(part)
    return out


def _ten_crops(images: torch.Tensor, op: TenCrop, spec: ImageSpec, value: None) -> torch.Tensor:
    mirrored = images.flip(-2 if op.vertical_flip else -1)
    crops = [_five_crops(some, op, spec, value) for some in (images, mirrored)]
    return _interleaved([five[number::5] for five in crops for number in range(5)])


KERNELS: Mapping[type[Op], Kernel] = {
    RandomAreaCrop: _crop_each,
    RandomCrop: _crop_each,
    CenterCrop: _crop_each,
    Pad: _pad_equally,
    ZoomOut: _zoom_out,
    Flip: _flip,
    FiveCrop: _five_crops,
    TenCrop: _ten_crops,
}
