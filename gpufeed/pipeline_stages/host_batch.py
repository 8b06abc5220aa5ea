"""What the host computes of a pipeline for one batch: draws, fields, boxes, masks and, on the CPU, images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from gpufeed.boxes import boxes_through, from_xyxy, to_xyxy
from gpufeed.draws import DRAWS_PER_OP, Draws
from gpufeed.errors import SampleError
from gpufeed.graph.decoding import DecodedWindows
from gpufeed.graph.formats import refused_formats
from gpufeed.graph.reading import Encoded, ReadGraph
from gpufeed.graph.windows import Region, compose_windows, union
from gpufeed.parameters import BatchParameters, OpDraws, draw_parameters
from gpufeed.placement import Placement, place
from gpufeed.recording.recorded import Recorded
from gpufeed.recording.values import (
    BoxesValue,
    DrawValue,
    EncodedValue,
    FieldValue,
    HostValue,
    ImageValue,
    IndexValue,
    OthersDraw,
    SizeValue,
    draw,
)
from gpufeed.sources.base import Source
from gpufeed.tail import Tail
from gpufeed.tail.geometry import crop
from gpufeed.tensors import from_numpy

__all__ = ["HostBatch", "HostWork", "draw_batch", "indices_of", "prepare_batch", "read_batch"]

Allocate = Callable[[tuple[int, ...], torch.dtype], torch.Tensor]


@dataclass(eq=False)
class HostWork:
    """What a recorded pipeline asks of the host for every batch.

    Attributes:
        recorded: the pipeline.
    """

    recorded: Recorded

    @cached_property
    def values(self) -> tuple[HostValue, ...]:
        """Everything that the host computes."""
        return self.recorded.values()

    @cached_property
    def images(self) -> tuple[ImageValue, ...]:
        """Images and masks that the host makes."""
        return tuple(value for value in self.values if isinstance(value, ImageValue))

    @cached_property
    def geometries(self) -> tuple[ImageValue, ...]:
        """Images whose parameters are needed, on the host or in the graph."""
        boxes = [value.geometry for value in self.values if isinstance(value, BoxesValue)]
        return tuple(dict.fromkeys([*self.images, *self.recorded.device_images.values(), *boxes]))

    @cached_property
    def decoded(self) -> Mapping[int, tuple[ImageValue, ...]]:
        """The images that are decoded, by slot."""
        found: dict[int, list[ImageValue]] = {}
        for image in dict.fromkeys([*self.images, *self.recorded.device_images.values()]):
            if image.field is None:
                found.setdefault(image.slot, []).append(image)
        return {slot: tuple(images) for slot, images in found.items()}

    @cached_property
    def read(self) -> tuple[int, ...]:
        """The slots of which files are read."""
        sized = [value.slot for value in self.values if isinstance(value, (SizeValue, EncodedValue))]
        return tuple(sorted({*sized, *(image.slot for image in self.geometries)}))

    @cached_property
    def fields(self) -> Mapping[int, tuple[str, ...]]:
        """The fields that are needed, by slot."""
        found: dict[int, dict[str, None]] = {}
        for value in self.values:
            names: list[str | None] = []
            match value:
                case FieldValue(slot, name):
                    names = [name]
                case ImageValue(slot):
                    names = [value.field]
                case BoxesValue(geometry):
                    slot, names = geometry.slot, [value.boxes, value.companion]
                case _:
                    continue
            for name in names:
                if name is not None:
                    found.setdefault(slot, {})[name] = None
        return {slot: tuple(names) for slot, names in found.items()}

    @cached_property
    def tails(self) -> Mapping[ImageValue, Tail]:
        """What runs each image's plan on the host; masks, which nothing decodes in windows, from its first op on."""
        return {image: Tail(place(image.plan, "cpu", fuse=image.field is None)) for image in self.images}

    def placement(self, image: ImageValue) -> Placement:
        """Of an image's plan, where it is decoded."""
        return place(image.plan, self.recorded.device)


@dataclass(slots=True, eq=False)
class HostBatch:
    """A batch that is read and drawn, and what is computed of it.

    Attributes:
        work: what is asked for.
        source: where the samples come from.
        indices: for each slot the B indices.
        draws: the batch's.
        encoded: what was read, by slot.
        parameters: of each image's plan.
        regions: what each image's plan wants decoded.
        windows: what is decoded, (B, 4), by slot.
        cuts: (B, 4), each image's windows of what is decoded.
        results: what was computed: arrays or tensors (B, ...), or lists with an entry per sample.
    """

    work: HostWork
    source: Source
    indices: Sequence[Sequence[int]]
    draws: Draws
    encoded: dict[int, Encoded] = field(default_factory=dict[int, Encoded])
    parameters: dict[ImageValue, BatchParameters] = field(default_factory=dict[ImageValue, BatchParameters])
    regions: dict[ImageValue, Region] = field(default_factory=dict[ImageValue, Region])
    windows: dict[int, NDArray[np.int64]] = field(default_factory=dict[int, NDArray[np.int64]])
    cuts: dict[ImageValue, NDArray[np.int64]] = field(default_factory=dict[ImageValue, NDArray[np.int64]])
    results: dict[HostValue, Any] = field(default_factory=dict[HostValue, Any])

    def __len__(self) -> int:
        return len(self.indices[0])

    # What is computed sample by sample --------------------------------------------------------------------------------

    def allocate(self, allocate: Allocate) -> None:
        """Make room for what `compute` fills in; everything else is computed here."""
        count = len(self)
        for value in self.work.values:
            match value:
                case DrawValue(number=number):
                    self.results[value] = draw(value, OpDraws(self.draws, number * DRAWS_PER_OP))
                case IndexValue(slot):
                    self.results[value] = np.asarray(self.indices[slot], dtype=np.int64)
                case SizeValue(slot):
                    self.results[value] = self.encoded[slot].sizes_hw
                case EncodedValue(slot):
                    self.results[value] = self.encoded[slot].content
                case ImageValue():
                    self.results[value] = self._room(value, allocate)
                case _:
                    self.results[value] = [None] * count

    def _room(self, image: ImageValue, allocate: Allocate) -> Any:
        """(B, C, h, w) in the memory layout that is handed over; a list where sizes differ."""
        spec = image.plan.output
        size_hw = self.parameters[image].uniform_size_hw
        if size_hw is None:
            return [None] * len(self)
        dtype = cast(torch.dtype, getattr(torch, spec.dtype))
        if spec.layout == "HWC":
            return allocate((len(self), *size_hw, spec.channels), dtype).permute(0, 3, 1, 2)
        return allocate((len(self), spec.channels, *size_hw), dtype)

    def compute(self, rows: range, decoded: Mapping[int, DecodedWindows]) -> None:
        """Fill in some samples; may be called from several threads at once, for different rows.

        Args:
            rows: of the batch.
            decoded: what DALI decoded, by slot; on CUDA nothing.

        Raises:
            SampleError: for a sample whose fields don't fit.
        """
        fields = self._fields(rows)
        pixels = {slot: windows.pixels(rows) for slot, windows in decoded.items()}
        for value in self.work.values:
            match value:
                case FieldValue(slot, name):
                    self.results[value][rows.start : rows.stop] = fields[slot][name]
                case ImageValue(slot):
                    held = pixels[slot] if value.field is None else fields[slot][value.field]
                    self._images(value, rows, held)
                case _:
                    pass
        self._boxes(rows, fields)

    def _fields(self, rows: range) -> dict[int, Mapping[str, Sequence[Any]]]:
        found: dict[int, Mapping[str, Sequence[Any]]] = {}
        for slot in self.work.fields:
            found[slot] = self.source.fields([self.indices[slot][row] for row in rows])
        return found

    def _images(self, image: ImageValue, rows: range, held: Sequence[Any]) -> None:
        images = [
            self._mask(image, row, array) if image.field is not None else self._cut(image, row, array)
            for row, array in zip(rows, held, strict=True)
        ]
        out = self.results[image]
        tail, parameters = self.work.tails[image], self.parameters[image]
        if isinstance(out, list):
            for row, one in zip(rows, images, strict=True):
                out[row] = tail.run_one(one, parameters, row)
        else:
            tail.run_into(out[rows.start : rows.stop], images, parameters, rows.start)

    def _cut(self, image: ImageValue, row: int, pixels: NDArray[np.uint8]) -> torch.Tensor:
        """(3, H, W): the image's own window of what was decoded."""
        decoded = from_numpy(pixels).permute(2, 0, 1)
        top, left, height, width = self.cuts[image][row].tolist()
        if (top, left, height, width) == (0, 0, *decoded.shape[1:]):
            return decoded
        return crop(decoded[None], np.array([top, left, height, width]))[0]

    def _mask(self, image: ImageValue, row: int, array: object) -> torch.Tensor:
        """(1, H, W): an array field as an image."""
        mask = np.ascontiguousarray(cast(Any, array))
        size_hw = self.encoded[image.slot].sizes_hw[row]
        if mask.dtype != np.uint8 or mask.ndim != 2 or mask.shape != tuple(size_hw):
            raise SampleError(
                self.indices[image.slot][row],
                self.source.name_of(self.indices[image.slot][row]),
                f"its {image.field} must be (H, W) uint8 of the image's size {size_hw[0]}x{size_hw[1]}, got "
                f"{mask.dtype} {'x'.join(map(str, mask.shape))}; make a mask of the image's own size",
            )
        return from_numpy(mask)[None]

    def _boxes(self, rows: range, fields: Mapping[int, Mapping[str, Sequence[Any]]]) -> None:
        done: dict[tuple[Any, ...], list[tuple[NDArray[np.float64], NDArray[np.bool_]]]] = {}
        for value in self.work.values:
            if not isinstance(value, BoxesValue):
                continue
            key = (value.geometry, value.boxes, value.format, value.normalized, value.min_size)
            slot = value.geometry.slot
            if key not in done:
                done[key] = [
                    self._boxes_of(value, row, boxes)
                    for row, boxes in zip(rows, fields[slot][value.boxes], strict=True)
                ]
            for number, row in enumerate(rows):
                boxes, kept = done[key][number]
                if value.companion is None:
                    after = self.parameters[value.geometry].sizes_hw[-1][row]
                    scale = (float(after[0]), float(after[1])) if value.normalized else (1.0, 1.0)
                    self.results[value][row] = from_xyxy(boxes, value.format, scale)
                else:
                    self.results[value][row] = self._companion(value, row, fields[slot][value.companion][number], kept)

    def _boxes_of(self, value: BoxesValue, row: int, boxes: object) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        given = np.asarray(boxes, dtype=np.float64)
        if given.size and (given.ndim != 2 or given.shape[1] != 4):
            raise SampleError(
                self.indices[value.geometry.slot][row],
                self.source.name_of(self.indices[value.geometry.slot][row]),
                f"its {value.boxes} must be (N, 4), got an array of shape {given.shape}",
            )
        height, width = self.encoded[value.geometry.slot].sizes_hw[row]
        scale = (float(height), float(width)) if value.normalized else (1.0, 1.0)
        parameters = self.parameters[value.geometry]
        xyxy = to_xyxy(given, value.format, scale)
        return boxes_through(xyxy, value.geometry.plan, parameters, row, value.min_size)

    def _companion(self, value: BoxesValue, row: int, held: object, kept: NDArray[np.bool_]) -> NDArray[Any]:
        entries = np.asarray(held)
        if entries.ndim == 0 or len(entries) != len(kept):
            raise SampleError(
                self.indices[value.geometry.slot][row],
                self.source.name_of(self.indices[value.geometry.slot][row]),
                f"its {value.companion} must have an entry for each of its {len(kept)} boxes, got {entries.shape}",
            )
        return entries[kept]


def prepare_batch(work: HostWork, graph: ReadGraph, source: Source, indices: Sequence[int], draws: Draws) -> HostBatch:
    """Read and draw a batch.

    Raises:
        SampleError: for the first sample that gpufeed refuses by its format or size.
        RuntimeError: DALI's, where a file can't be read.
    """
    batch = read_batch(work, graph, source, indices, draws)
    draw_batch(batch)
    return batch


def read_batch(work: HostWork, graph: ReadGraph, source: Source, indices: Sequence[int], draws: Draws) -> HostBatch:
    """The first half of `prepare_batch`: the files of the samples, and of the others that they draw.

    Raises:
        SampleError: for the first sample that gpufeed refuses by its format.
        RuntimeError: DALI's, where a file can't be read.
    """
    slots = indices_of(work, indices, draws, len(source))
    batch = HostBatch(work, source, slots, draws)
    for slot in work.read:
        batch.encoded[slot] = graph.read(source.read(slots[slot]))
        _refuse(batch, slot, refused_formats(batch.encoded[slot]))
    return batch


def draw_batch(batch: HostBatch) -> None:
    """The second half: the parameters of a batch that is read, and what to decode.

    Raises:
        SampleError: for the first sample that gpufeed refuses by its size.
    """
    work, draws = batch.work, batch.draws
    for image in work.geometries:
        parameters = draw_parameters(image.plan, batch.encoded[image.slot].sizes_hw, draws, image.numbers)
        batch.parameters[image] = parameters
        _refuse(batch, image.slot, parameters.refused)
    for slot, images in work.decoded.items():
        for image in images:
            count = work.placement(image).decoded
            windows = [cast("NDArray[np.int64]", value) for value in batch.parameters[image].values[:count]]
            batch.regions[image] = compose_windows(batch.encoded[slot].sizes_hw, windows)
        batch.windows[slot] = union([batch.regions[image].windows for image in images])
        batch.cuts |= {image: batch.regions[image].relative_to(batch.windows[slot]) for image in images}


def indices_of(work: HostWork, indices: Sequence[int], draws: Draws, length: int) -> list[Sequence[int]]:
    """For each slot the B indices: the batch's own, then those of the others that its samples draw."""
    slots: list[Sequence[int]] = [indices]
    for others in work.recorded.others:
        slots += _drawn_others(others, draws, length)
    return slots


def _drawn_others(others: OthersDraw, draws: Draws, length: int) -> list[list[int]]:
    """The indices of ``others.count`` slots."""
    own = OpDraws(draws, others.number * DRAWS_PER_OP)
    return [own.integers(number, 0, length).tolist() for number in range(others.count)]


def _refuse(batch: HostBatch, slot: int, refused: Mapping[int, str]) -> None:
    if refused:
        row = min(refused)
        index = batch.indices[slot][row]
        raise SampleError(index, batch.source.name_of(index), refused[row])
