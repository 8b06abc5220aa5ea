"""The picture for a README: the headline, the rates with their intervals, and what was measured."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont, UnidentifiedImageError
from PIL.PngImagePlugin import PngInfo

from gpufeed import __version__, result_files
from gpufeed.bench.report.charts import nice_ticks, shortened
from gpufeed.bench.report.elements import shown
from gpufeed.bench.report.figures import Rate, num_rounds, rates, ratio_words
from gpufeed.bench.report.quantities import TIMES, per_second, tick_number
from gpufeed.bench.report.sections import MODES, WHERE, style_of
from gpufeed.bench.results import SCHEMA, Comparison, Mode
from gpufeed.bench.statistics import MUCH_TAKEN, taken_cpus
from gpufeed.bench.verdict import Verdict

__all__ = ["check_png_target", "picture", "write_png"]

_WIDTH, _MARGIN = 1600, 72  # pixels: twice as wide as a README shows it, for dense screens
_LABELS = 350  # pixels of width for contenders' names
_NOTES = 490  # and for what stands behind a bar
_ROW, _BAR = 84, 34  # pixels of height
_INK, _SOFT, _RULE, _PAPER = (27, 29, 32), (90, 95, 103), (227, 227, 222), (255, 255, 255)
_COLOURS = {"ours": (0, 104, 173), "baseline": (86, 91, 99), "other": (154, 160, 168), "bound": (168, 84, 0)}
_FONTS = ("DejaVuSans.ttf", "Arial.ttf", "arial.ttf", "LiberationSans-Regular.ttf", "NotoSans-Regular.ttf")
_MARK = "Software"
"""The text field of a PNG that names the program which wrote it; see the PNG specification, section 11.3.3."""

_Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def check_png_target(path: Path) -> None:
    """Refuse a file that a picture must not or can't be written to: only an earlier one may be there.

    Raises:
        ArgumentError: see `gpufeed.result_files.check_place`.
    """
    result_files.check_place(path, "--png", SCHEMA, _is_picture)


def write_png(comparison: Comparison, verdict: Verdict, path: Path) -> None:
    """Write the picture whole or not at all.

    Raises:
        ArgumentError: see `check_png_target`; or the disk is full or the like.
    """
    check_png_target(path)
    mark = PngInfo()
    mark.add_text(_MARK, f"{SCHEMA} {__version__}")
    content = io.BytesIO()
    # Few colours, all of them kept: a third of the size.
    picture(comparison, verdict).quantize(64, dither=Image.Dither.NONE).save(
        content, "PNG", optimize=True, pnginfo=mark
    )
    result_files.write_whole(content.getvalue(), path)


def _is_picture(content: bytes) -> bool:
    try:
        with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            return str(image.info.get(_MARK, "")).startswith(f"{SCHEMA} ")
    except (UnidentifiedImageError, SyntaxError, ValueError):
        return False


def picture(comparison: Comparison, verdict: Verdict) -> Image.Image:
    """An RGB image, 1600 pixels wide and as high as it must be."""
    measured: list[tuple[Mode, tuple[Rate, ...]]] = [(mode, _shown(comparison, mode)) for mode in MODES]
    groups: list[tuple[Mode, tuple[Rate, ...]]] = [(mode, found) for mode, found in measured if found]
    headline = _wrapped(verdict.headline, _font(46), _WIDTH - 2 * _MARGIN)
    below = _wrapped(_what(comparison), _font(24), _WIDTH - 2 * _MARGIN)
    height = 2 * _MARGIN + 60 * len(headline) + sum(166 + _ROW * len(found) for _, found in groups)
    pen = _Pen(Image.new("RGB", (_WIDTH, height + 34 * len(below)), _PAPER))
    y = _MARGIN
    for line in headline:
        pen.text(_MARGIN, y, line, 46)
        y += 60
    for mode, found in groups:
        y = _group(pen, comparison, mode, found, y + 40)
    for line in below:
        pen.text(_MARGIN, y, line, 24, _SOFT)
        y += 34
    return pen.image


def _shown(comparison: Comparison, mode: Mode) -> tuple[Rate, ...]:
    return tuple(rate for rate in rates(comparison, mode) if rate.row.kind == "loader")


def _what(comparison: Comparison) -> str:
    rounds = num_rounds(comparison, "loader")
    taken = taken_cpus(comparison)
    has_intervals = any(rate.low is not None for mode in MODES for rate in _shown(comparison, mode))
    with_intervals = " with 95 % intervals" if has_intervals else ""
    parts = [
        *(["stopped early"] if comparison.interrupted else []),
        *([f"other programs took {taken:.1f} CPUs away meanwhile"] if taken >= MUCH_TAKEN else []),
        comparison.data,
        " ".join((comparison.transform, *comparison.parameters)),
        f"batch {comparison.batch_size}",
        f"{comparison.num_threads} threads",
        comparison.device_name or str(comparison.environment.get("cpu") or comparison.device),
        f"medians of {rounds} interleaved rounds{with_intervals}",
        "gpufeed compare",
    ]
    return " · ".join(parts)


def _group(pen: _Pen, comparison: Comparison, mode: Mode, found: Sequence[Rate], y: int) -> int:
    """Draw the bars of a mode from ``y`` down; where the next thing may begin."""
    step = "" if comparison.step is None or mode == "loader" else f": {comparison.step.what}"
    title = _fitting(f"Images per second, {WHERE[mode]}{step}", 26, _WIDTH - 2 * _MARGIN)
    pen.text(_MARGIN, y, title, 26, _SOFT)
    y += 56
    left, right = _MARGIN + _LABELS, _WIDTH - _MARGIN - _NOTES
    ticks = nice_ticks(max(max(rate.row.images_per_s, rate.high or 0.0) for rate in found))

    def across(value: float) -> float:
        return left + (right - left) * value / ticks[-1]

    bottom = y + _ROW * len(found)
    for tick in ticks:
        pen.line((across(tick), y, across(tick), bottom), _RULE, 2)
        pen.text(across(tick), bottom + 8, tick_number(tick), 20, _SOFT, anchor="ma")
    for index, rate in enumerate(found):
        top = y + _ROW * index + (_ROW - _BAR) // 2
        middle = top + _BAR // 2
        row = rate.row
        style = style_of(row.name, comparison)
        label = _fitting(row.name, 28, _LABELS - 24)
        pen.text(_MARGIN, middle, label, 28, _COLOURS[style] if style == "ours" else _INK, anchor="lm")
        pen.box((left, top, across(row.images_per_s), top + _BAR), _COLOURS[style])
        if rate.low is not None and rate.high is not None:
            pen.whisker(across(rate.low), across(rate.high), middle)
        words, note = per_second(row.images_per_s), ratio_words(row, comparison.baseline)
        pen.text(right + 32, middle - 16, words, 28, anchor="lm")
        pen.text(right + 32, middle + 17, note, 20, _SOFT, anchor="lm")
    return bottom + 70


@dataclass(frozen=True, slots=True)
class _Pen:
    """Draws on an image."""

    image: Image.Image

    def text(
        self, x: float, y: float, text: str, size: int, colour: tuple[int, int, int] = _INK, anchor: str = "la"
    ) -> None:
        ImageDraw.Draw(self.image).text((x, y), _drawable(text), fill=colour, font=_font(size), anchor=anchor)

    def line(self, ends: tuple[float, float, float, float], colour: tuple[int, int, int], width: int) -> None:
        ImageDraw.Draw(self.image).line(ends, fill=colour, width=width)

    def box(self, edges: tuple[float, float, float, float], colour: tuple[int, int, int]) -> None:
        left, top, right, bottom = edges
        ImageDraw.Draw(self.image).rectangle((left, top, max(left, right), bottom), fill=colour)

    def whisker(self, low: float, high: float, y: float) -> None:
        for colour, width in ((_PAPER, 9), (_INK, 3)):
            self.line((low, y, high, y), colour, width)
            for end in (low, high):
                self.line((end, y - 10, end, y + 10), colour, width)


def _font(size: int) -> _Font:
    """A font that has the signs, of the system's; else Pillow's own, which hasn't."""
    return _system_font(size) or ImageFont.load_default(size)


@cache
def _system_font(size: int) -> ImageFont.FreeTypeFont | None:
    for name in _FONTS:
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return None


def _drawable(text: str) -> str:
    """One line of text; where the system has no font, of the characters that Pillow's own has."""
    line = " ".join(shown(text).split())
    if _system_font(20) is not None:
        return line
    for sign, plain in ((TIMES, "x"), ("…", "..."), (" · ", ", ")):
        line = line.replace(sign, plain)
    return line.encode("ascii", "replace").decode()


def _fitting(label: str, size: int, width: float) -> str:
    """A label of at most ``width`` pixels, shortened in front."""
    font = _font(size)
    return next(
        shorter
        for longest in range(len(label), 0, -1)
        if font.getlength(_drawable(shorter := shortened(label, longest))) <= width or longest == 1
    )


def _wrapped(text: str, font: _Font, width: float) -> list[str]:
    """Lines of at most ``width`` pixels, broken at spaces, and within words that are wider."""
    lines = [""]
    for word in _drawable(text).split(" "):
        longer = f"{lines[-1]} {word}".lstrip()
        if font.getlength(longer) <= width:
            lines[-1] = longer
            continue
        lines.append(word)
        while font.getlength(lines[-1]) > width:
            fitting = next(n for n in range(len(lines[-1]), 0, -1) if font.getlength(lines[-1][:n]) <= width)
            lines[-1:] = [lines[-1][:fitting], lines[-1][fitting:]]
    return [line for line in lines if line]
