"""What the host computed as the inputs of a graph, and what DALI's outputs are like."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch

from gpufeed.graph.decoding import window_inputs
from gpufeed.graph.device import plan_inputs
from gpufeed.pipeline_stages.host_batch import HostBatch
from gpufeed.recording.values import HostValue, ImageValue

__all__ = ["device_inputs", "equal_shapes", "feed", "turned"]


def feed(pipe: Any, name: str, value: HostValue, batch: HostBatch) -> None:
    """Give the graph one of its inputs for a batch."""
    held = batch.results[value]
    if isinstance(value, ImageValue):
        pipe.feed_input(name, _as_arrays(held, value), layout=_layout(value))
    elif isinstance(held, list):
        pipe.feed_input(name, [np.asarray(cast(Any, entry), order="C") for entry in cast("list[object]", held)])
    else:
        pipe.feed_input(name, held)


def _layout(image: ImageValue) -> str:
    return "HW" if image.field is not None else image.plan.output.layout


def _as_arrays(held: Any, image: ImageValue) -> Any:
    """(B, C, h, w), or a list of (C, h, w), in the layout that the graph takes; no copy where memory has it already."""
    if isinstance(held, list):
        return [np.ascontiguousarray(turned(one[None], image)[0].numpy()) for one in cast("list[torch.Tensor]", held)]
    return np.ascontiguousarray(turned(held, image).numpy())


def turned(images: torch.Tensor, image: ImageValue) -> torch.Tensor:
    """(B, C, h, w) to (B, h, w) of a mask, (B, h, w, C) of what would be a PIL image, else as they are."""
    if image.field is not None:
        return images[:, 0]
    return images.permute(0, 2, 3, 1) if image.plan.output.layout == "HWC" else images


def equal_shapes(output: Any) -> bool:
    """Whether all samples of one of DALI's outputs have one shape."""
    return len(set(output.shape())) == 1


def device_inputs(batch: HostBatch) -> dict[str, Any]:
    """What the decoding and the plans inside a CUDA graph are fed, by input name."""
    feeds: dict[str, Any] = {}
    for slot in {image.slot for image in batch.work.recorded.device_images.values()}:
        feeds[f"content_slot{slot}"] = batch.encoded[slot].content
        feeds |= window_inputs(batch.windows[slot], f"_slot{slot}")
    for suffix, image in batch.work.recorded.device_images.items():
        feeds |= plan_inputs(batch.work.placement(image), batch.cuts[image], batch.parameters[image], suffix)
    return feeds
