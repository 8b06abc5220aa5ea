"""A pipeline's images held to its reference's: bounds, several images, other draws, shapes, sources of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from verify_run import write_photos

from gpufeed.bench.images import list_image_folder
from gpufeed.bench.progress import Silent
from gpufeed.errors import ArgumentError, PipelineError
from gpufeed.inspect.example_data import open_data
from gpufeed.inspect.verify.files import ChosenFolder
from gpufeed.inspect.verify.pipeline import PipelineRequest, PipelineVerification, pipeline_to_json, verify_pipeline
from gpufeed.inspect.verify.pipeline_render import render
from gpufeed.pipelines import load_pipeline

MODULE = Path(__file__).with_name("pipeline_subjects.py")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("photos"))


def _verified(photos: Path, name: str, **options: Any) -> PipelineVerification:
    dataset = ChosenFolder(list_image_folder(photos), None)
    indices = options.pop("indices", range(len(dataset)))
    request = PipelineRequest(load_pipeline(f"{MODULE}:{name}"), dataset, indices, "photos", name, "cpu", **options)
    return verify_pipeline(request, Silent())


def test_a_pipeline_holds_the_bound_that_it_declares(photos: Path) -> None:
    found = _verified(photos, "rotated", seed=3)
    (image,) = found.outputs
    assert (image.path, image.num_samples, image.shape, image.dtype) == ("[0]", 12, (3, 40, 40), "float32")
    assert found.failures == ()
    assert 0.9 <= image.share_within < 1.0  # the frame of what is rotated differs
    assert image.spread.mean_255 < 3
    assert [one.name for one in found.operators] == ["fn.rotate", "fn.crop_mirror_normalize"]
    assert found.sizes_hw == ((53, 59), (97, 211))
    words = " ".join(render(found).split())
    assert "DALI's own operators have no bound of their own: fn.rotate (pipeline_subjects.py line" in words
    assert "Files of 53x59 to 97x211 pixels." in words
    assert "90 % within Files" in words
    assert "everything holds (" in words


def test_several_views_count_their_draws_on(photos: Path) -> None:
    found = _verified(photos, "views", indices=[1, 4, 7])
    assert [(check.path, check.num_samples) for check in found.outputs] == [("['views'][0]", 3), ("['views'][1]", 3)]
    assert found.failures == ()
    assert all(check.share_within >= 0.999 for check in found.outputs)


def test_other_draws_exceed_and_are_told_from_small_differences(photos: Path, tmp_path: Path) -> None:
    found = _verified(photos, "flipped_early", save=tmp_path / "worst")
    (failure,) = found.failures
    assert "of [0]'s values are within 1/255 of the reference's, and 99.9 % must be; farthest in " in failure
    assert "a reference gets the pipeline's draws only where it draws in the pipeline's order" in failure
    text = render(found)
    assert "EXCEEDED" in text
    assert max(map(len, text.splitlines())) <= 80
    assert [Path(picture).is_file() for picture in found.pictures] == [True]


def test_small_differences_beyond_the_bound_ask_for_another_bound(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = load_pipeline(f"{MODULE}:rotated")
    pipeline.reference(within_255=1, share=1.0)(pipeline.companion("reference"))
    request = PipelineRequest(pipeline, ChosenFolder(list_image_folder(photos), None), [0, 1], "photos", "x", "cpu")
    (failure,) = verify_pipeline(request, Silent()).failures
    assert "declare what is right by @rotated.reference(within_255=..., share=...)" in failure


def test_another_shape_is_an_error_in_words(photos: Path) -> None:
    with pytest.raises(PipelineError) as caught:
        _verified(photos, "bytes_last")
    assert "it ends in uint8 (3, 33, 33), and the pipeline's [0] is uint8 (33, 33, 3)" in str(caught.value)
    assert "return ops.to_chw(image) from the pipeline" in str(caught.value)
    assert caught.value.path == str(MODULE)


def test_a_pipeline_without_a_reference_is_told_how_to_write_one(photos: Path) -> None:
    with pytest.raises(
        ArgumentError, match=r"no reference to be verified against; .*@alone\.reference above a function"
    ):
        _verified(photos, "alone")


def test_a_source_of_its_own_is_read(tmp_path: Path) -> None:
    pipeline = load_pipeline(f"{MODULE}:boxed")
    source, text = open_data(pipeline, None, tmp_path)
    found = verify_pipeline(PipelineRequest(pipeline, source, [0, 5, 9], text, "boxed", "cpu"), Silent())
    assert (found.failures, found.num_compared, found.num_files) == ((), 3, 32)


def test_files_that_cannot_be_loaded_are_left_out(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    broken = photos / "a" / "00.jpg"
    broken.write_bytes(b"no image")
    found = _verified(photos, "views")
    assert [left.file for left in found.left_out] == [str(broken)]
    assert found.num_compared == 11
    assert "11 of 12 samples" in " ".join(render(found).split())


def test_json_has_everything(photos: Path) -> None:
    document = json.loads(pipeline_to_json(_verified(photos, "rotated", indices=[2])))
    assert (document["schema"], document["kind"], document["failures"]) == ("gpufeed.verify", "pipeline", [])
    assert document["outputs"][0]["spread"]["num_values"] == 3 * 40 * 40
    assert document["within_255"] == 1
