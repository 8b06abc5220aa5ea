"""What an image is between two ops: container, dtype, size, channels, and the value domain that follows from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["Container", "Domain", "ImageSpec", "is_float_dtype", "max_value"]

Container = Literal["pil", "tensor", "tv_image"]
"""How a sample would arrive in torchvision: a ``PIL.Image``, a plain ``torch.Tensor`` or a ``tv_tensors.Image``."""

Domain = Literal["pil", "uint8", "integer", "float"]
"""Whose arithmetic holds: Pillow's on 8 bits, or torchvision's tensor kernels on uint8, other integers or floats."""

_MAX_VALUES = {
    "uint8": 2**8 - 1,
    "int8": 2**7 - 1,
    "int16": 2**15 - 1,
    "uint16": 2**16 - 1,
    "int32": 2**31 - 1,
    "int64": 2**63 - 1,
}
_FLOAT_DTYPES = ("float16", "bfloat16", "float32", "float64")


def is_float_dtype(dtype: str) -> bool:
    """Whether ``dtype`` (torch's name without ``torch.``) is a floating point type."""
    return dtype in _FLOAT_DTYPES


def max_value(dtype: str) -> int:
    """The value that stands for full intensity: the maximum of an integer dtype, 1 for a float dtype."""
    return 1 if is_float_dtype(dtype) else _MAX_VALUES[dtype]


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """An image between two ops.

    Attributes:
        container: how torchvision would hold it; it decides which kernel is the definition.
        dtype: torch's name without ``torch.``, such as ``"uint8"``.
        channels: 1 or 3.
        size_hw: (height, width) in pixels where every sample has the same, else ``None``.
        value_range: lowest and highest value possible before normalisation; ``None`` once it depends on the data.
        tuple_of: how many images a sample has become, all alike, in a tuple (``FiveCrop``, ``TenCrop``); ``None`` for
            an image that isn't in a tuple.
    """

    container: Container = "pil"
    dtype: str = "uint8"
    channels: int = 3
    size_hw: tuple[int, int] | None = None
    value_range: tuple[float, float] | None = (0.0, 255.0)
    tuple_of: int | None = None

    def __post_init__(self) -> None:
        if self.dtype not in _MAX_VALUES and self.dtype not in _FLOAT_DTYPES:
            known = ", ".join((*_MAX_VALUES, *_FLOAT_DTYPES))
            raise ValueError(f"dtype must be one of {known}, got {self.dtype!r}")
        if self.container == "pil" and self.dtype != "uint8":
            raise ValueError(f"a PIL image is uint8 here, got {self.dtype!r}")

    @property
    def domain(self) -> Domain:
        """The value domain that an op has to work in."""
        if self.container == "pil":
            return "pil"
        if is_float_dtype(self.dtype):
            return "float"
        return "uint8" if self.dtype == "uint8" else "integer"

    @property
    def layout(self) -> Literal["HWC", "CHW"]:
        """``HWC`` for a PIL image, ``CHW`` for a tensor."""
        return "HWC" if self.container == "pil" else "CHW"

    def with_size(self, size_hw: tuple[int, int] | None) -> ImageSpec:
        """The same image at another size, or at a size that varies with the sample (``None``)."""
        return replace(self, size_hw=size_hw)

    def __str__(self) -> str:
        size = "H x W" if self.size_hw is None else f"{self.size_hw[0]} x {self.size_hw[1]}"
        shape = f"{size} x {self.channels}" if self.layout == "HWC" else f"{self.channels} x {size}"
        image = f"{self.container} {self.dtype} {shape}"
        return image if self.tuple_of is None else f"tuple of {self.tuple_of} {image}"
