"""Ops that write over a window."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpufeed.errors import UnsupportedError
from gpufeed.plan.op import Fill, Op, check_range
from gpufeed.spec import ImageSpec

__all__ = ["Erase", "EraseToNoise"]


def _check_window(scale: tuple[float, float], ratio: tuple[float, float]) -> None:
    check_range("scale", scale, 0.0, float("inf"))
    if ratio[0] <= 0.0:
        raise ValueError(f"ratio must be positive, got {ratio}")


@dataclass(frozen=True, slots=True)
class Erase(Op):
    """Write ``value`` over a random window: the one of ``RandomErasing``.

    Attributes:
        scale: lowest and highest share of the image's area; a share that fits in none of ten tries erases nothing.
        ratio: lowest and highest height / width.
        value: on the scale of the image's dtype; cut to whole numbers, which wrap around, in an integer image.
    """

    scale: tuple[float, float]
    ratio: tuple[float, float]
    value: Fill = (0.0,)

    def __post_init__(self) -> None:
        _check_window(self.scale, self.ratio)

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if len(self.value) not in (1, spec.channels):
            raise UnsupportedError(
                f"value must have 1 value or one for each of the {spec.channels} channels, got {len(self.value)}"
            )
        if spec.dtype == "uint8" or spec.value_range is None:
            return spec
        low, high = spec.value_range
        return replace(spec, value_range=(min(low, *self.value), max(high, *self.value)))

    @property
    def is_random(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class EraseToNoise(Op):
    """Write normal noise, of mean 0 and standard deviation 1, over a random window; attributes as of `Erase`."""

    scale: tuple[float, float]
    ratio: tuple[float, float]

    def __post_init__(self) -> None:
        _check_window(self.scale, self.ratio)

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return spec if spec.dtype == "uint8" else replace(spec, value_range=None)

    @property
    def is_random(self) -> bool:
        return True
