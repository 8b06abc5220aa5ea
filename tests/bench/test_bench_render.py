"""The table, in 80 columns of plain text and on a terminal."""

from __future__ import annotations

import io
from dataclasses import replace

from gpufeed.bench.render import render, show
from gpufeed.bench.results import Comparison, ContenderResult, Epoch, LeftOut, Measurement


def _epoch(images_per_s: float) -> Epoch:
    return Epoch(1280 / images_per_s, 0.3, 3.0, 1280, 20, 0, "float32", "cpu", (3, 224, 224))


def _result(name: str, images_per_s: float, peak_pss_bytes: int | None, num_rounds: int = 7) -> ContenderResult:
    measurements = tuple(
        Measurement(index, 0, _epoch(images_per_s * (1 + 0.01 * (index % 3)))) for index in range(num_rounds)
    )
    return ContenderResult(name, 0.31, _epoch(images_per_s), peak_pss_bytes, measurements)


_COMPARISON = Comparison(
    data="/data/a folder/with/a rather/long name/that goes on/and on/imagenet/validation",
    root="/data",
    num_files=512,
    samples_per_round=1280,
    transform="train",
    transform_text="Compose()",
    batch_size=64,
    num_threads=2,
    device="cpu",
    device_name="",
    dtype="float32",
    seed=0,
    baseline="torch-tuned",
    budget_s=90.0,
    elapsed_s=83.2,
    interrupted=False,
    contenders=(
        _result("torch-default", 262, 612_000_000),
        _result("torch-tuned", 540, 1_104_000_000),
        _result("gpufeed", 1150, 890_000_000),
        _result("dali-handwritten", 21_152, None),
    ),
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
    assert _row(text, "gpufeed   ") == "gpufeed 1,162 0.7 % 2.13 2.13-2.13 0.31 s 2.34 ms 890 MB"
    assert " % 1 0.31 s" in _row(text, "torch-tuned")
    assert _row(text, "dali-handwritten").endswith(" ms n/a")


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
    assert _row(text, "gpufeed   ") == "gpufeed 1,150 0.0 % 2.13 too few 0.31 s 2.34 ms n/a"


def test_without_the_usual_baseline_the_header_names_the_other() -> None:
    contenders = _COMPARISON.contenders[:1] + _COMPARISON.contenders[2:]
    text = render(replace(_COMPARISON, contenders=contenders, baseline="torch-default"))
    assert "x torch-default" in text
    assert " % 1 0.31 s" in _row(text, "torch-default")


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
