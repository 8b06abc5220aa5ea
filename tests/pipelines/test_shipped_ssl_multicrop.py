"""`gpufeed:ssl_multicrop` against its torch dataset's transforms, view by view, with the same draws."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from shipped_harness import MAX_LINES, epoch_order, num_lines, opened, share_within, torchvision_pixels
from torchvision.datasets import ImageFolder

from gpufeed import DataLoader
from gpufeed.inspect.example_data import example_data
from gpufeed.parameters import op_count
from gpufeed.pipeline_stages.host_batch import HostWork
from gpufeed.pipelines import Bound, Pipeline, load_pipeline
from gpufeed.recording import HostLeaf, record
from gpufeed.translation import translate

SEED, NUM_IMAGES = 11, 9
OPS_IN_FUNCTION = 4  # of a view: crop, resize, flip; and to_chw, which the reference does behind the colours
BOUND = Bound(within_255=2, share=0.999)
"""Of all views of an epoch: a crop is off by 1/255 here and there, which jitter multiplies."""
simclr, dino = (load_pipeline(f"gpufeed:ssl_multicrop:{name}") for name in ("simclr", "dino"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return example_data(tmp_path_factory.mktemp("views"), NUM_IMAGES).folders


def loader_of(folder: Path, pipeline: Pipeline, **arguments: Any) -> DataLoader:
    return DataLoader(folder, pipeline=pipeline, device="cpu", num_threads=2, seed=SEED, **arguments)


def numbers_of(transforms: Sequence[Any]) -> list[list[int]]:
    """The number of each op of each view's transform: the function draws for all views first, then the tail."""
    found: list[list[int]] = []
    following = OPS_IN_FUNCTION * len(transforms)
    for view, transform in enumerate(transforms):
        numbers = [OPS_IN_FUNCTION * view + position for position in range(3)]
        for op in translate(transform).require().ops[3:]:
            numbers.append(following)
            following += op_count(op)
        found.append(numbers)
    return found


@pytest.mark.parametrize(
    ("pipeline", "sizes"),
    [
        (simclr(size=80), [80, 80]),
        (simclr(size=47, strength=0.5), [47, 47]),
        (dino(size=64, local_size=32), [64, 64, *[32] * 6]),
        (dino(size=64, local_size=32, local_crops=1, global_scale=(0.2, 0.3)), [64, 64, 32]),
    ],
    ids=str,
)
def test_three_shuffled_epochs_are_the_references(folder: Path, pipeline: Pipeline, sizes: list[int]) -> None:
    samples = ImageFolder(folder).samples
    transforms = pipeline.make_torch_dataset(ImageFolder(folder)).transforms
    numbers = numbers_of(transforms)
    with loader_of(folder, pipeline, batch_size=4, shuffle=True) as loader:
        for epoch in range(3):
            batches = list(loader)
            views = [torch.cat(parts) for parts in zip(*(views for views, _ in batches), strict=True)]
            order = epoch_order(NUM_IMAGES, SEED, epoch)
            assert torch.cat([targets for _, targets in batches]).tolist() == [samples[index][1] for index in order]
            assert [tuple(view.shape) for view in views] == [(NUM_IMAGES, 3, size, size) for size in sizes]
            for view, transform, own in zip(views, transforms, numbers, strict=True):
                theirs = [torchvision_pixels(transform, opened(samples[i][0]), SEED, epoch, i, own) for i in order]
                share = share_within(view, torch.stack(theirs), BOUND, normalized=pipeline.name == "dino")
                assert share >= BOUND.share


@pytest.mark.parametrize("pipeline", [simclr(scale=(1, 1)), dino(global_scale=(1, 1), local_scale=(1, 1))], ids=str)
def test_colours_are_pillows_but_for_the_rounding_of_the_blur(tmp_path: Path, pipeline: Pipeline) -> None:
    """Without loss in files, and with crops that are the whole image at its own size."""
    (tmp_path / "square").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (8, 48, 48, 3), dtype=np.uint8)
    for number, one in enumerate(pixels):
        Image.fromarray(one).save(tmp_path / "square" / f"{number}.png")
    sizes = {"size": 48} if pipeline.name == "simclr" else {"size": 48, "local_size": 48}
    transforms = pipeline(**sizes).make_torch_dataset(ImageFolder(tmp_path)).transforms
    (views, _), *_ = loader_of(tmp_path, pipeline(**sizes), batch_size=8)
    for view, transform, own in zip(views, transforms, numbers_of(transforms), strict=True):
        theirs = [torchvision_pixels(transform, Image.fromarray(pixels[i]), SEED, 0, i, own) for i in range(8)]
        exact, near = (
            share_within(view, torch.stack(theirs), Bound(levels), normalized=pipeline.name == "dino")
            for levels in (0, 1)
        )
        assert exact >= 0.9999
        assert near == 1


@pytest.mark.parametrize("pipeline", [simclr(size=48), dino(size=48, local_size=48)], ids=str)
def test_views_differ_and_the_batch_size_changes_nothing(folder: Path, pipeline: Pipeline) -> None:
    (whole, _), *_ = loader_of(folder, pipeline, batch_size=NUM_IMAGES)
    (part, _), *_ = loader_of(folder, pipeline, batch_size=2)
    for number, (one, again) in enumerate(zip(whole, part, strict=True)):
        assert torch.equal(one[:2], again)
        assert not any(torch.equal(one[row], other[row]) for other in whole[:number] for row in range(NUM_IMAGES))


def test_simclr_is_in_0_to_1_and_dino_is_normalised(folder: Path) -> None:
    (views, _), *_ = loader_of(folder, simclr(size=32), batch_size=NUM_IMAGES)
    assert all(0 <= view.min() < 0.3 and 0.7 < view.max() <= 1 for view in views)
    (crops, _), *_ = loader_of(folder, dino(size=32, local_size=32), batch_size=NUM_IMAGES)
    assert all(crop.min() < -1 and crop.max() > 1 for crop in crops)


@pytest.mark.parametrize("pipeline", [simclr, dino], ids=str)
def test_one_decode_for_all_views(pipeline: Pipeline) -> None:
    work = HostWork(record(pipeline, "cpu", example={"target": 0}))
    assert {slot: len(images) for slot, images in work.decoded.items()} == {0: 2 if pipeline.name == "simclr" else 8}
    on_cuda = record(pipeline, "cuda", example={"target": 0})
    names = [operator._op.schema.Name() for operator in on_cuda.graph._ops]
    assert sum("decoders" in name for name in names) == 1


@pytest.mark.parametrize(("pipeline", "num_views"), [(simclr, 2), (dino, 8), (dino(local_crops=0), 2)], ids=str)
def test_it_fits_the_gpu(pipeline: Pipeline, num_views: int) -> None:
    recorded = record(pipeline, "cuda", example={"target": 0})
    assert [isinstance(leaf, HostLeaf) for leaf in recorded.leaves] == [*[False] * num_views, True]
    assert recorded.native_draws == ()


@pytest.mark.parametrize("pipeline", [simclr(size=32), dino(size=32, local_size=24)], ids=str)
def test_the_torch_dataset_has_the_same_structure(folder: Path, pipeline: Pipeline) -> None:
    (views, target), *_ = loader_of(folder, pipeline, batch_size=1)
    their_views, their_target = pipeline.make_torch_dataset(ImageFolder(folder))[0]
    assert [view[0].shape for view in views] == [view.shape for view in their_views]
    assert target.item() == their_target


def test_it_can_be_read_as_a_whole() -> None:
    assert num_lines(simclr) < MAX_LINES
