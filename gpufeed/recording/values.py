"""What a handle stands for before it meets DALI: values that the host computes for each batch.

They are descriptions, frozen and comparable; `gpufeed.pipeline_stages.host_batch` computes them. ``slot`` 0 is the
sample itself, higher ones are those of ``sample.others``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gpufeed.boxes import BoxFormat
from gpufeed.parameters import OpDraws
from gpufeed.plan import Op, Plan

__all__ = [
    "BoxesValue",
    "DrawKind",
    "DrawValue",
    "EncodedValue",
    "FieldValue",
    "HostValue",
    "ImageValue",
    "IndexValue",
    "OthersDraw",
    "SizeValue",
    "all_whole",
    "draw",
]

DrawKind = Literal["uniform", "normal", "coin", "choice", "integers", "permutation"]


@dataclass(frozen=True, slots=True)
class DrawValue:
    """A draw: a number, or an array of them, for each sample.

    Attributes:
        kind: what is drawn.
        number: the number of the draw in the pipeline, counted as a Plan's ops are.
        arguments: of the distribution, in the order of the function's.
        shape: of what each sample gets.
    """

    kind: DrawKind
    number: int
    arguments: tuple[float, ...] = ()
    shape: tuple[int, ...] = ()
    weights: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class IndexValue:
    """The sample's index in the source: int64, no dimensions."""

    slot: int


@dataclass(frozen=True, slots=True)
class SizeValue:
    """Height and width of the undecoded image: (2,) int64."""

    slot: int


@dataclass(frozen=True, slots=True)
class EncodedValue:
    """The encoded bytes: (N,) uint8."""

    slot: int


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A field of the source's, whatever it holds."""

    slot: int
    name: str


@dataclass(frozen=True, slots=True)
class ImageValue:
    """An image, or an array like one, after the ops that it has gone through so far.

    Attributes:
        slot: whose.
        plan: the ops.
        numbers: each op's number in the pipeline, which its draws follow from.
        field: the field that holds the array, (H, W) uint8; ``None`` for the encoded image.
    """

    slot: int
    plan: Plan
    numbers: tuple[int, ...] = ()
    field: str | None = None

    def extended(self, ops: tuple[Op, ...], numbers: tuple[int, ...]) -> ImageValue:
        """With more ops at the end."""
        plan = Plan((*self.plan.ops, *ops), self.plan.input)
        return ImageValue(self.slot, plan, (*self.numbers, *numbers), self.field)


@dataclass(frozen=True, slots=True)
class BoxesValue:
    """Boxes after the geometry of an image's plan, or a field that has an entry per box, filtered alike.

    Attributes:
        geometry: the image whose geometry it is.
        boxes: the field that holds the boxes, (N, 4).
        format: of the boxes, in and out.
        normalized: whether they are shares of the image's width and height.
        min_size: boxes less wide or high than this many pixels of the result are dropped.
        companion: the field that is filtered; ``None`` for the boxes themselves.
    """

    geometry: ImageValue
    boxes: str
    format: BoxFormat
    normalized: bool
    min_size: float
    companion: str | None = None


HostValue = DrawValue | IndexValue | SizeValue | EncodedValue | FieldValue | ImageValue | BoxesValue


@dataclass(frozen=True, slots=True)
class OthersDraw:
    """Which other samples the slots from ``first_slot`` on are.

    Attributes:
        number: of the draw.
        first_slot: the first of ``count`` slots.
    """

    number: int
    first_slot: int
    count: int


def draw(value: DrawValue, draws: OpDraws) -> NDArray[np.generic]:
    """The numbers of a draw for B samples.

    Args:
        value: what is drawn.
        draws: those of ``value.number``.

    Returns:
        (B, *shape): float32 for uniform and normal; int32 for coin (0 or 1), integers and permutation, (B, n); float32
        or, where all choices are whole numbers, int32 for choice.
    """
    count = int(np.prod(value.shape, dtype=np.int64))
    match value.kind:
        case "uniform":
            low, high = value.arguments
            drawn = low + (high - low) * draws.units(0, count)
        case "normal":
            mean, std = value.arguments
            drawn = mean + std * _standard_normal(draws, count)
        case "coin":
            drawn = (draws.units(0, count) < value.arguments[0]).astype(np.int32)
        case "integers":
            low, high = value.arguments
            drawn = np.minimum(low + np.floor(draws.units(0, count) * (high - low)), high - 1).astype(np.int32)
        case "choice":
            drawn = _chosen(value, draws, count)
        case "permutation":
            drawn = draws.permutations(0, int(value.arguments[0])).astype(np.int32)
            return np.ascontiguousarray(drawn)
    drawn = drawn.reshape(len(draws), *value.shape)
    return np.ascontiguousarray(drawn.astype(np.float32) if drawn.dtype == np.float64 else drawn)


def all_whole(choices: tuple[float, ...]) -> bool:
    """Whether all choices are whole numbers that an int32 holds."""
    return all(float(choice).is_integer() and abs(choice) < 2**31 for choice in choices)


def _chosen(value: DrawValue, draws: OpDraws, count: int) -> NDArray[np.generic]:
    weights = np.asarray(value.weights or (1.0,) * len(value.arguments), dtype=np.float64)
    upper = np.cumsum(weights) / weights.sum()
    picked = np.minimum(np.searchsorted(upper, draws.units(0, count), side="right"), len(weights) - 1)
    whole = all_whole(value.arguments)
    return np.asarray(value.arguments, dtype=np.int32 if whole else np.float32)[picked]


def _standard_normal(draws: OpDraws, count: int) -> NDArray[np.float64]:
    """(B, count), by the method of Box and Muller (1958)."""
    first, second = draws.unit_pairs(range(count))
    return (np.sqrt(-2.0 * np.log1p(-first)) * np.cos(2.0 * np.pi * second)).T
