"""What every contender has to do: the same samples, transform, batches, threads and final device."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpufeed.errors import ArgumentError

if TYPE_CHECKING:
    from gpufeed.pipelines import Pipeline

__all__ = ["Workload"]

_DEVICE = re.compile(r"cpu|cuda:\d+")


@dataclass(frozen=True, slots=True)
class Workload:
    """A fixed list of samples and what is done with them.

    A contender turns it into batches ``(images, targets)``: images ``(B, C, H, W)`` of ``dtype`` and targets int64
    ``(B,)``, both on ``device``, each sample once per epoch in an order of the contender's choice, a short last batch
    where ``batch_size`` doesn't divide the number of samples. With a pipeline, batches are of whatever structure the
    pipeline, or torch's side of it, gives.

    Attributes:
        root: the image folder, or what a pipeline's own source opens.
        classes: names of its class folders, sorted; none for a pipeline's own source.
        paths: the image files, or other names of a source's samples; one may be there several times.
        targets: the class of each, in [0, len(classes)); none for a pipeline's own source.
        transform: a torchvision transform, or what :func:`gpufeed.bench.transforms.subject_of` takes.
        batch_size: samples per batch.
        num_threads: threads or worker processes that a contender may keep busy.
        device: where batches end, resolved: ``"cpu"`` or ``"cuda:N"``.
        dtype: of the images, torch's name without ``torch.``; empty for a pipeline, whose contenders are only held to
            each other.
        seed: fixes the order and, where a contender can, its random draws.
        parameters: of the pipeline, each ``NAME=VALUE``.
        is_pipeline: whether ``transform`` names a pipeline.
        indices: of the samples in the pipeline's own source; ``None`` where there is none.
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
    parameters: tuple[str, ...] = ()
    is_pipeline: bool = False
    indices: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not self.paths:
            raise ArgumentError("paths must not be empty: there is nothing to measure on")
        if self.indices is not None:
            if len(self.indices) != len(self.paths):
                raise ArgumentError(f"indices must be as many as paths, got {len(self.indices)} for {len(self.paths)}")
        elif len(self.targets) != len(self.paths):
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

    def size_of(self, batch_index: int) -> int:
        """The number of samples in a batch of an epoch."""
        return min(self.batch_size, len(self) - batch_index * self.batch_size)

    @property
    def target_sum(self) -> int:
        """The sum of all targets in an epoch: what a contender's batches have to add up to."""
        return sum(self.targets)

    def load_subject(self) -> Callable[[Any], Any] | Pipeline:
        """The transform or the pipeline as an object. One given by reference is made anew; a user's file runs then."""
        from gpufeed.bench.transforms import subject_of

        return subject_of(self.transform, self.parameters)

    def load_transform(self) -> Callable[[Any], Any]:
        """The transform as an object. One given by reference is made anew at each call; a user's file runs then."""
        from gpufeed.bench.transforms import load_transform

        return load_transform(self.transform)
