"""Resampling to another size."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gpufeed.errors import UnsupportedError
from gpufeed.plan.op import Api, Interpolation, Op, SizeHW, check_size
from gpufeed.spec import ImageSpec

__all__ = ["RandomResize", "RandomShortestSize", "Resize", "ResizeOp", "ScaleJitter"]


class ResizeOp(Op):
    """An op that resamples to a size, which is its parameter: (B, 2) heights and widths.

    Attributes:
        interpolation: torchvision's name.
        antialias: whether tensors are low-pass filtered when they shrink; PIL images always are.
        api: which tensor kernel is meant; without effect in the ``pil`` domain, where it is always ``"v2"``.
    """

    __slots__ = ()
    interpolation: Interpolation
    antialias: bool
    api: Api

    @property
    def out_hw(self) -> SizeHW | None:
        """The output's size where it is known beforehand."""
        return None

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if spec.container != "pil":
            if self.interpolation in ("box", "hamming"):
                raise UnsupportedError(f"interpolation {self.interpolation!r} works on PIL images only")
            if self.interpolation == "lanczos" and (self.api == "v1" or not self.antialias):
                raise UnsupportedError(
                    "interpolation 'lanczos' on tensors needs torchvision.transforms.v2 and antialias"
                )
        value_range = spec.value_range
        if spec.domain == "float" and self.interpolation in ("bicubic", "lanczos"):
            value_range = None  # these kernels overshoot
        return replace(spec, size_hw=self.out_hw, value_range=value_range)


@dataclass(frozen=True, slots=True)
class Resize(ResizeOp):
    """Resample to another size.

    Attributes:
        size: ``(h, w)``; or ``(s,)`` for the shorter side; or ``None``, and the longer side becomes ``max_size``.
        max_size: the most that the longer side may have.
        interpolation: as in `ResizeOp`.
        antialias: as in `ResizeOp`.
        api: as in `ResizeOp`.
    """

    size: tuple[int, ...] | None
    max_size: int | None = None
    interpolation: Interpolation = "bilinear"
    antialias: bool = True
    api: Api = "v2"

    def __post_init__(self) -> None:
        if self.size is None:
            if self.max_size is None:
                raise ValueError("max_size must be given when size is None")
        else:
            if len(self.size) not in (1, 2):
                raise ValueError(f"size must have 1 or 2 values, got {self.size}")
            check_size("size", self.size)
            if self.max_size is not None and len(self.size) == 2:
                raise ValueError("max_size can only be given with a size of one value")
            if self.max_size is not None and self.max_size <= self.size[0]:
                raise ValueError(f"max_size must be above the shorter side {self.size[0]}, got {self.max_size}")

    @property
    def out_hw(self) -> SizeHW | None:
        return (self.size[0], self.size[1]) if self.size is not None and len(self.size) == 2 else None


@dataclass(frozen=True, slots=True)
class RandomResize(ResizeOp):
    """Resample so that the shorter side has a length drawn for each image.

    Attributes:
        min_size: the shortest, in pixels.
        max_size: above the longest: it is never drawn itself.
        interpolation: as in `ResizeOp`.
        antialias: as in `ResizeOp`.
        api: as in `ResizeOp`.
    """

    min_size: int
    max_size: int
    interpolation: Interpolation = "bilinear"
    antialias: bool = True
    api: Api = "v2"

    def __post_init__(self) -> None:
        check_size("min_size", (self.min_size,))
        if self.max_size <= self.min_size:
            raise ValueError(f"max_size must be above min_size {self.min_size}, got {self.max_size}")

    @property
    def is_random(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class ScaleJitter(ResizeOp):
    """Resample to the largest size of the image's shape within a target, times a scale drawn for each image.

    Attributes:
        target_size: what the image's width, then its height is compared with, in pixels (torchvision's order).
        scale_range: lowest and highest scale.
        interpolation: as in `ResizeOp`.
        antialias: as in `ResizeOp`.
        api: as in `ResizeOp`.
    """

    target_size: tuple[float, float]
    scale_range: tuple[float, float] = (0.1, 2.0)
    interpolation: Interpolation = "bilinear"
    antialias: bool = True
    api: Api = "v2"

    def __post_init__(self) -> None:
        for name, value in (("target_size", self.target_size), ("scale_range", self.scale_range)):
            if not all(0.0 < item < math.inf for item in value):
                raise ValueError(f"{name} must be positive and finite, got {value}")

    @property
    def is_random(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class RandomShortestSize(ResizeOp):
    """Resample so that the shorter side has one of several lengths, drawn for each image, and the longer one a limit.

    Attributes:
        min_sizes: the lengths, in pixels, each equally likely.
        max_size: the most that the longer side may have.
        interpolation: as in `ResizeOp`.
        antialias: as in `ResizeOp`.
        api: as in `ResizeOp`.
    """

    min_sizes: tuple[float, ...]
    max_size: float | None = None
    interpolation: Interpolation = "bilinear"
    antialias: bool = True
    api: Api = "v2"

    def __post_init__(self) -> None:
        limits = self.min_sizes if self.max_size is None else (*self.min_sizes, self.max_size)
        if not self.min_sizes or not all(0.0 < item < math.inf for item in limits):
            raise ValueError(f"min_sizes and max_size must be positive, got {self.min_sizes} and {self.max_size}")

    @property
    def is_random(self) -> bool:
        return True
