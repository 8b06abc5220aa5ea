"""Groups of settings that belong together, frozen and self-validating."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpufeed.errors import ArgumentError

__all__ = ["Decode"]


@dataclass(frozen=True, slots=True)
class Decode:
    """How images are decoded.

    Attributes:
        placement: ``"cpu"``: on the host; ``"mixed"``: on the GPU, JPEGs by its hardware engine where it has one;
            ``"auto"``: ``"mixed"`` on a CUDA device, else ``"cpu"``.
        hw_decoder_load: share of a batch, in [0, 1], that the GPU's hardware JPEG engine takes; ``None`` leaves DALI's
            own choice. Only for ``"mixed"``.
    """

    placement: Literal["auto", "cpu", "mixed"] = "auto"
    hw_decoder_load: float | None = None

    def __post_init__(self) -> None:
        if self.placement not in ("auto", "cpu", "mixed"):
            raise ArgumentError(f"placement must be 'auto', 'cpu' or 'mixed', got {self.placement!r}")
        if self.hw_decoder_load is not None:
            if not 0.0 <= self.hw_decoder_load <= 1.0:
                raise ArgumentError(f"hw_decoder_load must be in [0, 1], got {self.hw_decoder_load}")
            if self.placement == "cpu":
                raise ArgumentError(
                    f"hw_decoder_load={self.hw_decoder_load} needs the GPU's decoder, and placement is 'cpu'; "
                    "use placement='auto' or 'mixed', or leave hw_decoder_load out"
                )

    def resolve(self, device_type: str) -> Literal["cpu", "mixed"]:
        """Where to decode for a loader on ``device_type`` (``"cpu"`` or ``"cuda"``)."""
        if self.placement == "auto":
            return "mixed" if device_type == "cuda" else "cpu"
        if self.placement == "mixed" and device_type != "cuda":
            raise ArgumentError(
                "placement='mixed' decodes on a GPU, and this loader's device is the CPU; "
                "use placement='auto', or device='cuda'"
            )
        return self.placement
