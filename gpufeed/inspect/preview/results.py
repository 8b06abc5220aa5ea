"""What a preview holds: images to look at, and what is drawn on them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Box", "Preview", "SampleRow", "Strip", "Tile"]


@dataclass(frozen=True, slots=True)
class Box:
    """A box on an image.

    Attributes:
        left: in pixels of the image, as the other three; it covers [left, right) by [top, bottom).
        top: see above.
        right: see above.
        bottom: see above.
        label: its class; ``None`` where none is known.
        text: what is written beside it; may be empty.
    """

    left: float
    top: float
    right: float
    bottom: float
    label: int | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """One image of a sheet.

    Attributes:
        label: what it is, above it.
        pixels: (H, W, 3) uint8 RGB; ``None`` where there is no image, which ``text`` explains.
        boxes: drawn on it.
        mask: (h, w) int64 classes, stretched to the image and painted over it: 0 is the ground and stays as it is,
            negative ones and 255 are ignored by training and hatched. ``None``: there is no mask.
        text: below it; may be empty.
    """

    label: str
    pixels: NDArray[np.uint8] | None
    boxes: tuple[Box, ...] = ()
    mask: NDArray[np.int64] | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Strip:
    """The views of one output of a sample, one for each epoch, side by side.

    Attributes:
        source: ``gpufeed``, or what the reference is called.
        output: the path of the output in what the pipeline returns, such as ``[0]``; empty where there is one image.
        tiles: one per epoch, from 0 on.
    """

    source: str
    output: str
    tiles: tuple[Tile, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SampleRow:
    """One sample.

    Attributes:
        index: in the dataset.
        caption: its file, size and class.
        original: as it lies on disk, with its labels.
        strips: below one another: each output's, the reference's beneath it.
    """

    index: int
    caption: str
    original: Tile
    strips: tuple[Strip, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Preview:
    """What a contact sheet shows.

    Attributes:
        title: the subject.
        lines: what belongs to the whole sheet: the data, the seed, and how values were made visible.
        notes: what isn't as it was asked for.
        rows: the samples.
        class_names: of masks and boxes, where they have any.
    """

    title: str
    lines: tuple[str, ...]
    notes: tuple[str, ...]
    rows: tuple[SampleRow, ...]
    class_names: dict[int, str] = field(default_factory=dict[int, str])

    @property
    def tiles(self) -> tuple[Tile, ...]:
        """All of them."""
        return tuple(tile for row in self.rows for tile in (row.original, *(t for s in row.strips for t in s.tiles)))
