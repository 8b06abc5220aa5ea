"""What can be drawn of a pipeline's outputs: found by shape, dtype, name and value, the same for all samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard, cast

import numpy as np
import torch
from numpy.typing import NDArray

from gpufeed.boxes import to_xyxy
from gpufeed.inspect.preview.hints import BoxHint, Hints, Undoing, normalized_by
from gpufeed.inspect.preview.results import Box, Tile
from gpufeed.inspect.side_by_side import viewable
from gpufeed.ops import IMAGENET_MEAN, IMAGENET_STD
from gpufeed.plan import Normalize, Plan, ToDtype
from gpufeed.recording.structure import leaf_paths, leaves_of
from gpufeed.spec import ImageSpec
from gpufeed.tensors import from_numpy

__all__ = [
    "BoxLeaf",
    "Drawable",
    "ImageLeaf",
    "MaskLeaf",
    "arrays_of",
    "as_pixels",
    "class_text",
    "found_in",
    "tiles_of",
]

Arrays = Mapping[str, Any]
"""A sample's outputs by their paths: NumPy arrays, and what isn't numeric as it is."""

_SMALLEST = 8  # pixels: what is smaller on a side is more likely a table of numbers
_MOST_STACKED = 32  # images in one output
_NOT_IMAGES = ("mask", "keypoint", "box")
_LABEL_WORDS = ("label", "class", "categor", "target")
_MASK_WORDS = ("mask", "seg")
_MOST_SIDE = 1.5
"""Boxes whose values are all below are shares of the sides: those of a crop may lie a little beyond it."""


@dataclass(frozen=True, slots=True)
class ImageLeaf:
    """An output that holds an image.

    Attributes:
        path: of the output.
        channels_last: (H, W, C), else (C, H, W).
        undoing: how its values become brightness.
    """

    path: str
    channels_last: bool
    undoing: Undoing


@dataclass(frozen=True, slots=True)
class BoxLeaf:
    """An output that holds boxes.

    Attributes:
        path: of the output, (N, 4), or with a class in front (N, 5).
        image: the path of the image that they belong to.
        hint: their format.
        labels: the path of their classes, if there are any.
        lengths: the path of how many of them count, where they are padded.
    """

    path: str
    image: str
    hint: BoxHint
    labels: str | None = None
    lengths: str | None = None


@dataclass(frozen=True, slots=True)
class MaskLeaf:
    """An output that holds a mask; ``image`` is the path of the image that it belongs to."""

    path: str
    image: str


@dataclass(frozen=True, slots=True)
class Drawable:
    """What is drawn.

    Attributes:
        images: in their order.
        boxes: of these.
        masks: of these.
        target: the path of the sample's class, if there is one.
        undrawn: the paths of everything else, each with its shape.
    """

    images: tuple[ImageLeaf, ...]
    boxes: tuple[BoxLeaf, ...] = ()
    masks: tuple[MaskLeaf, ...] = ()
    target: str | None = None
    undrawn: tuple[str, ...] = ()


# Reading a sample -----------------------------------------------------------------------------------------------------


def arrays_of(sample: object) -> dict[str, Any]:
    """A sample's outputs by their paths; stacked images (V, C, H, W) become V outputs."""
    found: dict[str, Any] = {}
    for path, leaf in zip(leaf_paths(sample), leaves_of(sample), strict=True):
        value = _array(leaf)
        if _is_numeric(value) and value.ndim == 4 and value.shape[1] in (1, 3) and len(value) <= _MOST_STACKED:
            found |= {f"{path}[{number}]": one for number, one in enumerate(value)}
        else:
            found[path] = value
    return found


def _array(leaf: object) -> Any:
    if isinstance(leaf, torch.Tensor):
        on_host = leaf.detach().as_subclass(torch.Tensor).cpu()
        return cast(Any, on_host.float() if on_host.dtype in (torch.bfloat16, torch.float16) else on_host).numpy()
    return np.asarray(leaf) if isinstance(leaf, (bool, int, float, np.ndarray, np.generic)) else leaf


def _is_numeric(value: object) -> TypeGuard[NDArray[Any]]:
    return isinstance(value, np.ndarray) and cast("NDArray[Any]", value).dtype.kind in "biuf"


# Finding out ----------------------------------------------------------------------------------------------------------


def found_in(samples: Sequence[Arrays], hints: Hints, *, images: Sequence[ImageLeaf] = ()) -> Drawable:
    """What can be drawn of samples that all have the same outputs.

    Args:
        samples: at least one; outputs that some lack are left out.
        hints: what is known besides.
        images: those that are known; found where there are none.
    """
    columns = {
        path: [sample[path] for sample in samples] for path in samples[0] if all(path in sample for sample in samples)
    }
    known = tuple(images) or tuple(_images(columns, hints))
    shown = {image.path for image in known}
    rest = {path: values for path, values in columns.items() if path not in shown and all(map(_is_numeric, values))}
    sizes = {image.path: [_size_hw(value, image) for value in columns[image.path]] for image in known}
    masks = _masks(rest, hints, sizes, list(columns))
    used = shown | {mask.path for mask in masks}
    boxes = _boxes({path: values for path, values in rest.items() if path not in used}, hints, sizes, list(columns))
    used |= {part for box in boxes for part in (box.path, box.labels, box.lengths) if part is not None}
    target = _target({path: values for path, values in columns.items() if path not in used}, hints)
    undrawn = tuple(
        f"{hints.names.get(path, '') or path} {_kind(values[0])}"
        for path, values in columns.items()
        if path not in used and path != target
    )
    return Drawable(known, boxes, masks, target, undrawn)


def _word(path: str, hints: Hints) -> str:
    """What an output is called, in lower case."""
    return f"{path} {hints.names.get(path, '')}".lower()


def _has(path: str, hints: Hints, words: Iterable[str]) -> bool:
    return any(word in _word(path, hints) for word in words)


def _kind(value: object) -> str:
    if isinstance(value, np.ndarray):
        array = cast("NDArray[Any]", value)
        return f"{array.shape} {array.dtype}"
    return f"({type(value).__name__})"


def _images(columns: Mapping[str, Sequence[Any]], hints: Hints) -> Iterator[ImageLeaf]:
    for path, values in columns.items():
        plan = hints.images.get(path)
        if plan is not None:
            yield ImageLeaf(path, plan.output.layout == "HWC", _by_plan(plan))
        elif not _has(path, hints, _NOT_IMAGES) and not hints.names.get(path) and all(map(_may_be_image, values)):
            last = not all(value.shape[0] in (1, 3) for value in values)
            yield ImageLeaf(path, last, _by_values(path, values, hints))


def _may_be_image(value: object) -> bool:
    if not _is_numeric(value) or value.ndim != 3 or value.dtype.kind == "b":
        return False
    if value.shape[0] in (1, 3) and min(value.shape[1:]) >= _SMALLEST:
        return value.shape[0] == 3 or value.dtype != np.int64  # (1, H, W) of those are classes
    return value.shape[-1] in (1, 3) and min(value.shape[:2]) >= _SMALLEST


def _size_hw(value: NDArray[Any], image: ImageLeaf) -> tuple[int, int]:
    height, width = value.shape[:2] if image.channels_last else value.shape[1:]
    return int(height), int(width)


def _by_plan(plan: Plan) -> Undoing:
    return normalized_by(plan, "the Plan's") or Undoing(plan, _plainly(plan.output.dtype))


def _plainly(dtype: str) -> str:
    return "values as they are" if dtype == "uint8" else "0 is black and full scale white"


_BYTES = Plan((), ImageSpec("tensor", "uint8", 3))
_FLOATS = Plan((ToDtype("float32", True),), ImageSpec("tensor", "uint8", 3))


def _assumed(mean: Sequence[float], std: Sequence[float]) -> Plan:
    return Plan((*_FLOATS.ops, Normalize(tuple(mean), tuple(std))), _FLOATS.input)


def _by_values(path: str, values: Sequence[NDArray[Any]], hints: Hints) -> Undoing:
    """How an image was normalised: as the graph tells, else as the values of all samples do."""
    if values[0].dtype.kind != "f":
        return Undoing(_BYTES, "values as they are")
    known = hints.undoing.get(path) or hints.any_undoing
    if known is not None:
        return known
    finite = [value[np.isfinite(value)] for value in values]
    low = min((float(value.min()) for value in finite if value.size), default=0.0)
    high = max((float(value.max()) for value in finite if value.size), default=1.0)
    if low >= -1e-3 and high <= 1.0 + 1e-3:
        return Undoing(_FLOATS, "0 is black and 1 white")
    if low >= -0.5 and 2.0 < high <= 255.5:
        return Undoing(_BYTES, "0 is black and 255 white")
    if low >= -1.001 and high <= 1.001:
        return Undoing(_assumed((0.5,), (0.5,)), "-1 is black and 1 white, as the values suggest")
    if low < 0 and _fits(IMAGENET_MEAN, IMAGENET_STD, low, high):
        plan = _assumed(IMAGENET_MEAN, IMAGENET_STD)
        return Undoing(plan, "ImageNet's mean and std undone, as the values suggest")
    span = max(high - low, 1e-12)
    return Undoing(_assumed((-low / span,), (1.0 / span,)), f"stretched: {low:.3g} is black and {high:.3g} white")


def _fits(mean: Sequence[float], std: Sequence[float], low: float, high: float) -> bool:
    """Whether all values can be of pixels in [0, 1], or a little beyond, as colour and interpolation make them."""
    lowest, highest = (
        min(-m / s for m, s in zip(mean, std, strict=True)),
        max((1 - m) / s for m, s in zip(mean, std, strict=True)),
    )
    return low >= 1.2 * lowest and high <= 1.2 * highest


def _masks(
    rest: Mapping[str, Sequence[NDArray[Any]]],
    hints: Hints,
    sizes: Mapping[str, Sequence[tuple[int, int]]],
    order: Sequence[str],
) -> tuple[MaskLeaf, ...]:
    found: list[MaskLeaf] = []
    candidates = [path for path, values in rest.items() if all(map(_may_be_mask, values))]
    for path in candidates:
        fitting = [
            image
            for image, of_image in sizes.items()
            if all(value.shape[-2:] == size for value, size in zip(rest[path], of_image, strict=True))
        ]
        if not fitting and _has(path, hints, _MASK_WORDS):
            fitting = list(sizes)  # of another size, such as that of a network's output
        if fitting and not any(_same(rest[path], rest[mask.path]) for mask in found):
            found.append(MaskLeaf(path, _nearest(path, fitting, candidates, order)))
    return tuple(found)


def _may_be_mask(value: NDArray[Any]) -> bool:
    flat = value.ndim == 2 or (value.ndim == 3 and len(value) == 1)
    return flat and value.dtype.kind in "biu" and min(value.shape[-2:]) > 1


def _same(one: Sequence[NDArray[Any]], other: Sequence[NDArray[Any]]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def _nearest(path: str, images: Sequence[str], alike: Sequence[str], order: Sequence[str]) -> str:
    """The image that something belongs to.

    That which shares most of its path; of those the one at the same place, where there are as many as of what belongs
    to them; else the last one before it.
    """
    shared = {image: _shared(path, image) for image in images}
    close = [image for image in images if shared[image] == max(shared.values())]
    if len(close) == len(alike):
        return close[list(alike).index(path)]
    before = [image for image in close if order.index(image) < order.index(path)]
    return before[-1] if before else close[0]


def _shared(one: str, other: str) -> int:
    parts, others = one.split("]"), other.split("]")
    count = 0
    for a, b in zip(parts[:-1], others[:-1], strict=False):
        if a != b:
            break
        count += 1
    return count


def _boxes(
    rest: Mapping[str, Sequence[NDArray[Any]]],
    hints: Hints,
    sizes: Mapping[str, Sequence[tuple[int, int]]],
    order: Sequence[str],
) -> tuple[BoxLeaf, ...]:
    if not sizes:
        return ()
    paths = [path for path, values in rest.items() if _are_boxes(path, values, hints)]
    paths = paths or [path for path, values in rest.items() if _are_yolo_targets(values)]
    found: list[BoxLeaf] = []
    for path in paths:
        lengths = _lengths_of(path, rest)
        image = _nearest(path, list(sizes), paths, order)
        kept = [_kept(values, lengths and rest[lengths][row]) for row, values in enumerate(rest[path])]
        if kept[0].shape[1] == 5:
            found.append(BoxLeaf(path, image, BoxHint("cxcywh", True), None, lengths))
            continue
        hint = _format(path, kept, hints)
        found.append(BoxLeaf(path, image, hint, _labels_of(path, rest, hints, order), lengths))
    return tuple(found)


def _are_boxes(path: str, values: Sequence[NDArray[Any]], hints: Hints) -> bool:
    shaped = all(value.ndim == 2 and value.shape[1] == 4 and value.dtype.kind in "fiu" for value in values)
    return shaped and (path in hints.boxes or _has(path, hints, ("box",)))


def _are_yolo_targets(values: Sequence[NDArray[Any]]) -> bool:
    """(N, 5) of a whole class and a centre box in shares of the sides."""
    if not all(value.ndim == 2 and value.shape[1] == 5 and value.dtype.kind == "f" for value in values):
        return False
    rows = np.concatenate(list(values))
    whole = bool((rows[:, 0] == np.round(rows[:, 0])).all())
    return whole and bool(((rows[:, 1:] >= -0.01) & (rows[:, 1:] <= _MOST_SIDE)).all())


def _lengths_of(path: str, rest: Mapping[str, Sequence[NDArray[Any]]]) -> str | None:
    """The whole number behind padded boxes that says how many of them count: all further rows hold one value."""
    paths = list(rest)
    for other in paths[paths.index(path) + 1 :]:
        pairs = list(zip(rest[path], rest[other], strict=True))
        if all(one.ndim == 0 and one.dtype.kind in "iu" and 0 <= one <= len(boxes) for boxes, one in pairs):
            filled = [boxes[int(one) :] for boxes, one in pairs]
            padding = {float(value) for rows in filled for value in np.unique(rows)}
            if len(padding) <= 1 or "len" in other:
                return other
    return None


def _kept(values: NDArray[Any], length: Any) -> NDArray[Any]:
    """The boxes that count; without a length those that aren't one value four times, which is padding."""
    if length is not None:
        return values[: int(length)]
    return values[(values[:, -4:] != values[:, -1:]).any(axis=1)]


def _format(path: str, kept: Sequence[NDArray[Any]], hints: Hints) -> BoxHint:
    hint = hints.boxes.get(path) or hints.any_boxes
    rows = np.concatenate(list(kept)).astype(np.float64)
    small = bool((np.abs(rows) <= _MOST_SIDE).all())
    if hint is not None:
        normalized = small if hint.normalized is None else hint.normalized
        if small or not normalized:
            return BoxHint(hint.format, normalized)
    if small:
        return BoxHint("cxcywh", True)
    ordered = bool((rows[:, 2:] >= rows[:, :2]).all())
    return BoxHint("xyxy" if ordered else "cxcywh", False)


def _labels_of(path: str, rest: Mapping[str, Sequence[NDArray[Any]]], hints: Hints, order: Sequence[str]) -> str | None:
    """The output with a whole number for each box: one that is called so, else the only one."""
    fitting = [
        other
        for other, values in rest.items()
        if all(
            one.ndim == 1 and one.dtype.kind in "iuf" and len(one) == len(boxes) and bool((one == np.round(one)).all())
            for one, boxes in zip(values, rest[path], strict=True)
        )
    ]
    named = [other for other in fitting if _has(other, hints, _LABEL_WORDS)]
    if named:
        return _nearest(path, named, (), order) if len(named) > 1 else named[0]
    whole = [other for other in fitting if all(one.dtype.kind in "iu" for one in rest[other])]
    return whole[0] if len(whole) == 1 else None


def _target(columns: Mapping[str, Sequence[Any]], hints: Hints) -> str | None:
    """The path of a sample's class: what comes from the field target, is called so, or is the only whole number."""
    numbers = [path for path, values in columns.items() if all(map(_may_be_target, values))]
    for path in numbers:
        if hints.names.get(path) == "target":
            return path
    named = [path for path in numbers if _has(path, hints, _LABEL_WORDS)]
    if named:
        return named[0]
    unnamed = [path for path in numbers if path not in hints.names and "'" not in path]
    return unnamed[0] if len(unnamed) == 1 else None


def _may_be_target(value: object) -> bool:
    if isinstance(value, str):
        return True
    return isinstance(value, np.ndarray) and value.ndim == 0 and cast("NDArray[Any]", value).dtype.kind in "biu"


def class_text(value: object, names: Mapping[int, str]) -> str:
    """A class for people."""
    if isinstance(value, str):
        return value
    number = int(cast(Any, value))
    return names.get(number, f"target {number}")


# Making tiles ---------------------------------------------------------------------------------------------------------


def as_pixels(value: NDArray[Any], image: ImageLeaf) -> NDArray[np.uint8]:
    """An image's values as (H, W, 3) uint8 RGB."""
    ordered = value.transpose(2, 0, 1) if image.channels_last else value
    undoing = image.undoing.plan
    seen = viewable(from_numpy(np.ascontiguousarray(ordered)), undoing, len(undoing.ops))
    pixels = np.clip(np.rint(seen), 0, 255).astype(np.uint8).transpose(1, 2, 0)
    return np.ascontiguousarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))


def tiles_of(
    sample: Arrays, drawable: Drawable, names: Mapping[int, str], target_names: Mapping[int, str]
) -> tuple[Tile, ...]:
    """A sample's images with what belongs to each; their labels are left empty.

    Args:
        sample: its outputs.
        drawable: what is drawn of them.
        names: of the classes of boxes.
        target_names: of the classes of samples.
    """
    text = "" if drawable.target is None else class_text(sample[drawable.target], target_names)
    return tuple(_tile(sample, drawable, image, text, names) for image in drawable.images)


def _tile(sample: Arrays, drawable: Drawable, image: ImageLeaf, text: str, names: Mapping[int, str]) -> Tile:
    pixels = as_pixels(sample[image.path], image)
    boxes = [
        box
        for leaf in drawable.boxes
        if leaf.image == image.path
        for box in _boxes_of(sample, leaf, pixels.shape[:2], names)
    ]
    masks = [sample[leaf.path] for leaf in drawable.masks if leaf.image == image.path]
    mask = masks[0].reshape(masks[0].shape[-2:]).astype(np.int64) if masks else None
    return Tile("", pixels, tuple(boxes), mask, text)


def _boxes_of(sample: Arrays, leaf: BoxLeaf, size_hw: Sequence[int], names: Mapping[int, str]) -> Iterator[Box]:
    values: NDArray[Any] = sample[leaf.path]
    length = None if leaf.lengths is None else sample[leaf.lengths]
    kept = _kept(values, length)
    labels: NDArray[Any] | None = None if leaf.labels is None else sample[leaf.labels]
    if labels is not None and length is None:
        labels = labels[(values[:, -4:] != values[:, -1:]).any(axis=1)]
    if values.shape[1] == 5:
        labels, kept = kept[:, 0], kept[:, 1:]
    scale_hw = (float(size_hw[0]), float(size_hw[1])) if leaf.hint.normalized else (1.0, 1.0)
    for number, box in enumerate(to_xyxy(kept, leaf.hint.format, scale_hw)):
        label = None if labels is None else int(labels[number])
        left, top, right, bottom = (float(value) for value in box)
        yield Box(left, top, right, bottom, label, "" if label is None else names.get(label, str(label)))
