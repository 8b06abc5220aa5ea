"""Containers, dtypes and values: ``ToTensor``, ``PILToTensor``, ``ToImage``, ``ToPureTensor``, ``ToDtype``,
``ConvertImageDtype``, ``Normalize``, and the identities."""

from __future__ import annotations

from typing import cast

import torch
from torch import nn
from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed.errors import UnsupportedError
from gpufeed.plan import Api, Convert, Normalize, Op, ToDtype, ToTensor
from gpufeed.spec import ImageSpec, is_float_dtype
from gpufeed.translation import values
from gpufeed.translation.rule import Attributes, Rule, plain_tensor

__all__ = ["RULES", "dtype_ops", "normalize_ops"]


def _identity(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    del attributes, spec, api
    return ()


def _to_tensor(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    del attributes
    if spec.container != "pil":
        if api == "v2":
            return ()  # v2 takes PIL images and arrays only, and passes on the rest
        raise UnsupportedError("ToTensor takes a PIL image, and this is a tensor already; leave it out")
    default = torch.get_default_dtype()
    if default != torch.float32:
        raise UnsupportedError(
            f"ToTensor makes tensors of torch's default dtype, which is {default} now and may change before the image "
            "is read; use v2.ToImage() and v2.ToDtype(dtype, scale=True), which name it"
        )
    return (ToTensor(),)


def _pil_to_tensor(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    del attributes
    if spec.container == "pil":
        return (Convert("tensor"),)
    if api == "v2":
        return ()
    raise UnsupportedError("PILToTensor takes a PIL image, and this is a tensor already; leave it out")


def _to_image(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    del attributes, api
    return () if spec.container == "tv_image" else (Convert("tv_image"),)


def _to_pure_tensor(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    del attributes, api
    return (Convert("tensor"),) if spec.container == "tv_image" else ()


def _to_dtype(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    if spec.container == "pil":
        return ()  # ToDtype takes tensors only, and passes on the rest
    wanted = attributes["dtype"]
    if isinstance(wanted, dict):
        by_class = cast(dict[object, object], wanted)
        image_class = values.container_class(spec.container)
        if image_class not in by_class and "others" not in by_class:
            raise UnsupportedError(
                f'dtype has no entry for {image_class.__module__}.{image_class.__qualname__} and none for "others", '
                "and torchvision refuses an image without one; add it, with None for images that stay as they are"
            )
        wanted = by_class.get(image_class, by_class.get("others"))
        if wanted is None:
            return ()
    return dtype_ops(wanted, bool(attributes["scale"]), spec, api)


def _convert_image_dtype(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    if spec.container == "pil":
        if api == "v2":
            return ()  # v2 has no kernel for PIL images and passes them on
        raise UnsupportedError("ConvertImageDtype takes a tensor, and this is a PIL image; put PILToTensor() before it")
    ops = dtype_ops(attributes["dtype"], True, spec, api)
    if not ops or (is_float_dtype(spec.dtype) and is_float_dtype(values.dtype_name(attributes["dtype"]))):
        return ops  # v1 only calls Tensor.to, which keeps the class of a tv_tensors.Image
    return plain_tensor(ops, spec, api)


def dtype_ops(dtype: object, scale: bool, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    """A tensor to a dtype; nothing where it has it."""
    name = values.dtype_name(dtype)
    return () if name == spec.dtype else (ToDtype(name, scale, api),)


def normalize_ops(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    """``Normalize`` with a transform's ``mean`` and ``std``."""
    mean = values.floats_per_channel("mean", attributes["mean"])
    std = values.floats_per_channel("std", attributes["std"])
    if spec.channels == 1 and max(len(mean), len(std)) > 1:
        raise UnsupportedError(
            f"mean and std must have 1 value for an image of 1 channel, got {len(mean)} and {len(std)}; "
            "put Grayscale(num_output_channels=3) before Normalize, or give one value"
        )
    if is_float_dtype(spec.dtype) and bool((torch.tensor(std, dtype=getattr(torch, spec.dtype)) == 0).any()):
        raise UnsupportedError(f"std must not be 0 in {spec.dtype}, got {std}")
    return plain_tensor((Normalize(mean, std),), spec, api)


_NORMALIZE_READS = frozenset({"mean", "std"})
_INPLACE = {"inplace": "it says whose memory is written; the sample belongs to no one else"}

RULES = (
    Rule(nn.Identity, "v2", _identity),
    Rule(v2.Identity, "v2", _identity),
    Rule(v1.ToTensor, "v1", _to_tensor),
    Rule(v2.ToTensor, "v2", _to_tensor),
    Rule(v1.PILToTensor, "v1", _pil_to_tensor),
    Rule(v2.PILToTensor, "v2", _pil_to_tensor),
    Rule(v2.ToImage, "v2", _to_image),
    Rule(v2.ToPureTensor, "v2", _to_pure_tensor),
    Rule(v2.ToDtype, "v2", _to_dtype, frozenset({"dtype", "scale"})),
    Rule(v1.ConvertImageDtype, "v1", _convert_image_dtype, frozenset({"dtype"})),
    Rule(v2.ConvertImageDtype, "v2", _convert_image_dtype, frozenset({"dtype"})),
    Rule(v1.Normalize, "v1", normalize_ops, _NORMALIZE_READS, _INPLACE),
    Rule(v2.Normalize, "v2", normalize_ops, _NORMALIZE_READS, _INPLACE),
)
