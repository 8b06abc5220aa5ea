"""A tuning's curves as a picture: SVG with text alternatives, or PNG by Pillow. Both from one list of shapes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from PIL import Image, ImageDraw, ImageFont, PngImagePlugin

from gpufeed import result_files
from gpufeed.bench.tuning.curves import Curve, curves_of
from gpufeed.bench.tuning.results import SCHEMA, Tuning
from gpufeed.errors import ArgumentError

__all__ = ["can_draw", "check_chart_target", "png", "svg", "write_chart"]

_PANEL_W, _PANEL_H = 360, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 18, 44, 44  # around a panel's axes
_HEAD = 34
_SCALE = 2  # pixels of the PNG for each unit
_INK, _FAINT, _RULE, _LINE, _CHOSEN, _PAPER = "#1c1c1c", "#5f5f5f", "#d9d9d9", "#2563a8", "#c2410c", "#ffffff"
_NUM_TICKS = 4

_Anchor = Literal["start", "middle", "end"]
_PILLOW_ANCHORS: dict[_Anchor, str] = {"start": "ls", "middle": "ms", "end": "rs"}


@dataclass(frozen=True, slots=True)
class _Line:
    points: tuple[tuple[float, float], ...]
    colour: str
    width: float


@dataclass(frozen=True, slots=True)
class _Dot:
    x: float
    y: float
    radius: float
    colour: str


@dataclass(frozen=True, slots=True)
class _Label:
    x: float
    y: float
    text: str
    size: int = 11
    colour: str = _FAINT
    anchor: _Anchor = "start"
    is_bold: bool = False


_Shape = _Line | _Dot | _Label


@dataclass(frozen=True, slots=True)
class _Panel:
    curve: Curve
    shapes: tuple[_Shape, ...]


@dataclass(frozen=True, slots=True)
class _Picture:
    width: int
    height: int
    title: str
    panels: tuple[_Panel, ...]


def can_draw(tuning: Tuning) -> bool:
    """Whether enough was measured for a chart."""
    return any(map(curves_of, tuning.loaders))


def _picture(tuning: Tuning) -> _Picture:
    rows = [curves for curves in map(curves_of, tuning.loaders) if curves]
    if not rows:
        raise ArgumentError("there is no chart to draw: too few settings were measured; give a larger --budget")
    width = _PANEL_W * max(map(len, rows))
    facts = f"{tuning.data}, {tuning.transform}, batch {tuning.batch_size}, {tuning.num_cpus} CPUs, "
    title = f"gpufeed tune: {facts}{tuning.device_name or tuning.device}"
    panels = tuple(
        _Panel(curve, _shapes(curve, column * _PANEL_W, _HEAD + row * _PANEL_H))
        for row, curves in enumerate(rows)
        for column, curve in enumerate(curves)
    )
    return _Picture(width, _HEAD + _PANEL_H * len(rows), title, panels)


def _shapes(curve: Curve, left: float, top: float) -> tuple[_Shape, ...]:
    """One panel: equally spaced settings on the x axis, as they grow by factors; the y axis begins at 0."""
    x0, x1 = left + _LEFT, left + _PANEL_W - _RIGHT
    y0, y1 = top + _PANEL_H - _BOTTOM, top + _TOP
    scale = 1.0 if curve.quantity == "throughput" else 1e6
    most = _round_up(max(point.value for point in curve.points) / scale)
    unit = "images/s" if curve.quantity == "throughput" else "MB"
    shapes: list[_Shape] = [
        _Label(left + 12, top + 18, curve.title, 13, _INK, is_bold=True),
        _Label(left + 12, top + 34, f"{unit}; {curve.note}"),
    ]
    for tick in range(_NUM_TICKS + 1):
        y = y0 + (y1 - y0) * tick / _NUM_TICKS
        shapes += [
            _Line(((x0, y), (x1, y)), _RULE, 1),
            _Label(x0 - 8, y + 4, f"{most * tick / _NUM_TICKS:,.0f}", anchor="end"),
        ]
    step = (x1 - x0) / max(1, len(curve.points))
    places = [
        (x0 + step * (index + 0.5), y0 + (y1 - y0) * point.value / scale / most)
        for index, point in enumerate(curve.points)
    ]
    shapes.append(_Line(tuple(places), _LINE, 2))
    for point, (x, y) in zip(curve.points, places, strict=True):
        shapes += [
            _Dot(x, y, 6 if point.is_chosen else 3.5, _CHOSEN if point.is_chosen else _LINE),
            _Label(x, y0 + 16, str(point.at), anchor="middle"),
        ]
        if point.is_chosen:
            shapes.append(_Label(x, y - 11, f"{point.value / scale:,.0f}", 12, _CHOSEN, "middle", is_bold=True))
    shapes.append(_Label((x0 + x1) / 2, y0 + 34, curve.over, anchor="middle"))
    return tuple(shapes)


def _round_up(value: float) -> float:
    """The next of 1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8 times a power of ten, with some room above the highest point."""
    power = 10.0 ** (len(str(int(max(1.0, value)))) - 1)
    return next(step * power for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10, 12) if step * power >= value * 1.08)


# SVG ------------------------------------------------------------------------------------------------------------------


def svg(tuning: Tuning) -> str:
    """The charts as one SVG document, each a group with a title and its figures as a description.

    Raises:
        ArgumentError: too little was measured for any chart.
    """
    picture = _picture(tuning)
    root = Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {picture.width} {picture.height}",
            "width": str(picture.width),
            "height": str(picture.height),
            "role": "img",
            "font-family": "system-ui, sans-serif",
        },
    )
    SubElement(root, "title").text = _shown(picture.title)
    SubElement(root, "metadata").text = SCHEMA
    SubElement(root, "rect", {"width": "100%", "height": "100%", "fill": _PAPER})
    _add(root, _Label(12, 22, picture.title, 13, _INK))
    for panel in picture.panels:
        group = SubElement(root, "g", {"role": "img"})
        SubElement(group, "title").text = panel.curve.title
        SubElement(group, "desc").text = _figures(panel.curve)
        for shape in panel.shapes:
            _add(group, shape)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _figures(curve: Curve) -> str:
    scale, unit = (1.0, "images/s") if curve.quantity == "throughput" else (1e6, "MB")
    return "; ".join(
        f"{curve.over} {point.at}: {point.value / scale:,.0f} {unit}{' (chosen)' if point.is_chosen else ''}"
        for point in curve.points
    )


def _add(parent: Element, shape: _Shape) -> None:
    match shape:
        case _Line():
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.points)
            attributes = {"points": points, "fill": "none", "stroke": shape.colour, "stroke-width": f"{shape.width:g}"}
            SubElement(parent, "polyline", attributes)
        case _Dot():
            place = {"cx": f"{shape.x:.1f}", "cy": f"{shape.y:.1f}", "r": f"{shape.radius:g}", "fill": shape.colour}
            SubElement(parent, "circle", place)
        case _Label():
            attributes = {
                "x": f"{shape.x:.1f}",
                "y": f"{shape.y:.1f}",
                "font-size": str(shape.size),
                "fill": shape.colour,
                "text-anchor": shape.anchor,
                **({"font-weight": "600"} if shape.is_bold else {}),
            }
            SubElement(parent, "text", attributes).text = _shown(shape.text)


def _shown(text: str) -> str:
    """Without what XML can't hold."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


# PNG ------------------------------------------------------------------------------------------------------------------


def png(tuning: Tuning) -> bytes:
    """The same picture as a PNG, twice as large.

    Raises:
        ArgumentError: too little was measured for any chart.
    """
    picture = _picture(tuning)
    image = Image.new("RGB", (picture.width * _SCALE, picture.height * _SCALE), _PAPER)
    draw = ImageDraw.Draw(image)
    _draw(draw, [_Label(12, 22, picture.title, 13, _INK)])
    for panel in picture.panels:
        _draw(draw, panel.shapes)
    marked = PngImagePlugin.PngInfo()
    marked.add_text("schema", SCHEMA)
    stream = io.BytesIO()
    image.save(stream, "PNG", pnginfo=marked)
    return stream.getvalue()


def _draw(draw: ImageDraw.ImageDraw, shapes: Sequence[_Shape]) -> None:
    for shape in shapes:
        match shape:
            case _Line():
                places = [(x * _SCALE, y * _SCALE) for x, y in shape.points]
                draw.line(places, fill=shape.colour, width=round(shape.width * _SCALE))
            case _Dot():
                dot = replace(shape, x=shape.x * _SCALE, y=shape.y * _SCALE, radius=shape.radius * _SCALE)
                box = (dot.x - dot.radius, dot.y - dot.radius, dot.x + dot.radius, dot.y + dot.radius)
                draw.ellipse(box, fill=dot.colour)
            case _Label():
                font = ImageFont.load_default(size=shape.size * _SCALE)
                place = (shape.x * _SCALE, shape.y * _SCALE)
                bold = 0.6 if shape.is_bold else 0
                anchor = _PILLOW_ANCHORS[shape.anchor]
                draw.text(place, _shown(shape.text), shape.colour, font, anchor=anchor, stroke_width=bold)


# Files ----------------------------------------------------------------------------------------------------------------


def check_chart_target(path: Path) -> None:
    """Refuse a file that a chart must not or can't be written to; an earlier one of gpufeed's may be replaced.

    Raises:
        ArgumentError: the name ends in neither ``.svg`` nor ``.png``; ``path`` holds anything else, or its folder
            can't be written to.
    """
    if path.suffix.lower() not in (".svg", ".png"):
        raise ArgumentError(f"--chart must end in .svg or .png, got {path}")
    result_files.check_place(path, "--chart", SCHEMA, _is_ours)


def _is_ours(content: bytes) -> bool:
    if content.startswith(b"\x89PNG"):
        with Image.open(io.BytesIO(content)) as image:
            return image.info.get("schema") == SCHEMA
    return f"<metadata>{SCHEMA}</metadata>" in content.decode()


def write_chart(tuning: Tuning, path: Path) -> None:
    """Write the charts whole or not at all, as SVG or PNG by the file's name.

    Raises:
        ArgumentError: see `check_chart_target`; the disk is full or the like; or there is too little to draw.
    """
    check_chart_target(path)
    result_files.write_whole(png(tuning) if path.suffix.lower() == ".png" else svg(tuning).encode(), path)
