"""From bytes to the numbers that the model wants: dtype, scale and normalisation, with torchvision's own operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torchvision.transforms import functional as functional_v1
from torchvision.transforms.v2 import functional as functional_v2

from gpufeed.plan import Convert, Normalize, Op, ToDtype, ToTensor
from gpufeed.spec import ImageSpec
from gpufeed.tail.kernel import Kernel, in_rows

__all__ = ["KERNELS", "convert_into", "normalize", "normalize_", "to_dtype", "to_tensor"]


def to_tensor(images: torch.Tensor) -> torch.Tensor:
    """``ToTensor``: uint8 to float32 in [0, 1], divided by 255, in contiguous planes."""
    return images.to(torch.float32, memory_format=torch.contiguous_format).div_(255)


def to_dtype(images: torch.Tensor, op: ToDtype) -> torch.Tensor:
    """``ToDtype`` and ``ConvertImageDtype`` by torchvision's kernels."""
    dtype = cast(torch.dtype, getattr(torch, op.dtype))
    if not op.scale:
        return images.to(dtype)
    if op.api == "v1":
        return cast(Any, functional_v1).convert_image_dtype(images, dtype)
    return cast(Any, functional_v2).to_dtype(images, dtype=dtype, scale=True)


def convert_into(out: torch.Tensor, images: torch.Tensor, op: ToTensor | ToDtype) -> None:
    """uint8 to float32 straight into its place, layout included, by the operations of the kernel that ``op`` means.

    Args:
        out: (N, C, H, W) float32, written.
        images: (N, C, H, W) uint8, in any memory layout.
        op: v2's ``ToDtype`` multiplies by 1/255, ``ToTensor`` and v1 divide by 255; they differ in the last bit.
    """
    out.copy_(images)
    if isinstance(op, ToTensor) or (op.scale and op.api == "v1"):
        out.div_(255)
    elif op.scale:
        out.mul_(1.0 / 255)


def normalize(images: torch.Tensor, op: Normalize) -> torch.Tensor:
    """``Normalize``, out of place."""
    return normalize_(images.clone(), op)


def normalize_(images: torch.Tensor, op: Normalize) -> torch.Tensor:
    """``Normalize`` in place: subtract, then divide, with mean and std in the image's dtype, as torchvision does."""
    mean = torch.tensor(op.mean, dtype=images.dtype, device=images.device).view(-1, 1, 1)
    std = torch.tensor(op.std, dtype=images.dtype, device=images.device).view(-1, 1, 1)
    return images.sub_(mean).div_(std)


def _to_tensor(images: torch.Tensor, op: ToTensor, spec: ImageSpec, value: None) -> torch.Tensor:
    del op, spec, value
    return to_tensor(images)


def _to_dtype(images: torch.Tensor, op: ToDtype, spec: ImageSpec, value: None) -> torch.Tensor:
    del spec, value
    return to_dtype(images, op)


def _normalize(images: torch.Tensor, op: Normalize, spec: ImageSpec, value: None) -> torch.Tensor:
    del spec, value
    return normalize(images, op)


def _convert(images: torch.Tensor, op: Convert, spec: ImageSpec, value: None) -> torch.Tensor:
    del op, value
    return in_rows(images) if spec.container == "pil" else images


KERNELS: Mapping[type[Op], Kernel] = {
    ToTensor: _to_tensor,
    ToDtype: _to_dtype,
    Normalize: _normalize,
    Convert: _convert,
}
