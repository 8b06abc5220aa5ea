"""A whole comparison of small fakes: interleaving, unequal work, contenders that can't or won't."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from gpufeed.bench import measure as measure_module
from gpufeed.bench.contenders import Contender, copy_of
from gpufeed.bench.images import ImageFolderFiles, list_image_folder
from gpufeed.bench.measure import Request, measure
from gpufeed.bench.progress import Silent
from gpufeed.bench.results import Comparison, from_json, to_json
from gpufeed.bench.statistics import summarize
from gpufeed.errors import ArgumentError, BenchmarkError, UnsupportedError

Fake = Callable[..., Contender]


def _measure(files: ImageFolderFiles, *contenders: Contender, **options: Any) -> Comparison:
    request = Request(
        files=files,
        data="photos",
        transform="train",
        contenders=contenders,
        batch_size=2,
        num_threads=1,
        device="cpu",
        budget_s=600,  # never reached: max_rounds ends it
        max_rounds=7,
        **options,
    )
    return measure(request, Silent(), time.monotonic())


@pytest.fixture(scope="module")
def files(photos: Path) -> ImageFolderFiles:
    return list_image_folder(photos)


def test_rounds_are_interleaved_rotated_and_complete(files: ImageFolderFiles, fake: Fake) -> None:
    contenders = [fake("honest", as_name=name) for name in ("a", "torch-tuned")]
    comparison = _measure(files, *contenders, fake("refuses", leave_out_rank=0))
    assert [result.name for result in comparison.contenders] == ["a", "torch-tuned"]
    for offset, result in enumerate(comparison.contenders):
        assert [entry.round_index for entry in result.measurements] == list(range(7))
        assert [entry.place for entry in result.measurements] == [(offset - index) % 2 for index in range(7)]
        assert {entry.epoch.num_samples for entry in result.measurements} == {comparison.samples_per_round}
        assert result.warm_up.mean is not None
    (left_out,) = comparison.left_out
    assert (left_out.name, left_out.reason) == ("refuses", "I don't do batches of 2")
    assert comparison.baseline == "torch-tuned"
    assert comparison.num_files == 11
    assert (comparison.device, comparison.dtype) == ("cpu", "float32")
    assert from_json(to_json(comparison)) == comparison
    assert [row.num_rounds for row in summarize(comparison)] == [7, 7]
    assert psutil.Process().children(recursive=True) == []


def test_unequal_work_ends_it_and_names_the_contender(files: ImageFolderFiles, fake: Fake) -> None:
    with pytest.raises(BenchmarkError, match="unnormalised did unequal work: its values have mean"):
        _measure(files, fake("honest"), fake("unnormalised"))
    assert psutil.Process().children(recursive=True) == []


def test_the_last_contender_is_not_left_out_but_told(files: ImageFolderFiles, fake: Fake) -> None:
    with pytest.raises(UnsupportedError, match="I don't do batches of 2"):
        _measure(files, fake("refuses", leave_out_rank=0))


def test_the_copy_the_bounds_and_a_step_are_measured_beside(files: ImageFolderFiles, fake: Fake) -> None:
    bounds = [
        replace(fake("counts", leave_out_rank=9), kind="bound", every=3, feeds_step=False),
        replace(fake("honest", as_name="cached", leave_out_rank=9), kind="bound", every=3),
        replace(fake("senseless", leave_out_rank=9), kind="bound", every=3),
        replace(fake("broken", leave_out_rank=9), kind="bound", every=3),
    ]
    step = f"{Path(__file__).with_name('fake_contenders.py')}:step"
    comparison = _measure(
        files,
        fake("honest", as_name="torch-tuned"),
        fake("honest", as_name="gpufeed"),
        bounds=tuple(bounds),
        with_copy=True,
        step=step,
    )
    rounds = {
        (result.name, result.kind): (
            [entry.round_index for entry in result.in_mode("loader")],
            [entry.round_index for entry in result.in_mode("step")],
        )
        for result in comparison.contenders
    }
    every = list(range(7))
    assert rounds == {
        ("torch-tuned", "loader"): (every, every),
        ("gpufeed", "loader"): (every, every),
        ("torch-tuned again", "copy"): (every, []),
        ("counts", "bound"): ([0, 3, 6], []),
        ("cached", "bound"): ([0, 3, 6], [0, 3, 6]),
    }
    assert [left.name for left in comparison.left_out] == ["broken"]  # what makes no sense isn't mentioned
    assert comparison.left_out[0].reason == "bounds failed: OSError: no disk"
    assert comparison.step is not None
    assert (comparison.step.name, comparison.step.s_per_batch > 0) == (step, True)
    for result in comparison.loaders:
        for entry in result.in_mode("step"):
            assert 0 < entry.epoch.step_s < entry.epoch.elapsed_s
            assert len(entry.epoch.waits_s) == entry.epoch.num_batches
        assert all(entry.epoch.step_s == 0 for entry in result.in_mode("loader"))
    assert [cost.part.partition("(")[0] for cost in comparison.costs[:3]] == ["read", "decode", "RandomResizedCrop"]
    assert comparison.cache.startswith("Warm: all 11 files")
    assert [result.peak_pss_bytes is None for result in comparison.bounds] == [True, True]
    assert from_json(to_json(comparison)) == comparison
    assert psutil.Process().children(recursive=True) == []


def test_cold_epochs_need_as_many_files_as_they_have_samples(files: ImageFolderFiles, fake: Fake) -> None:
    few = ImageFolderFiles(files.root, files.classes, files.paths[:3], files.targets[:3])
    sentence = r"--cache cold needs at least 4 files here, 2 batches of 2, got 3: .*give more files or --batch-size 1"
    with pytest.raises(ArgumentError, match=sentence):
        _measure(few, fake("honest"), cache="cold")


def test_cold_epochs_have_each_file_once(files: ImageFolderFiles, fake: Fake) -> None:
    comparison = _measure(files, fake("honest"), cache="cold")
    assert comparison.samples_per_round == comparison.num_files == 10
    assert comparison.cache.startswith("Cold: the 10 files were dropped from the page cache before each epoch")


def test_of_a_bound_that_no_longer_fits_what_was_measured_stays(
    files: ImageFolderFiles, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = replace(fake("counts", leave_out_rank=9), kind="bound", every=3, feeds_step=False)

    def late(contenders: list[Contender], *_: object, rounds_done: int, **__: object) -> Contender | None:
        return next((one for one in contenders if one.kind == "bound" and rounds_done == 2), None)

    monkeypatch.setattr(measure_module, "next_to_leave_out", late)
    comparison = _measure(files, fake("honest"), bounds=(bound,))
    loader, kept = comparison.contenders
    assert len(loader.measurements) == 7
    assert [entry.round_index for entry in kept.measurements] == [0]
    assert comparison.left_out == ()


def test_a_copy_may_be_given_as_a_contender(files: ImageFolderFiles, fake: Fake) -> None:
    comparison = _measure(files, fake("honest"), copy_of(fake("honest")))
    assert [(result.name, result.kind) for result in comparison.contenders] == [
        ("honest", "loader"),
        ("honest again", "copy"),
    ]


def test_a_copy_without_its_original_is_not_measured(files: ImageFolderFiles, fake: Fake) -> None:
    comparison = _measure(files, fake("refuses", leave_out_rank=0), fake("honest"), with_copy=True)
    assert [result.name for result in comparison.contenders] == ["honest"]
    assert [left.name for left in comparison.left_out] == ["refuses"]
    assert (comparison.baseline, comparison.copy) == ("honest", None)
