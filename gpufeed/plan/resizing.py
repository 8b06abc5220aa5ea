"""Resampling to another size."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpufeed.errors import UnsupportedError
from gpufeed.plan.op import Api, Interpolation, Op, check_size
from gpufeed.spec import ImageSpec

__all__ = ["Resize"]


@dataclass(frozen=True, slots=True)
class Resize(Op):
    """Resample to another size.

    Attributes:
        size: ``(h, w)``; or ``(s,)`` for the shorter side; or ``None``, and the longer side becomes ``max_size``.
        max_size: the most that the longer side may have.
        interpolation: torchvision's name.
        antialias: whether tensors are low-pass filtered when they shrink; PIL images always are.
        api: which tensor kernel is meant; without effect in the ``pil`` domain, where it is always ``"v2"``.
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

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if spec.container != "pil":
            if self.interpolation in ("box", "hamming"):
                raise UnsupportedError(f"interpolation {self.interpolation!r} works on PIL images only")
            if self.interpolation == "lanczos" and (self.api == "v1" or not self.antialias):
                raise UnsupportedError(
                    "interpolation 'lanczos' on tensors needs torchvision.transforms.v2 and antialias"
                )
        fixed = self.size if self.size is not None and len(self.size) == 2 else None
        value_range = spec.value_range
        if spec.domain == "float" and self.interpolation in ("bicubic", "lanczos"):
            value_range = None  # these kernels overshoot
        return replace(spec, size_hw=(fixed[0], fixed[1]) if fixed else None, value_range=value_range)
