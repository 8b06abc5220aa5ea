"""What a pipeline function, or its tail, calls besides DALI's own operators.

Up to the first operator of DALI's, what is done here to an image of the sample's becomes part of its plan: on the CPU
torch's exact kernels do it before the graph, on CUDA it is nodes of the one graph.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torchvision.transforms import v2

from gpufeed.boxes import BoxFormat
from gpufeed.errors import ArgumentError, PipelineError, UnsupportedError
from gpufeed.graph.untyped import fn, types
from gpufeed.parameters import rows_of
from gpufeed.plan import (
    CenterCrop,
    Convert,
    Flip,
    Normalize,
    Op,
    Plan,
    RandomAreaCrop,
    RandomCrop,
    Resize,
    ResizeOp,
    ToDtype,
    ToTensor,
)
from gpufeed.recording.batch_samples import BatchSamples
from gpufeed.recording.nodes import Node, plain
from gpufeed.recording.recording import Recording
from gpufeed.recording.sample import Sample, extended
from gpufeed.recording.values import BoxesValue, DrawValue, FieldValue, ImageValue
from gpufeed.spec import Container, ImageSpec
from gpufeed.tail.program import run_op
from gpufeed.translation import translate

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "apply",
    "boxes_like",
    "masks_like",
    "normalize",
    "pad",
    "ragged",
    "to_chw",
]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
"""Of ImageNet's pixels in [0, 1], per channel, as in torchvision's reference training."""


def normalize(image: Any, mean: Sequence[float] = IMAGENET_MEAN, std: Sequence[float] = IMAGENET_STD) -> Any:
    """Bytes to normalised floats: ``(x / 255 - mean) / std``, per channel.

    Args:
        image: (H, W, 3) uint8 handle.
        mean: on the scale from 0 to 1, as in torchvision.
        std: likewise; not 0.

    Returns:
        (3, H, W) float32 handle.
    """
    if len(mean) != len(std) or 0.0 in std:
        raise ArgumentError(f"mean and std must have a number for each channel, std without 0, got {mean} and {std}")
    if not all(math.isfinite(number) for number in (*mean, *std)):
        raise ArgumentError(f"mean and std must be finite numbers, got {mean} and {std}")
    if max(std) > 1.0:
        raise ArgumentError(f"mean and std are on the scale from 0 to 1, got std {std}; divide both by 255")
    node = _node(image, "normalize")
    if isinstance(node.value, ImageValue) and node.value.plan.output.dtype != "uint8":
        raise ArgumentError("ops.normalize takes bytes, and this image is normalised or converted to floats already")
    steps = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(list(mean), list(std))]
    if isinstance(node.value, ImageValue):
        return _grown(node, v2.Compose(steps))
    return fn.crop_mirror_normalize(
        plain(node),
        dtype=types.FLOAT,
        output_layout="CHW",
        mean=[255.0 * value for value in mean],
        std=[255.0 * value for value in std],
    )


def to_chw(image: Any) -> Any:
    """An (H, W, 3) uint8 handle as a (3, H, W) uint8 one."""
    node = _node(image, "to_chw")
    return (
        _grown(node, v2.ToImage()) if isinstance(node.value, ImageValue) else fn.transpose(plain(node), perm=[2, 0, 1])
    )


def ragged(output: Any) -> Any:
    """The same output, always handed over as a list of tensors, one per sample.

    Without it a batch comes as one tensor where all of its samples have equal shapes, and as a list where they don't.
    """
    return _node(output, "ragged").as_ragged()


def pad(output: Any, fill: float = 0, length: int | None = None) -> tuple[Any, Any]:
    """A ragged output as one tensor: filled up along its first dimension.

    Args:
        output: handle of (N, ...) arrays, N varying with the sample.
        fill: what it is filled up with.
        length: of the result; the batch's longest sample if not given. Longer samples are cut off.

    Returns:
        (L, ...) and the length that each sample has before it is filled up, int64: two outputs, (B, L, ...) and (B,) in
        a batch.
    """
    node = plain(_node(output, "pad"))
    lengths = node.shape()[0]
    if length is None:
        return fn.pad(node, axes=(0,), fill_value=fill), lengths
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(f"length must be an integer of at least 1, or None, got {length!r}")
    cut = fn.slice(node, 0, length, axes=[0], out_of_bounds_policy="pad", fill_values=fill)
    return cut, fn.cast(_smaller(lengths, length), dtype=types.INT64)


def _smaller(lengths: Any, length: int) -> Any:
    from nvidia.dali import math as dali_math

    return cast(Any, dali_math).min(lengths, length)


# Torchvision's transforms ---------------------------------------------------------------------------------------------


def apply(
    transform: Any, image: Any, sample: Sample | BatchSamples | None = None, *, container: Container = "tensor"
) -> Any:
    """A torchvision transform, drawing by the sample's key.

    In a pipeline function: one of those that DALI does: crops, resizes of PIL images, flips and conversions to floats.
    In a tail: any that gpufeed translates, on a whole batch.

    Args:
        transform: of ``torchvision.transforms.v2``, or a Compose of them.
        image: a handle of the sample's; in a tail a batch (B, C, H, W) or a list of B images (C, H, W), uint8 or float.
        sample: the pipeline function's; in a tail its ``samples``.
        container: in a tail, whose arithmetic holds: ``"tensor"``, or for uint8 ``"pil"``, Pillow's.

    Returns:
        The handle of the transformed image; in a tail the batch, a list where sizes differ then.

    Raises:
        UnsupportedError: for a transform that can't be done there, by name.
    """
    if isinstance(sample, BatchSamples):
        return _apply_to_batch(transform, image, sample, container)
    if not isinstance(sample, Sample):
        raise ArgumentError(
            "ops.apply draws by a sample's key: its third argument is the pipeline function's sample, or, in a tail "
            f"that declares `*, samples`, that; got {type(sample).__name__}"
        )
    node = _node(image, "apply")
    if isinstance(node.value, ImageValue):
        return _grown(node, transform, sample._recording)  # pyright: ignore[reportPrivateUsage]
    return _apply_to_node(transform, node, sample._recording)  # pyright: ignore[reportPrivateUsage]


def _apply_to_node(transform: Any, node: Node, recording: Recording) -> Any:
    """A transform of an image that operators of DALI's have made, whose size isn't known on the host."""
    found: Any = plain(node)
    for step in translate(transform).steps:
        if step.refusal is not None:
            raise UnsupportedError(f"{step.name}: {step.refusal}")
        conversions = [op for op in step.ops if isinstance(op, (Convert, ToTensor, ToDtype, Normalize))]
        if conversions:
            raise UnsupportedError(f"{step.name} after an operator of DALI's: use ops.normalize or ops.to_chw")
        for op, number in zip(step.ops, recording.take_numbers(step.ops), strict=True):
            found = _operator(op, number, found, step.name, recording)
    return found


_FILTERS = {
    "bilinear": types.INTERP_LINEAR,
    "bicubic": types.INTERP_CUBIC,
    "lanczos": types.INTERP_LANCZOS3,
}


def _operator(op: Op, number: int, image: Any, name: str, recording: Recording) -> Any:
    match op:
        case Flip(axis, p):
            drawn = recording.node(DrawValue("coin", number, (p,)))
            other = "vertical" if axis == "horizontal" else "horizontal"
            return fn.flip(image, **{axis: drawn, other: 0})
        case CenterCrop(size_hw):
            return fn.crop(image, crop=list(size_hw), out_of_bounds_policy="pad", fill_values=0)
        case Resize() if op.interpolation in _FILTERS and (size_hw := op.out_spec(ImageSpec()).size_hw) is not None:
            return fn.resize(image, size=list(size_hw), antialias=True, interp_type=_FILTERS[op.interpolation])
        case _:
            raise UnsupportedError(
                f"{name} after an operator of DALI's needs the image's size, which only the graph knows then, or a "
                "filter that DALI lacks; put it before the first operator, or call ops.apply on it in the tail"
            )


def _apply_to_batch(transform: Any, images: Any, samples: BatchSamples, container: Container) -> Any:
    whole = _as_batches(images)
    first = whole[0]
    dtype = str(first.dtype).removeprefix("torch.")
    spec = ImageSpec(container, dtype, first.shape[1], _common_size(whole), None)
    plan = translate(transform, input=spec).require()
    sizes = np.array([image.shape[-2:] for image in whole for _ in range(len(image))], dtype=np.int64)
    parameters = samples.parameters(plan, sizes.reshape(-1, 2))
    if parameters.refused:
        raise PipelineError(f"{type(transform).__name__}: {parameters.refused[min(parameters.refused)]}")
    specs = list(plan.specs())
    # one by one where sizes are drawn; else as many at once as a thread's share
    together = len(whole) == 1 and all(one.size_hw is not None for one in specs)
    results: list[Any] = [None] * len(samples)

    def some(rows: range) -> None:
        pieces = [rows] if together else [range(row, row + 1) for row in rows]
        for piece in pieces:
            part = whole[0][piece.start : piece.stop] if len(whole) == 1 else whole[piece.start]
            for op, one, value in zip(plan.ops, specs, parameters.values, strict=False):
                part = run_op(part, op, one, rows_of(value, slice(piece.start, piece.stop)))
            results[piece.start : piece.stop] = list(part.reshape(len(piece), -1, *part.shape[1:]).unbind(0))

    samples.each_row(some, len(samples))
    pieces = [image[0] if plan.output.tuple_of is None else image for image in results]
    equal = len({tuple(image.shape) for image in pieces}) == 1
    return torch.stack(pieces) if equal and isinstance(images, torch.Tensor) else pieces


def _as_batches(images: Any) -> list[torch.Tensor]:
    """One batch (B, C, H, W), or for a list B batches of one."""
    if isinstance(images, torch.Tensor) and images.ndim == 4 and images.shape[1] in (1, 3):
        return [images]
    held = cast("list[Any]", images) if isinstance(images, list) else []
    if held and all(isinstance(one, torch.Tensor) and one.ndim == 3 and one.shape[0] in (1, 3) for one in held):
        return [one[None] for one in held]
    shape = tuple(images.shape) if isinstance(images, torch.Tensor) else type(cast(object, images)).__name__
    hint = "; return ops.to_chw(image) from the pipeline" if isinstance(images, torch.Tensor) else ""
    raise ArgumentError(f"in a tail, ops.apply takes (B, C, H, W) or a list of (C, H, W), got {shape}{hint}")


def _common_size(whole: list[torch.Tensor]) -> tuple[int, int] | None:
    sizes = {(int(image.shape[-2]), int(image.shape[-1])) for image in whole}
    return next(iter(sizes)) if len(sizes) == 1 else None


# What goes with an image ----------------------------------------------------------------------------------------------

_GEOMETRY = (RandomAreaCrop, RandomCrop, CenterCrop, ResizeOp, Flip)


def masks_like(image: Any, mask: Any) -> Any:
    """A mask through the geometry that an image has had: crops, resizes (nearest) and flips.

    Args:
        image: a handle of the sample's that no operator of DALI's has made.
        mask: a field of the same sample's, (H, W) uint8 of the undecoded image's size.

    Returns:
        (h, w) uint8 handle, on the host.
    """
    value, field = _image_and_field(image, mask, "masks_like")
    ops: list[Op] = []
    numbers: list[int] = []
    for op, number in zip(value.plan.ops, value.numbers, strict=True):
        if isinstance(op, _GEOMETRY):
            ops.append(cast(Any, replace)(op, interpolation="nearest") if isinstance(op, ResizeOp) else op)
            numbers.append(number)
    plan = Plan(tuple(ops), ImageSpec("tensor", "uint8", 1))
    return _recording(image).node(ImageValue(value.slot, plan, tuple(numbers), field.name))


def boxes_like(
    image: Any,
    boxes: Any,
    *more: Any,
    format: BoxFormat = "xyxy",  # noqa: A002 - the field's word
    normalized: bool = False,
    min_size: float = 1.0,
) -> Any:
    """Boxes through the geometry that an image has had: crops, resizes and flips.

    They are clipped to the result; those that vanish are dropped.

    Args:
        image: a handle of the sample's that no operator of DALI's has made.
        boxes: a field of the same sample's, (N, 4).
        more: fields with an entry per box, such as labels: those of dropped boxes are dropped.
        format: ``"xyxy"``: left, top, right, bottom; ``"cxcywh"``: centre, width, height; in and out.
        normalized: whether they are shares of the image's width and height, in and out; pixels else.
        min_size: boxes less wide or high than this, in pixels of the result, are dropped.

    Returns:
        (M, 4) float32 handle on the host, handed over as a list; with ``more`` a tuple of it and them.
    """
    if format not in ("xyxy", "cxcywh"):
        raise ArgumentError(f"format must be 'xyxy' or 'cxcywh', got {format!r}")
    value, field = _image_and_field(image, boxes, "boxes_like")
    recording = _recording(image)
    described = BoxesValue(value, field.name, format, normalized, float(min_size))
    outputs = [recording.node(described).as_ragged()]
    for one in more:
        _, companion = _image_and_field(image, one, "boxes_like")
        outputs.append(recording.node(replace(described, companion=companion.name)).as_ragged())
    return outputs[0] if not more else tuple(outputs)


def _image_and_field(image: Any, field: Any, name: str) -> tuple[ImageValue, FieldValue]:
    value = _node(image, name).value
    if not isinstance(value, ImageValue):
        raise UnsupportedError(
            f"ops.{name} follows what the sample's image went through before the first operator of DALI's, and this "
            "one has met one; call it on the image before that"
        )
    held = field.value if isinstance(field, Node) else None
    if not isinstance(held, FieldValue) or held.slot != value.slot:
        raise ArgumentError(f"ops.{name} takes a field of the image's own sample, such as sample.target, got {field!r}")
    return value, held


# Handles --------------------------------------------------------------------------------------------------------------


def _node(handle: Any, name: str) -> Node:
    if isinstance(handle, Node):
        return handle
    from nvidia.dali.data_node import DataNode

    if isinstance(handle, DataNode):
        return Node(handle)
    if isinstance(handle, torch.Tensor):
        raise ArgumentError(f"ops.{name} is for the pipeline function, where images are handles, and got a tensor")
    raise ArgumentError(f"ops.{name} takes a handle of the sample's or a result of an operator, got {handle!r}")


def _recording(node: Node) -> Recording:
    assert node.recording is not None
    return node.recording


def _grown(node: Node, transform: Any, recording: Recording | None = None) -> Node:
    """The image with a transform at the end of its plan."""
    recording = recording or _recording(node)
    return recording.node(extended(cast(ImageValue, node.value), transform, recording))
