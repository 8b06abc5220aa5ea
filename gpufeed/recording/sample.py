"""`Sample`: what a pipeline function is called with."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from torchvision.transforms import InterpolationMode, v2

from gpufeed.errors import ArgumentError, PipelineError, UnsupportedError
from gpufeed.placement import place
from gpufeed.plan import Plan
from gpufeed.recording.keyed_draws import KeyedDraws
from gpufeed.recording.nodes import Node
from gpufeed.recording.recording import Recording
from gpufeed.recording.values import (
    DrawKind,
    DrawValue,
    EncodedValue,
    FieldValue,
    ImageValue,
    IndexValue,
    OthersDraw,
    SizeValue,
)
from gpufeed.translation import translate

__all__ = ["Sample", "extended"]


class Sample(KeyedDraws):
    """One sample, as a pipeline function sees it: handles of its image, its fields and its draws.

    A handle is a node of the graph, which any operator of DALI's takes; returned as it is it doesn't enter the graph.
    A field of the source is an attribute: ``sample.target``, which every source has, ``sample.boxes`` and so on; given
    to an operator it must hold numbers.

    Draws are keyed on (seed, epoch, index, occurrence) and on their place in the function: the same sample draws the
    same numbers whatever the batch size, the number of threads or the device. They are counted as the ops of a Plan
    are, so that a pipeline that does op by op what a torchvision transform does draws the same numbers as that does in
    `gpufeed.DataLoader`.
    """

    def __init__(self, recording: Recording, slot: int = 0) -> None:
        self._recording = recording
        self._slot = slot

    # Images ----------------------------------------------------------------------------------------------------------

    def decode(self) -> Any:
        """The whole image: (H, W, 3) uint8 RGB in [0, 255] on the pipeline's device."""
        return self._image()

    def random_resized_crop(
        self,
        size: int | Sequence[int],
        *,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        interpolation: str = "bilinear",
    ) -> Any:
        """A random window, resized; only the window is decoded. As ``v2.RandomResizedCrop`` of a PIL image.

        Args:
            size: (h, w) in pixels, or one number for both.
            scale: range of the window's share of the image's area.
            ratio: range of the window's width to its height.
            interpolation: ``"bilinear"``, ``"bicubic"`` or ``"lanczos"``.

        Returns:
            (h, w, 3) uint8 RGB on the pipeline's device.
        """
        mode = _mode(interpolation)
        crop = v2.RandomResizedCrop(_pair(size), scale=scale, ratio=ratio, interpolation=mode)  # pyright: ignore[reportArgumentType]
        return self._image(crop)

    def center_crop(
        self, size: int | Sequence[int], *, resize: int | Sequence[int] | None = None, interpolation: str = "bilinear"
    ) -> Any:
        """The window in the middle, with zeros where it reaches beyond the image. As ``v2.CenterCrop`` of a PIL image.

        Args:
            size: (h, w) in pixels, or one number for both.
            resize: first resize: the shorter side to this many pixels, or both to (h, w).
            interpolation: of that: ``"bilinear"``, ``"bicubic"`` or ``"lanczos"``.

        Returns:
            (h, w, 3) uint8 RGB on the pipeline's device.
        """
        steps: list[Any] = [v2.CenterCrop(_pair(size))]  # pyright: ignore[reportArgumentType]
        if resize is not None:
            steps.insert(0, v2.Resize(resize, interpolation=_mode(interpolation)))  # pyright: ignore[reportArgumentType]
        return self._image(*steps)

    def _image(self, *steps: Any) -> Any:
        self._recording.check_open("an image")
        decoded = ImageValue(self._slot, Plan(()))
        return self._recording.node(extended(decoded, v2.Compose(list(steps)), self._recording) if steps else decoded)

    # What is known of it ---------------------------------------------------------------------------------------------

    @property
    def encoded(self) -> Any:
        """The encoded bytes, (N,) uint8 on the host: for an operator that decodes."""
        self._recording.check_open("sample.encoded")
        return self._recording.node(EncodedValue(self._slot))

    @property
    def size_hw(self) -> Any:
        """Height and width of the undecoded image, (2,) int64 on the host, in pixels."""
        self._recording.check_open("sample.size_hw")
        return self._recording.node(SizeValue(self._slot))

    @property
    def index(self) -> Any:
        """The sample's index in the source: int64, on the host."""
        self._recording.check_open("sample.index")
        return self._recording.node(IndexValue(self._slot))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        self._recording.check_open(f"sample.{name}")
        example = self._recording.example
        if example is not None and name not in example:
            methods = [known for known in dir(type(self)) if not known.startswith("_")]
            near = difflib.get_close_matches(name, [*example, *methods], n=1)
            guess = f"; did you mean sample.{near[0]}?" if near else "."
            raise PipelineError(
                f"the sample has no {name}{guess} Its source's fields are {', '.join(example)}; besides there are "
                f"{', '.join(methods)}"
            )
        return self._recording.node(FieldValue(self._slot, name))

    def others(self, count: int) -> list[Sample]:
        """More samples of the source, drawn by this sample's key, each any of them, for mosaics and mixing.

        They have images, fields and draws of their own; the draws are keyed by this sample, not by the other.
        """
        self._recording.check_open("sample.others")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentError(f"others(k) takes how many samples, an integer of at least 1, got {count!r}")
        first = self._recording.slots
        self._recording.others.append(OthersDraw(self._recording.take_number(), first, count))
        self._recording.slots += count
        return [Sample(self._recording, first + number) for number in range(count)]

    # Draws are `KeyedDraws`' ------------------------------------------------------------------------------------------

    def _draw(
        self,
        kind: DrawKind,
        arguments: tuple[float, ...],
        shape: tuple[int, ...],
        weights: tuple[float, ...] | None,
    ) -> Node:
        self._recording.check_open(f"sample.{kind}")
        number = self._recording.take_number()
        return self._recording.node(DrawValue(kind, number, arguments, shape, weights))

    def __repr__(self) -> str:
        return "<a sample of gpufeed's>" if self._slot == 0 else f"<other sample {self._slot} of gpufeed's>"


def extended(image: ImageValue, transform: object, recording: Recording) -> ImageValue:
    """An image after a torchvision transform of those that DALI does on CUDA.

    Raises:
        UnsupportedError: naming the transforms that it doesn't do.
    """
    translation = translate(transform, input=image.plan.output)
    translation.require()
    late: list[str] = []
    grown = image.plan
    for step in translation.steps:
        grown = Plan((*grown.ops, *step.ops), grown.input)
        if place(grown, "cuda").in_graph < len(grown.ops):
            late.append(step.name)
            break
    if late:
        raise UnsupportedError(
            f"{late[0]} isn't among what DALI does to an image before the tail; call ops.apply on it in the tail, a "
            "function under @NAME.tail with the keyword argument samples"
        )
    ops = tuple(op for step in translation.steps for op in step.ops)
    return image.extended(ops, recording.take_numbers(ops))


def _pair(size: int | Sequence[int]) -> tuple[int, int]:
    sides = (size, size) if isinstance(size, int) else tuple(size)
    if len(sides) != 2 or not all(isinstance(side, int) and side >= 1 for side in sides):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(f"size must be one whole number of pixels, or (height, width), got {size!r}")
    return sides[0], sides[1]


def _mode(interpolation: str) -> InterpolationMode:
    names = ("bilinear", "bicubic", "lanczos")
    if interpolation not in names:
        raise ArgumentError(f"interpolation must be one of {', '.join(names)}, got {interpolation!r}")
    return InterpolationMode(interpolation)
