"""The JSON: a round trip, and never over a file that is something else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from constructed import comparison

from gpufeed.bench.results import (
    SCHEMA_VERSION,
    Comparison,
    ContenderResult,
    Epoch,
    LeftOut,
    Measurement,
    check_json_target,
    from_json,
    to_json,
    write_json,
)
from gpufeed.errors import ArgumentError

_EPOCH = Epoch(
    elapsed_s=1.5,
    first_batch_s=0.25,
    cpu_s=2.75,
    num_samples=640,
    num_batches=10,
    target_sum=4321,
    dtype="float32",
    device="cpu",
    shape=(3, 224, 224),
    mean=0.125,
    std=1.0625,
)


def _comparison() -> Comparison:
    measurements = tuple(Measurement(index, index % 2, replace(_EPOCH, mean=None, std=None)) for index in range(7))
    return comparison(
        ContenderResult("torch-tuned", 0.5, _EPOCH, 800_000_000, measurements),
        ContenderResult("gpufeed", 0.25, _EPOCH, None, measurements[:3]),
        left_out=(LeftOut("torch-default", "the budget"),),
        environment={"packages": {"torch": "2.11"}, "load_average_at_start": [0.5, 0.25, 0.125]},
    )


def test_json_round_trip_is_exact() -> None:
    comparison = _comparison()
    assert from_json(to_json(comparison)) == comparison


def test_json_names_its_schema_and_holds_the_raw_rounds() -> None:
    document = json.loads(to_json(_comparison()))
    assert document["schema"] == "gpufeed.compare"
    assert document["schema_version"] == SCHEMA_VERSION
    assert len(document["contenders"][0]["measurements"]) == 7
    assert document["contenders"][0]["measurements"][1]["epoch"]["elapsed_s"] == 1.5


def test_another_schema_version_is_refused() -> None:
    text = to_json(_comparison()).replace('"schema_version": 2', '"schema_version": 99')
    with pytest.raises(ArgumentError, match=r"schema_version must be 2, got 99"):
        from_json(text)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "pytest"}', "not json"])
def test_what_is_no_result_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="not a result of gpufeed compare"):
        from_json(text)


def test_an_earlier_result_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_json(replace(_comparison(), elapsed_s=1.0), path)
    write_json(_comparison(), path)
    assert from_json(path.read_text()) == _comparison()
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.json"]


@pytest.mark.parametrize("content", [b"", b"precious", b'{"schema": "other", "schema_version": 1}', b"\xff\xfe"])
def test_a_file_that_is_something_else_is_never_overwritten(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "precious.json"
    path.write_bytes(content)
    with pytest.raises(ArgumentError, match="is not a result of gpufeed compare; give --json another name"):
        write_json(_comparison(), path)
    assert path.read_bytes() == content


def test_a_target_that_cannot_be_written_is_told_before_measuring(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="there is no folder"):
        check_json_target(tmp_path / "missing" / "result.json")
    with pytest.raises(ArgumentError, match="is a folder"):
        check_json_target(tmp_path)


def test_a_result_gets_the_usual_permissions(tmp_path: Path) -> None:
    path, other = tmp_path / "result.json", tmp_path / "other"
    other.touch()
    write_json(_comparison(), path)
    assert path.stat().st_mode == other.stat().st_mode
