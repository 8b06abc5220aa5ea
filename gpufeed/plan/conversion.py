"""Containers, dtypes and scales."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpufeed.errors import UnsupportedError
from gpufeed.plan.op import Api, Op
from gpufeed.spec import Container, ImageSpec, is_float_dtype, max_value

__all__ = ["Convert", "Normalize", "ToDtype", "ToTensor"]


@dataclass(frozen=True, slots=True)
class ToTensor(Op):
    """A PIL image to a float32 tensor in [0, 1], CHW: ``x / 255``."""

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if spec.container != "pil":
            raise UnsupportedError("ToTensor takes a PIL image, and this is a tensor already")
        return replace(spec, container="tensor", dtype="float32", value_range=(0.0, 1.0))


@dataclass(frozen=True, slots=True)
class Convert(Op):
    """Another container for the same values: ``PILToTensor``, ``ToImage``, ``ToPureTensor``."""

    container: Container

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if self.container == "pil":
            raise UnsupportedError("a tensor doesn't become a PIL image here")
        return replace(spec, container=self.container)


@dataclass(frozen=True, slots=True)
class ToDtype(Op):
    """Another dtype, as ``ToDtype`` and ``ConvertImageDtype``.

    Attributes:
        dtype: torch's name without ``torch.``.
        scale: whether values are scaled to the full intensity of ``dtype``.
        api: as in `Resize`.
    """

    dtype: str
    scale: bool
    api: Api = "v2"

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if spec.container == "pil":
            raise UnsupportedError("a dtype can't be given to a PIL image; put ToImage() before")
        unsafe = (spec.dtype == "float32" and self.dtype in ("int32", "int64")) or (
            spec.dtype == "float64" and self.dtype == "int64"
        )
        if self.scale and unsafe:
            raise UnsupportedError(f"{spec.dtype} can't be scaled to {self.dtype} safely")
        out = replace(spec, dtype=self.dtype)  # validates the name
        if spec.value_range is None:
            return out
        factor = max_value(self.dtype) / max_value(spec.dtype) if self.scale else 1.0
        return replace(out, value_range=(spec.value_range[0] * factor, spec.value_range[1] * factor))


@dataclass(frozen=True, slots=True)
class Normalize(Op):
    """``(x - mean) / std`` per channel, on the tensor's own scale."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if any(value == 0 for value in self.std):
            raise ValueError(f"std must not have a 0, got {self.std}")

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if spec.container == "pil":
            raise UnsupportedError(
                "Normalize does not support PIL images; put ToTensor(), or ToImage() and ToDtype, before"
            )
        if not is_float_dtype(spec.dtype):
            raise UnsupportedError(
                f"Normalize needs a float tensor, got {spec.dtype}; put ToDtype(torch.float32, scale=True) before"
            )
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, spec.channels):
                raise UnsupportedError(f"{name} must have 1 or {spec.channels} values, got {len(values)}")
        if spec.channels == 1 and max(len(self.mean), len(self.std)) > 1:  # pragma: no cover - caught above
            raise UnsupportedError("mean and std must have one value for a grey image")
        return replace(spec, value_range=None)
