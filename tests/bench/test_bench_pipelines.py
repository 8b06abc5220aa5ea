"""A pipeline in place of a transform: what each contender runs, and what is held to be equal."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from gpufeed.bench.checks import check_same_outputs, what_was_checked
from gpufeed.bench.contenders import CONTENDERS, contenders_named
from gpufeed.bench.contenders.torch_side import Collate, ShuffledIndices
from gpufeed.bench.epoch import check_epoch, run_epoch
from gpufeed.bench.images import list_image_folder
from gpufeed.bench.measure import Request, measure
from gpufeed.bench.progress import Silent
from gpufeed.bench.protocol import Look, Probe, Seen
from gpufeed.bench.results import Epoch, from_json, to_json
from gpufeed.bench.serve import look, probe
from gpufeed.bench.transforms import check_reference, subject_of
from gpufeed.bench.workload import Workload
from gpufeed.errors import ArgumentError, BenchmarkError, UnsupportedError
from gpufeed.inspect.example_data import example_data
from gpufeed.pipelines import Pipeline

MODULES = Path(__file__).with_name("pipeline_modules.py")


def _named(name: str) -> str:
    return f"{MODULES}:{name}"


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Five images with YOLO labels."""
    return str(example_data(tmp_path_factory.mktemp("example"), 5).objects)


@pytest.fixture
def workload(photos: Path) -> Workload:
    """The eleven photographs through ``train``: two batches of 4 and one of 3."""
    files = list_image_folder(photos)
    return Workload(
        files.root,
        files.classes,
        files.paths,
        files.targets,
        _named("train"),
        batch_size=4,
        num_threads=2,
        dtype="",
        is_pipeline=True,
    )


@pytest.fixture
def boxed(workload: Workload, objects: str) -> Workload:
    """Seven samples of a source of five."""
    probed = probe(Probe(_named("boxes"), "", "cpu", root=objects))
    indices = (0, 0, 1, 2, 3, 3, 4)
    paths = tuple(probed.names[index] for index in indices)
    return replace(
        workload, root=objects, classes=(), paths=paths, targets=(), indices=indices, transform=_named("boxes")
    )


def _entered(name: str, workload: Workload) -> AbstractContextManager[Any]:
    return CONTENDERS[name].load_factory()(workload)


def _epoch(name: str, workload: Workload) -> Epoch:
    """A second epoch of a contender in this process, checked."""
    with _entered(name, workload) as epochs:
        run_epoch(epochs, workload)
        epoch = run_epoch(epochs, workload, with_pixels=True)
    check_epoch(epoch, workload)
    return epoch


# The reference --------------------------------------------------------------------------------------------------------


def test_references_of_pipelines_are_taken_without_running_a_file(tmp_path: Path) -> None:
    for reference in (_named("train"), str(MODULES), "gpufeed:anything:train", "train"):
        check_reference(reference)
    with pytest.raises(ArgumentError, match=r"there is no file gone\.py"):
        check_reference("gone.py")
    with pytest.raises(ArgumentError, match=r"must be one of train, eval, or FILE\.py:NAME, got 'trian'; did you mean"):
        check_reference("trian")


def test_parameters_are_the_pipelines_alone() -> None:
    subject = subject_of(_named("train"), ("size=20",))
    assert isinstance(subject, Pipeline)
    assert subject.values == {"size": 20}
    with pytest.raises(ArgumentError, match="has no parameter 'sise'; did you mean size"):
        subject_of(_named("train"), ("sise=20",))
    with pytest.raises(ArgumentError, match="train is no pipeline, and only pipelines have parameters; leave out -p a"):
        subject_of("train", ("a=1",))


def test_a_look_tells_what_is_named(objects: str) -> None:
    assert look(Look("eval")) == Seen()
    assert look(Look(_named("train"))) == Seen(True, False, "@train.reference")
    assert look(Look(_named("boxes"))) == Seen(True, True, "@boxes.torch_dataset")
    probed = probe(Probe(_named("boxes"), "", "cpu", ("size=8",), objects))
    assert [Path(name).name for name in probed.names] == [f"{index:04d}.jpg" for index in range(5)]
    assert (probed.dtype, probed.transform_text) == ("", f"boxes(size=8) of {MODULES}")
    with pytest.raises(ArgumentError, match="no folder"):
        probe(Probe(_named("boxes"), "", "cpu", root="/no/such/folder"))


# What contenders run --------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The image decoding:DeprecationWarning")
@pytest.mark.parametrize("name", ["torch-default", "torch-tensor", "gpufeed"])
def test_images_and_targets_are_alike(name: str, workload: Workload) -> None:
    epoch = _epoch(name, replace(workload, parameters=("size=10",)))
    assert (epoch.num_samples, epoch.num_batches) == (11, 3)
    assert epoch.outputs == ("[0] float32 (3, 10, 10)", "[1] int64 ()")
    assert epoch.is_pair
    reference = _epoch("torch-default", replace(workload, parameters=("size=10",)))
    check_same_outputs("torch-default", reference, name, epoch)
    assert what_was_checked({"baseline": reference, name: epoch}) == (
        "All contenders gave the same number of samples, [0] float32 (3, 10, 10), [1] int64 (), and images of like "
        "mean and spread."
    )


def test_another_dtype_is_unequal_work(workload: Workload) -> None:
    unequal = replace(workload, transform=_named("bytes_only"))
    torchs, ours = _epoch("torch-default", unequal), _epoch("gpufeed", unequal)
    with pytest.raises(BenchmarkError, match=r"gpufeed did unequal work: its batches hold \[0\] uint8 \(3, 12, 12\)"):
        check_same_outputs("torch-default", torchs, "gpufeed", ours)


@pytest.mark.parametrize("name", ["torch-default", "torch-tuned", "gpufeed"])
def test_a_source_of_its_own_gives_the_chosen_samples_with_ragged_outputs(name: str, boxed: Workload) -> None:
    epoch = _epoch(name, boxed)
    assert (epoch.num_samples, epoch.num_batches, epoch.is_pair) == (7, 2, False)
    assert epoch.outputs == (
        "[0] float32 (3, 12, 12)",
        "[1]['boxes'] a list of float32 (N, 4)",
        "[1]['labels'] a list of int64 (N,)",
    )
    check_same_outputs("x", epoch, name, replace(epoch, outputs=("[0] uint8 ()",)))  # only pairs are held
    other = replace(epoch, outputs=("[0] uint8 ()",))
    assert what_was_checked({"a": epoch, "b": other}).endswith("b gives [0] uint8 ().")


def test_a_source_with_a_reference_is_read_by_torch(boxed: Workload) -> None:
    sourced = replace(boxed, transform=_named("sourced"))
    torchs, ours = _epoch("torch-default", sourced), _epoch("gpufeed", sourced)
    assert torchs.mean == pytest.approx(ours.mean, abs=1e-4)
    assert torchs.outputs[0] == ours.outputs[0] == "[0] float32 (3, 12, 12)"


def test_what_has_nothing_for_torch_says_how_to_write_it(workload: Workload) -> None:
    alone = replace(workload, transform=_named("alone"))
    assert _epoch("gpufeed", alone).num_samples == 11
    with pytest.raises(ArgumentError, match=r"@alone\.reference above .* or @alone\.torch_dataset above"):
        _entered("torch-tuned", alone).__enter__()


def test_contenders_that_do_not_fit_are_left_out_with_a_sentence(workload: Workload, boxed: Workload) -> None:
    with pytest.raises(UnsupportedError, match=r"@boxes\.torch_dataset gives a Dataset of its own"):
        _entered("torch-tensor", boxed).__enter__()
    with pytest.raises(UnsupportedError, match=r"dali-handwritten is written for .*, and this is a pipeline"):
        _entered("dali-handwritten", workload).__enter__()


def test_a_dataset_of_another_length_is_refused(workload: Workload) -> None:
    with pytest.raises(ArgumentError, match="must be as long as its source, 11 samples, got 2"):
        _entered("torch-default", replace(workload, transform=_named("shortened"))).__enter__()


def test_the_order_is_drawn_anew_and_repeats_with_the_seed() -> None:
    indices = tuple(range(10, 40))
    sampler, again = ShuffledIndices(indices, 3), ShuffledIndices(indices, 3)
    first, second = list(sampler), list(sampler)
    assert first != second
    assert sorted(first) == sorted(second) == list(indices)
    assert [list(again), list(again)] == [first, second]


def test_collating_keeps_ragged_arrays_as_lists() -> None:
    samples: list[Any] = [(torch.ones(2), {"boxes": torch.ones(count, 4), "id": count}) for count in (1, 3)]
    collate = Collate()
    even = collate([samples[0], samples[0]])
    assert even[1]["boxes"].shape == (2, 1, 4)
    images, objects = collate(samples)
    assert images.shape == (2, 2)
    assert [boxes.shape for boxes in objects["boxes"]] == [(1, 4), (3, 4)]
    assert objects["id"].tolist() == [1, 3]


@pytest.mark.slow
def test_a_whole_comparison_on_example_data(tmp_path: Path) -> None:
    def example() -> tuple[str, str]:
        return str(example_data(tmp_path, 5).objects), "five images"

    request = Request(
        files=None,
        data="nothing",
        transform=_named("boxes"),
        contenders=contenders_named(["torch-tuned", "torch-tensor", "gpufeed"]),
        batch_size=2,
        num_threads=1,
        device="cpu",
        budget_s=600,  # never reached: max_rounds ends it
        max_rounds=7,
        parameters=("size=9",),
        example=example,
    )
    comparison = measure(request, Silent(), time.monotonic())
    assert [result.name for result in comparison.contenders] == ["torch-tuned", "gpufeed"]
    assert (comparison.data, comparison.parameters) == ("five images", ("size=9",))
    assert comparison.num_files == 5
    assert comparison.torch_side == "@boxes.torch_dataset"
    assert "only the number of samples is held to be equal: all give [0] float32 (3, 9, 9)" in comparison.checked
    assert [left.name for left in comparison.left_out] == ["torch-tensor"]
    assert from_json(to_json(comparison)) == comparison
