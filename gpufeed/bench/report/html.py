"""The whole page: one file that loads nothing and runs nothing, with the raw results inside."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib import resources
from pathlib import Path
from xml.etree.ElementTree import Element

from gpufeed import __version__, result_files
from gpufeed.bench.report.elements import element, markup
from gpufeed.bench.report.page import body
from gpufeed.bench.results import SCHEMA, Comparison, to_json
from gpufeed.bench.verdict import Verdict

__all__ = ["check_html_target", "html", "json_in", "write_html"]

_JSON = re.compile(r'<script type="application/json" id="gpufeed-results">(.*?)</script>', re.DOTALL)
_IN_SCRIPT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
"""JSON's own escapes for what could end a script element or begin a comment in it."""


def html(comparison: Comparison, verdict: Verdict) -> str:
    """The page as text.

    It needs no network and runs no script, and its Content-Security-Policy allows neither. Colours follow the
    reader's setting; a choice at the top changes them until the page is closed.
    """
    style = resources.files("gpufeed.bench.report").joinpath("page.css").read_text(encoding="utf-8")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; img-src data:; base-uri 'none'; form-action 'none'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"gpufeed {__version__}"),
        element("title", f"gpufeed compare: {comparison.data}"),
        element("link", rel="icon", href="data:,"),  # else browsers ask the server for one
        element("style", style),
    )
    main = element("main", *body(comparison, verdict))
    results = element("script", _json(comparison), type="application/json", id="gpufeed-results")
    page = element("html", head, element("body", _top(comparison), main, _bottom(comparison), results), lang="en")
    return f"<!doctype html>\n{markup(page)}\n"


def json_in(text: str) -> str | None:
    """The JSON of the results in a page, as `gpufeed.bench.results.from_json` takes it; ``None`` without it."""
    found = _JSON.findall(text)
    return found[-1] if found else None


def check_html_target(path: Path) -> None:
    """Refuse a file that a report must not or can't be written to: only an earlier report may be there.

    Raises:
        ArgumentError: see `gpufeed.result_files.check_place`.
    """
    result_files.check_place(path, "--html", SCHEMA, _is_report)


def write_html(comparison: Comparison, verdict: Verdict, path: Path) -> None:
    """Write the page whole or not at all.

    Raises:
        ArgumentError: see `check_html_target`; or the disk is full or the like.
    """
    check_html_target(path)
    result_files.write_whole(html(comparison, verdict).encode(), path)


def _is_report(content: bytes) -> bool:
    inside = json_in(content.decode())
    return inside is not None and result_files.result_of(inside, SCHEMA) is not None


def _json(comparison: Comparison) -> str:
    text = json.dumps(json.loads(to_json(comparison)), separators=(",", ":"))
    for character, escape in _IN_SCRIPT.items():
        text = text.replace(character, escape)
    return text


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _top(comparison: Comparison) -> Element:
    where = comparison.device_name or comparison.device
    what = f"gpufeed compare · {comparison.transform} · batch {comparison.batch_size} · {where}"
    return element("header", element("p", what), _theme(), class_="top")


def _theme() -> Element:
    """A choice of colours that works without a script, see the style sheet."""
    choices = [
        element(
            "label",
            element("input", type="radio", name="theme", id=f"theme-{name}", checked="" if name == "auto" else None),
            element("span", name.capitalize()),
        )
        for name in ("auto", "light", "dark")
    ]
    return element("fieldset", element("legend", "Colours"), *choices, class_="theme")


def _bottom(comparison: Comparison) -> Element:
    version = comparison.environment.get("gpufeed", __version__)
    return element("footer", f"Measured with gpufeed {version} by gpufeed compare.")
