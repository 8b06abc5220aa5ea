"""`gpufeed:detection_coco` against torchvision with the same draws, and against what COCO's file says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from shipped_harness import MAX_LINES, epoch_order, num_lines, share_within
from shipped_objects import CROWD, EMPTY, NUM_IMAGES, OVER_EDGE, assert_fits_the_gpu, write_objects
from torchvision.models.detection.transform import GeneralizedRCNNTransform

from gpufeed import DataLoader, HostSample
from gpufeed.inspect.example_data import CLASSES
from gpufeed.pipelines import Pipeline, load_pipeline

SEED = 7
train, evaluate = (load_pipeline(f"gpufeed:detection_coco:{name}") for name in ("train", "evaluate"))
small = train(sizes=(96, 111, 130), max_size=150)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_objects(tmp_path_factory.mktemp("coco"))


def batches_of(objects: Path, pipeline: Pipeline, epochs: int = 1, **arguments: Any) -> list[list[Any]]:
    arguments = {"batch_size": 4, "seed": SEED, "num_threads": 2, **arguments}
    with DataLoader(objects, pipeline=pipeline, device="cpu", **arguments) as loader:
        return [list(loader) for _ in range(epochs)]


def samples_of(objects: Path, pipeline: Pipeline, **arguments: Any) -> list[Any]:
    (batches,) = batches_of(objects, pipeline, **arguments)
    return [sample for images, targets in batches for sample in zip(images, targets, strict=True)]


@pytest.mark.parametrize("pipeline", [small, small(normalize=False), evaluate(size=96, max_size=127)], ids=str)
def test_three_shuffled_epochs_are_torchvisions(objects: Path, pipeline: Pipeline) -> None:
    dataset = pipeline.make_torch_dataset(pipeline.make_source(str(objects)))
    transform = dataset.transform
    for epoch, batches in enumerate(batches_of(objects, pipeline, 3, shuffle=True)):
        samples = [sample for images, targets in batches for sample in zip(images, targets, strict=True)]
        for (image, target), index in zip(samples, epoch_order(NUM_IMAGES, SEED, epoch), strict=True):
            host = HostSample(index, length=NUM_IMAGES, seed=SEED, epoch=epoch)
            dataset.transform = lambda *inputs, host=host: host.apply(transform, *inputs)
            theirs, known = dataset[index]
            normalized = bool(pipeline.all_values()["normalize"])
            assert share_within(image, theirs, pipeline.bound, normalized=normalized) >= pipeline.bound.share
            assert target.keys() == known.keys()
            assert target["boxes"].shape == known["boxes"].shape
            assert ((target["boxes"] - known["boxes"]).abs() <= 0.05).all()  # pixels
            for name in ("labels", "iscrowd", "image_id"):
                assert target[name].dtype == known[name].dtype
                assert torch.equal(target[name], known[name])


def test_targets_are_what_the_file_says(objects: Path) -> None:
    document = json.loads((objects / "annotations.json").read_text(encoding="utf-8"))
    side = 100
    samples = samples_of(objects, evaluate(size=side, max_size=1000))
    assert len(samples) == NUM_IMAGES
    for index, (image, target) in enumerate(samples):
        described = document["images"][index]
        assert int(target["image_id"]) == described["id"]
        own = [one for one in document["annotations"] if one["image_id"] == described["id"]]
        inside = [one for one in own if one["bbox"][0] < described["width"]]
        assert target["labels"].tolist() == [one["category_id"] for one in inside]
        assert set(target["labels"].tolist()) <= {known.category_id for known in CLASSES}
        assert target["iscrowd"].tolist() == [bool(one["iscrowd"]) for one in inside]
        height, width = image.shape[-2:]
        assert min(height, width) == side
        factors = torch.tensor([width / described["width"], height / described["height"]]).repeat(2)
        corners = torch.tensor([[x, y, x + w, y + h] for x, y, w, h in (one["bbox"] for one in inside)]).view(-1, 4)
        expected = (corners * factors).clamp(max=torch.tensor([width, height, width, height]))
        assert ((target["boxes"] - expected).abs() < 1e-3).all()
    assert samples[EMPTY][1]["boxes"].shape == (0, 4)
    assert samples[CROWD][1]["iscrowd"].sum() == 1
    assert samples[OVER_EDGE][1]["boxes"][-1, 2] == samples[OVER_EDGE][0].shape[-1]


def test_images_are_always_a_list_and_torchvisions_detectors_take_the_batch(objects: Path) -> None:
    ((batch,),) = batches_of(objects, evaluate(size=96, normalize=False), batch_size=NUM_IMAGES)
    ((one,), *_), *_ = batches_of(objects, small, batch_size=1)[0]
    assert one.ndim == 3
    images, targets = batch
    front = GeneralizedRCNNTransform(96, 1333, [0.0] * 3, [1.0] * 3)
    padded, scaled = front(images, targets)
    assert padded.image_sizes == [tuple(image.shape[-2:]) for image in images]
    for target, theirs in zip(targets, scaled, strict=True):
        assert torch.allclose(target["boxes"], theirs["boxes"])
    assert all(image.min() >= 0 and image.max() <= 1 for image in images)


def test_tensors_in_a_dict_per_image_are_handed_over_too(objects: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On CUDA torch must know of each that the caller's stream uses it."""
    handed: list[torch.Tensor] = []
    monkeypatch.setattr("gpufeed.collation.hand_over", handed.extend)
    images, targets = batches_of(objects, small)[0][0]
    known = {id(one) for one in handed}
    assert all(id(one) in known for one in [*images, *(one for target in targets for one in target.values())])


def test_samples_are_the_same_whatever_the_batch(objects: Path) -> None:
    first, again = (samples_of(objects, small, batch_size=size, num_threads=n) for size, n in ((1, 1), (4, 2)))
    for (image, target), (other, known) in zip(first, again, strict=True):
        assert torch.equal(image, other)
        assert all(torch.equal(target[name], known[name]) for name in known)


def test_the_dataset_serves_torchs_loader_alone(objects: Path) -> None:
    dataset = small.make_torch_dataset(small.make_source(str(objects)))
    image, target = dataset[CROWD]
    assert min(image.shape[-2:]) in (96, 111, 130) or max(image.shape[-2:]) == 150
    assert len(target["boxes"]) == len(target["labels"]) == len(target["iscrowd"]) > 0


@pytest.mark.parametrize("pipeline", [train, evaluate], ids=str)
def test_it_fits_the_gpu(objects: Path, pipeline: Pipeline) -> None:
    assert_fits_the_gpu(pipeline, objects)


def test_it_can_be_read_as_a_whole() -> None:
    assert num_lines(train) < MAX_LINES
