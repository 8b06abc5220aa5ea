"""The report's files: values, escapes, the JSON inside, and never over a file that is something else."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image
from report_results import COMPARISON, HOSTILE, hostile, on_gpu, result, without_step

from gpufeed.bench.render import render
from gpufeed.bench.report import check_html_target, check_png_target, png, write_html, write_png
from gpufeed.bench.report.charts import Bar, bar_chart, nice_ticks, shortened
from gpufeed.bench.report.elements import element, markup
from gpufeed.bench.report.html import html, json_in
from gpufeed.bench.report.quantities import (
    compact,
    megabytes,
    per_second,
    percent,
    plain_number,
    seconds,
    tick_megabytes,
    tick_number,
    tick_seconds,
    unbroken,
)
from gpufeed.bench.results import Comparison, ContenderResult, from_json
from gpufeed.bench.statistics import summarize
from gpufeed.bench.verdict import Verdict, verdict
from gpufeed.errors import ArgumentError

Write = Callable[[Path], None]


_WHOLE, _GPU, _HOSTILE = COMPARISON, on_gpu(), hostile()


def _html(comparison: Comparison) -> str:
    """The page; made once for each of the three above."""
    for known in (_WHOLE, _GPU, _HOSTILE):
        if comparison is known:
            return _made(id(known))
    return html(comparison, verdict(comparison))


@cache
def _made(identity: int) -> str:
    comparison = next(known for known in (_WHOLE, _GPU, _HOSTILE) if id(known) == identity)
    return html(comparison, verdict(comparison))


@cache
def _verdict() -> Verdict:
    return verdict(COMPARISON)


def _write_html(path: Path) -> None:
    write_html(COMPARISON, _verdict(), path)


def _write_png(path: Path) -> None:
    write_png(COMPARISON, _verdict(), path)


_WRITERS = [pytest.param(_write_html, "--html", id="html"), pytest.param(_write_png, "--png", id="png")]


class _Tags(HTMLParser):
    """Every element that a page opens, with its attributes, and the text of all."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_the_verdict_comes_first() -> None:
    text = _html(COMPARISON)
    judged = _verdict()
    assert text.index("<h1>") < text.index("<h2>")
    assert unbroken(judged.headline) in _Tags(text).text
    assert all(unbroken(sentence) in _Tags(text).text for sentence in judged.sentences)


def test_all_sections_are_there_and_those_without_results_are_not() -> None:
    def headings(comparison: Comparison) -> list[str]:
        return re.findall(r"<h2>(.*?)</h2>", _html(comparison))

    always_last = ["What was compared", "Environment", "All rounds", "How to read this"]
    assert headings(_GPU) == [
        "Throughput",
        "Throughput with the step",
        "How near to the bounds",
        "What an image costs",
        "Waiting for batches",
        "Time to the first batch",
        "CPU and memory",
        "GPU, loader alone",
        "GPU, with the step",
        *always_last,
    ]
    bare = without_step(replace(COMPARISON, contenders=COMPARISON.loaders, costs=()))
    assert headings(bare) == [
        "Throughput",
        "Waiting for batches",
        "Time to the first batch",
        "CPU and memory",
        *always_last,
    ]


def test_a_comparison_without_a_round_still_has_a_page(tmp_path: Path) -> None:
    contenders = tuple(result(name, 500, num_rounds=0) for name in ("torch-tuned", "gpufeed"))
    empty = replace(COMPARISON, contenders=contenders, interrupted=True)
    text = _html(empty)
    assert "No round was finished." in text
    assert "Stopped early: 0 rounds were measured." in text
    write_png(empty, verdict(empty), tmp_path / "empty.png")


def test_the_page_and_the_terminal_warn_in_the_same_words() -> None:
    def disturbed(found: ContenderResult) -> ContenderResult:
        slower = (
            replace(
                entry,
                epoch=replace(
                    entry.epoch,
                    elapsed_s=entry.epoch.elapsed_s * (1 + 0.1 * entry.round_index),
                    taken_cpu_s=entry.epoch.elapsed_s,
                ),
            )
            for entry in found.measurements
        )
        return replace(found, measurements=tuple(slower))

    quiet = tuple(found for found in COMPARISON.contenders if found.kind != "copy")
    noiseless = replace(COMPARISON, contenders=quiet)
    loud = replace(COMPARISON, contenders=tuple(disturbed(found) for found in COMPARISON.contenders))
    for comparison, beginnings in (
        (noiseless, ["This machine's noise"]),
        (loud, ["Noise: a", "Other programs", "Drift:"]),
    ):
        text = _Tags(_html(comparison)).text.replace("\xa0", " ").replace("\N{EN DASH}", "-")
        printed = [" ".join(paragraph.split()) for paragraph in render(comparison).split("\n\n")]
        for beginning in beginnings:
            (told,) = (paragraph for paragraph in printed if paragraph.startswith(beginning))
            assert told in text


def test_a_copy_that_ran_without_the_step_states_the_noise_once() -> None:
    alone = tuple(
        replace(found, measurements=found.in_mode("loader")) if found.kind == "copy" else found
        for found in COMPARISON.contenders
    )
    assert _html(COMPARISON).count("Noise: a second torch-tuned") == 2
    text = _html(replace(COMPARISON, contenders=alone))
    assert text.count("Noise: a second torch-tuned") == 1
    assert "noise wasn't measured" not in text


def test_who_was_left_out_is_told_beside_the_rates() -> None:
    text = _html(COMPARISON)
    told = "Left out: torch-stateful (torchdata is not installed)."
    assert text.index("<h2>Throughput</h2>") < text.index(told) < text.index("<h2>Throughput with the step</h2>")


def test_one_loader_alone_has_no_ratios_to_explain() -> None:
    alone = tuple(found for found in COMPARISON.contenders if found.name == "torch-tuned" or found.kind == "bound")
    assert "Ratios (" in _html(COMPARISON)
    assert "Ratios (" not in _html(replace(COMPARISON, contenders=alone))


def test_a_strip_s_words_are_of_the_round_that_it_draws() -> None:
    comparison = without_step(COMPARISON)
    text = _html(comparison)
    for found in comparison.loaders:
        waits = found.measurements[-1].epoch.waits_s
        assert f"median {seconds(statistics.median(waits))}, max {seconds(max(waits))}, {len(waits)} batches" in text


def test_too_few_rounds_get_no_whisker() -> None:
    contenders = tuple(result(name, 500, num_rounds=3) for name in ("torch-tuned", "gpufeed"))
    text = _html(replace(COMPARISON, contenders=contenders))
    assert "whisker" in _html(COMPARISON).partition("</style>")[2]
    assert "whisker" not in text.partition("</style>")[2].partition("How to read this")[0]
    assert "fewer than 6 rounds" in text


def test_a_pipeline_without_waits_or_memory_has_no_such_charts() -> None:
    def without_waits(comparison: Comparison) -> Comparison:
        contenders = tuple(
            replace(
                found,
                peak_pss_bytes=None,
                measurements=tuple(
                    replace(entry, epoch=replace(entry.epoch, waits_s=())) for entry in found.measurements
                ),
            )
            for found in comparison.contenders
        )
        return replace(comparison, contenders=contenders)

    text = _html(without_waits(without_step(COMPARISON)))
    assert "chart-waits" not in text
    assert "chart-memory" not in text
    assert "chart-cpu" in text


def test_the_json_inside_is_the_results_exactly() -> None:
    for comparison in (COMPARISON, _HOSTILE):
        inside = json_in(_html(comparison))
        assert inside is not None
        assert from_json(inside) == comparison


def test_every_user_string_is_escaped() -> None:
    text = _html(_HOSTILE)
    page = _Tags(text)
    assert len(page.of("script")) == 1  # the results
    assert not page.of("img")
    assert "alert(1)" in page.text
    assert "<script>alert" not in text
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    shown = _Tags(text.partition('<script type="application/json"')[0]).text
    assert "\u202e" not in shown
    assert HOSTILE.replace("\u202e", "\N{REPLACEMENT CHARACTER}") in shown


def test_a_name_that_is_no_unicode_is_shown_and_written(tmp_path: Path) -> None:
    odd = replace(COMPARISON, data="photos\udc80\x00\x1b[31m")
    write_html(odd, verdict(odd), tmp_path / "odd.html")
    written = (tmp_path / "odd.html").read_text(encoding="utf-8")
    assert "photos\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}[31m" in written
    assert from_json(json_in(written) or "") == odd
    write_png(odd, verdict(odd), tmp_path / "odd.png")


def test_the_policy_allows_the_page_s_own_style_and_nothing_else() -> None:
    text = _html(COMPARISON)
    page = _Tags(text)
    (policy,) = (meta["content"] for meta in page.of("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert "unsafe" not in (policy or "")
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    assert not any("style" in attributes or "src" in attributes for _, attributes in page.tags)
    assert [link["href"] for link in page.of("link")] == ["data:,"]
    assert "//" not in text.partition("</head>")[2].partition('<script type="application/json"')[0]


def test_every_chart_has_a_text_alternative_and_every_table_a_caption() -> None:
    text = _html(_GPU)
    page = _Tags(text)
    charts = [svg for svg in page.of("svg") if svg.get("class") == "chart"]
    assert len(charts) >= 8
    known = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(known) == len(set(known))
    for chart in charts:
        assert chart["role"] == "img"
        assert all(name in known for name in (chart["aria-labelledby"] or "").split())
    assert len(page.of("table")) == len(page.of("caption")) >= 6
    assert all(cell["scope"] in ("row", "col") for cell in page.of("th"))


def test_a_chart_s_words_have_its_values() -> None:
    words = re.search(r'<desc id="chart-rates-loader-words">(.*?)</desc>', _html(COMPARISON))
    assert words is not None
    row = next(row for row in summarize(COMPARISON) if row.name == "gpufeed")
    assert row.ratio is not None
    assert f"gpufeed: {row.images_per_s:,.0f} images/s, {row.ratio.median:.2f} \N{MULTIPLICATION SIGN}" in words[1]


def test_bars_and_whiskers_lie_where_their_values_are() -> None:
    bar = Bar("gpufeed", 800.0, "800 images/s", "ours", low=750.0, high=850.0, marks=(600.0,))
    drawn = markup(bar_chart("chart", "title", [bar], plain_number))
    assert 'width="80.00%"' in drawn  # the scale ends at 1,000
    assert 'x1="75.00%" x2="85.00%"' in drawn
    assert 'x1="60.00%" x2="60.00%"' in drawn


@pytest.mark.parametrize(
    ("largest", "ticks"),
    [
        (1000, (0, 200, 400, 600, 800, 1000)),
        (1001, (0, 250, 500, 750, 1000, 1250)),
        (0.9, (0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        (1.0, (0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        (7, (0, 2, 4, 6, 8)),
        (0, (0, 1)),
    ],
)
def test_ticks_are_round_and_hold_the_largest(largest: float, ticks: tuple[float, ...]) -> None:
    assert nice_ticks(largest) == pytest.approx(ticks)


def test_elements_escape_text_and_attributes() -> None:
    made = element("p", "<b>", element("br"), "&", None, title='"<', data_x=1.5, class_=None)
    assert markup(made) == '<p title="&quot;<" data-x="1.5">&lt;b&gt;<br>&amp;</p>'


def test_long_labels_keep_their_end() -> None:
    assert shortened("study/loaders/a_long_name.py:make", 12) == "…ame.py:make"
    assert shortened("gpufeed", 7) == "gpufeed"


def test_scales_are_labelled_exactly() -> None:
    assert [tick_number(value) for value in (0, 0.25, 1.25, 12.5, 1500)] == ["0", "0.25", "1.25", "12.5", "1,500"]
    assert [tick_seconds(value) for value in (0, 0.0005, 0.25, 1.5)] == ["0 ms", "0.5 ms", "250 ms", "1.5 s"]
    assert [tick_megabytes(value) for value in (0, 5e8, 1e9, 1.25e9)] == ["0 MB", "500 MB", "1 GB", "1.25 GB"]


def test_what_rounds_up_to_the_next_unit_is_written_in_it() -> None:
    assert seconds(0.9996) == "1.00 s"
    assert megabytes(999.6e6) == "1.00 GB"


def test_quantities_have_their_units() -> None:
    assert [seconds(value) for value in (1.254, 0.0481, 0.0031, 0.00002, 0)] == [
        "1.25 s",
        "48 ms",
        "3.1 ms",
        "0.02 ms",
        "0 ms",
    ]
    assert [percent(value) for value in (0.873, 0.023, 0, 1.2)] == ["87 %", "2.3 %", "0 %", "120 %"]
    assert [megabytes(value) for value in (None, 890e6, 1.44e9)] == ["n/a", "890 MB", "1.44 GB"]
    assert [compact(value) for value in (1, 100, 10_000, 1_000_000)] == ["1", "100", "10k", "1M"]
    assert [per_second(value) for value in (1162.4, 2.54)] == ["1,162 images/s", "2.5 images/s"]
    assert unbroken("54 % of 25 ms in 3 steps") == "54\xa0% of 25\xa0ms in 3 steps"


# Files ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("write", "option"), _WRITERS)
def test_an_earlier_report_is_replaced(tmp_path: Path, write: Write, option: str) -> None:
    path = tmp_path / "report"
    write(path)
    first = path.read_bytes()
    write(path)
    assert path.read_bytes() == first
    assert [entry.name for entry in tmp_path.iterdir()] == ["report"]


def _foreign_png() -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (4, 4)).save(content, "PNG")
    return content.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"precious",
        b"\xff\xfe",
        b"<!doctype html><title>mine</title>",
        b'<script type="application/json" id="gpufeed-results">{"schema": "other"}</script>',
        json.dumps({"schema": "gpufeed.compare", "schema_version": 2}).encode(),
        _foreign_png(),
        _foreign_png()[:40],
    ],
)
@pytest.mark.parametrize(("write", "option"), _WRITERS)
def test_a_file_that_is_something_else_is_never_overwritten(
    tmp_path: Path, write: Write, option: str, content: bytes
) -> None:
    path = tmp_path / "precious"
    path.write_bytes(content)
    with pytest.raises(ArgumentError, match=f"is not a result of gpufeed compare; give {option} another name"):
        write(path)
    assert path.read_bytes() == content
    assert [entry.name for entry in tmp_path.iterdir()] == ["precious"]


def test_a_target_that_cannot_be_written_is_told_before_measuring(tmp_path: Path) -> None:
    for check, option in ((check_html_target, "--html"), (check_png_target, "--png")):
        with pytest.raises(ArgumentError, match="there is no folder"):
            check(tmp_path / "missing" / "report")
        with pytest.raises(ArgumentError, match=f"is a folder; give {option} a file name"):
            check(tmp_path)
        check(tmp_path / "new")


# The picture ----------------------------------------------------------------------------------------------------------


def test_the_picture_is_1600_wide_and_has_our_bar_longest() -> None:
    image = png.picture(COMPARISON, _verdict())
    assert image.width == 1600
    assert image.width * 2 > image.height > 600
    colours = image.getcolors(1 << 20)
    assert colours is not None
    found = {colour: count for count, colour in colours}
    assert found[(0, 104, 173)] > 1.5 * found[(86, 91, 99)]  # gpufeed's bars are twice as long as the baseline's


def test_the_picture_grows_with_the_step() -> None:
    judged = _verdict()
    assert png.picture(COMPARISON, judged).height > png.picture(without_step(COMPARISON), judged).height + 400


def test_the_picture_says_what_disturbed_or_ended_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    def text(pen: object, x: float, y: float, text: str, *rest: object, **named: object) -> None:
        drawn.append(text)

    def taken(comparison: Comparison) -> float:
        return 1.25

    monkeypatch.setattr(png._Pen, "text", text)
    png.picture(COMPARISON, _verdict())
    assert "stopped early" not in " ".join(drawn)
    assert "medians of 9 interleaved rounds with 95 % intervals" in " ".join(drawn)
    drawn.clear()
    few = tuple(result(name, 500, num_rounds=2) for name in ("torch-tuned", "gpufeed"))
    png.picture(replace(COMPARISON, contenders=few), _verdict())
    assert "medians of 2 interleaved rounds · gpufeed compare" in " ".join(drawn)
    monkeypatch.setattr(png, "taken_cpus", taken)
    png.picture(replace(COMPARISON, interrupted=True), _verdict())
    assert "stopped early · other programs took 1.2 CPUs away meanwhile" in " ".join(drawn)
    assert "Images per second, with the step: a sleep of 25 ms" in drawn


def test_nothing_of_the_picture_is_cut_off() -> None:
    for comparison in (COMPARISON, _HOSTILE):
        image = png.picture(comparison, verdict(comparison))
        assert image.convert("L").point(lambda value: 255 * (value < 250)).getbbox() is not None
        left, top, right, bottom = image.convert("L").point(lambda value: 255 * (value < 250)).getbbox() or (0,) * 4
        assert left >= 68
        assert top >= 68
        assert right <= image.width - 68
        assert bottom <= image.height - 68


def test_without_a_system_s_font_the_picture_has_plain_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    def no_font(size: int) -> None:
        return None

    def draw(pen: object, x: float, y: float, text: str, *rest: object, **named: object) -> None:
        drawn.append(png._drawable(text))

    monkeypatch.setattr(png, "_system_font", no_font)
    monkeypatch.setattr(png._Pen, "text", draw)
    png.picture(COMPARISON, _verdict())
    assert any(" x (" in text for text in drawn)
    assert all(text.isascii() and "?" not in text for text in drawn)
