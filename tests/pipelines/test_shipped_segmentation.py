"""`gpufeed:segmentation` against torchvision with the same draws, and against what its images show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from shipped_harness import MAX_LINES, epoch_order, num_lines, share_within
from shipped_objects import NUM_IMAGES, UNKNOWN, assert_fits_the_gpu, colour_of, write_objects

from gpufeed import DataLoader, HostSample, ops
from gpufeed.errors import ArgumentError
from gpufeed.inspect.example_data import CLASSES
from gpufeed.pipelines import Pipeline, load_pipeline

SEED = 7
train, evaluate = (load_pipeline(f"gpufeed:segmentation:{name}") for name in ("train", "evaluate"))


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_objects(tmp_path_factory.mktemp("segmentation"))


def epochs_of(objects: Path, pipeline: Pipeline, epochs: int = 1, **arguments: Any) -> list[Any]:
    """Of each epoch the images and the masks of all samples."""
    arguments = {"batch_size": 4, "seed": SEED, "num_threads": 2, **arguments}
    with DataLoader(objects, pipeline=pipeline, device="cpu", **arguments) as loader:
        return [tuple(map(torch.cat, zip(*loader, strict=True))) for _ in range(epochs)]


@pytest.mark.parametrize(
    "pipeline",
    [
        train(size=96),
        train(size=161, scale=(0.05, 0.2), ratio=(1.0, 1.0), hflip_prob=1.0),  # enlarged
        evaluate(size=96),
        evaluate(size=299),
    ],
    ids=str,
)
def test_three_shuffled_epochs_are_torchvisions(objects: Path, pipeline: Pipeline) -> None:
    dataset = pipeline.make_torch_dataset(pipeline.make_source(str(objects)))
    transform = dataset.transform
    for epoch, (images, masks) in enumerate(epochs_of(objects, pipeline, 3, shuffle=True)):
        for image, mask, index in zip(images, masks, epoch_order(NUM_IMAGES, SEED, epoch), strict=True):
            host = HostSample(index, length=NUM_IMAGES, seed=SEED, epoch=epoch)
            dataset.transform = lambda *inputs, host=host: host.apply(transform, *inputs)
            theirs, known = dataset[index]
            assert share_within(image, theirs, pipeline.bound) >= pipeline.bound.share
            assert mask.dtype == torch.int64
            assert torch.equal(mask, known), "no ties on the CPU: nearest pixels are torch's own"


def test_masks_cover_what_they_name(objects: Path) -> None:
    """Without a reference: the shapes of the example data are of their class's colour, but for their rim."""
    ((images, masks),) = epochs_of(objects, train(size=224, scale=(0.5, 1.0)))
    images = images * torch.tensor(ops.IMAGENET_STD).view(3, 1, 1) + torch.tensor(ops.IMAGENET_MEAN).view(3, 1, 1)
    assert set(masks.unique().tolist()) <= {*range(len(CLASSES) + 1), 255}
    assert [index for index, mask in enumerate(masks) if (mask == 255).any()] == [UNKNOWN]
    for label in range(len(CLASSES)):
        there = masks == label + 1
        assert there.any()
        away = (images - colour_of(label).view(3, 1, 1)).abs().amax(dim=1)
        assert (away[there] < 0.15).double().mean() > 0.9
        assert (away[masks == 0] < 0.15).double().mean() < 0.1


def test_samples_are_the_same_whatever_the_batch(objects: Path) -> None:
    ((images, masks),), ((others, theirs),) = (
        epochs_of(objects, train(size=64), batch_size=size, num_threads=threads) for size, threads in ((1, 1), (4, 2))
    )
    assert torch.equal(images, others)
    assert torch.equal(masks, theirs)


def test_a_missing_mask_is_named(objects: Path, tmp_path: Path) -> None:
    for name in ("images", "masks"):
        (tmp_path / name).mkdir()
        for path in (objects / name).iterdir():
            if (name, path.stem) != ("masks", "0003"):
                (tmp_path / name / path.name).symlink_to(path)
    with pytest.raises(ArgumentError, match=r"0003\.jpg: there is no mask"):
        DataLoader(tmp_path, pipeline=train)


@pytest.mark.parametrize("pipeline", [train, evaluate], ids=str)
def test_it_fits_the_gpu(objects: Path, pipeline: Pipeline) -> None:
    assert_fits_the_gpu(pipeline, objects)


def test_it_can_be_read_as_a_whole() -> None:
    assert num_lines(train) < MAX_LINES
