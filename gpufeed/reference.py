"""The oracle: torchvision's own code, run with the parameters that gpufeed drew.

Two ways lead through the same image. `run` calls the transform objects themselves, or for a random one the class's own
code with our draw in the place of its own: that is what a sample has to look like. `trace` calls torchvision's function
for each op of a Plan, and yields what lies between them, to compare op by op on equal input. That both end alike is
what makes the Plan a faithful translation, and a test holds them to it.

Everything here is for single images, and slow. Nothing of gpufeed's own pixel code is called.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, cast

import numpy as np
import PIL.Image
import torch
import torchvision.transforms.functional as functional_v1
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms.v2 import functional as functional_v2

from gpufeed.errors import ArgumentError
from gpufeed.parameters import BatchParameters, OpParameters
from gpufeed.plan import (
    CenterCrop,
    Convert,
    Flip,
    Grayscale,
    Normalize,
    Op,
    Pad,
    Plan,
    RandomAreaCrop,
    RandomCrop,
    RandomGrayscale,
    Resize,
    ToDtype,
    ToTensor,
)
from gpufeed.spec import ImageSpec
from gpufeed.translation import Step, translate

__all__ = ["Image", "apply", "run", "run_steps", "spec_of", "trace"]

Image: TypeAlias = PIL.Image.Image | torch.Tensor
"""A PIL image, a plain CHW tensor or a ``tv_tensors.Image``."""

_Values = dict[type[Op], np.ndarray[Any, Any]]
"""One sample's parameters of the ops that a leaf became, by the class of the op."""

_F1 = cast(Any, functional_v1)  # torchvision annotates images as tensors and leaves out PIL images
_F2 = cast(Any, functional_v2)


def spec_of(image: Image) -> ImageSpec:
    """What an image is, its size left open.

    Raises:
        ArgumentError: a PIL image that is neither RGB nor grey, or a tensor that isn't one image.
    """
    if isinstance(image, PIL.Image.Image):
        if image.mode not in ("RGB", "L"):
            raise ArgumentError(f"a PIL image must have mode RGB or L here, got {image.mode}")
        return ImageSpec(channels=len(image.getbands()))
    if image.ndim != 3:
        raise ArgumentError(f"a tensor must be one image of 3 dimensions (C, H, W), got shape {tuple(image.shape)}")
    container = "tv_image" if isinstance(image, tv_tensors.Image) else "tensor"
    return ImageSpec(container, str(image.dtype).removeprefix("torch."), int(image.shape[0]), value_range=None)


def run(transform: object, image: Image, parameters: BatchParameters, row: int) -> Image:
    """What torchvision makes of ``image`` with the draws of one sample.

    Args:
        transform: what `gpufeed.translate` can translate.
        image: the decoded image.
        parameters: drawn for the transform's own, unfused Plan.
        row: the sample's row in the batch that ``parameters`` were drawn for.

    Raises:
        TranslationError: the transform can't be translated.
        ArgumentError: ``parameters`` belong to another Plan, or the sample was refused when they were drawn.
    """
    for _, after in run_steps(transform, image, parameters, row):
        image = after
    return image


def run_steps(transform: object, image: Image, parameters: BatchParameters, row: int) -> Iterator[tuple[Step, Image]]:
    """As `run`, and yields each leaf of the transform with the image behind it."""
    translation = translate(transform, input=spec_of(image))
    _check(translation.require(), parameters, row)
    position = 0
    for step in translation.steps:
        values = _values_of(step.ops, parameters.values[position : position + len(step.ops)], row)
        own = image.clone() if isinstance(image, torch.Tensor) else image  # Normalize(inplace=True) writes into it
        image = _run_leaf(step.transform, values, own)
        position += len(step.ops)
        yield step, image


def trace(plan: Plan, image: Image, parameters: BatchParameters, row: int) -> Iterator[tuple[Op, Image]]:
    """Run ``plan`` op by op through torchvision's functions, and yield each op with the image behind it.

    Raises:
        ArgumentError: ``parameters`` belong to another Plan, or the sample was refused when they were drawn.
    """
    _check(plan, parameters, row)
    for op, value in zip(plan.ops, parameters.values, strict=True):
        image = apply(op, image, None if value is None else value[row])
        yield op, image


def _check(plan: Plan, parameters: BatchParameters, row: int) -> None:
    if len(parameters.values) != len(plan.ops):
        raise ArgumentError(
            f"parameters must be drawn for this plan of {len(plan.ops)} ops, got those of {len(parameters.values)}"
        )
    if row in parameters.refused:
        raise ArgumentError(f"row {row} was refused when its parameters were drawn: {parameters.refused[row]}")


def _values_of(ops: tuple[Op, ...], values: tuple[OpParameters, ...], row: int) -> _Values:
    return {type(op): value[row] for op, value in zip(ops, values, strict=True) if value is not None}


def _ints(values: np.ndarray[Any, Any]) -> list[int]:
    return [int(value) for value in values]


# Leaves: the class's own code, with our draw ----------------------------------------------------------------


def _run_leaf(transform: object, values: _Values, image: Image) -> Image:
    run_random = _RANDOM_LEAVES.get(type(transform))
    if run_random is None:
        return cast(Any, transform)(image)
    return run_random(cast(Any, transform), values, image)


def _area_crop_v1(transform: Any, values: _Values, image: Image) -> Image:
    return _forward_with_window(transform, values[RandomAreaCrop], image)


def _crop_v1(transform: Any, values: _Values, image: Image) -> Image:
    return _forward_with_window(transform, values[RandomCrop], image)


def _forward_with_window(transform: Any, window: np.ndarray[Any, Any], image: Image) -> Image:
    """v1's ``forward`` as it stands, padding included, with our window in the place of ``get_params``."""

    def our_window(*_: object) -> tuple[int, ...]:
        return tuple(_ints(window))

    drawn = copy.copy(transform)
    drawn.get_params = our_window
    return drawn(image)


def _area_crop_v2(transform: Any, values: _Values, image: Image) -> Image:
    top, left, height, width = _ints(values[RandomAreaCrop])
    return transform.transform(image, {"top": top, "left": left, "height": height, "width": width})


def _crop_v2(transform: Any, values: _Values, image: Image) -> Image:
    """Size, padding and whether to crop at all are v2's own; only the place is ours."""
    with cast(Any, torch.random).fork_rng(devices=[]):  # make_params draws a place of its own
        params = transform.make_params([image])
    top, left, *_ = _ints(values[RandomCrop])
    return transform.transform(image, {**params, "top": top, "left": left})


def _if_drawn(op_class: type[Op], function: Callable[[Any, Image], Image]) -> Callable[[Any, _Values, Image], Image]:
    """A leaf that does its work or nothing; one without an op never does."""

    def run_leaf(transform: Any, values: _Values, image: Image) -> Image:
        return function(transform, image) if bool(values.get(op_class, np.False_)) else image

    return run_leaf


def _transform_v2(transform: Any, image: Image) -> Image:
    return transform.transform(image, transform.make_params([image]))  # the parameters of these draw nothing


def _hflip_v1(_: Any, image: Image) -> Image:
    return _F1.hflip(image)


def _vflip_v1(_: Any, image: Image) -> Image:
    return _F1.vflip(image)


def _grayscale_v1(_: Any, image: Image) -> Image:
    return _F1.rgb_to_grayscale(image, num_output_channels=_F1.get_dimensions(image)[0])


_RANDOM_LEAVES: dict[type[object], Callable[[Any, _Values, Image], Image]] = {
    v1.RandomResizedCrop: _area_crop_v1,
    v2.RandomResizedCrop: _area_crop_v2,
    v1.RandomCrop: _crop_v1,
    v2.RandomCrop: _crop_v2,
    v1.RandomHorizontalFlip: _if_drawn(Flip, _hflip_v1),
    v2.RandomHorizontalFlip: _if_drawn(Flip, _transform_v2),
    v1.RandomVerticalFlip: _if_drawn(Flip, _vflip_v1),
    v2.RandomVerticalFlip: _if_drawn(Flip, _transform_v2),
    v1.RandomGrayscale: _if_drawn(RandomGrayscale, _grayscale_v1),
    v2.RandomGrayscale: _if_drawn(RandomGrayscale, _transform_v2),
}


# Ops: torchvision's functions -------------------------------------------------------------------------


def apply(op: Op, image: Image, value: np.ndarray[Any, Any] | None) -> Image:
    """One op through torchvision's function for it.

    Args:
        op: what to do.
        image: what to do it to.
        value: the op's parameters for this sample, one row of `BatchParameters.values`; ``None`` where it has none.
    """
    match op:
        case RandomAreaCrop() | RandomCrop():
            return _F2.crop(image, *_ints(_given(op, value)))
        case CenterCrop(size_hw):
            return _F2.center_crop(image, list(size_hw))
        case Pad(_, fill, mode, _):
            padding = _ints(_given(op, value))
            return _F2.pad(image, padding, fill=fill[0] if len(fill) == 1 else list(fill), padding_mode=mode)
        case Resize():
            return _resize(op, image)
        case Flip(axis, _):
            flip = _F2.horizontal_flip if axis == "horizontal" else _F2.vertical_flip
            return flip(image) if bool(_given(op, value)) else image
        case Grayscale(channels, api):
            return _of_api(api).rgb_to_grayscale(image, num_output_channels=channels)
        case RandomGrayscale(_, api):
            channels = _F2.get_num_channels(image)
            grey = bool(_given(op, value))
            return _of_api(api).rgb_to_grayscale(image, num_output_channels=channels) if grey else image
        case ToTensor():
            return _F1.to_tensor(image)
        case Convert("tv_image"):
            return _F2.to_image(image)
        case Convert(_):
            return _F1.pil_to_tensor(image) if isinstance(image, PIL.Image.Image) else image.as_subclass(torch.Tensor)
        case ToDtype(name, scale, api):
            dtype = getattr(torch, name)
            if api == "v1":
                return _F1.convert_image_dtype(image, dtype)
            return _F2.to_dtype(image, dtype, scale)
        case Normalize(mean, std):
            return _F2.normalize(image, list(mean), list(std))
        case _:
            raise ArgumentError(f"op must be one of those in gpufeed.plan, got {op!r}")


def _resize(op: Resize, image: Image) -> Image:
    size = None if op.size is None else list(op.size)
    return _of_api(op.api).resize(
        image, size, InterpolationMode(op.interpolation), max_size=op.max_size, antialias=op.antialias
    )


def _of_api(api: str) -> Any:
    return _F1 if api == "v1" else _F2


def _given(op: Op, value: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    if value is None:
        raise ArgumentError(f"{op} needs its parameters, got None")
    return value
