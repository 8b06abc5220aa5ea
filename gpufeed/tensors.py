"""Memory of batches: torch's, owned by the caller, and the way there from DALI's."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["BatchMemory", "from_dali", "from_numpy", "hand_over", "map_tensors", "to_device"]

_ALIGNMENT = 64
"""Bytes; what torch's own CPU allocator gives."""


class BatchMemory:
    """Host memory for batches, used again once nothing refers to it any more.

    Fresh memory costs a page fault for every 4 KiB, about a quarter of a batch's whole CPU time. A tensor from `take`
    belongs to the caller like any other: its memory returns here only when the tensor and all its views are gone.

    Args:
        keep: most buffers kept for use again.
    """

    def __init__(self, keep: int = 4) -> None:
        self._keep = keep
        # Memory may come back at any moment, from a garbage collection on any thread or in a forked child, where a lock
        # could be held for ever. So there is none: each of a dict's own operations is atomic.
        self._free: dict[int, NDArray[np.uint8]] = {}

    def take(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """An uninitialised contiguous CPU tensor."""
        size = math.prod(shape) * dtype.itemsize
        if size == 0:
            return torch.empty(shape, dtype=dtype)
        block = self._pop(size)
        # The view is what torch holds on to; when it dies, no tensor is left on this memory.
        view = block[:size].view()
        weakref.finalize(view, self._give_back, block).atexit = False
        return from_numpy(view).view(dtype).view(shape)

    def _pop(self, size: int) -> NDArray[np.uint8]:
        for key, block in list(self._free.items()):
            if size <= len(block) <= 2 * size and self._free.pop(key, None) is not None:
                return block
        raw = np.empty(size + _ALIGNMENT, dtype=np.uint8)
        start = -raw.ctypes.data % _ALIGNMENT
        return raw[start : start + size]

    def _give_back(self, block: NDArray[np.uint8]) -> None:
        self._free[id(block)] = block
        for key in list(self._free)[: -self._keep]:
            self._free.pop(key, None)


def from_numpy(array: NDArray[Any]) -> torch.Tensor:
    """An array as a CPU tensor on the same memory."""
    return cast(Any, torch).from_numpy(array)


def from_dali(tensor: Any) -> torch.Tensor:
    """A DALI tensor as a torch tensor on the same memory, ready on torch's current stream.

    The memory stays DALI's: copy before the batch that it belongs to is released, and before handing it to anybody.
    """
    return torch.from_dlpack(tensor)


def hand_over(images: torch.Tensor | list[torch.Tensor]) -> None:
    """Tell torch's allocator that batches made on another stream are used on the caller's current one.

    Without it, memory freed by the caller could be written by the feed's stream while the caller's still reads it.
    """
    for image in [images] if isinstance(images, torch.Tensor) else images:
        if image.device.type == "cuda":
            image.record_stream(torch.cuda.current_stream(image.device))


def map_tensors(value: object, function: Callable[[torch.Tensor], torch.Tensor]) -> object:
    """``value`` with ``function`` applied to every tensor in it.

    Walks what torch's own pinning walks: mappings, named tuples, tuples and other sequences, of their own types where
    those can be made from their items; everything else passes untouched.
    """
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, Mapping):
        mapping = cast("Mapping[Any, object]", value)
        items = {key: map_tensors(item, function) for key, item in mapping.items()}
        try:
            return cast(Any, type(mapping))(items)
        except TypeError:  # a mapping that isn't made from another one, as a defaultdict
            return items
    if isinstance(value, tuple):
        entries = [map_tensors(item, function) for item in cast("tuple[object, ...]", value)]
        cls: Any = type(cast(object, value))
        return cls(*entries) if hasattr(cls, "_fields") else tuple(entries)
    if isinstance(value, Sequence):
        entries = [map_tensors(item, function) for item in cast("Sequence[object]", value)]
        try:
            return cast(Any, type(cast(object, value)))(entries)
        except TypeError:  # a sequence that isn't made from a list, as a range
            return entries
    return value


def to_device(value: object, device: torch.device) -> object:
    """``value`` with every tensor in it on ``device``; returned as it is where the device is the CPU."""
    if device.type == "cpu":
        return value
    return map_tensors(value, lambda tensor: tensor.to(device, non_blocking=True))
