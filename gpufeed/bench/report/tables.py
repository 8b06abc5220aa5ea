"""Tables and lists of facts of the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast
from xml.etree.ElementTree import Element

from gpufeed.bench.report.elements import element
from gpufeed.bench.verdict import OURS

__all__ = ["facts", "table"]


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Element:
    """A table that scrolls sideways where it is too wide; the first cell of a row is its heading.

    Args:
        caption: what it shows.
        head: of the columns.
        rows: cells as text.
    """
    body = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(element("td", cell) for cell in row[1:]),
            class_="ours" if row[0] == OURS else None,
        )
        for row in rows
    ]
    made = element(
        "table",
        element("caption", element("span", caption)),  # it stays in view while the table scrolls
        element("thead", element("tr", *(element("th", cell, scope="col") for cell in head))),
        element("tbody", *body),
    )
    # What scrolls must be reachable by the keyboard, and what is reachable needs a name.
    return element("div", made, class_="wide", tabindex="0", role="region", aria_label=caption)


def facts(entries: Mapping[str, object]) -> Element:
    """Names and values, nested ones in a line each; what is empty is left out."""
    parts: list[Element] = []
    for name, value in entries.items():
        lines = list(_lines(value))
        if lines:
            parts.append(element("dt", name))
            parts.extend(element("dd", line) for line in lines)
    return element("dl", *parts)


def _lines(value: object) -> Iterable[Element | str]:
    if isinstance(value, Element):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in cast("Mapping[object, object]", value).items():
            yield f"{name} {inner}"
    elif isinstance(value, (list, tuple)):
        for inner in cast("Sequence[object]", value):
            yield str(inner)
    elif value is not None and value != "":
        yield str(value)
