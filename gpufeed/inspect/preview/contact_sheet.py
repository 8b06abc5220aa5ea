"""Drawing a preview: one picture with a row per sample, and writing it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from gpufeed.errors import ArgumentError
from gpufeed.inspect.preview.results import Box, Preview, SampleRow, Strip, Tile

__all__ = ["PALETTE", "check_sheet_target", "colour_of", "drawn_sheet", "painted_tile", "write_sheet"]

PALETTE = (
    (230, 60, 60),
    (60, 140, 240),
    (60, 190, 90),
    (245, 160, 30),
    (170, 90, 220),
    (30, 190, 200),
    (240, 110, 180),
    (150, 120, 60),
    (180, 210, 40),
    (100, 110, 200),
    (250, 200, 60),
    (110, 180, 150),
    (200, 80, 120),
    (90, 90, 90),
    (160, 200, 240),
    (210, 140, 110),
)
"""RGB of classes, that of class ``k`` at ``k % 16``: apart from each other, and visible on photographs."""

_LONGEST, _SHORTEST = 320, 112
"""A tile's longer side, in pixels: larger images are shrunk, smaller ones enlarged by whole factors."""

_LONGEST_NAME = 80  # pixels that the name at a box may have, if the box isn't wider
_OPACITY = 0.5  # of a mask
_IGNORED = 255
_MOST_PIXELS = 89_478_485  # Pillow warns beyond, as others refuse
_MARGIN, _GAP, _PAD = 16, 8, 4  # pixels: around the sheet, between tiles, between a tile and its text
_NARROWEST = 560  # pixels: the lines at the top need some width
_PAPER, _INK, _FAINT, _RULE = (250, 250, 250), (20, 20, 20), (95, 95, 95), (205, 205, 205)
_WARNING = (165, 60, 0)

_Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
_Size = tuple[int, int]
_Rgb = tuple[int, int, int]


def colour_of(label: int | None) -> _Rgb:
    """The colour of a class; that of class 0 where there is none."""
    return PALETTE[(label or 0) % len(PALETTE)]


# One tile -------------------------------------------------------------------------------------------------------------


def _shown_size(pixels: NDArray[np.uint8]) -> _Size:
    """Width and height of a tile on the sheet."""
    height, width = pixels.shape[:2]
    longest = max(height, width)
    if longest > _LONGEST:
        return max(round(width * _LONGEST / longest), 1), max(round(height * _LONGEST / longest), 1)
    factor = max(_SHORTEST // longest, 1)
    return width * factor, height * factor


def painted_tile(tile: Tile) -> Image.Image:
    """A tile at its size on the sheet, with its mask and boxes.

    Unless it is shrunk or enlarged, a pixel that no mask and no box covers is the image's own.
    """
    if tile.pixels is None:
        return Image.new("RGB", (_SHORTEST * 2, _SHORTEST), _RULE)
    size = _shown_size(tile.pixels)
    image = Image.fromarray(np.ascontiguousarray(tile.pixels))
    enlarged = size[0] > image.width
    if size != image.size:
        image = image.resize(size, Image.Resampling.NEAREST if enlarged else Image.Resampling.LANCZOS)
    if tile.mask is not None:
        image = Image.fromarray(_masked(np.array(image), tile.mask))
    scale = size[0] / tile.pixels.shape[1], size[1] / tile.pixels.shape[0]
    _draw_boxes(image, tile.boxes, scale)
    return image


def _masked(pixels: NDArray[np.uint8], mask: NDArray[np.int64]) -> NDArray[np.uint8]:
    """(H, W, 3) with the classes of a mask of any size painted half-transparent over it, their rims white.

    What is ignored is hatched.
    """
    height, width = pixels.shape[:2]
    rows, columns = _nearest(height, mask.shape[0]), _nearest(width, mask.shape[1])
    classes = mask[rows[:, None], columns]
    ignored = (classes < 0) | (classes == _IGNORED)
    painted = (classes != 0) & ~ignored
    colours = np.array(PALETTE, dtype=np.float64)[classes % len(PALETTE)]
    blended = np.rint(pixels * (1.0 - _OPACITY) + colours * _OPACITY).astype(np.uint8)
    result = np.where(painted[..., None], blended, pixels)
    result[painted & _rims(classes)] = (255, 255, 255)
    diagonal = np.indices((height, width)).sum(axis=0) % 10
    result[ignored & (diagonal < 2)] = (20, 20, 20)
    result[ignored & (diagonal >= 2) & (diagonal < 4)] = (235, 235, 235)
    return result


def _nearest(wanted: int, held: int) -> NDArray[np.int64]:
    """Which of ``held`` pixels in a line each of ``wanted`` pixels shows."""
    return np.minimum((np.arange(wanted) + 0.5) * held // wanted, held - 1).astype(np.int64)


def _rims(classes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(H, W): the pixels with one of another class above, below or beside them."""
    rims = np.zeros(classes.shape, dtype=bool)
    across, down = classes[:, 1:] != classes[:, :-1], classes[1:] != classes[:-1]
    rims[:, 1:] |= across
    rims[:, :-1] |= across
    rims[1:] |= down
    rims[:-1] |= down
    return rims


def _draw_boxes(image: Image.Image, boxes: Sequence[Box], scale: tuple[float, float]) -> None:
    """Outlines first, then names, so that no outline runs through a name."""
    pen = ImageDraw.Draw(image)
    corners = [_corners(box, scale) for box in boxes]
    for box, (left, top, right, bottom) in zip(boxes, corners, strict=True):
        pen.rectangle(((left, top), (right, bottom)), outline=colour_of(box.label), width=2)
    font = ImageFont.load_default(11)
    for box, (left, top, right, _) in zip(boxes, corners, strict=True):
        if box.text:
            text = _fitted(_printable(box.text), font, max(right - left, _LONGEST_NAME))
            _draw_name(pen, image.size, text, colour_of(box.label), (left, top), font)


def _corners(box: Box, scale: tuple[float, float]) -> tuple[int, int, int, int]:
    """First and last pixels that a box covers on the tile; one that is turned round becomes a line."""
    left, top = round(box.left * scale[0]), round(box.top * scale[1])
    right, bottom = round(box.right * scale[0]) - 1, round(box.bottom * scale[1]) - 1
    return left, top, max(left, right), max(top, bottom)


def _draw_name(
    pen: ImageDraw.ImageDraw, size: _Size, text: str, colour: _Rgb, corner: tuple[int, int], font: _Font
) -> None:
    """A name on its colour, above the corner of a box; within the image where there is no room above."""
    text = _fitted(text, font, size[0] - 6)
    width, height = round(font.getlength(text)) + 6, 14
    left = min(max(corner[0], 0), max(size[0] - width, 0))
    top = corner[1] - height if corner[1] >= height else max(corner[1], 0)
    top = min(top, max(size[1] - height, 0))
    pen.rectangle((left, top, left + width - 1, top + height - 1), fill=colour)
    pen.text((left + 3, top + height / 2), text, fill=_readable_on(colour), font=font, anchor="lm")


def _readable_on(colour: _Rgb) -> _Rgb:
    """Black or white, whichever stands out more."""
    brightness = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]
    return (0, 0, 0) if brightness > 140 else (255, 255, 255)


# The sheet ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fonts:
    title: _Font
    text: _Font
    label: _Font

    @classmethod
    def load(cls) -> _Fonts:
        return cls(ImageFont.load_default(20), ImageFont.load_default(14), ImageFont.load_default(13))


_TITLE_LINE, _TEXT_LINE, _LABEL_LINE = 30, 21, 19  # pixels


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where columns are: their widths in pixels, the originals' first."""

    original: int
    views: tuple[int, ...]

    @classmethod
    def of(cls, preview: Preview, fonts: _Fonts) -> _Layout:
        def widest(tiles: Iterable[Tile]) -> int:
            return max(max(_tile_size(tile)[0], _width(tile.label, fonts.label)) for tile in tiles)

        strips = [strip for row in preview.rows for strip in row.strips]
        view = widest(tile for strip in strips for tile in strip.tiles)
        count = max(len(strip.tiles) for strip in strips)
        return cls(widest(row.original for row in preview.rows), (view,) * count)

    @property
    def width(self) -> int:
        """Of the whole sheet."""
        inside = self.original + _GAP + sum(self.views) + _GAP * len(self.views)
        return max(inside + 2 * _MARGIN, _NARROWEST)

    def left_of(self, number: int) -> int:
        """Where a view's column begins."""
        return _MARGIN + self.original + 2 * _GAP + sum(self.views[:number]) + _GAP * number


def drawn_sheet(preview: Preview) -> Image.Image:
    """The whole sheet, RGB.

    Raises:
        ArgumentError: it would be too large to open.
    """
    fonts = _Fonts.load()
    layout = _Layout.of(preview, fonts)
    width = layout.width
    head = _head_lines(preview, fonts, width - 2 * _MARGIN)
    legend = _legend(preview, fonts, width - 2 * _MARGIN)
    top = _MARGIN + _TITLE_LINE + _TEXT_LINE * (len(head) + len(legend)) + _GAP
    heights = [_row_height(row) for row in preview.rows]
    height = top + sum(heights) + _MARGIN
    if width * height > _MOST_PIXELS:
        raise ArgumentError(
            f"the sheet would have {width} x {height} pixels, more than viewers open; take fewer --samples or --views"
        )
    sheet = Image.new("RGB", (width, height), _PAPER)
    pen = ImageDraw.Draw(sheet)
    title = _fitted(_printable(preview.title), fonts.title, width - 2 * _MARGIN)
    pen.text((_MARGIN, _MARGIN), title, fill=_INK, font=fonts.title)
    y = _MARGIN + _TITLE_LINE
    for line, colour in head:
        pen.text((_MARGIN, y), line, fill=colour, font=fonts.text)
        y += _TEXT_LINE
    for entries in legend:
        _draw_legend(sheet, entries, y, fonts.text)
        y += _TEXT_LINE
    y = top
    for row, row_height in zip(preview.rows, heights, strict=True):
        _draw_row(sheet, pen, row, y, layout, fonts)
        y += row_height
    return sheet


def _head_lines(preview: Preview, fonts: _Fonts, width: int) -> list[tuple[str, _Rgb]]:
    lines = [(line, _FAINT) for text in preview.lines for line in _wrapped(_printable(text), fonts.text, width)]
    return lines + [
        (line, _WARNING) for text in preview.notes for line in _wrapped(_printable(text), fonts.text, width)
    ]


_Entry = tuple[int, str, int]  # class, text, left side in pixels


def _legend(preview: Preview, fonts: _Fonts, width: int) -> list[list[_Entry]]:
    """The colours of masks: lines of entries; none where there is no mask."""
    classes = {int(value) for tile in preview.tiles if tile.mask is not None for value in np.unique(tile.mask)}
    if not any(tile.mask is not None for tile in preview.tiles):
        return []
    lines: list[list[_Entry]] = [[]]
    left = _MARGIN
    for value in sorted(classes):
        text = _legend_text(value, preview)
        needed = 18 + _width(text, fonts.text) + 2 * _GAP
        if left + needed > width and lines[-1]:
            lines.append([])
            left = _MARGIN
        lines[-1].append((value, text, left))
        left += needed
    return lines


def _legend_text(value: int, preview: Preview) -> str:
    if value < 0 or value == _IGNORED:
        return f"{value}: ignored"
    name = preview.class_names.get(value)
    text = f"class {value}" if name is None else f"{value}: {_printable(name)}"
    return f"{text}, left as it is" if value == 0 else text


def _draw_legend(sheet: Image.Image, entries: Sequence[_Entry], top: int, font: _Font) -> None:
    pen = ImageDraw.Draw(sheet)
    for value, text, left in entries:
        if value < 0 or value == _IGNORED:
            white = np.full((12, 12, 3), 255, dtype=np.uint8)
            sheet.paste(Image.fromarray(_masked(white, np.full((12, 12), value))), (left, top + 3))
        colour = colour_of(value) if 0 < value != _IGNORED else None
        pen.rectangle((left, top + 3, left + 11, top + 14), fill=colour, outline=_FAINT)
        pen.text((left + 18, top), text, fill=_FAINT, font=font)


def _tile_size(tile: Tile) -> _Size:
    return (_SHORTEST * 2, _SHORTEST) if tile.pixels is None else _shown_size(tile.pixels)


def _tile_height(tile: Tile) -> int:
    """With its label above and its text below."""
    return _LABEL_LINE + _tile_size(tile)[1] + (_LABEL_LINE if tile.text else 0)


def _strip_height(strip: Strip) -> int:
    return max(_tile_height(tile) for tile in strip.tiles) + _GAP


def _row_height(row: SampleRow) -> int:
    beside = max(_tile_height(row.original) + _GAP, sum(map(_strip_height, row.strips)))
    return _GAP + _TEXT_LINE + _PAD + beside + _GAP


def _draw_row(
    sheet: Image.Image, pen: ImageDraw.ImageDraw, row: SampleRow, top: int, layout: _Layout, fonts: _Fonts
) -> None:
    pen.line((_MARGIN, top, sheet.width - _MARGIN, top), fill=_RULE)
    caption = _fitted(_printable(row.caption), fonts.text, sheet.width - 2 * _MARGIN)
    pen.text((_MARGIN, top + _GAP), caption, fill=_INK, font=fonts.text)
    top += _GAP + _TEXT_LINE + _PAD
    _draw_tile(sheet, pen, row.original, (_MARGIN, top), layout.original, fonts)
    for strip in row.strips:
        for number, tile in enumerate(strip.tiles):
            _draw_tile(sheet, pen, tile, (layout.left_of(number), top), layout.views[number], fonts)
        top += _strip_height(strip)


def _draw_tile(
    sheet: Image.Image, pen: ImageDraw.ImageDraw, tile: Tile, corner: tuple[int, int], width: int, fonts: _Fonts
) -> None:
    left, top = corner
    pen.text((left, top), _fitted(_printable(tile.label), fonts.label, width), fill=_FAINT, font=fonts.label)
    painted = painted_tile(tile)
    sheet.paste(painted, (left, top + _LABEL_LINE))
    if tile.text:
        text = _fitted(_printable(tile.text), fonts.label, width)
        pen.text((left, top + _LABEL_LINE + painted.height + 2), text, fill=_INK, font=fonts.label)


# Text -----------------------------------------------------------------------------------------------------------------


def _printable(text: str) -> str:
    """In the letters that Pillow's bundled font has."""
    return " ".join(text.encode("ascii", "backslashreplace").decode().splitlines())


def _width(text: str, font: _Font) -> int:
    return int(font.getlength(_printable(text))) + 1


def _fitted(text: str, font: _Font, width: int) -> str:
    """Cut off where it is too long."""
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "...") > width:
        text = text[:-1]
    return text + "..."


def _wrapped(text: str, font: _Font, width: int) -> list[str]:
    """In lines that fit; a word that doesn't is cut off."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and font.getlength(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(_fitted(word, font, width))
    return lines


# Writing --------------------------------------------------------------------------------------------------------------


def check_sheet_target(path: Path, *, force: bool = False) -> None:
    """Refuse a file that a sheet must not or can't be written to, before the work begins.

    Args:
        path: of the file.
        force: a file that is there may be replaced.

    Raises:
        ArgumentError: it isn't called ``.png``, is there already, is no file, or its folder can't be written to.
    """
    if path.suffix.lower() != ".png":
        raise ArgumentError(f"--out must end in .png, got {path}")
    if not path.parent.is_dir():
        raise ArgumentError(f"there is no folder {path.parent} to write {path.name} to; make it first")
    if path.is_dir() or (path.exists() and not path.is_file()):
        raise ArgumentError(f"{path} is no ordinary file; give --out another name")
    if os.path.lexists(path) and not force:
        raise ArgumentError(f"{path} exists, and nothing is overwritten; give --out another name, or add --force")
    if not os.access(path.parent, os.W_OK):
        raise ArgumentError(f"the folder {path.parent} can't be written to; give --out another place")


def write_sheet(sheet: Image.Image, path: Path, *, force: bool = False) -> None:
    """Write a PNG whole or not at all: under a temporary name first.

    Raises:
        ArgumentError: see `check_sheet_target`; or the disk is full or the like.
    """
    check_sheet_target(path, force=force)
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".gpufeed-") as folder:
            temporary = Path(folder) / path.name
            sheet.save(temporary, "PNG")
            if force:
                os.replace(temporary, path)
            else:
                os.link(temporary, path)  # fails where somebody has made the file meanwhile
    except FileExistsError:
        check_sheet_target(path, force=force)
        raise
    except OSError as error:
        raise ArgumentError(f"{path} can't be written ({error.strerror or error})") from error
