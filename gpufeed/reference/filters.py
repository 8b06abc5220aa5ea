"""Blur, noise, compression, displacement and linear transformations through torchvision."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode, v2

from gpufeed import noise
from gpufeed.plan import Elastic, GaussianBlur, GaussianNoise, Jpeg, LinearTransformation, Op
from gpufeed.reference.image import F1, F2, Function, Leaf, functional
from gpufeed.reference.values import LeafValues
from gpufeed.tensors import from_numpy

__all__ = ["FUNCTIONS", "LEAVES"]


@contextmanager
def _our_noise(name: str, ours: Callable[..., torch.Tensor]) -> Generator[None]:
    """torchvision's own arithmetic on our noise: a function of torch's that draws is replaced for a call of a kernel.

    Other threads see the replacement too; the oracle runs on one.
    """
    theirs = getattr(torch, name)
    setattr(torch, name, ours)
    try:
        yield
    finally:
        setattr(torch, name, theirs)


def _blur_v1(transform: Any, values: LeafValues, image: Any) -> Any:
    """v1's ``forward`` as it stands, with our sigma in the place of ``get_params``."""

    def our_sigma(*_: object) -> float:
        return float(values.of(GaussianBlur))

    drawn = copy.copy(transform)
    drawn.get_params = our_sigma
    return drawn(image)


def _blur_v2(transform: Any, values: LeafValues, image: Any) -> Any:
    return transform.transform(image, {"sigma": [float(values.of(GaussianBlur))] * 2})


@contextmanager
def _normal_noise(key: NDArray[np.int64]) -> Generator[None]:
    """``torch.randn_like`` gives the noise of a sample's key, in the order of channels, rows and columns."""

    def randn_like(image: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
        drawn = from_numpy(noise.normal(key[None], image.numel())[0])
        return drawn.view(image.shape).to(dtype or image.dtype)

    with _our_noise("randn_like", randn_like):
        yield


def _noise_v2(transform: Any, values: LeafValues, image: Any) -> Any:
    with _normal_noise(values.of(GaussianNoise)):
        return transform.transform(image, {})


@contextmanager
def _old_codecs() -> Generator[None]:
    """torchvision 0.29 warns that its codecs are going to move to another package; they are still the definition."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The image decoding and encoding capabilities", DeprecationWarning)
        yield


def _jpeg_v2(transform: Any, values: LeafValues, image: Any) -> Any:
    with _old_codecs():
        return transform.transform(image, {"quality": int(values.of(Jpeg))})


@contextmanager
def _uniform_noise(key: NDArray[np.int64], height: int, width: int) -> Generator[None]:
    """``torch.rand`` gives the noise of a sample's key: the first call that of x, the second that of y."""
    both = from_numpy(noise.uniform(key[None], 2 * height * width)).view(2, 1, 1, height, width)
    parts = iter(both)

    def rand(*_: object) -> torch.Tensor:
        return next(parts)

    with _our_noise("rand", rand):
        yield


def _elastic_v1(transform: Any, values: LeafValues, image: Any) -> Any:
    _, height, width = F1.get_dimensions(image)
    with _uniform_noise(values.of(Elastic), height, width):
        return transform(image)


def _elastic_v2(transform: Any, values: LeafValues, image: Any) -> Any:
    with _uniform_noise(values.of(Elastic), *F2.get_size(image)):
        params = transform.make_params([image])
    return transform.transform(image, params)


LEAVES: Mapping[type[object], Leaf] = {
    v1.GaussianBlur: _blur_v1,
    v2.GaussianBlur: _blur_v2,
    v2.GaussianNoise: _noise_v2,
    v2.JPEG: _jpeg_v2,
    v1.ElasticTransform: _elastic_v1,
    v2.ElasticTransform: _elastic_v2,
}


def _blur(op: GaussianBlur, image: Any, sigma: np.float64) -> Any:
    return functional(op.api).gaussian_blur(image, list(op.kernel_size), [float(sigma)] * 2)


def _noise(op: GaussianNoise, image: Any, key: NDArray[np.int64]) -> Any:
    with _normal_noise(key):
        return F2.gaussian_noise(image, mean=op.mean, sigma=op.sigma, clip=op.clip)


def _jpeg(op: Jpeg, image: Any, quality: np.int64) -> Any:
    del op
    with _old_codecs():
        return F2.jpeg(image, int(quality))


def _linear(op: LinearTransformation, image: Any, value: None) -> Any:
    del value
    arrays = (op.matrix, op.mean_vector)
    made = copy.copy(v2.LinearTransformation(torch.zeros(1, 1), torch.zeros(1)))  # past the check of equal dtypes
    made.transformation_matrix, made.mean_vector = (from_numpy(array.array().copy()) for array in arrays)
    return made(image)


def _elastic(op: Elastic, image: Any, key: NDArray[np.int64]) -> Any:
    height, width = F2.get_size(image)
    with _uniform_noise(key, height, width):
        if op.api == "v1":
            displacement = v1.ElasticTransform.get_params(list(op.alpha), list(op.sigma), [height, width])
        else:
            made = v2.ElasticTransform(list(op.alpha), list(op.sigma))
            displacement = made.make_params([image])["displacement"]
    fill: Any = None if op.fill is None else list(op.fill)
    mode = InterpolationMode(op.interpolation)
    return functional(op.api).elastic_transform(image, displacement, interpolation=mode, fill=fill)


FUNCTIONS: Mapping[type[Op], Function] = {
    GaussianBlur: _blur,
    GaussianNoise: _noise,
    Jpeg: _jpeg,
    LinearTransformation: _linear,
    Elastic: _elastic,
}
