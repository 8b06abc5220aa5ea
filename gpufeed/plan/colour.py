"""Ops on the colour of each pixel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from gpufeed.errors import UnsupportedError
from gpufeed.plan.op import Api, Op, check_probability, check_range
from gpufeed.spec import ImageSpec, max_value

__all__ = [
    "AdjustSharpness",
    "Autocontrast",
    "ChannelPermutation",
    "ColorJitter",
    "Equalize",
    "FactorRange",
    "Grayscale",
    "Invert",
    "JitterOrder",
    "Posterize",
    "RandomGrayscale",
    "Solarize",
]

FactorRange = tuple[float, float]
"""(low, high): a factor is drawn uniformly from [low, high)."""

JitterOrder = Literal["random", "contrast first or last"]
"""``random``: each order of the four adjustments equally often; the other: brightness, then contrast before or behind
saturation and hue, equally often (SSD's distortion)."""


def _recoloured(spec: ImageSpec) -> ImageSpec:
    """``spec`` behind what keeps values between black and full intensity there; of others nothing is known then."""
    full = (0.0, float(max_value(spec.dtype)))
    if spec.value_range is None:
        return spec
    inside = full[0] <= spec.value_range[0] and spec.value_range[1] <= full[1]
    return replace(spec, value_range=full if inside else None)


@dataclass(frozen=True, slots=True)
class Grayscale(Op):
    """Luma in 1 channel, or repeated in 3. ``api`` as in `Resize`."""

    num_output_channels: int = 1
    api: Api = "v2"

    def __post_init__(self) -> None:
        if self.num_output_channels not in (1, 3):
            raise ValueError(f"num_output_channels must be 1 or 3, got {self.num_output_channels}")

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return replace(spec, channels=self.num_output_channels)


@dataclass(frozen=True, slots=True)
class RandomGrayscale(Op):
    """Luma with probability ``p``, in as many channels as before. ``api`` as in `Resize`."""

    p: float = 0.1
    api: Api = "v2"

    def __post_init__(self) -> None:
        check_probability(self.p)

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return spec

    @property
    def is_random(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class ChannelPermutation(Op):
    """The channels in an order that is drawn, each order equally often."""

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return spec

    @property
    def is_random(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class ColorJitter(Op):
    """Brightness, contrast, saturation and hue, one after the other, each by a factor that is drawn.

    Each step rounds and clamps to the image's dtype. Saturation and hue leave grey images as they are.

    Attributes:
        brightness: the range of the factor, 1 for no change; ``None``: it isn't adjusted.
        contrast: likewise.
        saturation: likewise.
        hue: the range of the shift, in turns within [-0.5, 0.5]; ``None``: it isn't adjusted.
        order: in which they are done.
        p: the probability of each of them.
        api: as in `Resize`.
    """

    brightness: FactorRange | None = None
    contrast: FactorRange | None = None
    saturation: FactorRange | None = None
    hue: FactorRange | None = None
    order: JitterOrder = "random"
    p: float = 1.0
    api: Api = "v2"

    def __post_init__(self) -> None:
        check_probability(self.p)
        infinity = float("inf")
        for name in ("brightness", "contrast", "saturation"):
            factors: FactorRange | None = getattr(self, name)
            if factors is not None:
                check_range(name, factors, -infinity, infinity)
        if self.hue is not None:
            check_range("hue", self.hue, -0.5, 0.5)

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        lows = [factors[0] for factors in (self.brightness, self.contrast, self.saturation) if factors is not None]
        if spec.container != "pil" and min(lows, default=0.0) < 0.0:
            raise UnsupportedError(
                f"on tensors torchvision fails for a factor below 0, and one may be {min(lows)}; raise the range's low"
            )
        return _recoloured(spec)

    @property
    def is_random(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Invert(Op):
    """Full intensity minus the value."""

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return _recoloured(spec)


@dataclass(frozen=True, slots=True)
class Posterize(Op):
    """The highest ``bits`` bits of each value; the others become 0."""

    bits: int

    def __post_init__(self) -> None:
        if not 0 <= self.bits <= 8:
            raise ValueError(f"bits must be in [0, 8], got {self.bits}")

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if spec.container == "pil" and self.bits == 0:
            raise UnsupportedError("Pillow keeps at least 1 bit, got bits=0; give 1 to 8")
        return _recoloured(spec)


@dataclass(frozen=True, slots=True)
class Solarize(Op):
    """Full intensity minus the value for values of ``threshold`` or above, on the scale of the image's dtype."""

    threshold: float

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        highest = max_value(spec.dtype)
        if spec.container != "pil" and self.threshold > highest:
            raise UnsupportedError(
                f"on {spec.dtype} tensors torchvision takes a threshold of at most {highest}, got {self.threshold}; "
                "give one on the scale of the dtype"
            )
        return _recoloured(spec)


@dataclass(frozen=True, slots=True)
class AdjustSharpness(Op):
    """A blend of the image (``factor`` 1) with its smoothed self (0). ``api`` as in `Resize`.

    The outermost pixels, and images of at most 2 pixels on a side, stay as they are.
    """

    factor: float
    api: Api = "v2"

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if spec.container != "pil" and self.factor < 0.0:
            raise UnsupportedError(
                f"on tensors torchvision takes a sharpness_factor of at least 0, got {self.factor}; give another one"
            )
        return _recoloured(spec)


@dataclass(frozen=True, slots=True)
class Autocontrast(Op):
    """Each channel stretched, so that its lowest value becomes 0 and its highest full intensity; a flat one stays.

    ``api`` as in `Resize`.
    """

    api: Api = "v2"

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return _recoloured(spec)


@dataclass(frozen=True, slots=True)
class Equalize(Op):
    """Each channel mapped so that its histogram becomes as even as can be."""

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return _recoloured(spec)
