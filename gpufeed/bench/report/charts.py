"""Charts as SVG that takes the width it is given: across in percent, down in pixels, so that text keeps its size.

Every chart is one image to assistive software, with a title and a description that has all its values in words.
Colours come from the page's style sheet by class, and nothing is told by colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree.ElementTree import Element

import numpy as np

from gpufeed.bench.report.elements import element

__all__ = ["Bar", "Rung", "Strip", "bar_chart", "ladder", "nice_ticks", "shortened", "wait_strips"]

Style = Literal["ours", "baseline", "other", "bound"]

_LONGEST_LABEL = 24  # characters that fit beside a value on a phone
_LONGEST_TICK = 5  # of six ticks that fit on a phone
_ROW, _BAR_TOP, _BAR, _NOTE = 50, 20, 12, 20  # pixels of height: a row, its bar's place and height, a note below
_STRIP, _STRIP_TOP = 56, 40  # pixels of height: a strip of waits, its place
_MOST_COLUMNS = 300  # of a strip: more are thinner than a phone's pixels


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of `bar_chart`.

    Attributes:
        label: whose it is.
        value: the bar's length, at least 0.
        text: the value in words.
        style: how it is drawn.
        note: a line below the bar.
        low: the interval's lower end; ``None`` without one.
        high: its upper end.
        marks: single values, drawn as ticks below the bar.
        is_framed: the full scale is outlined, as what the bar is a part of.
    """

    label: str
    value: float
    text: str
    style: Style = "other"
    note: str = ""
    low: float | None = None
    high: float | None = None
    marks: tuple[float, ...] = ()
    is_framed: bool = False


@dataclass(frozen=True, slots=True)
class Rung:
    """A row of `ladder`: a label, a value above 0, the value in words, and how it is drawn."""

    label: str
    value: float
    text: str
    style: Style


@dataclass(frozen=True, slots=True)
class Strip:
    """A row of `wait_strips`: a label, a line below it, a value per batch, and how it is drawn."""

    label: str
    note: str
    values: tuple[float, ...]
    style: Style


def shortened(label: str, longest: int = _LONGEST_LABEL) -> str:
    """A label of at most ``longest`` characters; the end, which tells file names apart, is kept."""
    return label if len(label) <= longest else "…" + label[1 - longest :]


def nice_ticks(largest: float, most: int = 5) -> tuple[float, ...]:
    """0 and at most ``most`` multiples of 1, 2, 2.5 or 5 times a power of ten, the last one at or above ``largest``."""
    if largest <= 0:
        return (0.0, 1.0)
    power = 10.0 ** math.floor(math.log10(largest / most))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10, 20) if math.ceil(largest / (factor * power)) <= most)
    return tuple(step * index for index in range(math.ceil(largest / step - 1e-9) + 1))


def bar_chart(
    identifier: str, title: str, bars: Sequence[Bar], tick_text: Callable[[float], str], largest: float | None = None
) -> Element:
    """Horizontal bars from 0 on one scale, with intervals as whiskers.

    Args:
        identifier: unique on the page.
        title: what is shown, with its unit.
        bars: from top to bottom.
        tick_text: a place on the scale in words.
        largest: what the scale must hold besides the bars.
    """
    ends = [end for bar in bars for end in (bar.value, bar.high or 0.0, *bar.marks)]
    end = max([*ends, largest or 0.0])
    ticks = nice_ticks(end)
    if max(len(tick_text(tick)) for tick in ticks) > _LONGEST_TICK:
        ticks = nice_ticks(end, 4)
    scale = _Scale(ticks[-1])
    height = sum(_row_height(bar) for bar in bars)
    parts: list[Element] = list(_grid(ticks, scale, height, tick_text))
    top = 0
    for bar in bars:
        parts.extend(_bar(bar, scale, top))
        top += _row_height(bar)
    words = "; ".join(f"{bar.label}: {bar.text}" + (f", {bar.note}" if bar.note else "") for bar in bars)
    return _image(identifier, title, words, height + 20, parts)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Values from 0 to ``largest`` as places across."""

    largest: float

    def __call__(self, value: float) -> str:
        return _percent(min(value / self.largest, 1.0))


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def _row_height(bar: Bar) -> int:
    return _ROW + (_NOTE if bar.note else 0)


def _grid(ticks: Sequence[float], scale: _Scale, height: int, tick_text: Callable[[float], str]) -> Iterator[Element]:
    for index, tick in enumerate(ticks):
        across = scale(tick)
        anchor = "start" if index == 0 else "end" if index == len(ticks) - 1 else "middle"
        yield element("line", x1=across, x2=across, y1=0, y2=height, class_="grid")
        yield element("text", tick_text(tick), x=across, y=height + 14, text_anchor=anchor, class_="tick")


def _bar(bar: Bar, scale: _Scale, top: int) -> Iterator[Element]:
    y = top + _BAR_TOP
    middle = y + _BAR / 2
    yield from _captions(bar.label, bar.text, bar.style, top)
    if bar.is_framed:
        yield element("rect", x=0, y=y, width="100%", height=_BAR, class_="frame")
    yield element("rect", x=0, y=y, width=scale(bar.value), height=_BAR, class_=f"bar {bar.style}")
    if bar.low is not None and bar.high is not None:
        low, high = scale(bar.low), scale(bar.high)
        for class_ in ("halo", "whisker"):
            yield element("line", x1=low, x2=high, y1=middle, y2=middle, class_=class_)
            for end in (low, high):
                yield element("line", x1=end, x2=end, y1=middle - 5, y2=middle + 5, class_=class_)
    for mark in bar.marks:
        yield element("line", x1=scale(mark), x2=scale(mark), y1=y + _BAR + 3, y2=y + _BAR + 7, class_="mark")
    if bar.note:
        yield element("text", bar.note, x=0, y=y + _BAR + 20, class_="note")


def _captions(label: str, text: str, style: Style, top: int) -> Iterator[Element]:
    yield element("text", shortened(label), x=0, y=top + 13, class_=f"label {style}")
    yield element("text", text, x="100%", y=top + 13, text_anchor="end", class_="value")


def ladder(identifier: str, title: str, rungs: Sequence[Rung], tick_text: Callable[[float], str]) -> Element:
    """Values on a logarithmic scale, the largest at the top: bounds as diamonds on dashed lines, others as discs."""
    ordered = sorted(rungs, key=lambda rung: -rung.value)
    lowest = math.floor(math.log10(ordered[-1].value))
    highest = max(math.ceil(math.log10(ordered[0].value) - 1e-9), lowest + 1)

    def across(value: float) -> str:
        return _percent((math.log10(value) - lowest) / (highest - lowest))

    height, row = 36 * len(ordered), 36
    every = math.ceil((highest - lowest) / 5)
    parts: list[Element] = []
    for power in range(lowest, highest + 1):
        value = 10.0**power
        anchor = "start" if power == lowest else "end" if power == highest else "middle"
        parts.append(element("line", x1=across(value), x2=across(value), y1=0, y2=height, class_="grid"))
        if (power - lowest) % every == 0:
            parts.append(
                element("text", tick_text(value), x=across(value), y=height + 14, text_anchor=anchor, class_="tick")
            )
    for index, rung in enumerate(ordered):
        parts.extend(_rung(rung, across(rung.value), row * index))
    words = "; ".join(f"{rung.label}: {rung.text}" for rung in ordered)
    return _image(identifier, title, words, height + 20, parts)


def _rung(rung: Rung, across: str, top: int) -> Iterator[Element]:
    y = top + 23
    is_bound = rung.style == "bound"
    yield from _captions(rung.label, rung.text, rung.style, top)
    yield element("line", x1=0, x2=across, y1=y, y2=y, class_=f"{'dashes' if is_bound else 'rail'} {rung.style}")
    if is_bound:
        diamond = element("path", d="M0 -5L5 0L0 5L-5 0Z", class_=f"bar {rung.style}")
        yield element("svg", diamond, x=across, y=y, overflow="visible", width=1, height=1)
    else:
        yield element("circle", cx=across, cy=y, r=4.5, class_=f"bar {rung.style}")


def wait_strips(
    identifier: str, title: str, strips: Sequence[Strip], words_of: Callable[[float], str], step: float | None = None
) -> Element:
    """A strip per row with a column per batch, all on one scale; the first batches may exceed it and are then cut.

    Args:
        identifier: unique on the page.
        title: what is shown, with its unit.
        strips: from top to bottom.
        words_of: a value in words.
        step: a value to draw a line at.
    """
    ceiling = _ceiling(strips, step)
    row = _STRIP_TOP + _STRIP + 26
    parts: list[Element] = []
    for index, strip in enumerate(strips):
        parts.extend(_strip(strip, ceiling, row * index, words_of, step))
        following = strips[index + 1 : index + 2]
        if not following or len(following[0].values) != len(strip.values):
            parts.extend(_batch_numbers(len(strip.values), row * (index + 1) - 12))
    words = "; ".join(
        f"{strip.label}: {strip.note}, {len(strip.values)} batches, longest {words_of(max(strip.values))}"
        for strip in strips
    )
    return _image(identifier, title, words, row * len(strips), parts)


def _ceiling(strips: Sequence[Strip], step: float | None) -> float:
    """The top of the scale: all values, unless a few at the start or elsewhere are far above the rest."""
    largest = max(max(strip.values) for strip in strips)
    usual = max(float(np.percentile(strip.values[1:] or strip.values, 95)) for strip in strips)
    top = max(1.15 * usual, 1.15 * (step or 0.0))
    return largest if largest <= 2 * top or top == 0 else top


def _strip(
    strip: Strip, ceiling: float, top: int, words_of: Callable[[float], str], step: float | None
) -> Iterator[Element]:
    yield element("text", shortened(strip.label), x=0, y=top + 13, class_=f"label {strip.style}")
    yield element("text", strip.note, x=0, y=top + 30, class_="note")
    y = top + _STRIP_TOP
    columns = _columns(strip.values)
    heights = [min(value / ceiling, 1.0) if ceiling > 0 else 0.0 for value in columns]
    outline = "".join(
        f"M{index + 0.1:g} 100V{100 - 100 * height:.2f}H{index + 0.9:g}V100Z" for index, height in enumerate(heights)
    )
    yield element(
        "svg",
        element("path", d=outline, class_=f"bar {strip.style}"),
        x=0,
        y=y,
        width="100%",
        height=_STRIP,
        viewBox=f"0 0 {len(columns)} 100",
        preserveAspectRatio="none",
    )
    if step is not None:
        level = y + _STRIP * (1 - step / ceiling)
        yield element("line", x1=0, x2="100%", y1=level, y2=level, class_="level")
    for index, value in enumerate(columns):
        if value > ceiling:
            across = _percent((index + 0.5) / len(columns))
            arrow = element("path", d="M-4 -2L0 -8L4 -2Z", class_=f"bar {strip.style}")
            yield element("svg", arrow, x=across, y=y, overflow="visible", width=1, height=1)
    yield element("line", x1=0, x2="100%", y1=y + _STRIP, y2=y + _STRIP, class_="axis")
    yield element("text", f"top: {words_of(ceiling)}", x="100%", y=top + 13, text_anchor="end", class_="tick")


def _batch_numbers(count: int, y: int) -> Iterator[Element]:
    yield element("text", "batch 1", x=0, y=y, class_="tick")
    if count > 1:
        yield element("text", f"batch {count:,}", x="100%", y=y, text_anchor="end", class_="tick")


def _columns(values: Sequence[float]) -> tuple[float, ...]:
    """The values; of more than can be drawn, the largest of each run of neighbours."""
    run = math.ceil(len(values) / _MOST_COLUMNS)
    return tuple(max(values[start : start + run]) for start in range(0, len(values), run))


def _image(identifier: str, title: str, words: str, height: float, parts: Sequence[Element]) -> Element:
    return element(
        "svg",
        element("title", title, id=f"{identifier}-title"),
        element("desc", words, id=f"{identifier}-words"),
        *parts,
        id=identifier,
        role="img",
        aria_labelledby=f"{identifier}-title {identifier}-words",
        class_="chart",
        width="100%",
        height=height,
    )
