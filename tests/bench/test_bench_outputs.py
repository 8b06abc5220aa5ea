"""Batches of any structure: how many samples they hold, and which outputs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gpufeed.bench.outputs import image_of, images_and_targets, num_samples, outputs_of

IMAGES = torch.zeros(5, 3, 8, 9)
TARGETS = torch.zeros(5, dtype=torch.int64)
RAGGED = [torch.zeros(count, 4) for count in (2, 0, 3, 1, 1)]


@pytest.mark.parametrize(
    ("batch", "outputs"),
    [
        ([IMAGES, TARGETS], ("[0] float32 (3, 8, 9)", "[1] int64 ()")),
        ((IMAGES, {"boxes": RAGGED}), ("[0] float32 (3, 8, 9)", "[1]['boxes'] a list of float32 (N, 4)")),
        (IMAGES, ("output float32 (3, 8, 9)",)),
        (([IMAGES, IMAGES], "x"), ("[0][0] float32 (3, 8, 9)", "[0][1] float32 (3, 8, 9)", "[1] str")),
        ([IMAGES, IMAGES, TARGETS], ("[0] float32 (3, 8, 9)", "[1] float32 (3, 8, 9)", "[2] int64 ()")),
        ((list(IMAGES), ["a", "b", "c", "d", "e"]), ("[0] a list of float32 (3, 8, 9)", "[1] a list of str")),
        ((RAGGED, [{}, {}, {}, {}, {}]), ("[0] a list of float32 (N, 4)", "[1] a list of dict")),
        ([], ()),
    ],
)
def test_outputs_are_named_with_their_kinds(batch: Any, outputs: tuple[str, ...]) -> None:
    assert outputs_of(batch, 5) == outputs


@pytest.mark.parametrize("batch", [[IMAGES, TARGETS], (RAGGED, TARGETS), {"a": {"b": IMAGES}}, IMAGES, (list(IMAGES),)])
def test_samples_are_counted_in_any_structure(batch: Any) -> None:
    assert num_samples(batch, 5) == 5


def test_a_missing_sample_is_counted_too() -> None:
    assert num_samples((IMAGES[:2], TARGETS[:2]), 5) == 2
    assert num_samples([], 5) == 0
    assert num_samples("text", 5) == 0


def test_images_and_targets_are_two_tensors() -> None:
    assert images_and_targets([IMAGES, TARGETS]) == (IMAGES, TARGETS)
    assert images_and_targets((IMAGES, RAGGED)) is None
    assert images_and_targets(IMAGES) is None


def test_the_image_is_the_first_tensor_of_the_batch() -> None:
    assert image_of((RAGGED, {"image": IMAGES}), 5) is IMAGES
    assert image_of((RAGGED,), 5) is None
