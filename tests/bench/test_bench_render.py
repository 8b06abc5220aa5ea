"""The table, in 80 columns of plain text and on a terminal."""

from __future__ import annotations

import io
from dataclasses import replace

import report_results
from constructed import comparison, result

from gpufeed.bench.render import render, show
from gpufeed.bench.results import Comparison, ContenderResult, Epoch, LeftOut, Measurement


def _epoch(images_per_s: float) -> Epoch:
    return Epoch(1280 / images_per_s, 0.3, 3.0, 1280, 20, 0, "float32", "cpu", (3, 224, 224))


def _result(name: str, images_per_s: float, peak_pss_bytes: int | None, num_rounds: int = 7) -> ContenderResult:
    measurements = tuple(
        Measurement(index, 0, _epoch(images_per_s * (1 + 0.01 * (index % 3)))) for index in range(num_rounds)
    )
    return ContenderResult(name, 0.31, _epoch(images_per_s), peak_pss_bytes, measurements)


_COMPARISON = comparison(
    _result("torch-default", 262, 612_000_000),
    _result("torch-tuned", 540, 1_104_000_000),
    _result("gpufeed", 1150, 890_000_000),
    _result("dali-handwritten", 21_152, None),
    data="/data/a folder/with/a rather/long name/that goes on/and on/imagenet/validation",
    left_out=(LeftOut("torch-tensor", "transforms.LinearTransformation has no twin in transforms.v2"),),
)


class _Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def _row(text: str, name: str) -> str:
    (line,) = (line for line in text.splitlines() if line.startswith(name))
    return " ".join(line.split())


def test_plain_text_is_ascii_and_fits_80_columns() -> None:
    text = render(_COMPARISON)
    assert text.isascii()
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "\x1b" not in text
    assert "…" not in text


def test_rows_hold_the_figures() -> None:
    text = render(_COMPARISON)
    assert _row(text, "gpufeed   ") == "gpufeed 1,162 0.7 % 2.13 2.13-2.13 2.7 0.31 s 890 MB"
    assert _row(text, "torch-tuned  ") == "torch-tuned 545 0.7 % 1 1.3 0.31 s 1.10 GB"
    assert _row(text, "dali-handwritten").endswith(" 39.2 39.2-39.2 50.1 0.31 s n/a")


def test_a_wide_terminal_gets_more_columns() -> None:
    assert _row(render(_COMPARISON, 140), "gpufeed   ").endswith(" 2.7 2.34 ms 0.31 s 890 MB 7")
    assert max(len(line) for line in render(_COMPARISON, 140).splitlines()) <= 140


def test_the_verdict_comes_first() -> None:
    lines = render(_COMPARISON).splitlines()
    (headline,) = (index for index, line in enumerate(lines) if line.startswith("gpufeed is 2.13 times (2.13 to 2.13)"))
    assert headline < min(index for index, line in enumerate(lines) if line.startswith("contender"))


def _measured_whole(**others: object) -> Comparison:
    return comparison(
        result("torch-tuned", 540, step_s=0.0625, with_step=520, peak_pss_bytes=21_104_000_000),
        result("torch-tuned again", 541, kind="copy"),
        result("torch-cuda-decode", 545, step_s=0.0625, with_step=521),
        result("gpufeed", 11_500, step_s=0.0625, with_step=1000),
        result("storage", 21_000, kind="bound", every=3),
        result("decode", 1_080, kind="bound", every=3),
        result("region-decode", 14_100, kind="bound", every=3),
        costs={"read": 2e-5, "decode": 2e-3, "ToTensor()": 2e-4},
        step_s=0.0625,
        **others,
    )


def test_loader_alone_and_with_the_step_are_apart_and_each_row_has_its_share_of_a_bound() -> None:
    text = render(_measured_whole(), 140)
    alone, fed = text.split("With a step: a pause of 25 ms, 62.5 ms per batch alone")
    assert "Loader alone, batches thrown away" in alone
    assert " 50 % decode " in _row(alone, "torch-tuned  ")
    assert " 81 % region-decode " in _row(alone, "gpufeed  ")
    fed = fed.partition("bound, which")[0]
    assert " 98 % step 98 % " in _row(fed, "gpufeed  ")  # and it waits 2 % of the time
    assert "busy" in fed
    on_gpu = (
        render(_measured_whole(device="cuda:0"), 140).split("62.5 ms per batch alone")[1].partition("bound, which")[0]
    )
    assert " 98 % step 2 % " in _row(on_gpu, "gpufeed  ")
    assert "busy" not in on_gpu
    assert "no difference" in _row(fed, "torch-cuda-decode")


def test_bounds_and_the_copy_are_no_contenders() -> None:
    text = render(_measured_whole())
    contenders, bounds = text.split("bound, which no")
    assert not any(line.startswith(("storage", "torch-tuned again")) for line in contenders.splitlines())
    assert _row(bounds, "region-decode") == "region-decode 14,131 what region-decode is"
    assert "Noise: a second torch-tuned came out at 1.00 (" in bounds.replace("\n", " ")


def test_what_has_no_room_goes_rather_than_being_cut() -> None:
    text = render(_measured_whole())
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
    assert _row(text.partition("With a step")[0], "torch-tuned ").endswith(" 50 % 2.0 21.1 GB")
    assert _row(text.partition("With a step")[2].partition("bound, ")[0], "torch-tuned ").endswith(" 51 % 21.1 GB")


def test_what_the_gpu_did_is_shown_where_there_is_one() -> None:
    text = render(report_results.on_gpu())
    used = text.partition("what the GPU did")[2]
    assert _row(used, "gpufeed ").startswith("gpufeed 62 % 31 % 2.10 GB ")
    assert "what the GPU did" not in render(_measured_whole())


def test_a_long_name_goes_on_in_the_next_line_and_no_figure_is_cut() -> None:
    name = "my_" * 30 + "loader"
    text = render(comparison(result("torch-tuned", 540), result(name, 600), step_s=None))
    assert "…" not in text
    assert max(len(line) for line in text.splitlines()) <= 80
    table = text.partition("\ncontender")[2].partition("waits for")[0]
    assert "".join(line[:22].strip() for line in table.splitlines()).endswith(name)


def test_waits_are_shown_in_milliseconds() -> None:
    waits = render(_measured_whole()).partition("waits for a batch, ms\nwith the step")[2]
    assert _row(waits.partition("Noise")[0], "torch-tuned ") == "torch-tuned 55 61 166 166 140"


def test_a_noisy_machine_and_a_drifting_one_are_told() -> None:
    rates = [500.0 * (1 - 0.03 * index) for index in range(7)]
    contenders = (result("torch-tuned", rates), result("again", [0.8 * rate for rate in rates], kind="copy"))
    text = " ".join(render(comparison(*contenders, result("gpufeed", 510))).split())
    assert "a second torch-tuned came out at 0.80 (0.80-0.80) of the first, a difference where there is none" in text
    assert "Differences up to 25 % aren't shown." in text
    assert "Drift: torch-tuned went from 500 to 410 images/s (-18 %) over the rounds." in text
    steady = render(_measured_whole())
    assert "Drift" not in steady
    assert "difference where there is none" not in steady


def test_without_a_copy_the_noise_is_said_to_be_unknown() -> None:
    assert "This machine's noise wasn't measured" in render(_COMPARISON)


def test_the_page_cache_is_told() -> None:
    assert "All files were read before." in " ".join(
        render(_measured_whole(cache="All files were read before.")).split()
    )


def test_what_was_left_out_is_named_with_its_reason() -> None:
    assert "Left out: torch-tensor (transforms.LinearTransformation has no twin" in render(_COMPARISON)
    assert "Left out" not in render(replace(_COMPARISON, left_out=()))


def test_without_a_gpu_one_paragraph_says_what_it_would_change() -> None:
    assert "Without a GPU: reading, decoding and transforming all ran on 2 CPU threads" in render(_COMPARISON)
    on_gpu = replace(_COMPARISON, device="cuda:0", device_name="NVIDIA H200")
    assert "Without a GPU" not in render(on_gpu)
    assert "NVIDIA H200" in render(on_gpu)


def test_an_interrupted_run_shows_what_it_has() -> None:
    contenders = (_result("torch-tuned", 540, None, num_rounds=2), _result("gpufeed", 1150, None, num_rounds=1))
    text = render(replace(_COMPARISON, contenders=contenders, interrupted=True, elapsed_s=20))
    assert "2 rounds" in text
    assert "stopped by you after 20 of 90 s" in text
    assert _row(text, "gpufeed   ") == "gpufeed 1,150 0.0 % 2.13 too few 2.7 0.31 s n/a"


def test_without_the_usual_baseline_the_header_names_the_other() -> None:
    contenders = _COMPARISON.contenders[:1] + _COMPARISON.contenders[2:]
    text = render(replace(_COMPARISON, contenders=contenders, baseline="torch-default"))
    assert "x torch-default" in text
    assert " % 1 0.6 0.31 s" in _row(text, "torch-default")


def test_a_terminal_gets_signs_and_colours() -> None:
    terminal = _Terminal()
    show(_COMPARISON, terminal)
    text = terminal.getvalue()
    assert "\N{MULTIPLICATION SIGN} torch-tuned" in text
    assert "\x1b[" in text


def test_a_stream_that_is_no_terminal_gets_plain_text() -> None:
    stream = io.StringIO()
    show(_COMPARISON, stream)
    assert stream.getvalue() == render(_COMPARISON)


def test_a_folder_name_that_the_stream_cannot_show_is_escaped() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    show(replace(_COMPARISON, data="/data/\N{SNOWMAN}"), stream)
    stream.seek(0)
    assert "/data/\\u2603" in stream.read()
