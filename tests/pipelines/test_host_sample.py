"""`HostSample` draws what a pipeline draws, number by number."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import gpufeed
from gpufeed import DataLoader, HostSample, ops
from gpufeed.errors import ArgumentError, TranslationError

CROP = v2.RandomResizedCrop(31)
JITTER = v2.ColorJitter(0.4, 0.4, 0.4, 0.1)


def drawn(sample: Any) -> dict[str, Any]:
    """Every kind of draw, of a sample in a pipeline and of one on the host."""
    found = {
        "uniform": sample.uniform(-1, 1),
        "several": sample.uniform(5, 7, shape=(2, 3)),
        "normal": sample.normal(5, 2),
        "coin": sample.coin(0.3),
        "choice": sample.choice([0.5, 1.5, 2.5], p=[1, 2, 3]),
        "whole": sample.choice([3, 4]),
    }
    others = sample.others(3)
    found |= {f"index{number}": other.index for number, other in enumerate(others)}
    return found | {
        "theirs": others[2].uniform(),
        "integers": sample.integers(-3, 3, shape=4),
        "permutation": sample.permutation(5),
    }


@gpufeed.pipeline
def everything(sample):
    return sample.index, drawn(sample)


@gpufeed.pipeline
def cropped(sample):
    before = sample.uniform()
    image = ops.to_chw(ops.apply(v2.RandomHorizontalFlip(), sample.random_resized_crop(31), sample))
    other = sample.others(1)[0]
    return before, image, ops.to_chw(other.random_resized_crop(31)), other.index, sample.uniform()


@cropped.tail
def cropped_tail(before, image, other, index, after, *, samples):
    return before, image, ops.apply(JITTER, other, samples), index, after, samples.uniform()


def test_every_draw_is_the_pipelines(folder: Path) -> None:
    with DataLoader(str(folder), pipeline=everything, batch_size=5, device="cpu", seed=11, shuffle=True) as loader:
        for epoch in range(2):
            for index, found in loader:
                for row, own in enumerate(index.tolist()):
                    expected = drawn(HostSample(own, length=len(loader.dataset), seed=11, epoch=epoch))
                    assert expected.keys() == found.keys()
                    for name, value in expected.items():
                        assert isinstance(value, (int, float, np.ndarray))
                        theirs = found[name][row].numpy()
                        assert np.array_equal(np.asarray(value, dtype=theirs.dtype), theirs), name
                        assert not isinstance(value, np.ndarray) or value.dtype == theirs.dtype


def test_transforms_draw_what_the_pipelines_ops_draw(folder: Path) -> None:
    dataset = ImageFolder(str(folder))
    with DataLoader(str(folder), pipeline=cropped, batch_size=6, device="cpu", seed=2) as loader:
        before, images, others, indices, after, last = (torch.cat(parts) for parts in zip(*loader, strict=True))
    for row in range(len(dataset)):
        sample = HostSample(row, length=len(dataset), seed=2)
        assert sample.uniform() == before[row]
        image = sample.apply(v2.Compose([CROP, v2.RandomHorizontalFlip(), v2.ToImage()]), dataset[row][0])
        assert _share(images[row], image) > 0.999
        (other,) = sample.others(1)
        assert other.index == indices[row]
        view = other.apply(v2.Compose([CROP, v2.ToImage()]), dataset[other.index][0]).as_subclass(torch.Tensor)
        assert sample.uniform() == after[row]
        assert _share(others[row], sample.apply(JITTER, view), 8) > 0.99
        assert sample.uniform() == last[row]


def _share(ours: torch.Tensor, theirs: torch.Tensor, within: int = 1) -> float:
    return ((ours.int() - theirs.int()).abs() <= within).double().mean().item()


def test_what_goes_with_an_image_moves_with_it() -> None:
    pixels = np.zeros((60, 90, 3), dtype=np.uint8)
    pixels[10:30, 20:50] = 255
    mask = tv_tensors.Mask(torch.from_numpy(pixels[..., 0]))
    boxes = tv_tensors.BoundingBoxes([[20, 10, 50, 30]], format="XYXY", canvas_size=(60, 90))
    steps = v2.Compose([v2.RandomHorizontalFlip(), v2.Resize(30), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    for index in range(8):
        image, moved, box = HostSample(index, length=8).apply(steps, Image.fromarray(pixels), mask, boxes)
        assert isinstance(moved, tv_tensors.Mask)
        flipped = HostSample(index, length=8).coin()
        left, right = (20, 35) if flipped else (10, 25)
        assert box.tolist() == [[left, 5, right, 15]]
        assert moved[6:14, left + 1 : right - 1].eq(255).all()
        assert moved.eq(255).sum() == 15 * 10
        assert image[0, 7:13, left + 2 : right - 2].eq(1).all()


def test_skipped_draws_are_left_out() -> None:
    first, second = (HostSample(3, length=5, seed=1) for _ in range(2))
    first.uniform(), first.apply(v2.RandomApply([v2.RandomHorizontalFlip()]), Image.new("RGB", (8, 8)))
    second.skip(3)  # RandomApply and what is in it count as two
    assert first.uniform() == second.uniform()


def test_keys_matter() -> None:
    keys = [{}, {"seed": 1}, {"epoch": 1}, {"occurrence": 1}]
    assert len({HostSample(2, length=5, **key).uniform() for key in keys} | {HostSample(3, length=5).uniform()}) == 5


def test_nothing_global_is_read_or_moved() -> None:
    before = torch.get_rng_state(), copy.deepcopy(np.random.get_state())
    sample = HostSample(0, length=9)
    sample.apply(v2.Compose([CROP, v2.RandomCrop(20), JITTER]), Image.new("RGB", (64, 48)))
    sample.others(2)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1][2] == np.random.get_state()[2]


def test_mistakes_are_refused() -> None:
    image = Image.new("RGB", (8, 8))
    for mistake, words in (
        (lambda: HostSample(5, length=5), r"index must be in \[0, 5\), the dataset's length, got 5"),
        (lambda: HostSample(0, length=5, epoch=-1), "epoch and occurrence must be at least 0, got -1 and 0"),
        (lambda: HostSample(0, length=5).others(0), r"others\(k\) takes how many samples, .* got 0"),
        (lambda: HostSample(0, length=5).skip(-1), r"skip\(count\) needs at least 0, got -1"),
        (lambda: HostSample(0, length=5).coin(2), r"coin\(p\) needs a probability in \[0, 1\], got 2"),
        (lambda: HostSample(0, length=5).uniform(shape=0), "shape must be whole numbers of at least 1, got 0"),
        (lambda: HostSample(0, length=5).apply(v2.RandomCrop(9), image), "RandomCrop: required crop size"),
        (lambda: HostSample(0, length=5).apply(CROP, image, image), "give each image a call of its own"),
    ):
        with pytest.raises(ArgumentError, match=words):
            mistake()
    with pytest.raises(TranslationError, match="Lambda"):
        HostSample(0, length=5).apply(v2.Lambda(lambda one: one), image)
