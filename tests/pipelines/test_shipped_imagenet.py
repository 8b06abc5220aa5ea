"""`gpufeed:imagenet` against torchvision's references, with the same draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from shipped_harness import MAX_LINES, epoch_order, num_lines, opened, share_within, torchvision_pixels
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from gpufeed import DataLoader
from gpufeed.inspect.example_data import example_data
from gpufeed.pipelines import Pipeline, load_pipeline
from gpufeed.recording import HostLeaf, record

SEED, NUM_IMAGES = 7, 10
train, evaluate = (load_pipeline(f"gpufeed:imagenet:{name}") for name in ("train", "evaluate"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return example_data(tmp_path_factory.mktemp("imagenet"), NUM_IMAGES).folders


def loader_of(folder: Path, pipeline: Pipeline, **arguments: Any) -> DataLoader:
    return DataLoader(folder, pipeline=pipeline, device="cpu", num_threads=2, **{"seed": SEED, **arguments})


@pytest.mark.parametrize(
    "pipeline",
    [
        train(size=96),
        train(size=65, interpolation="bicubic", hflip_prob=1.0),
        train(size=96, erasing_prob=0.7),
        evaluate(size=96, resize=113),
        evaluate(size=161, resize=128, interpolation="bicubic"),  # larger than the resized image
    ],
    ids=str,
)
def test_three_shuffled_epochs_are_the_references(folder: Path, pipeline: Pipeline) -> None:
    samples = ImageFolder(folder).samples
    transform = pipeline.make_reference()
    with loader_of(folder, pipeline, batch_size=4, shuffle=True) as loader:
        for epoch in range(3):
            images, targets = (torch.cat(parts) for parts in zip(*loader, strict=True))
            order = epoch_order(NUM_IMAGES, SEED, epoch)
            assert targets.tolist() == [samples[index][1] for index in order]
            for image, index in zip(images, order, strict=True):
                theirs = torchvision_pixels(transform, opened(samples[index][0]), SEED, epoch, index)
                assert share_within(image, theirs, pipeline.bound) >= pipeline.bound.share


def test_the_draws_are_the_transforms_own(folder: Path) -> None:
    """A pipeline and its reference, each in a loader of gpufeed's with one seed, give the same batches."""
    pipeline = train(size=64, erasing_prob=0.5)
    (ours, _), *_ = loader_of(folder, pipeline, batch_size=NUM_IMAGES)
    (theirs, _), *_ = DataLoader(
        ImageFolder(folder, pipeline.make_reference()), batch_size=NUM_IMAGES, device="cpu", seed=SEED
    )
    assert share_within(ours, theirs, pipeline.bound) >= pipeline.bound.share


def test_evaluation_is_torchvisions_preset(folder: Path) -> None:
    """By torchvision alone, without gpufeed's draws or reference."""
    (images, targets), *_ = loader_of(folder, evaluate, batch_size=NUM_IMAGES)
    preset = v2.Compose(
        [
            v2.Resize(256),
            v2.CenterCrop(224),
            v2.PILToTensor(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )
    dataset = ImageFolder(folder, preset)
    assert share_within(images, torch.stack([image for image, _ in dataset]), evaluate.bound) >= evaluate.bound.share
    assert targets.tolist() == dataset.targets


def test_erasing_is_off_unless_asked_for(folder: Path) -> None:
    plain, erased = (
        next(iter(loader_of(folder, train(size=64, erasing_prob=p), batch_size=NUM_IMAGES)))[0] for p in (0.0, 1.0)
    )
    assert torch.equal(plain, next(iter(loader_of(folder, train(size=64), batch_size=NUM_IMAGES)))[0])
    gone = (erased == 0).all(dim=1)
    assert gone.flatten(1).any(dim=1).all(), "in every image a box is erased"
    assert torch.equal(plain[(~gone)[:, None].expand_as(plain)], erased[(~gone)[:, None].expand_as(plain)])


@pytest.mark.parametrize("pipeline", [train, evaluate], ids=str)
def test_it_fits_the_gpu(pipeline: Pipeline) -> None:
    recorded = record(pipeline, "cuda", example={"target": 0})
    image, _ = recorded.leaves
    assert not isinstance(image, HostLeaf)
    assert recorded.native_draws == ()


def test_it_can_be_read_as_a_whole() -> None:
    assert num_lines(train) < MAX_LINES
