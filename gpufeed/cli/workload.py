"""What `gpufeed compare` and `gpufeed tune` measure on: checked arguments, and the data behind them."""

from __future__ import annotations

import math
import re
import signal
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from gpufeed.bench.environment import nvidia_gpus
from gpufeed.bench.images import ImageFolderFiles, list_image_folder
from gpufeed.bench.transforms import BUILT_IN
from gpufeed.errors import ArgumentError

__all__ = [
    "batch_size_option",
    "check_batches",
    "check_device",
    "check_differ",
    "check_ending",
    "check_parameters",
    "device_option",
    "ended_by_sigterm",
    "example",
    "files_at",
    "transform_option",
]

transform_option = click.option(
    "--transform",
    default="train",
    show_default=True,
    metavar="FILE.py:NAME",
    help=f"A torchvision transform or a gpufeed pipeline in a Python file; or {' or '.join(BUILT_IN)}: ImageNet's "
    "usual ones; or a shipped or installed pipeline, such as gpufeed:imagenet:train.",
)
batch_size_option = click.option("--batch-size", default=64, show_default=True, help="Samples per batch.")
device_option = click.option(
    "--device", default="auto", show_default=True, help="Where batches end: auto, cpu, cuda or cuda:N."
)

_NUM_EXAMPLES = 32
_MOST_SAMPLES = 1_000_000  # of a batch: more can't be meant, and each is listed
_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


def check_batches(batch_size: int, budget_s: float, shortest_budget_s: float) -> None:
    """Refuse an empty batch, and a budget in which nothing can be measured.

    Raises:
        ArgumentError: one of them is too small, or the budget has no end.
    """
    if not 1 <= batch_size <= _MOST_SAMPLES:
        raise ArgumentError(f"--batch-size must be in [1, {_MOST_SAMPLES:,}], got {batch_size}")
    if not shortest_budget_s <= budget_s < math.inf:
        raise ArgumentError(
            f"--budget must be a finite number of seconds, at least {shortest_budget_s:.0f}, got {budget_s:g}"
        )


def check_device(device: str) -> None:
    """Refuse a device that can't be, without touching a GPU.

    Raises:
        ArgumentError: it has another form, or is a GPU where the driver finds none.
    """
    if not _DEVICE.fullmatch(device):
        raise ArgumentError(f"--device must be auto, cpu, cuda or cuda:N, got {device!r}")
    if device.startswith("cuda") and not nvidia_gpus():
        raise ArgumentError(f"--device {device} needs an NVIDIA GPU, and the driver finds none; use auto or cpu")


def check_parameters(transform: str, parameters: tuple[str, ...]) -> None:
    """Refuse parameters where nothing can take them, before anything is started.

    Raises:
        ArgumentError: the transform is a built-in one.
    """
    if parameters and transform in BUILT_IN:
        raise ArgumentError(f"-p {parameters[0]}: {transform} is no pipeline, and only pipelines have parameters")


def check_ending(option: str, place: str, endings: tuple[str, ...]) -> None:
    """Refuse a file name that says it is something else.

    Raises:
        ArgumentError: ``place`` has none of the ``endings``, each with its dot.
    """
    if Path(place).suffix.lower() not in endings:
        raise ArgumentError(f"{option} {place} must end in {' or '.join(endings)}, as what is written is that")


def check_differ(places: Mapping[str, str | Path | None]) -> None:
    """Refuse one file for two results: the second would take the first one's place.

    Args:
        places: files by their options.

    Raises:
        ArgumentError: naming two options and their file.
    """
    seen: dict[Path, str] = {}
    for option, place in places.items():
        if place is not None:
            path = Path(place).resolve()
            if path in seen:
                raise ArgumentError(f"{seen[path]} and {option} both name {place}; give each a file of its own")
            seen[path] = option


@contextmanager
def ended_by_sigterm() -> Generator[None]:
    """SIGTERM, as `timeout` and schedulers send it, is what Ctrl-C is: what is known so far is shown and kept."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
