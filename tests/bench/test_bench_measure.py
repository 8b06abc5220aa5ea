"""A whole comparison of small fakes: interleaving, unequal work, contenders that can't or won't."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from gpufeed.bench.contenders import Contender
from gpufeed.bench.images import ImageFolderFiles, list_image_folder
from gpufeed.bench.measure import Request, measure
from gpufeed.bench.progress import Silent
from gpufeed.bench.results import Comparison, from_json, to_json
from gpufeed.bench.statistics import summarize
from gpufeed.errors import BenchmarkError, UnsupportedError

Fake = Callable[..., Contender]


def _measure(files: ImageFolderFiles, *contenders: Contender) -> Comparison:
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
