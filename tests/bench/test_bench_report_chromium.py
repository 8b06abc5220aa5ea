"""The report in a real browser: no complaints, nothing loaded, right values, both colour schemes, phones, print."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import chromium
import pytest
from chromium import Page
from PIL import Image
from report_results import COMPARISON, HOSTILE, hostile, on_gpu, without_step

from gpufeed.bench.limits import limit_of
from gpufeed.bench.report import write_html
from gpufeed.bench.report.quantities import unbroken
from gpufeed.bench.results import Comparison, from_json
from gpufeed.bench.statistics import summarize
from gpufeed.bench.verdict import verdict

_MISSING = "no Chromium; `apt-get install chromium`, or GPUFEED_REQUIRE_CHROMIUM=1 makes this a failure"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        chromium.executable() is None and os.environ.get("GPUFEED_REQUIRE_CHROMIUM") != "1", reason=_MISSING
    ),
]

_COMPARISONS = {"whole": COMPARISON, "plain": without_step(COMPARISON), "gpu": on_gpu(), "hostile": hostile()}


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium.browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("reports")

    def written(name: str, comparison: Comparison) -> str:
        path: Path = folder / f"{name}.html"
        write_html(comparison, verdict(comparison), path)
        return path.as_uri()

    return {name: written(name, comparison) for name, comparison in _COMPARISONS.items()}


@pytest.mark.parametrize("name", _COMPARISONS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_renders_without_a_complaint_and_loads_nothing(
    page: Page, addresses: dict[str, str], name: str, scheme: str
) -> None:
    page.open(addresses[name], scheme=scheme)
    assert page.complaints() == []
    assert page.requests() == [addresses[name]]
    assert page.evaluate("document.compatMode") == "CSS1Compat"
    assert page.evaluate("document.querySelectorAll('parsererror').length") == 0


def test_complaints_and_requests_are_seen_where_there_are_some(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "bad.html"
    path.write_text("<!doctype html><img src=missing.png><script>console.error('oh'); undefined.x</script>")
    page.open(path.as_uri())
    assert len(page.requests()) == 2
    assert len(page.complaints()) >= 3


def test_the_dom_has_the_right_values(page: Page, addresses: dict[str, str]) -> None:
    page.open(addresses["whole"])
    assert page.evaluate("document.querySelector('h1').textContent") == unbroken(verdict(COMPARISON).headline)
    table = page.evaluate(
        "[...document.querySelector('table').rows].map(row => [...row.cells].map(cell => cell.textContent))"
    )
    rows = {row.name: row for row in summarize(COMPARISON) if row.kind != "bound"}
    assert [cells[0] for cells in table[1:]] == list(rows)
    for name, rate, _, ratio, _, rounds in table[1:]:
        row = rows[name]
        assert rate == f"{row.images_per_s:,.0f}"
        assert ratio == ("1" if name == COMPARISON.baseline or row.ratio is None else f"{row.ratio.median:.2f}")
        assert rounds == str(row.num_rounds)


def test_bars_are_as_long_as_their_values(page: Page, addresses: dict[str, str]) -> None:
    page.open(addresses["whole"])
    lengths: list[float] = page.evaluate(
        "[...document.querySelectorAll('#chart-rates-loader rect.bar')].map(bar => bar.getBoundingClientRect().width)"
    )
    rates = [row.images_per_s for row in summarize(COMPARISON) if row.kind != "bound"]
    assert len(lengths) == len(rates)
    for length, rate in zip(lengths, rates, strict=True):
        assert length / lengths[0] == pytest.approx(rate / rates[0], rel=0.005)


def test_bounds_of_millions_squash_no_share(page: Page, addresses: dict[str, str]) -> None:
    page.open(addresses["whole"])
    width, ours, ours_on_ladder = page.evaluate(
        "(([chart, bar, disc]) => [chart.width, bar.width, disc.x + disc.width / 2 - chart.x])("
        "['#chart-shares', '#chart-shares rect.bar.ours', '#chart-ladder circle.ours']"
        ".map(place => document.querySelector(place).getBoundingClientRect()))"
    )
    limit = limit_of(COMPARISON, next(found for found in COMPARISON.loaders if found.name == "gpufeed"))
    assert limit is not None
    assert ours / width == pytest.approx(limit.share, abs=0.01)
    assert 0.1 < ours_on_ladder / width < 0.9


def test_the_results_can_be_taken_out(page: Page, addresses: dict[str, str]) -> None:
    for name in ("whole", "hostile"):
        page.open(addresses[name])
        text = page.evaluate("document.getElementById('gpufeed-results').textContent")
        assert from_json(text) == _COMPARISONS[name]


def test_hostile_strings_stay_strings(page: Page, addresses: dict[str, str]) -> None:
    page.open(addresses["hostile"])
    assert page.evaluate("document.scripts.length") == 1
    assert page.evaluate("document.images.length") == 0
    shown = HOSTILE.replace("\u202e", "\N{REPLACEMENT CHARACTER}")
    assert shown in page.evaluate("document.querySelector('pre').textContent")


def _background(page: Page) -> str:
    return page.evaluate("getComputedStyle(document.documentElement).backgroundColor")


def _contrasts(page: Page) -> list[Any]:
    """Texts whose contrast to the page is below WCAG 2's 4.5 (https://www.w3.org/TR/WCAG22/#contrast-minimum)."""
    return page.evaluate(
        """(() => {
          const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
          const light = colour => {
            canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
            const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map(v => v / 255)
              .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const paper = light(getComputedStyle(document.documentElement).backgroundColor);
          return [...document.querySelectorAll('h1, h2, p, li, th, td, dt, dd, caption, .chart text')].map(part => {
            const style = getComputedStyle(part);
            const ink = light(part.closest('.chart') ? style.fill : style.color);
            const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
            return [part.textContent.slice(0, 20), ratio];
          }).filter(([_, ratio]) => ratio < 4.5);
        })()"""
    )


@pytest.mark.parametrize(("scheme", "background"), [("light", "rgb(253, 253, 251)"), ("dark", "rgb(21, 23, 26)")])
def test_both_colour_schemes_are_legible(page: Page, addresses: dict[str, str], scheme: str, background: str) -> None:
    page.open(addresses["whole"], scheme=scheme)
    assert _background(page) == background
    assert _contrasts(page) == []


def test_a_choice_of_colours_is_heeded_and_not_kept(page: Page, addresses: dict[str, str]) -> None:
    page.open(addresses["whole"], scheme="light")
    before = _background(page)
    page.evaluate("document.getElementById('theme-dark').click()")
    assert _background(page) == "rgb(21, 23, 26)"
    page.evaluate("document.getElementById('theme-auto').click()")
    assert _background(page) == before
    page.evaluate("document.getElementById('theme-dark').click()")
    page.open(addresses["whole"], scheme="light")
    assert _background(page) == before


@pytest.mark.parametrize("width", [320, 375, 768, 1400])
@pytest.mark.parametrize("name", _COMPARISONS)
def test_nothing_scrolls_sideways_but_tables(page: Page, addresses: dict[str, str], name: str, width: int) -> None:
    page.open(addresses[name], width=width)
    page.evaluate("document.querySelector('details').open = true")
    assert page.evaluate("[innerWidth, document.documentElement.scrollWidth]") == [width, width]
    beyond = page.evaluate(
        "[...document.querySelectorAll('body *')]"
        ".filter(part => !part.closest('.wide') && part.getBoundingClientRect().right > innerWidth + 1)"
        ".map(part => part.outerHTML.slice(0, 80))"
    )
    assert beyond == []


def test_a_table_shows_that_there_is_more_of_it(page: Page, addresses: dict[str, str]) -> None:
    def edges() -> list[tuple[int, int, int]]:
        """Of the first table's box at both edges of the window: the darkest pixel of a row between its cells."""
        shot = page.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        picture = Image.open(io.BytesIO(base64.b64decode(shot))).convert("RGB")
        box = page.evaluate(
            "(b => [b.left, b.right, b.bottom])(document.querySelector('.wide').getBoundingClientRect())"
        )
        left, right, bottom = (round(place) for place in box)
        return [cast("tuple[int, int, int]", picture.getpixel((x, bottom - 2))) for x in (left + 1, right - 2)]

    page.open(addresses["whole"], width=320, height=3000)
    paper = (253, 253, 251)
    assert edges()[0] == paper
    assert edges()[1] != paper
    page.evaluate("document.querySelector('.wide').scrollLeft = 10000")
    assert edges()[0] != paper
    assert edges()[1] == paper
    page.open(addresses["whole"], width=900, height=3000)
    assert edges() == [paper, paper]


@pytest.mark.parametrize("width", [320, 390, 900])
def test_texts_in_charts_do_not_overlap(page: Page, addresses: dict[str, str], width: int) -> None:
    page.open(addresses["whole"], width=width)
    overlaps = page.evaluate(
        """[...document.querySelectorAll('.chart')].flatMap(chart => {
          const boxes = [...chart.querySelectorAll('text')].map(text => [text.textContent, text.getBBox()]);
          return boxes.flatMap(([one, a], index) => boxes.slice(index + 1)
            .filter(([_, b]) => a.x + a.width > b.x + 1 && b.x + b.width > a.x + 1
              && a.y + a.height > b.y + 3 && b.y + b.height > a.y + 3)
            .map(([other]) => [chart.id, one, other]));
        })"""
    )
    assert overlaps == []


def test_assistive_software_hears_every_chart(page: Page, addresses: dict[str, str]) -> None:
    page.open(addresses["whole"])
    nodes = page.ask("Accessibility.getFullAXTree")["nodes"]
    images = [node["name"]["value"] for node in nodes if node.get("role", {}).get("value") in ("image", "img")]
    assert len(images) == page.evaluate("document.querySelectorAll('.chart').length")
    rate = next(row.images_per_s for row in summarize(COMPARISON) if row.name == "gpufeed")
    assert any(name.startswith("Throughput, images per second") and f"{rate:,.0f} images/s" in name for name in images)


def test_print_is_light_and_without_the_choice(page: Page, addresses: dict[str, str]) -> None:
    page.open(addresses["whole"], scheme="dark")
    page.ask("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert _background(page) == "rgb(253, 253, 251)"
    assert page.evaluate("getComputedStyle(document.querySelector('.theme')).display") == "none"
    page.ask("Emulation.setEmulatedMedia", media="")
