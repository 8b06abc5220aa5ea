"""Windows of windows: what the decoder decodes, and what is left to add around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Region", "compose_windows", "union"]


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """What to decode of a batch.

    Attributes:
        windows: (B, 4) int64 top, left, height, width in pixels, inside each image.
        outer: row -> (4,) window relative to the decoded one, for the rows where the result reaches beyond it and is
            filled with zeros.
    """

    windows: NDArray[np.int64]
    outer: dict[int, NDArray[np.int64]]

    def relative_to(self, decoded: NDArray[np.int64]) -> NDArray[np.int64]:
        """What is wanted, (B, 4) top, left, height, width, as windows of what was decoded.

        Args:
            decoded: (B, 4) windows of the images that hold at least ``windows``. What is wanted and lies beyond them
                lies beyond the image.
        """
        wanted = self.windows.copy()
        for row, window in self.outer.items():
            wanted[row, :2] += window[:2]
            wanted[row, 2:] = window[2:]
        wanted[:, :2] -= decoded[:, :2]
        return wanted


def union(windows: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """(B, 4): for each sample the smallest window that holds all of its windows, (B, 4) each."""
    start = np.minimum.reduce([window[:, :2] for window in windows])
    end = np.maximum.reduce([window[:, :2] + window[:, 2:] for window in windows])
    return np.concatenate([start, end - start], axis=1)


def compose_windows(sizes_hw: NDArray[np.int64], windows: Sequence[NDArray[np.int64]]) -> Region:
    """One window for a sequence of crops, each (B, 4) relative to the one before; the whole image without any."""
    top_left = np.zeros_like(sizes_hw)
    extent = sizes_hw
    inner_start, inner_end = np.zeros_like(sizes_hw), sizes_hw
    for window in windows:
        top_left = top_left + window[:, :2]
        extent = window[:, 2:]
        inner_start = np.maximum(inner_start, top_left)
        inner_end = np.minimum(inner_end, top_left + extent)
    inner = np.concatenate([inner_start, inner_end - inner_start], axis=1)
    beyond = np.flatnonzero((inner[:, 2:] != extent).any(axis=1))
    outer = {int(row): np.concatenate([top_left[row] - inner_start[row], extent[row]]) for row in beyond}
    return Region(inner, outer)
