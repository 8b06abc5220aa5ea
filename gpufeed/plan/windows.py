"""Windows, borders and mirrors: ops that move pixels and compute none."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from gpufeed.errors import UnsupportedError
from gpufeed.plan.op import Fill, Op, SizeHW, check_probability, check_size
from gpufeed.spec import ImageSpec

__all__ = [
    "MIRROR_LIMITS",
    "CenterCrop",
    "FiveCrop",
    "Flip",
    "Pad",
    "PadMode",
    "RandomAreaCrop",
    "RandomCrop",
    "TenCrop",
    "ZoomOut",
]

PadMode = Literal["constant", "edge", "reflect", "symmetric"]
MIRROR_LIMITS: dict[str, int] = {"reflect": 1, "symmetric": 0}
"""By how many pixels less than an image's side a tensor may be padded: torchvision's tensor kernels mirror once, while
NumPy, which pads PIL images, mirrors as often as it takes."""


@dataclass(frozen=True, slots=True)
class RandomAreaCrop(Op):
    """Take a random window by area and aspect ratio: the crop of ``RandomResizedCrop``.

    Attributes:
        scale: lowest and highest share of the image's area.
        ratio: lowest and highest width / height.
    """

    scale: tuple[float, float]
    ratio: tuple[float, float]

    def __post_init__(self) -> None:
        if min(self.ratio) <= 0:
            raise ValueError(f"ratio must be positive, got {self.ratio}")
        if min(self.scale) < 0:
            raise ValueError(f"scale must not be negative, got {self.scale}")

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return spec.with_size(None)

    @property
    def is_random(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class RandomCrop(Op):
    """Take a window of ``size_hw`` at a random place; the image must be at least as large."""

    size_hw: SizeHW

    def __post_init__(self) -> None:
        check_size("size_hw", self.size_hw)

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if spec.size_hw is not None and (spec.size_hw[0] < self.size_hw[0] or spec.size_hw[1] < self.size_hw[1]):
            raise UnsupportedError(f"required crop size {self.size_hw} is larger than the image size {spec.size_hw}")
        return spec.with_size(self.size_hw)

    @property
    def is_random(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class CenterCrop(Op):
    """Take the central window of ``size_hw``, with zeros where it is larger than the image."""

    size_hw: SizeHW

    def __post_init__(self) -> None:
        check_size("size_hw", self.size_hw)

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return spec.with_size(self.size_hw)


@dataclass(frozen=True, slots=True)
class Pad(Op):
    """Add a border.

    Attributes:
        padding_ltrb: pixels on the left, top, right and bottom; negative values crop.
        fill: for mode ``"constant"``.
        mode: torchvision's ``padding_mode``.
        grow_to_hw: where the padded image is still smaller, the difference is added on both sides
            (``RandomCrop(pad_if_needed=True)``).
    """

    padding_ltrb: tuple[int, int, int, int] = (0, 0, 0, 0)
    fill: Fill = (0.0,)
    mode: PadMode = "constant"
    grow_to_hw: SizeHW | None = None

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if self.mode == "constant" and len(self.fill) not in (1, spec.channels):
            raise UnsupportedError(
                f"fill must have 1 value or one for each of the {spec.channels} channels, got {len(self.fill)}"
            )
        if spec.size_hw is None:
            return spec
        left, top, right, bottom = self.padding_ltrb
        height, width = spec.size_hw[0] + top + bottom, spec.size_hw[1] + left + right
        if self.grow_to_hw is not None:
            grow_h, grow_w = max(self.grow_to_hw[0] - height, 0), max(self.grow_to_hw[1] - width, 0)
            left, top, right, bottom = left + grow_w, top + grow_h, right + grow_w, bottom + grow_h
            height, width = height + 2 * grow_h, width + 2 * grow_w
        if height < 1 or width < 1:
            raise UnsupportedError(f"padding {self.padding_ltrb} leaves nothing of an image of {spec.size_hw}")
        limit = MIRROR_LIMITS.get(self.mode)
        if limit is not None and spec.container != "pil":
            most_h, most_w = spec.size_hw[0] - limit, spec.size_hw[1] - limit
            if max(top, bottom) > most_h or max(left, right) > most_w:
                raise UnsupportedError(
                    f"{self.mode} padding of a tensor of {spec.size_hw} must be at most {most_h} at the top and bottom "
                    f"and {most_w} at the left and right, got {(left, top, right, bottom)} (left, top, right, bottom)"
                )
        return spec.with_size((height, width))


@dataclass(frozen=True, slots=True)
class ZoomOut(Op):
    """Put the image at a random place of a larger canvas.

    Attributes:
        side_range: lowest and highest ratio of the canvas's sides to the image's; one below 1 crops.
        fill: the canvas's value.
    """

    side_range: tuple[float, float] = (1.0, 4.0)
    fill: Fill = (0.0,)

    def __post_init__(self) -> None:
        if not all(0.0 < ratio < math.inf for ratio in self.side_range):
            raise ValueError(f"side_range must be positive and finite, got {self.side_range}")

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if len(self.fill) not in (1, spec.channels):
            raise UnsupportedError(
                f"fill must have 1 value or one for each of the {spec.channels} channels, got {len(self.fill)}"
            )
        return spec.with_size(None)

    @property
    def is_random(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Flip(Op):
    """Mirror with probability ``p``: ``"horizontal"`` swaps left and right, ``"vertical"`` top and bottom."""

    axis: Literal["horizontal", "vertical"]
    p: float = 0.5

    def __post_init__(self) -> None:
        check_probability(self.p)

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return spec

    @property
    def is_random(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class FiveCrop(Op):
    """Five windows of ``size_hw`` in a tuple: top left, top right, bottom left, bottom right, centre."""

    size_hw: SizeHW

    def __post_init__(self) -> None:
        check_size("size_hw", self.size_hw)

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return _several(spec, self.size_hw, 5)


@dataclass(frozen=True, slots=True)
class TenCrop(Op):
    """`FiveCrop` of the image, then of its mirror image: left and right swapped, or top and bottom."""

    size_hw: SizeHW
    vertical_flip: bool = False

    def __post_init__(self) -> None:
        check_size("size_hw", self.size_hw)

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return _several(spec, self.size_hw, 10)


def _several(spec: ImageSpec, size_hw: SizeHW, count: int) -> ImageSpec:
    if spec.tuple_of is not None:
        raise UnsupportedError(f"it would crop each of {spec.tuple_of} crops again; use one FiveCrop or TenCrop")
    if spec.size_hw is not None and (spec.size_hw[0] < size_hw[0] or spec.size_hw[1] < size_hw[1]):
        raise UnsupportedError(f"requested crop size {size_hw} is bigger than the image size {spec.size_hw}")
    return replace(spec, size_hw=size_hw, tuple_of=count)
