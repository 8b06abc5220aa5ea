"""Building HTML and SVG as a tree, so that every text and attribute is escaped where it is written and nowhere else."""

from __future__ import annotations

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

__all__ = ["element", "markup", "shown"]

_UNSHOWABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]")
"""Control characters, halves of surrogate pairs, and marks that turn the direction of what follows them."""


def shown(text: str) -> str:
    """The text with every character that a page can't or mustn't hold replaced by U+FFFD."""
    return _UNSHOWABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def element(tag: str, *children: Element | str | None, **attributes: str | float | None) -> Element:
    """An element with its children in order.

    Args:
        tag: its name.
        children: elements and texts; ``None`` is left out.
        attributes: by name, with ``-`` written as ``_`` and a name that is a Python keyword followed by ``_``
            (``class_``); ``None`` is left out. A float is written with at most 3 decimals.
    """
    made = Element(tag)
    for name, value in attributes.items():
        if value is not None:
            made.set(name.rstrip("_").replace("_", "-"), value if isinstance(value, str) else _number(value))
    for child in children:
        if isinstance(child, str):
            _append_text(made, shown(child))
        elif child is not None:
            made.append(child)
    return made


def markup(made: Element) -> str:
    """The element as HTML."""
    return ElementTree.tostring(made, encoding="unicode", method="html")


def _append_text(made: Element, text: str) -> None:
    if len(made):
        made[-1].tail = (made[-1].tail or "") + text
    else:
        made.text = (made.text or "") + text


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
