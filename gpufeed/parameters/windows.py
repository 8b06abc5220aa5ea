"""Drawing for windows, borders and mirrors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpufeed import geometry
from gpufeed.parameters.batch import Drawn
from gpufeed.parameters.op_draws import OpDraws
from gpufeed.plan import (
    MIRROR_LIMITS,
    CenterCrop,
    FiveCrop,
    Flip,
    Op,
    Pad,
    RandomAreaCrop,
    RandomCrop,
    TenCrop,
    ZoomOut,
)
from gpufeed.spec import ImageSpec

__all__ = ["DRAWERS"]

_Sizes = NDArray[np.int64]


def _area_crop(op: RandomAreaCrop, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B, 4) int64 windows: top, left, height, width."""
    del spec
    windows = geometry.area_windows(sizes, op.scale, op.ratio, draws.unit_pairs)
    return Drawn(windows, windows[:, 2:])


def _random_crop(op: RandomCrop, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B, 4) int64 windows: top, left, height, width."""
    del spec
    unit_top, unit_left = draws.unit_pairs((0,))
    windows = geometry.random_windows(sizes, op.size_hw, unit_top[0], unit_left[0])
    refused = {
        int(row): f"required crop size {op.size_hw} is larger than the image ({sizes[row, 0]}x{sizes[row, 1]} when it "
        "gets there); give RandomCrop pad_if_needed=True or a Resize before it"
        for row in np.flatnonzero((windows[:, :2] < 0).any(axis=1))
    }
    return Drawn(windows, windows[:, 2:], refused)


def _center_crop(op: CenterCrop, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B, 4) int64 windows: top, left, height, width."""
    del spec, draws
    windows = geometry.center_windows(sizes, op.size_hw)
    return Drawn(windows, windows[:, 2:])


def _several_crops(op: FiveCrop | TenCrop, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """Nothing: the windows follow from the sizes."""
    del spec, draws
    refused = {
        int(row): f"requested crop size {op.size_hw} is bigger than the image ({sizes[row, 0]}x{sizes[row, 1]} when it "
        f"gets there); put a Resize before {type(op).__name__}"
        for row in np.flatnonzero((sizes < np.array(op.size_hw)).any(axis=1))
    }
    return Drawn(None, np.broadcast_to(np.array(op.size_hw, dtype=np.int64), sizes.shape), refused)


def _pad(op: Pad, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B, 4) int64 paddings: left, top, right, bottom."""
    del draws
    pads = geometry.paddings(sizes, op.padding_ltrb, op.grow_to_hw)
    out = sizes + np.stack([pads[:, 1] + pads[:, 3], pads[:, 0] + pads[:, 2]], axis=1)
    refused = {
        int(row): f"{op.mode} padding of {tuple(pads[row].tolist())} pixels (left, top, right, bottom) is more than a "
        f"tensor of {sizes[row, 0]}x{sizes[row, 1]} has to mirror; pad the PIL image, before it becomes a tensor"
        for row in np.flatnonzero(_mirrors_too_far(op, spec, sizes, pads))
    }
    return Drawn(pads, out, refused)


def _mirrors_too_far(op: Pad, spec: ImageSpec, sizes: _Sizes, pads: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Rows where torchvision's tensor kernels, which mirror once, would refuse the padding."""
    limit = MIRROR_LIMITS.get(op.mode)
    if limit is None or spec.container == "pil":
        return np.zeros(len(sizes), dtype=np.bool_)
    most = sizes - limit
    height, width = pads[:, 1::2].max(axis=1), pads[:, 0::2].max(axis=1)
    return (height > most[:, 0]) | (width > most[:, 1])


def _zoom_out(op: ZoomOut, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B, 4) int64 paddings: left, top, right, bottom."""
    del spec
    pads = geometry.zoom_out_paddings(sizes, op.side_range, draws.units(0, 3))
    return Drawn(pads, sizes + np.stack([pads[:, 1] + pads[:, 3], pads[:, 0] + pads[:, 2]], axis=1))


def _flip(op: Flip, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B,) bool: whether it is done."""
    del spec
    return Drawn(draws.coin(0, op.p), sizes)


DRAWERS: Mapping[type[Op], Callable[[Any, ImageSpec, _Sizes, OpDraws], Drawn]] = {
    RandomAreaCrop: _area_crop,
    RandomCrop: _random_crop,
    CenterCrop: _center_crop,
    FiveCrop: _several_crops,
    TenCrop: _several_crops,
    Pad: _pad,
    ZoomOut: _zoom_out,
    Flip: _flip,
}
