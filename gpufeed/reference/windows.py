"""Crops, borders and mirrors through torchvision."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed.plan import CenterCrop, FiveCrop, Flip, Op, Pad, RandomAreaCrop, RandomCrop, TenCrop, ZoomOut
from gpufeed.reference.image import F1, F2, Function, Leaf, ints
from gpufeed.reference.values import LeafValues

__all__ = ["FUNCTIONS", "LEAVES"]


def _area_crop_v1(transform: Any, values: LeafValues, image: Any) -> Any:
    return _forward_with_window(transform, values.of(RandomAreaCrop), image)


def _crop_v1(transform: Any, values: LeafValues, image: Any) -> Any:
    return _forward_with_window(transform, values.of(RandomCrop), image)


def _forward_with_window(transform: Any, window: NDArray[Any], image: Any) -> Any:
    """v1's ``forward`` as it stands, padding included, with our window in the place of ``get_params``."""

    def our_window(*_: object) -> tuple[int, ...]:
        return tuple(ints(window))

    drawn = copy.copy(transform)
    drawn.get_params = our_window
    return drawn(image)


def _area_crop_v2(transform: Any, values: LeafValues, image: Any) -> Any:
    top, left, height, width = ints(values.of(RandomAreaCrop))
    return transform.transform(image, {"top": top, "left": left, "height": height, "width": width})


def _crop_v2(transform: Any, values: LeafValues, image: Any) -> Any:
    """Size, padding and whether to crop at all are v2's own; only the place is ours."""
    with cast(Any, torch.random).fork_rng(devices=[]):  # make_params draws a place of its own
        params = transform.make_params([image])
    top, left, *_ = ints(values.of(RandomCrop))
    return transform.transform(image, {**params, "top": top, "left": left})


def _zoom_out(transform: Any, values: LeafValues, image: Any) -> Any:
    if not values.has(ZoomOut):
        return image
    return transform.transform(image, {"padding": ints(values.of(ZoomOut))})


def _is_flipped(values: LeafValues) -> bool:
    return values.has(Flip) and bool(values.of(Flip))


def _hflip_v1(transform: Any, values: LeafValues, image: Any) -> Any:
    del transform
    return F1.hflip(image) if _is_flipped(values) else image


def _vflip_v1(transform: Any, values: LeafValues, image: Any) -> Any:
    del transform
    return F1.vflip(image) if _is_flipped(values) else image


def _flip_v2(transform: Any, values: LeafValues, image: Any) -> Any:
    return transform.transform(image, {}) if _is_flipped(values) else image


LEAVES: Mapping[type[object], Leaf] = {
    v1.RandomResizedCrop: _area_crop_v1,
    v2.RandomResizedCrop: _area_crop_v2,
    v1.RandomCrop: _crop_v1,
    v2.RandomCrop: _crop_v2,
    v2.RandomZoomOut: _zoom_out,
    v1.RandomHorizontalFlip: _hflip_v1,
    v2.RandomHorizontalFlip: _flip_v2,
    v1.RandomVerticalFlip: _vflip_v1,
    v2.RandomVerticalFlip: _flip_v2,
}


def _crop(op: RandomAreaCrop | RandomCrop, image: Any, window: NDArray[np.int64]) -> Any:
    del op
    return F2.crop(image, *ints(window))


def _center_crop(op: CenterCrop, image: Any, window: NDArray[np.int64]) -> Any:
    del window
    return F2.center_crop(image, list(op.size_hw))


def _pad(op: Pad, image: Any, pads: NDArray[np.int64]) -> Any:
    fill = op.fill[0] if len(op.fill) == 1 else list(op.fill)
    return F2.pad(image, ints(pads), fill=fill, padding_mode=op.mode)


def _canvas(op: ZoomOut, image: Any, pads: NDArray[np.int64]) -> Any:
    return _pad(Pad(fill=op.fill), image, pads)


def _flip(op: Flip, image: Any, applied: np.bool_) -> Any:
    flip = F2.horizontal_flip if op.axis == "horizontal" else F2.vertical_flip
    return flip(image) if bool(applied) else image


def _five_crop(op: FiveCrop, image: Any, value: None) -> Any:
    del value
    return tuple(F2.five_crop(image, list(op.size_hw)))


def _ten_crop(op: TenCrop, image: Any, value: None) -> Any:
    del value
    return tuple(F2.ten_crop(image, list(op.size_hw), vertical_flip=op.vertical_flip))


FUNCTIONS: Mapping[type[Op], Function] = {
    RandomAreaCrop: _crop,
    RandomCrop: _crop,
    CenterCrop: _center_crop,
    Pad: _pad,
    ZoomOut: _canvas,
    Flip: _flip,
    FiveCrop: _five_crop,
    TenCrop: _ten_crop,
}
