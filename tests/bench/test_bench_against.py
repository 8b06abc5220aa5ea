"""Two saved runs against each other."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from constructed import comparison, result

from gpufeed.bench.against import changes, load, load_both, show_against, unlike
from gpufeed.bench.results import Comparison, to_json
from gpufeed.errors import ArgumentError, BenchmarkError


def _run(ours: float, torch: float = 500, **others: object) -> Comparison:
    copy = result("torch-tuned again", torch, kind="copy")
    return comparison(result("torch-tuned", torch), copy, result("gpufeed", ours), **others)


def _shown(tmp_path: Path, old: Comparison, new: Comparison, *, force: bool = False) -> str:
    paths = [tmp_path / name for name in ("old.json", "new.json")]
    for path, run in zip(paths, (old, new), strict=True):
        path.write_text(to_json(run))
    stream = io.StringIO()
    show_against(*paths, *load_both(*paths, force), stream)
    return stream.getvalue()


def test_each_contender_is_compared_with_itself(tmp_path: Path) -> None:
    text = _shown(tmp_path, _run(1000), _run(1200))
    assert text.isascii()
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert any(row.startswith("gpufeed 1,000 1,200 1.20 1.1") for row in rows)
    assert "torch-tuned 500 500 no difference shown" in rows


def test_a_step_back_is_told_for_the_loop_too() -> None:
    old = comparison(result("gpufeed", 1000, step_s=0.1, with_step=630), step_s=0.1)
    new = comparison(result("gpufeed", 1000, step_s=0.1, with_step=500), step_s=0.1)
    found = {change.mode: change for change in changes(old, new)}
    assert found["loader"].difference == "none"
    assert found["step"].difference == "slower"
    assert found["step"].ratio.median == pytest.approx(500 / 630, rel=1e-3)


def test_what_one_run_s_noise_covers_is_not_shown() -> None:
    noisy = replace(
        _run(1000),
        contenders=(
            result("torch-tuned", 500),
            result("torch-tuned again", 420, kind="copy"),
            result("gpufeed", 1000),
        ),
    )
    (ours,) = (change for change in changes(noisy, _run(1100)) if change.name == "gpufeed")
    assert ours.ratio.low is not None
    assert ours.ratio.low > 1
    assert ours.difference == "none"


@pytest.mark.parametrize(
    ("changed", "phrase"),
    [
        ({"environment": {"cpu": "another processor", "packages": {"torch": "2.14"}, "usable_cpus": 2}}, "CPU: a proc"),
        (
            {"environment": {"cpu": "a processor", "packages": {"torch": "2.15"}, "usable_cpus": 2}},
            "torch: 2.14, then 2.15",
        ),
        ({"environment": {"cpu": "a processor", "packages": {}, "usable_cpus": 2}}, "torch: 2.14, then none"),
        ({"device_name": "NVIDIA H200", "device": "cuda:0"}, "GPU: none, then NVIDIA H200"),
        ({"transform": "eval"}, "transform: train, then eval"),
        ({"transform_text": "Compose(changed)"}, "what the transform does"),
        ({"parameters": ("size=160",)}, "transform: train, then train size=160"),
        ({"batch_size": 32}, "batch size: 64, then 32"),
        ({"num_threads": 4}, "threads: 2, then 4"),
        ({"dtype": "float16"}, "dtype: float32, then float16"),
        ({"num_files": 100}, "512 files, then 512 built-in images, 100 files"),
    ],
)
def test_runs_under_other_conditions_are_refused_unless_forced(
    tmp_path: Path, changed: dict[str, object], phrase: str
) -> None:
    old, new = _run(1000), replace(_run(1200), **changed)  # type: ignore[arg-type]
    with pytest.raises(BenchmarkError, match=r"they differ in .*--force"):
        _shown(tmp_path, old, new)
    assert any(phrase in difference for difference in unlike(old, new))
    text = " ".join(_shown(tmp_path, old, new, force=True).split())
    assert "Compared by force, though they differ in" in text
    assert " 1.20 1.1" in text


def test_another_gpufeed_is_what_is_compared_and_no_reason_to_refuse(tmp_path: Path) -> None:
    runs = [_run(rate) for rate in (1000, 1200)]
    old, new = (
        replace(run, environment={**run.environment, "gpufeed": version})
        for run, version in zip(runs, ("0.1.0", "0.2.0"), strict=True)
    )
    assert unlike(old, new) == ()
    assert "(gpufeed 0.1.0, then 0.2.0)" in " ".join(_shown(tmp_path, old, new).split())


def test_contenders_of_one_run_alone_are_named(tmp_path: Path) -> None:
    new = comparison(result("torch-tuned", 500), result("spdl", 600))
    text = " ".join(_shown(tmp_path, _run(1000), new).split())
    assert "Not compared: torch-tuned again in old.json only, gpufeed in old.json only, spdl in new.json only." in text
    with pytest.raises(BenchmarkError, match="no contender in common"):
        _shown(tmp_path, _run(1000), comparison(result("spdl", 600)))


def test_one_run_given_twice_is_no_pair(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"old\.json and .*new\.json hold one and the same run; name two runs"):
        _shown(tmp_path, _run(1000), _run(1000), force=True)


_DAMAGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "KeyError: 'measurements'": lambda document: document["contenders"][0].pop("measurements"),
    "TypeError: 'int' object": lambda document: document.update(contenders=7),
    "unexpected keyword argument 'more'": lambda document: document.update(more=7),
    "elapsed_s must be above 0, got 0": lambda document: _epoch_of(document).update(elapsed_s=0),
    "num_samples must be a number, got 'x'": lambda document: _epoch_of(document).update(num_samples="x"),
}


def _epoch_of(document: dict[str, Any]) -> dict[str, Any]:
    return document["contenders"][0]["measurements"][0]["epoch"]


@pytest.mark.parametrize("phrase", _DAMAGED)
def test_a_damaged_result_is_refused_in_a_sentence(tmp_path: Path, phrase: str) -> None:
    document = json.loads(to_json(_run(1000)))
    _DAMAGED[phrase](document)
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ArgumentError, match=r"damaged\.json: .* is damaged \(.*; measure again$") as caught:
        load(path)
    assert phrase in str(caught.value)


def test_another_schema_version_gets_one_next_step(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(to_json(_run(1000)).replace('"schema_version": 2', '"schema_version": 1'))
    with pytest.raises(ArgumentError, match=r"must be 2, got 1; use the gpufeed version that wrote it$"):
        load(path)


def test_an_environment_that_is_no_environment_is_a_difference() -> None:
    assert "torch: 2.14, then none" in unlike(_run(1000), replace(_run(1200), environment={"packages": [1]}))


@pytest.mark.parametrize("text", ["", "[]", '{"schema": "gpufeed.compare', "[" * 100_000])
def test_broken_json_is_no_result(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(ArgumentError, match=r"broken\.json: this is not a result of gpufeed compare; name a file"):
        load(path)


def test_a_file_that_is_something_else_is_named(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_bytes(b"\xff\xfe{}")
    with pytest.raises(ArgumentError, match=r"other\.json: this is not a result of gpufeed compare; name a file"):
        load(other)
    with pytest.raises(ArgumentError, match=r"missing\.json can't be read \(No such file"):
        load(tmp_path / "missing.json")
