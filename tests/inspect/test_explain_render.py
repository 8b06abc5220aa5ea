"""The explanation as text: what stands in the tables, in plain ASCII of 80 columns and on a terminal."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from test_explain import BAD, BOX, FIVE, NESTED, TRAIN
from torchvision.transforms import v2

from gpufeed.inspect.explain.explanation import explain
from gpufeed.inspect.explain.render import render, show


class _Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def text_of(transform: Any, device: Any = "cpu", width: int = 80) -> str:
    return render(explain(transform, device, "mine.py:t"), width)


def lines_of(text: str, start: str) -> list[list[str]]:
    """The words of every line that begins with ``start``."""
    return [line.split() for line in text.splitlines() if " ".join(line.split()).startswith(start)]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    "transform", [TRAIN, NESTED, FIVE, BAD, BOX, None], ids=["train", "nested", "five", "bad", "box", "none"]
)
def test_plain_text_is_ascii_and_fits_80_columns(transform: Any, device: Any) -> None:
    text = text_of(transform, device)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert "…" not in text
    assert text.startswith(f"gpufeed explain, mine.py:t, on {device}\n")


def test_a_row_for_every_op_and_a_note_for_every_bound() -> None:
    text = text_of(TRAIN)
    (crop,) = lines_of(text, "0 RandomResizedCrop")
    assert crop == ["0", "RandomResizedCrop", "RandomAreaCrop", "DALI", "pil", "uint8", "exact"]
    assert lines_of(text, "Resize torch") == [
        ["Resize", "torch", "pil", "uint8", "bounded", "[1]"],
        ["Resize", "torch", "cpu", "sample", "by", "sample"],
    ]
    assert lines_of(text, "cpu 24 x 20 x 3")
    assert lines_of(text, "2 Identity") == [["2", "Identity", "passed", "through"]]
    assert "[1] 1/255 for 99.9 % of values, at most 2/255 (torch's uint8 kernel" in text
    assert "[2]" not in text
    assert "Of 6 ops: 5 exact, 1 bounded." in text


LONG = v2.Compose(
    [
        v2.RandomApply([v2.RandomChoice([v2.RandomHorizontalFlip(), v2.RandomPhotometricDistort()])]),
        v2.RandomChannelPermutation(),
        v2.Identity(),
        v2.RandomAdjustSharpness(2.0),
        v2.Resize(9),
        v2.PILToTensor(),
    ]
)


@pytest.mark.parametrize("width", [80, 100, 104, 120, 160])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_no_name_is_cut(device: Any, width: int) -> None:
    text = text_of(LONG, device, width)
    words = text.replace("(", " ").split()
    names = ["RandomHorizontalFlip", "RandomPhotometricDistort", "ChannelPermutation", "RandomAdjustSharpness"]
    assert set(names) <= set(words)
    assert max(map(len, text.splitlines())) <= width
    assert "passed through" in text


def test_images_of_unequal_size_get_a_note() -> None:
    assert "Images of unequal size need a collate_fn" in text_of(LONG)
    assert "collate_fn" not in text_of(TRAIN)


def test_what_runs_as_one() -> None:
    assert lines_of(text_of(TRAIN), "decode, RandomAreaCrop DALI cpu")
    assert lines_of(text_of(TRAIN), "ToDtype, Normalize torch cpu")
    text = text_of(TRAIN, "cuda")
    assert lines_of(text, "decode, RandomAreaCrop DALI mixed")
    assert lines_of(text, "Flip, Convert, ToDtype, Normalize DALI cuda")
    assert "Expected is what was not measured." in text
    assert lines_of(text_of(None), "decode DALI cpu decodes the whole image")
    assert lines_of(text_of(v2.PILToTensor(), "cuda"), "transpose DALI cuda makes CHW")


def test_what_is_inside_of_a_container_is_numbered_and_indented() -> None:
    text = text_of(NESTED)
    (grey,) = (line for line in text.splitlines() if line.startswith("1.0 "))
    (apply,) = (line for line in text.splitlines() if line.startswith("1 "))
    assert grey.index("Grayscale") == apply.index("RandomApply") + 2
    assert lines_of(text, "1.1.0 Resize torch")
    assert "Of 7 ops:" in text  # containers aren't counted


def test_every_refused_transform_is_shown_with_place_reason_and_way_out() -> None:
    text = " ".join(text_of(BAD).split())
    assert "- transforms[1] (test_explain.a_function): a function can't be looked into" in text
    assert "- transforms[2].transforms[1] (torchvision.transforms.v2.Lambda): a function can't" in text
    assert "- transforms[4] (torchvision.transforms.v2.RandomCrop): " in text
    assert "Refused: 3 of 7 transforms." in text
    assert "runs in" not in text
    assert "runs as one" not in text
    on_cuda = " ".join(text_of(BOX, "cuda").split())
    assert "DALI has neither a box nor a hamming filter; use device='cpu' or another interpolation." in on_cuda
    assert "Refused: 2 of 4 transforms." in on_cuda


def test_a_wide_terminal_gets_the_inputs_and_the_arguments() -> None:
    text = text_of(TRAIN, width=120)
    assert "input" in text
    assert "RandomHorizontalFlip(p=0.5)" in text
    assert max(map(len, text.splitlines())) <= 120
    assert "a_function" in text_of(BAD, width=120)


def test_a_terminal_gets_signs_and_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    terminal = _Terminal()
    show(explain(TRAIN, "cpu", "mine.py:t"), terminal)
    assert "\x1b[" in terminal.getvalue()
    assert "mine.py:t · on cpu" in terminal.getvalue()


def test_a_stream_that_is_no_terminal_gets_plain_text_with_signs_escaped() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    show(explain(TRAIN, "cpu", "\N{SNOWMAN}.py:t"), stream)
    stream.seek(0)
    assert "\\u2603.py:t" in stream.read()


def test_what_an_op_holds_is_shown_also_where_no_steps_show_it() -> None:
    """A class such as an automatic augmentation becomes one op of many branches."""
    explanation = explain(v2.RandomApply([v2.RandomHorizontalFlip(), v2.Resize(9), v2.Resize(9)]), "cpu", "mine.py:t")
    (step,) = explanation.steps
    text = render(replace(explanation, steps=(replace(step, branches=()),)))
    assert lines_of(text, "RandomApply RandomApply torch")
    assert len(lines_of(text, "Flip torch pil uint8 exact")) == 1
    assert len(lines_of(text, "Resize torch pil uint8 bounded [1]")) == 1
    assert "Of 2 ops: 1 exact, 1 bounded." in text
