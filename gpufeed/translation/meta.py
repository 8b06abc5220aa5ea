"""Transforms of boxes, key points and videos that pass an image on as it is."""

from __future__ import annotations

from torchvision.transforms import v2

from gpufeed.errors import UnsupportedError
from gpufeed.plan import Api, Op
from gpufeed.spec import ImageSpec
from gpufeed.translation.rule import Attributes, Rule

__all__ = ["RULES"]

_BOXES = "it is about bounding boxes, and a folder's sample has none"


def _passes_images(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    del attributes, spec, api
    return ()


def _temporal_subsample(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    """PIL images and ``tv_tensors.Image`` pass; a plain tensor is taken for a video, whose frames an image lacks."""
    del attributes, api
    if spec.container == "tensor":
        raise UnsupportedError("it is for videos of four dimensions or more, and this is an image of three; remove it")
    return ()


RULES = (
    Rule(v2.ClampBoundingBoxes, "v2", _passes_images, carries_nothing={"clamping_mode": _BOXES}),
    Rule(v2.ClampKeyPoints, "v2", _passes_images),
    Rule(v2.ConvertBoundingBoxFormat, "v2", _passes_images, carries_nothing={"format": _BOXES}),
    Rule(v2.SetClampingMode, "v2", _passes_images, carries_nothing={"clamping_mode": _BOXES}),
    Rule(
        v2.UniformTemporalSubsample,
        "v2",
        _temporal_subsample,
        carries_nothing={"num_samples": "it counts the frames of a video, and an image has none"},
    ),
)
