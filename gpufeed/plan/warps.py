"""Rotations, affine maps and perspectives: ops that sample the image anew along another grid."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpufeed.errors import UnsupportedError
from gpufeed.plan.op import Api, Fill, Interpolation, Op, check_range
from gpufeed.spec import ImageSpec

__all__ = ["Affine", "Perspective", "Rotate", "Warp"]

_INTERPOLATIONS: dict[bool, tuple[Interpolation, ...]] = {
    True: ("nearest", "bilinear", "bicubic"),
    False: ("nearest", "bilinear"),
}
"""What Pillow can sample PIL images by, and torchvision tensors."""


class Warp(Op):
    """An op that samples along another grid, and fills what lies beyond the image.

    Attributes:
        interpolation: torchvision's name.
        fill: on the scale of the image's dtype. ``None``, which is 0 on PIL images, leaves tensors at the border as
            zeros around the image make them; a fill, 0 too, makes them darker once more.
        api: which tensor kernel is meant.
    """

    __slots__ = ()
    interpolation: Interpolation
    fill: Fill | None
    api: Api

    @property
    def is_random(self) -> bool:
        return True

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        known = _INTERPOLATIONS[spec.container == "pil"]
        if self.interpolation not in known:
            kind = "PIL images" if spec.container == "pil" else "tensors"
            raise UnsupportedError(
                f"interpolation of {kind} must be one of {', '.join(known)} here, got {self.interpolation!r}"
            )
        if self.fill is not None and len(self.fill) not in (1, spec.channels):
            raise UnsupportedError(
                f"fill must have 1 value or one for each of the {spec.channels} channels, got {len(self.fill)}"
            )
        return spec


def _check_finite(name: str, value: tuple[float, ...] | None) -> None:
    if value is not None and not all(map(math.isfinite, value)):
        raise ValueError(f"{name} must be finite, got {value}")


@dataclass(frozen=True, slots=True)
class Rotate(Warp):
    """Turn by an angle drawn for each image.

    Attributes:
        degrees: lowest and highest angle, counter-clockwise.
        interpolation: as in `Warp`.
        expand: whether the output grows to hold the whole turned image.
        center: (x, y) in pixels of the point that stays where it is; ``None`` for the middle.
        fill: as in `Warp`.
        api: as in `Warp`; always ``"v2"`` on PIL images, where both are the same.
    """

    degrees: tuple[float, float]
    interpolation: Interpolation = "nearest"
    expand: bool = False
    center: tuple[float, float] | None = None
    fill: Fill | None = (0.0,)
    api: Api = "v2"

    def __post_init__(self) -> None:
        check_range("degrees", self.degrees, -math.inf, math.inf)
        _check_finite("degrees", self.degrees)
        _check_finite("center", self.center)

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        after = Warp.out_spec(self, spec)
        return after.with_size(None) if self.expand else after


_SMALLEST_SCALE = 1e-30
"""Of an affine map; with less no image has a place that can be computed."""


@dataclass(frozen=True, slots=True)
class Affine(Warp):
    """Turn, shift, scale and shear by numbers drawn for each image; the size stays.

    Attributes:
        degrees: lowest and highest angle, clockwise.
        translate: the farthest that the image is shifted either way, horizontally and vertically, in shares of its
            width and height; whole pixels are drawn.
        scale: lowest and highest scale.
        shear: lowest and highest angle of the shear along x, then along y, in degrees.
        interpolation: as in `Warp`.
        center: (x, y) in pixels of the point that only the shift moves; ``None`` for the middle.
        fill: as in `Warp`.
        api: as in `Warp`; on PIL images too, since the matrices differ in the last bits.
    """

    degrees: tuple[float, float]
    translate: tuple[float, float] = (0.0, 0.0)
    scale: tuple[float, float] = (1.0, 1.0)
    shear: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    interpolation: Interpolation = "nearest"
    center: tuple[float, float] | None = None
    fill: Fill | None = (0.0,)
    api: Api = "v2"

    def __post_init__(self) -> None:
        for name, value in (("degrees", self.degrees), ("shear", self.shear[:2]), ("shear", self.shear[2:])):
            check_range(name, value, -math.inf, math.inf)
            _check_finite(name, value)
        _check_finite("translate", self.translate)
        if min(self.translate) < 0.0:
            raise ValueError(f"translate must not be negative, got {self.translate}")
        check_range("scale", self.scale, 0.0, math.inf)
        _check_finite("scale", self.scale)
        if self.scale[0] < _SMALLEST_SCALE:  # in float32, in which it is drawn, it would be 0
            raise ValueError(f"scale must be at least {_SMALLEST_SCALE:g}, got {self.scale}")
        _check_finite("center", self.center)


@dataclass(frozen=True, slots=True)
class Perspective(Warp):
    """Move the four corners inward, each by numbers drawn for each image; the size stays.

    Attributes:
        distortion_scale: how far a corner may move, in shares of half the width and height.
        interpolation: as in `Warp`.
        fill: as in `Warp`.
        api: as in `Warp`; always ``"v2"`` on PIL images, where both are the same.
    """

    distortion_scale: float = 0.5
    interpolation: Interpolation = "bilinear"
    fill: Fill | None = (0.0,)
    api: Api = "v2"

    def __post_init__(self) -> None:
        if not 0.0 <= self.distortion_scale < math.inf:
            raise ValueError(f"distortion_scale must be finite and not negative, got {self.distortion_scale}")

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        after = Warp.out_spec(self, spec)
        if spec.size_hw is not None and min(spec.size_hw) < 2:
            raise UnsupportedError(
                f"the perspective of an image of {spec.size_hw} isn't defined, and torchvision fails there; "
                "give it an image of at least 2x2 pixels"
            )
        return after
