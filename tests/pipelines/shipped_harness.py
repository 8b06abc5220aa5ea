"""What tests of shipped pipelines share: the order of an epoch, the pixels of a reference, and how near ours are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DistributedSampler

from gpufeed import ops, reference
from gpufeed.draws import Draws, epoch_key
from gpufeed.parameters import draw_parameters
from gpufeed.pipelines import Bound, Pipeline
from gpufeed.pipelines.naming import shipped_folder
from gpufeed.translation import translate

MAX_LINES = 110
"""A shipped module is read as a whole by people who learn from it."""


def num_lines(pipeline: Pipeline) -> int:
    path = Path(pipeline.path)
    assert path.parent == shipped_folder()
    return len(path.read_text(encoding="utf-8").splitlines())


def epoch_order(count: int, seed: int, epoch: int) -> list[int]:
    """The indices of a shuffled epoch by torch's own sampler, whose order a seeded loader has."""
    sampler = DistributedSampler(range(count), num_replicas=1, rank=0, shuffle=True, seed=seed)
    sampler.set_epoch(epoch)
    return list(sampler)


def opened(path: str | Path) -> Image.Image:
    with Image.open(path) as image:
        return image.convert("RGB")


def torchvision_pixels(
    transform: Any, image: Image.Image, seed: int, epoch: int, index: int, numbers: Sequence[int] | None = None
) -> torch.Tensor:
    """A transform through torchvision, with the draws that belong to a sample.

    Args:
        transform: takes a PIL image.
        image: the decoded image.
        seed: the loader's.
        epoch: of the draws.
        index: the sample's, which occurs once in the epoch.
        numbers: of the ops in the pipeline; counted from 0 if not given.
    """
    plan = translate(transform).require()
    sizes_hw = np.array([[image.height, image.width]], dtype=np.int64)
    draws = Draws(epoch_key(seed, epoch), np.array([index]), np.zeros(1, dtype=np.int64))
    parameters = draw_parameters(plan, sizes_hw, draws, numbers)
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in torch's workers; on a busy machine more of them wait for each other
    try:
        return reference.run(transform, image, parameters, 0)
    finally:
        torch.set_num_threads(num_threads)


def share_within(ours: torch.Tensor, theirs: torch.Tensor, bound: Bound, *, normalized: bool = True) -> float:
    """The share of the values that are within the bound's distance, ImageNet's normalisation undone."""
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    std = torch.tensor(ops.IMAGENET_STD).view(3, 1, 1) if normalized else 1.0
    difference_255 = (ours - theirs).abs() * std * 255
    return (difference_255 <= bound.within_255 + 1e-3).double().mean().item()  # floats round on the way
