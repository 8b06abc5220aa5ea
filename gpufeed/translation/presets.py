"""What the ``transforms()`` of torchvision's weights give: presets, which are a few functions in a row."""

from __future__ import annotations

from functools import reduce

import torch
from torchvision.transforms import _presets

from gpufeed.plan import Api, CenterCrop, Convert, Op
from gpufeed.spec import ImageSpec
from gpufeed.translation import values
from gpufeed.translation.conversion import dtype_ops, normalize_ops
from gpufeed.translation.resizing import resize_op
from gpufeed.translation.rule import Attributes, Rule

__all__ = ["RULES"]


def _image_classification(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    """Resize, central crop, float32 in [0, 1], normalised."""
    crop = values.whole_numbers("crop_size", attributes["crop_size"], (1, 2))
    resized = (*_plain(spec), _resize(attributes, spec, api), CenterCrop((crop[0], crop[-1])))
    return (*resized, *_to_normalized(attributes, _through(resized, spec), api))


def _semantic_segmentation(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    """Resize where a size is given, float32 in [0, 1], normalised."""
    resized = _plain(spec)
    if attributes["resize_size"] is not None:
        resized = (*resized, _resize(attributes, spec, api))
    return (*resized, *_to_normalized(attributes, _through(resized, spec), api))


def _object_detection(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    """float32 in [0, 1]. v1 only calls ``Tensor.to`` on floats, which keeps the class of a ``tv_tensors.Image``."""
    del attributes
    tensor = () if spec.domain == "float" else _to_tensor(spec)
    return (*tensor, *dtype_ops(torch.float32, True, _through(tensor, spec), api))


def _plain(spec: ImageSpec) -> tuple[Op, ...]:
    """v1's functions make a plain tensor of a ``tv_tensors.Image``; that some only do where they compute is all one,
    since the last of them computes."""
    return (Convert("tensor"),) if spec.container == "tv_image" else ()


def _to_tensor(spec: ImageSpec) -> tuple[Op, ...]:
    return () if spec.container == "tensor" else (Convert("tensor"),)


def _resize(attributes: Attributes, spec: ImageSpec, api: Api) -> Op:
    return resize_op({**attributes, "size": attributes["resize_size"]}, None, spec, api)


def _to_normalized(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    tensor = _to_tensor(spec)
    floats = (*tensor, *dtype_ops(torch.float32, True, _through(tensor, spec), api))
    return (*floats, *normalize_ops(attributes, _through(floats, spec), api))


def _through(ops: tuple[Op, ...], spec: ImageSpec) -> ImageSpec:
    return reduce(lambda before, op: op.out_spec(before), ops, spec)


_RESIZED = frozenset({"resize_size", "mean", "std", "interpolation", "antialias"})

RULES = (
    Rule(_presets.ImageClassification, "v1", _image_classification, _RESIZED | {"crop_size"}),
    Rule(_presets.SemanticSegmentation, "v1", _semantic_segmentation, _RESIZED),
    Rule(_presets.ObjectDetection, "v1", _object_detection),
)
