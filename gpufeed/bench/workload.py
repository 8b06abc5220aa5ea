"""What every contender has to do: the same samples, transform, batches, threads and final device."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpufeed.errors import ArgumentError

__all__ = ["Workload"]

_DEVICE = re.compile(r"cpu|cuda:\d+")


@dataclass(frozen=True, slots=True)
class Workload:
    """A fixed list of samples and what is done with them.

    A contender turns it into batches ``(images, targets)``: images ``(B, C, H, W)`` of ``dtype`` and targets int64
    ``(B,)``, both on ``device``, each sample once per epoch in an order of the contender's choice, a short last batch
    where ``batch_size`` doesn't divide the number of samples.

    Attributes:
        root: the image folder.
        classes: names of its class folders, sorted.
        paths: the image files; a path may be there several times.
        targets: the class of each, in [0, len(classes)).
        transform: a torchvision transform, or what :func:`gpufeed.bench.transforms.load_transform` takes.
        batch_size: samples per batch.
        num_threads: threads or worker processes that a contender may keep busy.
        device: where batches end, resolved: ``"cpu"`` or ``"cuda:N"``.
        dtype: of the images, torch's name without ``torch.``.
        seed: fixes the order and, where a contender can, its random draws.
    """

    root: str
    classes: tuple[str, ...]
    paths: tuple[str, ...]
    targets: tuple[int, ...]
    transform: object
    batch_size: int
    num_threads: int
    device: str = "cpu"
    dtype: str = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.paths:
            raise ArgumentError("paths must not be empty: there is nothing to measure on")
        if len(self.targets) != len(self.paths):
            raise ArgumentError(f"targets must be as many as paths, got {len(self.targets)} for {len(self.paths)}")
        if not all(0 <= target < len(self.classes) for target in self.targets):
            raise ArgumentError(f"targets must be in [0, {len(self.classes)}), the number of classes")
        if self.batch_size < 1:
            raise ArgumentError(f"batch_size must be at least 1, got {self.batch_size}")
        if self.num_threads < 1:
            raise ArgumentError(f"num_threads must be at least 1, got {self.num_threads}")
        if not _DEVICE.fullmatch(self.device):
            raise ArgumentError(f'device must be "cpu" or "cuda:N", got {self.device!r}')

    def __len__(self) -> int:
        """The number of samples in an epoch."""
        return len(self.paths)

    @property
    def num_batches(self) -> int:
        """The number of batches in an epoch, the short last one included."""
        return -(-len(self.paths) // self.batch_size)

    @property
    def target_sum(self) -> int:
        """The sum of all targets in an epoch: what a contender's batches have to add up to."""
        return sum(self.targets)

    def load_transform(self) -> Callable[[Any], Any]:
        """The transform as an object. One given by reference is made anew at each call; a user's file runs then."""
        from gpufeed.bench.transforms import load_transform

        return load_transform(self.transform)
