"""Containers, dtypes and scales through torchvision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import PIL.Image
import torch

from gpufeed.plan import Convert, Normalize, Op, ToDtype, ToTensor
from gpufeed.reference.image import F1, F2, Function, Leaf

__all__ = ["FUNCTIONS", "LEAVES"]

LEAVES: Mapping[type[object], Leaf] = {}


def _to_tensor(op: ToTensor, image: Any, value: None) -> Any:
    del op, value
    return F1.to_tensor(image)


def _convert(op: Convert, image: Any, value: None) -> Any:
    del value
    if op.container == "tv_image":
        return F2.to_image(image)
    return F1.pil_to_tensor(image) if isinstance(image, PIL.Image.Image) else image.as_subclass(torch.Tensor)


def _to_dtype(op: ToDtype, image: Any, value: None) -> Any:
    del value
    dtype = getattr(torch, op.dtype)
    return F1.convert_image_dtype(image, dtype) if op.api == "v1" else F2.to_dtype(image, dtype, op.scale)


def _normalize(op: Normalize, image: Any, value: None) -> Any:
    del value
    return F2.normalize(image, list(op.mean), list(op.std))


FUNCTIONS: Mapping[type[Op], Function] = {
    ToTensor: _to_tensor,
    Convert: _convert,
    ToDtype: _to_dtype,
    Normalize: _normalize,
}
