"""What is compared about draws: numbers with names, and how a distribution is stated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Categories", "Quantities", "Range", "window_quantities"]

_GRID = 20_000


@dataclass(frozen=True, slots=True)
class Range:
    """A uniform distribution.

    Attributes:
        low: the lowest value.
        high: the highest, in or out makes no difference for floats; for whole numbers it is the last one.
        whole: whether only whole numbers are drawn.
    """

    low: float
    high: float
    whole: bool = False

    def grid(self) -> NDArray[np.float64]:
        """Values that stand for the distribution: equally many in equal parts of the range."""
        if self.whole:
            return np.arange(self.low, self.high + 1)
        return self.low + (self.high - self.low) * (np.arange(_GRID) + 0.5) / _GRID


@dataclass(frozen=True, slots=True, eq=False)
class Categories:
    """How often each of a few outcomes came, or its probability.

    Attributes:
        numbers: (K,) counts, or probabilities that sum to 1.
        names: of the outcomes, as in "first: hue"; counts have them.
    """

    numbers: NDArray[np.int64] | NDArray[np.float64]
    names: Sequence[str] = ()


Quantities = Mapping[str, NDArray[np.float64] | Categories]
"""Quantities by name: one number per draw, NaN where nothing was drawn; or counts of outcomes."""


def window_quantities(
    windows: NDArray[np.int64], sizes_hw: NDArray[np.int64], ratio_is_width_by_height: bool = True
) -> dict[str, NDArray[np.float64]]:
    """What random windows are like.

    Args:
        windows: (B, 4) top, left, height, width; one without pixels counts as not drawn.
        sizes_hw: (B, 2) of the images.
        ratio_is_width_by_height: which of the two ratios the transform draws.

    Returns:
        ``area``: share of the image; ``log ratio``; ``centre y`` and ``centre x``: in [0, 1] of the image.
    """
    top, left, height, width = windows.astype(np.float64).T
    image_h, image_w = sizes_hw.astype(np.float64).T
    there = (height > 0) & (width > 0)
    safe_h, safe_w = np.where(there, height, 1.0), np.where(there, width, 1.0)
    log_ratio = np.log(safe_w / safe_h) if ratio_is_width_by_height else np.log(safe_h / safe_w)
    values = {
        "area": height * width / (image_h * image_w),
        "log ratio": log_ratio,
        "centre y": (top + height / 2) / image_h,
        "centre x": (left + width / 2) / image_w,
    }
    return {name: np.where(there, numbers, np.nan) for name, numbers in values.items()}
