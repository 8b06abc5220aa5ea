"""What all sections of the page share."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from gpufeed.bench.report.charts import Style
from gpufeed.bench.report.elements import element
from gpufeed.bench.report.quantities import unbroken
from gpufeed.bench.results import Comparison, Mode
from gpufeed.bench.verdict import OURS

__all__ = ["MODES", "WHERE", "heading", "style_of"]

MODES: tuple[Mode, ...] = ("loader", "step")


WHERE: dict[Mode, str] = {"loader": "loader alone", "step": "with the step"}
"""What a mode is in words."""


def style_of(name: str, comparison: Comparison) -> Style:
    """How a contender is drawn."""
    return "ours" if name == OURS else "baseline" if name == comparison.baseline else "other"


def heading(text: str, lead: str = "") -> Iterator[Element]:
    """A section's heading, and a line that says what it shows."""
    yield element("h2", text)
    if lead:
        yield element("p", unbroken(lead), class_="lead")
