"""Ops that blur, add noise, compress, displace pixels or mix all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpufeed.errors import UnsupportedError
from gpufeed.plan.op import Api, Fill, FixedArray, Interpolation, Op, check_range
from gpufeed.spec import ImageSpec, is_float_dtype

__all__ = ["Elastic", "GaussianBlur", "GaussianNoise", "Jpeg", "LinearTransformation"]

_LARGEST = 1e30
"""No sigma is larger: beyond, float32 has no such numbers."""


@dataclass(frozen=True, slots=True)
class GaussianBlur(Op):
    """Convolve with a Gaussian kernel, the image mirrored at its borders without repeating the outermost pixel.

    Attributes:
        kernel_size: pixels of the kernel in x and in y, odd.
        sigma: lowest and highest standard deviation in pixels; each sample draws one, for both axes.
        api: whose kernel; on PIL images too, which both generations take through a tensor.
    """

    kernel_size: tuple[int, int]
    sigma: tuple[float, float]
    api: Api = "v2"

    def __post_init__(self) -> None:
        if any(size < 1 or size % 2 == 0 for size in self.kernel_size):
            raise ValueError(f"kernel_size must be odd and positive, got {self.kernel_size}")
        check_range("sigma", self.sigma, 0.0, _LARGEST)
        if np.float32(self.sigma[0]) <= 0.0:
            raise ValueError(f"sigma must be positive, got {self.sigma}")

    @property
    def smallest_hw(self) -> tuple[int, int]:
        """The smallest image that has enough pixels to mirror."""
        return self.kernel_size[1] // 2 + 1, self.kernel_size[0] // 2 + 1

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        _check_mirrors(self.smallest_hw, spec, f"kernel_size {self.kernel_size}")
        return spec

    @property
    def is_random(self) -> bool:
        return self.sigma[0] < self.sigma[1]


def _check_mirrors(smallest_hw: tuple[int, int], spec: ImageSpec, cause: str) -> None:
    if spec.size_hw is not None and (spec.size_hw[0] < smallest_hw[0] or spec.size_hw[1] < smallest_hw[1]):
        raise UnsupportedError(
            f"{cause} mirrors the borders of images of {smallest_hw[0]}x{smallest_hw[1]} pixels and more, and these "
            f"have {spec.size_hw[0]}x{spec.size_hw[1]}; put a Resize before it, or give it a smaller value"
        )


@dataclass(frozen=True, slots=True)
class GaussianNoise(Op):
    """Add normal noise to each value.

    Attributes:
        mean: of the noise, where 1 is full intensity.
        sigma: its standard deviation, where 1 is full intensity.
        clip: whether values stay within black and full intensity; else a uint8 value wraps around.
    """

    mean: float = 0.0
    sigma: float = 0.1
    clip: bool = True

    def __post_init__(self) -> None:
        if self.sigma < 0.0:
            raise ValueError(f"sigma must not be negative, got {self.sigma}")

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if spec.container == "pil":
            raise UnsupportedError("GaussianNoise does not support PIL images; put ToImage() before")
        if spec.domain == "integer":
            raise UnsupportedError(
                f"GaussianNoise takes uint8 or float tensors, got {spec.dtype}; put ToDtype(torch.float32, scale=True) "
                "before"
            )
        if spec.tuple_of is not None:
            raise UnsupportedError(
                f"torchvision adds other noise to each of the {spec.tuple_of} images, and gpufeed's noise is one per "
                "sample; put GaussianNoise before FiveCrop or TenCrop"
            )
        if spec.domain == "uint8":
            return replace(spec, value_range=(0.0, 255.0))
        return replace(spec, value_range=(0.0, 1.0) if self.clip else None)

    @property
    def is_random(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Jpeg(Op):
    """Compress as JPEG and decompress, with a quality drawn from lowest to highest, both included."""

    quality: tuple[int, int]

    def __post_init__(self) -> None:
        check_range("quality", self.quality, 1, 100)

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if spec.dtype != "uint8":
            raise UnsupportedError(f"JPEG takes uint8 images, got {spec.dtype}; put it before the conversion to floats")
        return spec

    @property
    def is_random(self) -> bool:
        return self.quality[0] < self.quality[1]


@dataclass(frozen=True, slots=True)
class LinearTransformation(Op):
    """``(x - mean_vector) @ matrix`` on all D values of an image, channel after channel, row after row.

    Attributes:
        matrix: (D, D) float.
        mean_vector: (D,) float.
    """

    matrix: FixedArray
    mean_vector: FixedArray

    def __post_init__(self) -> None:
        length = self.mean_vector.shape[0] if len(self.mean_vector.shape) == 1 else -1
        if self.matrix.shape != (length, length):
            raise ValueError(
                f"transformation_matrix must be square, with as many rows as mean_vector has values, got shapes "
                f"{self.matrix.shape} and {self.mean_vector.shape}"
            )
        for name, array in (("transformation_matrix", self.matrix), ("mean_vector", self.mean_vector)):
            if not is_float_dtype(array.dtype):
                raise ValueError(f"{name} must be a float tensor, got {array.dtype}")

    @property
    def length(self) -> int:
        """D."""
        return self.mean_vector.shape[0]

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if spec.container == "pil":
            raise UnsupportedError(
                "LinearTransformation does not support PIL images; put ToTensor(), or ToImage() and ToDtype, before"
            )
        if spec.size_hw is not None and spec.channels * spec.size_hw[0] * spec.size_hw[1] != self.length:
            raise UnsupportedError(
                f"the transformation matrix is for images of {self.length} values, and these have "
                f"{spec.channels} x {spec.size_hw[0]} x {spec.size_hw[1]}; put a Resize before it, or give it a matrix "
                "of that size"
            )
        return replace(spec, dtype=_difference_dtype(spec.dtype, self.mean_vector.dtype), value_range=None)


def _difference_dtype(image: str, mean: str) -> str:
    """torch's dtype of an image minus a float vector: the larger of two floats; an integer counts for nothing."""
    if not is_float_dtype(image) or image == mean:
        return mean
    if "bfloat16" in (image, mean):  # which NumPy doesn't know; with float16 it makes float32
        other = mean if image == "bfloat16" else image
        return "float32" if other == "float16" else other
    return np.promote_types(image, mean).name


@dataclass(frozen=True, slots=True)
class Elastic(Op):
    """Displace pixels by smooth noise.

    Attributes:
        alpha: magnitude of the displacement in x and in y, in half pixels before smoothing.
        sigma: standard deviation in pixels, in x and in y, of the Gaussian that smooths the noise; neither positive for
            noise that isn't smoothed.
        interpolation: ``"nearest"``, ``"bilinear"`` or ``"bicubic"``, of torch's ``grid_sample``.
        fill: outside the image; ``None`` is as zeros, without the blending at the border.
        api: whose kernels, of the blur too; on PIL images too, which both generations take through a tensor.
    """

    alpha: tuple[float, float]
    sigma: tuple[float, float]
    interpolation: Interpolation = "bilinear"
    fill: Fill | None = (0.0,)
    api: Api = "v2"

    def __post_init__(self) -> None:
        if self.interpolation not in ("nearest", "bilinear", "bicubic"):
            raise ValueError(f"interpolation must be nearest, bilinear or bicubic, got {self.interpolation!r}")
        if (self.sigma[0] > 0.0) != (self.sigma[1] > 0.0):
            raise ValueError(f"sigma must be positive in both directions or in none, got {self.sigma}")

    @property
    def kernel_sizes(self) -> tuple[int, int]:
        """Pixels of the square kernels that smooth the displacement in x and in y; 1 where nothing is smoothed."""
        sizes = [int(8 * sigma + 1) if sigma > 0.0 else 1 for sigma in self.sigma]
        return sizes[0] + (sizes[0] + 1) % 2, sizes[1] + (sizes[1] + 1) % 2

    @property
    def smallest_hw(self) -> tuple[int, int]:
        """The smallest image whose noise has enough pixels to mirror."""
        smallest = max(self.kernel_sizes) // 2 + 1
        return smallest, smallest

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if self.fill is not None and len(self.fill) not in (1, spec.channels):
            raise UnsupportedError(
                f"fill must have 1 value or one for each of the {spec.channels} channels, got {len(self.fill)}"
            )
        _check_mirrors(self.smallest_hw, spec, f"sigma {self.sigma}")
        return spec if spec.domain in ("pil", "uint8") else replace(spec, value_range=None)

    @property
    def is_random(self) -> bool:
        return True
