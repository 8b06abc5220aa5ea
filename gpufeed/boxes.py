"""Boxes through the geometry of a plan: where the pixels inside of them go, so do they."""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from gpufeed.parameters import BatchParameters
from gpufeed.plan import CenterCrop, Flip, Pad, Plan, RandomAreaCrop, RandomCrop, ResizeOp, ZoomOut

__all__ = ["BoxFormat", "boxes_through", "from_xyxy", "to_xyxy"]

BoxFormat = Literal["xyxy", "cxcywh"]
"""``xyxy``: left, top, right, bottom; ``cxcywh``: centre, width, height."""

_Boxes = NDArray[np.float64]


def to_xyxy(boxes: NDArray[np.floating], box_format: BoxFormat, scale_hw: tuple[float, float] = (1.0, 1.0)) -> _Boxes:
    """(N, 4) boxes of a format as left, top, right, bottom, times a height and a width."""
    boxes = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    if box_format == "cxcywh":
        boxes = np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], axis=1)
    height, width = scale_hw
    return boxes * np.array([width, height, width, height])


def from_xyxy(boxes: _Boxes, box_format: BoxFormat, scale_hw: tuple[float, float] = (1.0, 1.0)) -> NDArray[np.float32]:
    """The way back of `to_xyxy`, in float32."""
    height, width = scale_hw
    boxes = boxes / np.array([width, height, width, height])
    if box_format == "cxcywh":
        boxes = np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], axis=1)
    return boxes.astype(np.float32)


def boxes_through(
    boxes: _Boxes, plan: Plan, parameters: BatchParameters, row: int, min_size: float
) -> tuple[_Boxes, NDArray[np.bool_]]:
    """The boxes of one sample after a plan that moves, resizes and mirrors; other ops leave them where they are.

    Args:
        boxes: (N, 4) left, top, right, bottom in pixels of the decoded image.
        plan: what the image went through.
        parameters: drawn for it.
        row: which sample of the batch it is.
        min_size: in pixels of the result.

    Returns:
        (M, 4) boxes in pixels of the result, clipped to it; and (N,) which of the given ones they are: those at least
        ``min_size`` wide and high, and not empty.
    """
    boxes = boxes.copy()
    for position, op in enumerate(plan.ops):
        value = parameters.values[position]
        before, after = parameters.sizes_hw[position][row], parameters.sizes_hw[position + 1][row]
        if isinstance(op, (RandomAreaCrop, RandomCrop, CenterCrop)):
            top, left = cast("NDArray[np.int64]", value)[row, :2]
            boxes -= np.array([left, top, left, top])
        elif isinstance(op, (Pad, ZoomOut)):
            left, top = cast("NDArray[np.int64]", value)[row, :2]
            boxes += np.array([left, top, left, top])
        elif isinstance(op, ResizeOp):
            factor_y, factor_x = after / before
            boxes *= np.array([factor_x, factor_y, factor_x, factor_y])
        elif isinstance(op, Flip) and cast("NDArray[np.bool_]", value)[row]:
            side = 0 if op.axis == "horizontal" else 1
            extent = before[1 - side]
            boxes[:, [side, side + 2]] = extent - boxes[:, [side + 2, side]]
    height, width = parameters.sizes_hw[-1][row]
    boxes[:, 0::2] = boxes[:, 0::2].clip(0, width)
    boxes[:, 1::2] = boxes[:, 1::2].clip(0, height)
    sides = boxes[:, 2:] - boxes[:, :2]
    kept = np.all((sides >= min_size) & (sides > 0), axis=1)
    return boxes[kept], kept
