"""`@gpufeed.pipeline`: parameters, companions and the decorator's refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torchvision.datasets import ImageFolder

from gpufeed.errors import ArgumentError
from gpufeed.pipelines import Bound, Pipeline, pipeline


def _train(
    sample: Any,
    *,
    size: int = 224,
    scale: float = 0.5,
    flip: bool = True,
    note: str = "",
    mode: Literal["fast", "exact", 3] = "fast",
    ratio: tuple[float, float] = (0.75, 1.5),
    sizes: tuple[int, ...] = (1,),
    limit: int | None = None,
) -> Any:
    """Crop it.

    More about it.
    """


@pytest.fixture
def train() -> Pipeline:
    return pipeline(_train)


def test_what_it_is(train: Pipeline) -> None:
    assert isinstance(train, Pipeline)
    assert train.name == "_train"
    assert train.summary == "Crop it."
    assert train.path == __file__
    assert [parameter.name for parameter in train.parameters][:3] == ["size", "scale", "flip"]
    assert str(train.parameter("mode")) == "mode: 'fast' or 'exact' or 3 = 'fast'"
    assert str(train.parameter("limit")) == "limit: int | None = None"
    assert str(train(size=160, note="x")) == "_train(size=160, note='x')"


# Values ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("size=160", 160),
        (" size = 160 ", 160),
        ("size=-3", -3),
        ("scale=1", 1.0),
        ("scale=2.5e-3", 0.0025),
        ("flip=false", False),
        ("flip=Yes", True),
        ("flip=0", False),
        ("note=a=b, c", "a=b, c"),
        ("note=", ""),
        ("mode=exact", "exact"),
        ("mode=3", 3),
        ("ratio=0.5,2", (0.5, 2.0)),
        ("ratio=(0.5, 2)", (0.5, 2.0)),
        ("sizes=3", (3,)),
        ("sizes=3,5,7", (3, 5, 7)),
        ("limit=none", None),
        ("limit=4", 4),
    ],
)
def test_assignments_of_the_command_line(train: Pipeline, assignment: str, value: object) -> None:
    bound = train.parse([assignment])
    name = assignment.partition("=")[0].strip()
    assert bound.all_values()[name] == value
    assert type(bound.all_values()[name]) is type(value)
    assert {other: kept for other, kept in bound.all_values().items() if other != name} == {
        other: kept for other, kept in train.all_values().items() if other != name
    }


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("size=big", "size must be int, got 'big'"),
        ("size=1.5", "size must be int, got '1.5'"),
        ("size=", "size must be int, got ''"),
        ("scale=x", "scale must be float, got 'x'"),
        ("flip=maybe", "flip must be bool, got 'maybe'"),
        ("mode=slow", "mode must be 'fast' or 'exact' or 3, got 'slow'"),
        ("ratio=1", "ratio must be tuple[float, float], with commas between, got '1'"),
        ("ratio=1,2,3", "ratio must be tuple[float, float], with commas between, got '1,2,3'"),
        ("sizes=1,b", "sizes must be tuple[int, ...], with commas between, got '1,b'"),
        ("limit=some", "limit must be int | None, got 'some'"),
        ("size", "expected NAME=VALUE, such as size=160, got 'size'"),
    ],
)
def test_ill_typed_assignments_are_refused(train: Pipeline, assignment: str, sentence: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        train.parse([assignment])
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"size": "160"}, "size must be int, got '160'"),
        ({"size": True}, "size must be int, got True"),
        ({"size": 1.0}, "size must be int, got 1.0"),
        ({"size": None}, "size must be int, got None"),
        ({"flip": 1}, "flip must be bool, got 1"),
        ({"mode": "3"}, "mode must be 'fast' or 'exact' or 3, got '3'"),
        ({"ratio": (1, 2, 3)}, "ratio must be tuple[float, float], got (1, 2, 3)"),
        ({"ratio": 1}, "ratio must be tuple[float, float], got 1"),
        ({"sizes": (1, 2.5)}, "sizes must be tuple[int, ...], got (1, 2.5)"),
    ],
)
def test_ill_typed_values_are_refused(train: Pipeline, values: dict[str, object], sentence: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        train(**values)
    assert str(caught.value) == sentence


def test_an_unknown_parameter_is_answered_with_the_near_name_and_the_list(train: Pipeline) -> None:
    for call in (lambda: train(siez=3), lambda: train.parse(["siez=3"])):
        with pytest.raises(ArgumentError) as caught:
            call()
        assert str(caught.value).startswith(
            "the pipeline _train has no parameter 'siez'; did you mean size? (it has size: int = 224, scale: float"
        )

    @pipeline
    def bare(sample: Any) -> None: ...

    with pytest.raises(ArgumentError, match=r"the pipeline bare has no parameter 'size' \(it has none\)"):
        bare(size=3)


@given(st.integers(), st.floats(allow_nan=False), st.booleans(), st.lists(st.integers(), min_size=1))
def test_what_python_prints_is_read_back(size: int, scale: float, flip: bool, sizes: list[int]) -> None:
    written = [f"size={size}", f"scale={scale!r}", f"flip={flip}", f"sizes={tuple(sizes)}"]
    read = pipeline(_train).parse(written).values
    assert read == {"size": size, "scale": scale, "flip": flip, "sizes": tuple(sizes)}


def test_binding_makes_another_pipeline_and_adds_up(train: Pipeline) -> None:
    small = train(size=8)
    smaller = small(scale=1)(size=4)
    assert (train.values, small.values, smaller.values) == ({}, {"size": 8}, {"size": 4, "scale": 1.0})
    assert type(smaller.values["scale"]) is float
    assert train.all_values()["size"] == 224
    assert train(ratio=[1, 2]).values == {"ratio": (1.0, 2.0)}


def test_a_parameter_without_a_default_needs_a_value() -> None:
    @pipeline
    def train(sample: Any, *, size: int, depth: int = 1) -> None: ...

    assert train.parameters[0].required
    assert not train.parameters[1].required
    with pytest.raises(ArgumentError, match=r"train needs a value for size: int; call train\(size=\.\.\.\)"):
        train.all_values()
    assert train(size=3).all_values() == {"size": 3, "depth": 1}


# Companions -----------------------------------------------------------------------------------------------------------


def test_companions_get_the_values_that_they_declare(train: Pipeline) -> None:
    @train.reference
    def reference(*, size: int) -> object:
        return ("reference", size)

    @train.torch_dataset
    def dataset(source: object, **values: object) -> object:
        return source, values

    @train.source
    def source(root: str, *, limit: int | None) -> object:
        return root, limit

    @train.tail
    def tail(images: object) -> object:
        return images

    small = train(size=8, limit=3)
    assert small.make_reference() == ("reference", 8)
    assert small.make_torch_dataset("data") == ("data", small.all_values())
    assert small.make_source("there") == ("there", 3)
    assert small.companion("tail") is tail
    assert all(train.has(name) for name in ("tail", "reference", "torch_dataset", "source"))
    assert reference(size=1) == ("reference", 1), "the decorators return the function as it was"


def test_a_companion_that_is_missing_is_named_with_its_decorator(train: Pipeline) -> None:
    for call, name in ((train.make_reference, "reference"), (lambda: train.make_torch_dataset(0), "torch_dataset")):
        with pytest.raises(ArgumentError) as caught:
            call()
        assert str(caught.value) == f"the pipeline _train has no {name}; write one in its module, under @_train.{name}"
    assert not any(train.has(name) for name in ("tail", "reference", "torch_dataset", "source"))


def test_companions_belong_to_one_pipeline_and_what_is_bound_from_it() -> None:
    one, other = pipeline(_train), pipeline(_train)
    bound = one(size=3)
    one.reference(lambda: None)
    assert bound.has("reference")
    assert not other.has("reference")


def test_without_a_source_a_path_is_an_image_folder(train: Pipeline, tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "a.jpg").write_bytes(b"not read here")
    found = train.make_source(str(tmp_path))
    assert isinstance(found, ImageFolder)
    assert len(found) == 1


def test_the_references_bound(train: Pipeline) -> None:
    assert train.bound == Bound(within_255=1.0, share=0.999)
    train.reference(within_255=2, share=0.9)(lambda: None)
    assert train(size=3).bound == Bound(within_255=2, share=0.9)
    for values, sentence in (
        ({"within_255": -1.0}, "within_255 must be at least 0, got -1.0"),
        ({"within_255": float("nan")}, "within_255 must be at least 0, got nan"),
        ({"share": 0.0}, r"share must be in \(0, 1\], got 0.0"),
        ({"share": 1.5}, r"share must be in \(0, 1\], got 1.5"),
    ):
        with pytest.raises(ArgumentError, match=sentence):
            train.reference(**values)


# The decorator's refusals ---------------------------------------------------------------------------------------------


def _no_sample() -> None: ...


def _two(sample: Any, size: int) -> None: ...


def _starred(*samples: Any) -> None: ...


def _any_keyword(sample: Any, **values: int) -> None: ...


@pytest.mark.parametrize("function", [_no_sample, _two, _starred, _any_keyword])
def test_other_arguments_than_a_sample_and_keywords_are_refused(function: Any) -> None:
    line = function.__code__.co_firstlineno
    with pytest.raises(ArgumentError) as caught:
        pipeline(function)
    assert str(caught.value) == (
        f"{__file__}, line {line}: a pipeline takes one argument by position, the sample, and parameters by keyword; "
        f"write def {function.__name__}(sample, *, size: int = 224)"
    )


def _unannotated(sample: Any, *, size=3) -> None: ...  # type: ignore[no-untyped-def]


def _of_lists(sample: Any, *, sizes: list[int]) -> None: ...


def _of_two(sample: Any, *, size: int | str = 3) -> None: ...


def _of_tuples(sample: Any, *, sizes: tuple[tuple[int, int], ...]) -> None: ...


def _ill_typed(sample: Any, *, size: int = 3.5) -> None: ...  # type: ignore[assignment]


def _none(sample: Any, *, size: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013


def _unknown(sample: Any, *, size: Gone = 3) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (_unannotated, "the parameter size of _unannotated needs an annotation, as size: int"),
        (_of_lists, "the parameter sizes of _of_lists is list[int]; take bool, int, float, str, Literal or tuple"),
        (_of_two, "the parameter size of _of_two is int | str; take bool"),
        (_of_tuples, "the parameter sizes of _of_tuples is tuple[tuple[int, int], ...]; take bool"),
        (_ill_typed, "size must be int, got 3.5"),
        (_none, "size must be int, got None"),
        (_unknown, "an annotation of _unknown has an unknown name: name 'Gone' is not defined"),
    ],
)
def test_parameters_need_an_annotation_that_can_be_read(function: Any, sentence: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        pipeline(function)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("thing", [3, int, "train", len])
def test_only_functions_are_decorated(thing: Any) -> None:
    with pytest.raises(ArgumentError, match=r"@gpufeed\.pipeline goes above a function, got "):
        pipeline(thing)
