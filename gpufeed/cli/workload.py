"""What `gpufeed compare` and `gpufeed tune` measure on: checked arguments, and the data behind them."""

from __future__ import annotations

import math
import re
from pathlib import Path

from gpufeed.bench.environment import nvidia_gpus
from gpufeed.bench.images import ImageFolderFiles, list_image_folder
from gpufeed.bench.transforms import BUILT_IN
from gpufeed.errors import ArgumentError

__all__ = ["check_batches", "check_device", "example", "files_at"]

_NUM_EXAMPLES = 32
_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


def check_batches(batch_size: int, budget_s: float, shortest_budget_s: float) -> None:
    """Refuse an empty batch, and a budget in which nothing can be measured.

    Raises:
        ArgumentError: one of them is too small, or the budget has no end.
    """
    if batch_size < 1:
        raise ArgumentError(f"--batch-size must be at least 1, got {batch_size}")
    if not shortest_budget_s <= budget_s < math.inf:
        raise ArgumentError(f"--budget must be at least {shortest_budget_s:.0f} seconds, got {budget_s:g}")


def check_device(device: str) -> None:
    """Refuse a device that can't be, without touching a GPU.

    Raises:
        ArgumentError: it has another form, or is a GPU where the driver finds none.
    """
    if not _DEVICE.fullmatch(device):
        raise ArgumentError(f"--device must be auto, cpu, cuda or cuda:N, got {device!r}")
    if device.startswith("cuda") and not nvidia_gpus():
        raise ArgumentError(f"--device {device} needs an NVIDIA GPU, and the driver finds none; use auto or cpu")


def files_at(root: Path, transform: str) -> ImageFolderFiles | None:
    """The images; ``None`` where they are no image folder but a pipeline may open what is there in its own way.

    Raises:
        ArgumentError: there is no such folder, or a built-in transform finds no image folder.
    """
    try:
        return list_image_folder(root)
    except ArgumentError:
        if transform in BUILT_IN or not root.expanduser().exists():
            raise
        return None


def example(folder: Path) -> tuple[str, str]:
    """Make example data in ``folder``: its path, and what it is in words."""
    from gpufeed.inspect.example_data import example_data

    root = example_data(folder, _NUM_EXAMPLES).objects
    return str(root), f"{_NUM_EXAMPLES} built-in example images"
