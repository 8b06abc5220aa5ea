"""Windows that are written over, through torchvision."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed import noise
from gpufeed.plan import Erase, EraseToNoise, Op
from gpufeed.reference.image import F2, Function, Leaf, ints
from gpufeed.reference.values import LeafValues
from gpufeed.tensors import from_numpy

__all__ = ["FUNCTIONS", "LEAVES"]


def _drawn(values: LeafValues) -> NDArray[np.int64]:
    return values.of(EraseToNoise if values.has(EraseToNoise) else Erase)


def _content(value: Any, drawn: NDArray[np.int64], channels: int) -> torch.Tensor:
    """torchvision's ``v``: its value as a tensor, or for none normal noise in float32."""
    if value is not None:
        return torch.tensor(value)[:, None, None]
    _, _, height, width, *key = ints(drawn)
    made = noise.normal(np.array([key]), channels * height * width)
    return from_numpy(made).view(channels, height, width)


def _erase_v1(transform: Any, values: LeafValues, image: Any) -> Any:
    """v1's ``forward`` as it stands, with our window in the place of ``get_params``; never in the image itself."""
    if not values.happens:
        return image

    def our_window(image: Any, value: Any, **_: object) -> tuple[Any, ...]:
        drawn = _drawn(values)
        return (*ints(drawn)[:4], _content(value, drawn, image.shape[-3]))

    always = copy.copy(transform)
    always.get_params, always.p, always.inplace = our_window, 1.0, False
    with cast(Any, torch.random).fork_rng(devices=[]):  # forward draws whether to erase
        return always(image)


def _erase_v2(transform: Any, values: LeafValues, image: Any) -> Any:
    if not values.happens:
        return image
    drawn = _drawn(values)
    top, left, height, width = ints(drawn)[:4]
    content = _content(transform.value, drawn, F2.get_num_channels(image)) if height and width else None
    apart = copy.copy(transform)
    apart.inplace = False
    return apart.transform(image, {"i": top, "j": left, "h": height, "w": width, "v": content})


LEAVES: Mapping[type[object], Leaf] = {
    v1.RandomErasing: _erase_v1,
    v2.RandomErasing: _erase_v2,
}


def _erase(op: Erase, image: Any, window: NDArray[np.int64]) -> Any:
    return F2.erase(image, *ints(window), v=_content(list(op.value), window, F2.get_num_channels(image)))


def _erase_to_noise(op: EraseToNoise, image: Any, value: NDArray[np.int64]) -> Any:
    del op
    return F2.erase(image, *ints(value)[:4], v=_content(None, value, F2.get_num_channels(image)))


FUNCTIONS: Mapping[type[Op], Function] = {
    Erase: _erase,
    EraseToNoise: _erase_to_noise,
}
