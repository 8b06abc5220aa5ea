"""Blur, noise, compression, displacement and linear transformations."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torchvision.transforms import InterpolationMode

from gpufeed.plan import Api, Elastic, FixedArray, GaussianBlur, GaussianNoise, Jpeg, LinearTransformation, Op
from gpufeed.spec import ImageSpec
from gpufeed.tail import noise
from gpufeed.tail.kernel import Kernel, each, functional

__all__ = ["KERNELS", "displacement"]

_UNCHANGED = 0
"""``torchvision.io.ImageReadMode.UNCHANGED``: as many channels as the file has."""

_NOTHING = 1e-9
"""Weights of the Gaussian that are left out: 44 of them, at 255 each, are a hundred-thousandth of a level."""


def _gaussian_blur(
    images: torch.Tensor, op: GaussianBlur, spec: ImageSpec, sigmas: NDArray[np.float64]
) -> torch.Tensor:
    if spec.domain == "pil":
        out = images.new_empty((len(images), *images.shape[2:], images.shape[1]))
        for image, blurred, sigma in zip(images, out, sigmas, strict=True):
            _blur_bytes_into(blurred, image.permute(1, 2, 0), op.kernel_size, float(sigma))
        return out.permute(0, 3, 1, 2)
    blur = functional(op.api).gaussian_blur
    return each(images, sigmas, lambda image, sigma: blur(image, list(op.kernel_size), [float(sigma)] * 2))


def _blur_bytes_into(out: torch.Tensor, image: torch.Tensor, kernel_size: tuple[int, int], sigma: float) -> None:
    """Blur by two one-dimensional passes in float32, rounded once at the end, as torchvision rounds its 2D pass.

    Args:
        out: (H, W, C) uint8, written.
        image: (H, W, C) uint8.
        kernel_size: (x, y), odd.
        sigma: in pixels.
    """
    height, width, channels = image.shape
    half_x, half_y = kernel_size[0] // 2, kernel_size[1] // 2
    rows = torch.empty((height + 2 * half_y, width * channels), dtype=torch.float32, device=image.device)
    rows[half_y : half_y + height].view(height, width, channels).copy_(image)
    _mirror_rows(rows, half_y)
    columns = torch.empty((height, (width + 2 * half_x) * channels), dtype=torch.float32, device=image.device)
    inner = columns[:, half_x * channels : (half_x + width) * channels]
    _weigh_into(inner, [rows[tap : tap + height] for tap in range(kernel_size[1])], sigma)
    _mirror_rows(columns.view(height, -1, channels).transpose(0, 1), half_x)
    taps = [columns[:, tap * channels : (tap + width) * channels] for tap in range(kernel_size[0])]
    result = rows[:height]  # done with
    _weigh_into(result, taps, sigma)
    out.copy_(result.round_().view(height, width, channels))


def _mirror_rows(padded: torch.Tensor, border: int) -> None:
    """Fill ``border`` rows at both ends with those inside, mirrored at the outermost, which isn't repeated."""
    last = len(padded) - 1
    for row in range(border):
        padded[row].copy_(padded[2 * border - row])
        padded[last - row].copy_(padded[last - 2 * border + row])


def _weigh_into(out: torch.Tensor, taps: list[torch.Tensor], sigma: float) -> None:
    """The weighted sum of an odd number of taps; always in the same order."""
    middle = len(taps) // 2
    weights = np.exp(-0.5 * (np.arange(-middle, middle + 1) / sigma) ** 2)
    weights /= weights.sum()
    torch.mul(taps[middle], float(weights[middle]), out=out)
    for tap, weight in zip(taps, weights, strict=True):
        if tap is not taps[middle] and weight > _NOTHING:
            out.add_(tap, alpha=float(weight))


def _gaussian_noise(images: torch.Tensor, op: GaussianNoise, spec: ImageSpec, keys: NDArray[np.int64]) -> torch.Tensor:
    return each(images, keys, lambda image, key: _with_noise(image, op, spec, key))


def _with_noise(image: torch.Tensor, op: GaussianNoise, spec: ImageSpec, key: NDArray[np.int64]) -> torch.Tensor:
    """torchvision's ``gaussian_noise`` of one (C, H, W) image, with our noise; each step rounds as it does there."""
    added = noise.normal(key, image.numel(), image.device).view(image.shape)
    if spec.domain == "uint8":
        # on 16 bits, as torchvision; a value that isn't clipped wraps around
        total = added.mul_(op.sigma * 255).add_(op.mean * 255).to(torch.int16).add_(image)
        return (total.clamp_(0, 255) if op.clip else total).to(torch.uint8)
    total = added.to(image.dtype).mul_(op.sigma).add_(op.mean).add_(image)
    return total.clamp_(0, 1) if op.clip else total


def _jpeg(images: torch.Tensor, op: Jpeg, spec: ImageSpec, qualities: NDArray[np.int64]) -> torch.Tensor:
    """On the host, as libjpeg works there; torchvision's and Pillow's give the same values.

    The operators are those that ``torchvision.io`` calls: its Python functions warn, since 0.29, that they are going to
    move to another package, and a warning can't be silenced in one thread alone.
    """
    del op, spec
    codec = cast(Any, torch.ops).image

    def one(image: torch.Tensor, quality: NDArray[np.int64]) -> torch.Tensor:
        return codec.decode_jpeg(codec.encode_jpeg(image, int(quality)), _UNCHANGED, False)

    return each(images.cpu(), qualities, one).to(images.device)


def _linear_transformation(
    images: torch.Tensor, op: LinearTransformation, spec: ImageSpec, value: None
) -> torch.Tensor:
    """Row by row: a product of several rows adds up in another order."""
    del spec, value
    mean, matrix = _tensor(op.mean_vector, images.device), _tensor(op.matrix, images.device)

    def one(image: torch.Tensor, _: object) -> torch.Tensor:
        flat = image.reshape(1, -1) - mean
        return torch.mm(flat, matrix.to(flat.dtype)).reshape(image.shape)

    return each(images, np.empty(len(images)), one)


@lru_cache(maxsize=4)
def _tensor(array: FixedArray, device: torch.device) -> torch.Tensor:
    """An op's array in torch's own memory on a device; never written to."""
    return torch.tensor(array.array().copy(), device=device)


def _elastic(images: torch.Tensor, op: Elastic, spec: ImageSpec, keys: NDArray[np.int64]) -> torch.Tensor:
    del spec
    elastic = functional(op.api).elastic_transform
    mode = InterpolationMode(op.interpolation)
    fill = None if op.fill is None else list(op.fill)
    shape = (images.shape[-2], images.shape[-1])

    def one(image: torch.Tensor, key: NDArray[np.int64]) -> torch.Tensor:
        return elastic(image, displacement(op, key, shape, image.device), interpolation=mode, fill=fill)

    return each(images, keys, one)


def displacement(op: Elastic, key: NDArray[np.int64], size_hw: tuple[int, int], device: torch.device) -> torch.Tensor:
    """torchvision's displacement from our noise, (1, H, W, 2) float32 in (x, y), where the image is 2 wide and high."""
    height, width = size_hw
    unit = noise.uniform(key, 2 * height * width, device).view(2, 1, 1, height, width)
    parts = [
        _smooth(both * 2 - 1, size, op.sigma, op.api) * alpha / length
        for both, size, alpha, length in zip(unit, op.kernel_sizes, op.alpha, (width, height), strict=True)
    ]
    return torch.cat(parts, dim=1).permute(0, 2, 3, 1)


def _smooth(values: torch.Tensor, kernel_size: int, sigma: tuple[float, float], api: Api) -> torch.Tensor:
    if sigma[0] <= 0.0:  # both are, or none
        return values
    return functional(api).gaussian_blur(values, [kernel_size, kernel_size], list(sigma))


KERNELS: Mapping[type[Op], Kernel] = {
    GaussianBlur: _gaussian_blur,
    GaussianNoise: _gaussian_noise,
    Jpeg: _jpeg,
    LinearTransformation: _linear_transformation,
    Elastic: _elastic,
}
