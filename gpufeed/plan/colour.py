"""Ops on the colour of each pixel."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpufeed.plan.op import Api, Op, check_probability
from gpufeed.spec import ImageSpec

__all__ = ["Grayscale", "RandomGrayscale"]


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
