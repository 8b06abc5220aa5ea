"""What a pipeline's recording tells of its outputs: how images were normalised, what format boxes have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpufeed.boxes import BoxFormat
from gpufeed.plan import Normalize, Plan, ToDtype
from gpufeed.recording import HostLeaf, Recorded
from gpufeed.recording.structure import leaf_paths
from gpufeed.recording.values import BoxesValue, FieldValue, HostValue, ImageValue
from gpufeed.sources import CocoSource, YoloSource
from gpufeed.spec import ImageSpec

__all__ = ["BoxHint", "Hints", "Undoing", "hints_of", "hints_of_fields", "normalized_by", "words_of"]

_KEEPS_ENTRIES = ("Pad", "Slice", "Cast")
"""DALI's operators that leave a box or a label what it is."""


@dataclass(frozen=True, slots=True)
class Undoing:
    """How values become brightness again.

    Attributes:
        plan: what made them; its normalisation is undone.
        words: the same for people.
    """

    plan: Plan
    words: str


@dataclass(frozen=True, slots=True)
class BoxHint:
    """What is known of boxes.

    Attributes:
        format: ``"xyxy"`` or ``"cxcywh"``.
        normalized: whether they are shares of the image's sides; ``None`` where the values must tell.
    """

    format: BoxFormat
    normalized: bool | None


@dataclass(frozen=True, slots=True)
class Hints:
    """What is known of outputs by their paths; what is missing their values must tell.

    Attributes:
        names: the field that an output comes from.
        images: the plan of an image that nothing else has touched.
        undoing: what normalised an image.
        boxes: which outputs are boxes, and of what kind.
        any_undoing: what normalised images somewhere in the pipeline, where it is the same everywhere.
        any_boxes: the format of the pipeline's boxes, where all have one.
    """

    names: Mapping[str, str] = field(default_factory=dict[str, str])
    images: Mapping[str, Plan] = field(default_factory=dict[str, Plan])
    undoing: Mapping[str, Undoing] = field(default_factory=dict[str, Undoing])
    boxes: Mapping[str, BoxHint] = field(default_factory=dict[str, BoxHint])
    any_undoing: Undoing | None = None
    any_boxes: BoxHint | None = None


def hints_of_fields(source: object) -> Hints:
    """What is known of the fields of gpufeed's own sources, whose paths are their names."""
    if isinstance(source, YoloSource):
        return Hints(boxes={"boxes": BoxHint("cxcywh", True)})
    if isinstance(source, CocoSource):
        return Hints(boxes={"boxes": BoxHint("xyxy", False)})
    return Hints()


def hints_of(recorded: Recorded) -> Hints:
    """What is known of a pipeline's outputs; of what its tail returns only what holds for all of them."""
    names: dict[str, str] = {}
    images: dict[str, Plan] = {}
    undoing: dict[str, Undoing] = {}
    boxes: dict[str, BoxHint] = {}
    for path, leaf in zip(leaf_paths(recorded.outputs), recorded.leaves, strict=True):
        if isinstance(leaf, HostLeaf):
            way, value = (), leaf.value
        else:
            way, value = _way_of(recorded, leaf.position)
            for operator in way:
                found = _undoing_of(operator)
                if found is not None:
                    undoing.setdefault(path, found)
        match value:
            case FieldValue(_, name) if _keeps(way):
                names[path] = name
            case BoxesValue(boxes=name, companion=companion):
                if _keeps(way):
                    names[path] = companion or name
                if companion is None:
                    boxes[path] = BoxHint(value.format, value.normalized if _keeps(way) else None)
            case ImageValue(field=str(name)):
                names[path] = name
            case ImageValue() if not way:
                images[path] = value.plan
            case ImageValue():
                undone = normalized_by(value.plan, "the Plan's")
                if undone is not None:
                    undoing.setdefault(path, undone)
            case _:
                pass
    everywhere = [*undoing.values(), *(_undone for plan in images.values() if (_undone := normalized_by(plan, "its")))]
    kinds = {BoxHint(one.format, one.normalized) for one in recorded.values() if isinstance(one, BoxesValue)}
    hints = Hints(names, images, undoing, boxes, _the_one(everywhere), next(iter(kinds)) if len(kinds) == 1 else None)
    if recorded.pipeline.has("tail"):  # what it returns has paths of its own
        return Hints(any_undoing=hints.any_undoing, any_boxes=hints.any_boxes)
    return hints


def _the_one(found: list[Undoing]) -> Undoing | None:
    if not found or len({words_of(one.plan) for one in found}) > 1:
        return None
    return replace(found[0], words=f"the pipeline's {words_of(found[0].plan)} undone")


def normalized_by(plan: Plan, whose: str) -> Undoing | None:
    """How to undo the last ``Normalize`` of a plan; ``None`` where it has none."""
    if not any(isinstance(op, Normalize) for op in plan.ops):
        return None
    return Undoing(plan, f"{whose} {words_of(plan)} undone")


def words_of(plan: Plan) -> str:
    """The mean and standard deviation of a plan's last ``Normalize``."""
    last = [op for op in plan.ops if isinstance(op, Normalize)][-1]
    return f"mean ({_numbers(last.mean)}) and std ({_numbers(last.std)})"


def _numbers(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


# The graph ------------------------------------------------------------------------------------------------------------


def _way_of(recorded: Recorded, position: int) -> tuple[tuple[Any, ...], HostValue | None]:
    """The operators behind one of the graph's outputs, nearest first, and the host's value that they begin with.

    Of several inputs the first is followed: it is what an operator works on.
    """
    makers = {output.name: operator for operator in recorded.graph._ops for output in operator.outputs}
    name = recorded.graph._graph_outputs[position].name
    way: list[Any] = []
    while name in makers and name not in recorded.inputs:
        operator = makers[name]
        if _schema(operator) not in _TRANSPARENT:
            way.append(operator)
        if not operator.inputs:
            return tuple(way), None
        name = operator.inputs[0].name
    return tuple(way), recorded.inputs.get(name)


def _keeps(way: tuple[Any, ...]) -> bool:
    """Whether a field's entries come out as they were."""
    return all(_schema(operator) in _KEEPS_ENTRIES for operator in way)


_TRANSPARENT = ("Copy", "MakeContiguous")
"""Operators that DALI itself puts in, or that change nothing."""


def _schema(operator: Any) -> str:
    return operator._op.schema.Name()


def _undoing_of(operator: Any) -> Undoing | None:
    """How to undo ``fn.crop_mirror_normalize``: ``scale * (x - mean) / std + shift`` of bytes."""
    if _schema(operator) != "CropMirrorNormalize":
        return None
    arguments = dict(_arguments(str(operator.spec)))
    mean, std = arguments.get("mean", (0.0,)), arguments.get("std", (1.0,))
    (scale, *_), (shift, *_) = arguments.get("scale", (1.0,)), arguments.get("shift", (0.0,))
    count = max(len(mean), len(std))
    means, stds = mean * (count // len(mean)), std * (count // len(std))
    if count not in (1, 3) or scale == 0 or 0 in stds or len(means) != len(stds):
        return None
    undone = Normalize(
        tuple((m - shift * s / scale) / 255.0 for m, s in zip(means, stds, strict=True)),
        tuple(s / scale / 255.0 for s in stds),
    )
    plan = Plan((ToDtype("float32", True), undone), ImageSpec("tensor", "uint8", 3))
    return Undoing(plan, f"the graph's {words_of(plan)} undone")


def _arguments(spec: str) -> Iterator[tuple[str, tuple[float, ...]]]:
    """The numeric arguments in the text of DALI's ``OpSpec``, which has no other way to read them."""
    for line in spec.partition("_origin_stack")[0].splitlines():
        found = re.fullmatch(r"\s{4}(\w+): \[?([-+\d.e, ]+)\]?", line)
        if found is not None:
            yield found[1], tuple(float(number) for number in re.findall(r"[-+\d.e]+", found[2]))
