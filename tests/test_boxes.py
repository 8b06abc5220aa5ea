"""Boxes through a plan's geometry, against torchvision's own kernels for boxes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchvision.transforms import v2
from torchvision.tv_tensors import BoundingBoxes, BoundingBoxFormat

from gpufeed import translate
from gpufeed.boxes import boxes_through, from_xyxy, to_xyxy
from gpufeed.draws import Draws, epoch_key
from gpufeed.parameters import draw_parameters

SIZE_HW = (61, 83)
BOXES = np.array([[0, 0, 83, 61], [10.5, 5, 40.25, 30], [70, 50, 83, 61], [1, 1, 2.5, 60]], dtype=np.float64)
TRANSFORMS = (
    v2.RandomResizedCrop(40),
    v2.RandomHorizontalFlip(1.0),
    v2.RandomVerticalFlip(1.0),
    v2.Resize(97),
    v2.Resize((31, 200)),
    v2.CenterCrop(40),
    v2.CenterCrop((90, 20)),
    v2.RandomCrop(30),
    v2.Pad((3, 5, 7, 11)),
    v2.Compose([v2.RandomResizedCrop((40, 30)), v2.RandomHorizontalFlip(0.5), v2.Resize(64), v2.CenterCrop(50)]),
)


@pytest.mark.parametrize("transform", TRANSFORMS, ids=repr)
@pytest.mark.parametrize("index", range(3))
def test_boxes_are_where_torchvision_has_them(transform: v2.Transform, index: int) -> None:
    plan = translate(transform).require()
    draws = Draws(epoch_key(5, 0), np.array([index]), np.array([0]))
    parameters = draw_parameters(plan, np.array([SIZE_HW]), draws)
    mine, kept = boxes_through(BOXES, plan, parameters, 0, 0.0)
    theirs = BoundingBoxes(torch.from_numpy(BOXES), format=BoundingBoxFormat.XYXY, canvas_size=SIZE_HW)
    for op, value, sizes in zip(plan.ops, parameters.values, parameters.sizes_hw[1:], strict=True):
        theirs = _by_torchvision(op, None if value is None else value[0], tuple(sizes[0].tolist()), theirs)
    height, width = parameters.sizes_hw[-1][0]
    clipped = theirs.as_subclass(torch.Tensor).clone()
    clipped[:, 0::2] = clipped[:, 0::2].clamp(0, float(width))
    clipped[:, 1::2] = clipped[:, 1::2].clamp(0, float(height))
    alive = ((clipped[:, 2:] - clipped[:, :2]) > 0).all(dim=1)
    assert kept.tolist() == alive.tolist()
    # torchvision's factors of a resize are float32
    assert np.abs(mine - clipped[alive].numpy()).max(initial=0.0) < 1e-4


def _by_torchvision(
    op: object, value: np.ndarray | None, size_hw: tuple[int, int], boxes: BoundingBoxes
) -> BoundingBoxes:
    """One op by torchvision's functional kernels; only what is drawn comes from the plan."""
    f = v2.functional
    name = type(op).__name__
    if name in ("RandomAreaCrop", "RandomCrop", "CenterCrop"):
        top, left, height, width = value.tolist()
        moved, size = f._geometry.crop_bounding_boxes(
            boxes.as_subclass(torch.Tensor), BoundingBoxFormat.XYXY, top, left, height, width, clamping_mode=None
        )
        return BoundingBoxes(moved, format=BoundingBoxFormat.XYXY, canvas_size=size)
    if name == "Resize":
        return f.resize(boxes, list(size_hw))
    if name == "Flip":
        if not value:
            return boxes
        return f.horizontal_flip(boxes) if op.axis == "horizontal" else f.vertical_flip(boxes)
    assert name == "Pad"
    moved, size = f._geometry.pad_bounding_boxes(
        boxes.as_subclass(torch.Tensor),
        BoundingBoxFormat.XYXY,
        boxes.canvas_size,
        value.tolist(),
        clamping_mode=None,
    )
    return BoundingBoxes(moved, format=BoundingBoxFormat.XYXY, canvas_size=size)


def test_small_boxes_are_dropped_by_the_size_that_they_have_in_the_result() -> None:
    plan = translate(v2.Resize((122, 166))).require()
    parameters = draw_parameters(plan, np.array([SIZE_HW]), Draws(epoch_key(0, 0), np.array([0]), np.array([0])))
    _, kept = boxes_through(BOXES, plan, parameters, 0, 4.0)
    assert kept.tolist() == [True, True, True, False]


def test_an_image_without_boxes_keeps_none() -> None:
    plan = translate(v2.RandomHorizontalFlip(1.0)).require()
    parameters = draw_parameters(plan, np.array([SIZE_HW]), Draws(epoch_key(0, 0), np.array([0]), np.array([0])))
    boxes, kept = boxes_through(np.zeros((0, 4)), plan, parameters, 0, 1.0)
    assert boxes.shape == (0, 4)
    assert kept.shape == (0,)


@given(st.lists(st.tuples(*[st.floats(0, 1)] * 4), max_size=5), st.sampled_from(["xyxy", "cxcywh"]))
def test_formats_there_and_back(boxes: list[tuple[float, ...]], box_format: str) -> None:
    given_boxes = np.array(boxes, dtype=np.float64).reshape(-1, 4)
    there = to_xyxy(given_boxes, box_format, (480.0, 640.0))
    back = from_xyxy(there, box_format, (480.0, 640.0))
    assert back.dtype == np.float32
    assert np.allclose(back, given_boxes, atol=1e-6)
