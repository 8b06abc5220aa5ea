"""What is told about a pipeline: its image's ops, the user's operators with their lines, draws and the tail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpufeed.inspect.explain.pipeline import ExplainedPipeline, explain_pipeline, pipeline_to_json
from gpufeed.inspect.explain.pipeline_render import render
from gpufeed.pipelines import load_pipeline

MODULE = Path(__file__).with_name("pipeline_subjects.py")


def _line(text: str) -> int:
    """The number of the module's first line that holds a text."""
    return next(
        number for number, line in enumerate(MODULE.read_text(encoding="utf-8").splitlines(), start=1) if text in line
    )


def _explained(name: str, device: str = "cpu") -> ExplainedPipeline:
    return explain_pipeline(load_pipeline(f"{MODULE}:{name}"), device, name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("device", "stages"), [("cpu", ["DALI cpu", "torch cpu"]), ("cuda", ["DALI mixed", "DALI cuda"])]
)
def test_the_plan_comes_before_the_users_operators(device: str, stages: list[str]) -> None:
    image, target = _explained("rotated", device).outputs
    assert [type(one.op).__name__ for one in image.images[0].ops] == ["RandomAreaCrop", "Resize"]
    assert [f"{one.stage} {one.runs_on}" for one in image.images[0].ops] == stages
    assert image.images[0].ops[1].bound is not None
    assert [(one.text, one.runs_on, one.path, one.line) for one in image.operators] == [
        ("fn.rotate", device, str(MODULE), _line("fn.rotate")),
        ("ops.normalize (fn.crop_mirror_normalize)", device, str(MODULE), _line("ops.normalize(image), sample.target")),
    ]
    assert image.values == ("uniform(-15, 15)",)
    assert (target.path, target.is_field, target.values) == ("[1]", True, ("sample.target",))


def test_draws_are_in_their_order_with_their_lines() -> None:
    draws = _explained("rotated").draws
    assert [(draw.number, draw.what, draw.line) for draw in draws] == [
        (0, "RandomAreaCrop", 0),
        (2, "uniform(-15, 15)", _line("fn.rotate")),
    ]
    assert [(draw.number, draw.what) for draw in _explained("views", "cuda").draws] == [
        (0, "RandomAreaCrop"),
        (2, "Flip"),
        (6, "RandomAreaCrop"),
        (8, "Flip"),
    ]


def test_what_never_enters_the_graph_and_the_tail() -> None:
    explained = _explained("alone")
    image, noise, index, normal = explained.outputs
    assert (image.enters_graph, [type(one.op).__name__ for one in image.images[0].ops]) == (
        False,
        ["CenterCrop", "Convert"],
    )
    assert (noise.enters_graph, noise.images, [one.name for one in noise.operators]) == (
        True,
        (),
        ["fn.random.uniform"],
    )
    assert (index.values, normal.values) == (("sample.index",), ("normal(0, 1, shape=(3,))",))
    assert explained.native_draws == (("fn.random.uniform", _line("fn.random.uniform")),)
    assert explained.tail is not None
    assert (explained.tail.name, explained.tail.line) == ("alone_tail", _line("@alone.tail"))
    assert (explained.tail.draws, explained.tail.first_number) == (True, 3)
    assert explained.companions == ()


def test_outputs_are_named_by_their_place() -> None:
    assert [output.path for output in _explained("views").outputs] == ["['target']", "['views'][0]", "['views'][1]"]
    boxes = _explained("boxed", "cuda").outputs[1]
    assert (boxes.values, boxes.ragged, boxes.enters_graph) == (("sample.boxes by ops.boxes_like",), True, False)


@pytest.mark.parametrize("name", ["rotated", "views", "alone", "boxed"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_text_fits_80_columns_and_says_what_counts(name: str, device: str) -> None:
    text = render(_explained(name, device))
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    assert words.startswith(f"gpufeed explain, {name}, on {device} {name}(")
    if name == "rotated":
        assert f"fn.rotate, pipeline_subjects.py line {_line('fn.rotate')}" in words
        assert "sample.target: bypasses DALI, collated as torch does" in words
        assert "no bound is known for them" in words
        assert "@rotated.reference promises 90 % of values within 1/255" in words
    if name == "alone":
        assert "draws by itself: by the place in the batch" in words
        assert "Tail: alone_tail" in words
        assert "its draws are numbered from 3 on" in words
        assert "There is no @alone.reference" in words


def test_json_has_everything() -> None:
    document = json.loads(pipeline_to_json(_explained("rotated")))
    assert (document["schema"], document["schema_version"], document["kind"]) == ("gpufeed.explain", 1, "pipeline")
    assert document["parameters"] == {"size": 40}
    assert document["outputs"][0]["images"][0]["ops"][1]["exactness"]["kind"] == "bounded"
    assert document["outputs"][0]["operators"][0]["name"] == "fn.rotate"
    assert document["companions"] == ["reference"]
