"""Drawing for windows that are written over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpufeed import geometry
from gpufeed.parameters.batch import Drawn
from gpufeed.parameters.op_draws import OpDraws
from gpufeed.plan import Erase, EraseToNoise, Op
from gpufeed.spec import ImageSpec

__all__ = ["DRAWERS"]

_Sizes = NDArray[np.int64]

_ATTEMPTS = 10
"""torchvision tries ten windows before it erases nothing."""

_PLACE, _NOISE = _ATTEMPTS, _ATTEMPTS + 1
"""Draw numbers behind those of the attempts."""


def _windows(op: Erase | EraseToNoise, sizes: _Sizes, draws: OpDraws) -> NDArray[np.int64]:
    """(B, 4) int64: top, left, height, width; no pixels where no window fits.

    A window fits where it is smaller than the image on both sides (torchvision's ``RandomErasing.make_params``).
    """
    height, width = sizes[:, 0], sizes[:, 1]
    # torchvision keeps the logarithms in float32
    log_low, log_high = np.log(np.array(op.ratio, dtype=np.float32)).astype(np.float64)
    unit_area, unit_ratio = draws.unit_pairs(range(_ATTEMPTS))
    area = height * width * geometry.single(op.scale[0] + (op.scale[1] - op.scale[0]) * unit_area)
    aspect = geometry.single(np.exp(geometry.single(log_low + (log_high - log_low) * unit_ratio)))
    h, w = np.rint(np.sqrt(area * aspect)), np.rint(np.sqrt(area / aspect))
    fits = (h < height) & (w < width)
    row, attempt = np.arange(len(sizes)), fits.argmax(axis=0)
    found = fits.any(axis=0)
    h = np.where(found, h[attempt, row], 0).astype(np.int64)
    w = np.where(found, w[attempt, row], 0).astype(np.int64)
    unit_top, unit_left = draws.unit_pairs((_PLACE,))
    top = np.where(found, geometry.below(unit_top[0], height - h + 1), 0)
    left = np.where(found, geometry.below(unit_left[0], width - w + 1), 0)
    return np.stack([top, left, h, w], axis=1)


def _erase(op: Erase, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B, 4) int64 windows: top, left, height, width; no pixels where nothing is erased."""
    del spec
    return Drawn(_windows(op, sizes, draws), sizes)


def _erase_to_noise(op: EraseToNoise, spec: ImageSpec, sizes: _Sizes, draws: OpDraws) -> Drawn:
    """(B, 6) int64: the window as of `Erase`, and the key of the noise in it."""
    del spec
    return Drawn(np.concatenate([_windows(op, sizes, draws), draws.noise_keys(_NOISE)], axis=1), sizes)


DRAWERS: Mapping[type[Op], Callable[[Any, ImageSpec, _Sizes, OpDraws], Drawn]] = {
    Erase: _erase,
    EraseToNoise: _erase_to_noise,
}
