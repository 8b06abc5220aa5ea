"""What only a CUDA device can show of custom pipelines: the CPU's batches, but for decoding and resizing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from nvidia.dali import fn
from PIL import Image
from torchvision.transforms import v2

import gpufeed
from gpufeed import DataLoader, PipelineError, ops

pytestmark = pytest.mark.gpu

MEAN_LIMIT = 3.0 / 255
"""Mean over an image's values: decoding and resizing on the GPU differ by a few values, as placement's bounds say."""


@gpufeed.pipeline
def usual(sample, *, size: int = 64):
    image = ops.apply(v2.RandomHorizontalFlip(), sample.random_resized_crop(size), sample)
    return ops.to_chw(image), sample.target, sample.index


@gpufeed.pipeline
def turned(sample):
    image = fn.rotate(sample.center_crop(80, resize=96), angle=sample.uniform(-9, 9), keep_size=True, fill_value=0)
    return ops.to_chw(image), sample.uniform(0, 1, shape=3), sample.size_hw


@gpufeed.pipeline
def mixed(sample):
    others = sample.others(2)
    images = [one.random_resized_crop(48) for one in (sample, *others)]
    return {"image": ops.to_chw(fn.cat(*images, axis=1)), "whole": sample.decode(), "lengths": ops.pad(sample.size_hw)}


@gpufeed.pipeline
def coloured(sample):
    return ops.to_chw(sample.random_resized_crop(64)), sample.target


@coloured.tail
def coloured_tail(images, target, *, samples):
    return ops.apply(v2.RandomInvert(0.5), images, samples), target, samples.permutation(4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for number in range(24):
        (root / f"class{number % 3}").mkdir(exist_ok=True)
        height, width = (int(value) for value in rng.integers(100, 300, 2))
        y, x = np.mgrid[0:height, 0:width]
        pixels = np.stack([127 + 100 * np.sin(x / (19 + c) + y / (27 + number)) for c in range(3)], axis=-1)
        Image.fromarray(pixels.astype(np.uint8)).save(root / f"class{number % 3}" / f"{number:02d}.jpg", quality=95)
    return root


def samples(pipeline: Any, root: Path, device: str, batch_size: int = 7) -> list[list[Any]]:
    options: dict[str, Any] = {"batch_size": batch_size, "seed": 3, "shuffle": True, "collate_fn": list}
    with DataLoader(str(root), pipeline=pipeline, device=device, **options) as loader:
        return [list(flat(sample)) for batch in loader for sample in batch]


def flat(value: Any) -> Any:
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from flat(item)
    else:
        yield value


@pytest.mark.parametrize("pipeline", [usual, turned, mixed, coloured], ids=str)
def test_the_batches_are_those_of_the_cpu(folder: Path, pipeline: gpufeed.Pipeline) -> None:
    for there, here in zip(samples(pipeline, folder, "cuda"), samples(pipeline, folder, "cpu"), strict=True):
        for mine, expected in zip(there, here, strict=True):
            assert mine.device.type == "cuda"
            assert mine.dtype == expected.dtype
            assert mine.shape == expected.shape
            if expected.ndim == 3:
                difference = (mine.cpu().float() - expected.float()).abs().mean() / 255
                assert difference <= MEAN_LIMIT
            else:
                assert torch.equal(mine.cpu(), expected)


@pytest.mark.parametrize("pipeline", [usual, turned, mixed, coloured], ids=str)
def test_batch_size_changes_nothing(folder: Path, pipeline: gpufeed.Pipeline) -> None:
    for first, second in zip(samples(pipeline, folder, "cuda", 7), samples(pipeline, folder, "cuda", 24), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_a_host_operator_after_the_device_is_refused_with_its_line(folder: Path) -> None:
    @gpufeed.pipeline
    def back(sample):
        return fn.brightness(sample.center_crop(32), brightness=1.0, device="cpu")

    with pytest.raises(PipelineError) as caught:
        samples(back, folder, "cuda")
    assert caught.value.line == back.function.__code__.co_firstlineno + 2
