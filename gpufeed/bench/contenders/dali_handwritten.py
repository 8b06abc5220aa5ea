"""What one would write with DALI itself for the training transform, after DALI's own ImageNet examples."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import nvidia.dali.fn as dali_fn
import nvidia.dali.types as dali_types
import torch
from nvidia.dali.pipeline import pipeline_def

from gpufeed.bench.workload import Workload
from gpufeed.errors import UnsupportedError

if TYPE_CHECKING:
    from gpufeed.bench.contenders import Batch, Epochs

__all__ = ["Crop", "augmented", "crop_of", "dali_handwritten"]

_PREFETCH_DEPTH = 2
_STEPS = ("RandomResizedCrop", "RandomHorizontalFlip", "ToTensor", "Normalize")
fn: Any = dali_fn  # made at import, without types
types: Any = dali_types


@dataclass(frozen=True, slots=True)
class Crop:
    """The numbers of a training transform: all of DALI's arguments come from it, none is a default of DALI's."""

    size_hw: tuple[int, int]
    area: tuple[float, float]
    aspect_ratio: tuple[float, float]
    flip_probability: float
    mean_255: tuple[float, ...]
    std_255: tuple[float, ...]


@contextmanager
def dali_handwritten(workload: Workload) -> Generator[Epochs]:
    """A fixed graph: file reader, random-crop decoder, antialiased resize, crop-mirror-normalise, prefetch depth 2.

    Its random crops and resize are DALI's, so its pixels are not torchvision's: it shows DALI's speed, not a
    replacement. Where ``batch_size`` doesn't divide the samples, DALI's reader fills the last batch up with copies;
    they are decoded, cut off and not counted.

    Raises:
        UnsupportedError: the transform isn't a random resized crop, a flip and a normalisation.
    """
    if workload.is_pipeline:
        raise UnsupportedError(f"dali-handwritten is written for {', '.join(_STEPS)} alone, and this is a pipeline")
    epochs = _Epochs(workload, crop_of(workload.load_transform()))
    try:
        yield epochs
    finally:
        epochs.close()


class _Epochs:
    """Runs the graph exactly as often as an epoch has batches, so that no epoch starts with work done before it."""

    def __init__(self, workload: Workload, crop: Crop) -> None:
        self._workload = workload
        self._depth = min(_PREFETCH_DEPTH, workload.num_batches)
        self._make = _graph(workload, crop, self._depth)
        self._pipeline: Any = None

    def __iter__(self) -> Iterator[Batch]:
        left = len(self._workload)
        unscheduled = self._workload.num_batches - self._depth
        self._schedule_first_batches()
        while left:
            images, targets = (torch.from_dlpack(output.as_tensor()) for output in self._pipeline.share_outputs())
            self._pipeline.release_outputs()
            if unscheduled:
                self._pipeline.schedule_run()
                unscheduled -= 1
            count = min(left, len(images))
            left -= count
            yield images[:count], targets[:count, 0].long()

    def _schedule_first_batches(self) -> None:
        if self._pipeline is None:
            self._pipeline = self._make()
            self._pipeline.build()
            self._pipeline.schedule_run()  # DALI's first call runs prefetch_queue_depth batches, a later one a single
            return
        for _ in range(self._depth):
            self._pipeline.schedule_run()

    def close(self) -> None:
        self._pipeline = None


def _graph(workload: Workload, crop: Crop, depth: int) -> Callable[[], Any]:
    on_gpu = workload.device != "cpu"

    def define() -> tuple[Any, Any]:
        encoded, targets = fn.readers.file(
            files=list(workload.paths),
            labels=list(workload.targets),
            shuffle_after_epoch=True,
            pad_last_batch=True,
        )
        images = augmented(encoded, crop, on_gpu)
        return images, targets.gpu() if on_gpu else targets

    make: Any = pipeline_def(define)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]
    return lambda: make(
        batch_size=workload.batch_size,
        num_threads=workload.num_threads,
        device_id=torch.device(workload.device).index if on_gpu else None,
        seed=workload.seed,
        prefetch_queue_depth=depth,
    )


def augmented(encoded: Any, crop: Crop, on_gpu: bool) -> Any:
    """The nodes from encoded images to float32 (C, H, W): random-crop decoder, antialiased resize, normalisation."""
    images = fn.decoders.image_random_crop(
        encoded,
        device="mixed" if on_gpu else "cpu",
        output_type=types.RGB,
        random_area=list(crop.area),
        random_aspect_ratio=list(crop.aspect_ratio),
        num_attempts=10,
    )
    images = fn.resize(images, size=list(crop.size_hw), interp_type=types.INTERP_LINEAR, antialias=True)
    return fn.crop_mirror_normalize(
        images,
        dtype=types.FLOAT,
        output_layout="CHW",
        mean=list(crop.mean_255),
        std=list(crop.std_255),
        mirror=fn.random.coin_flip(probability=crop.flip_probability),
    )


def crop_of(transform: Any, name: str = "dali-handwritten") -> Crop:
    """The numbers of a random resized crop, a flip and a normalisation.

    Args:
        transform: what has them.
        name: the contender's, for the message.

    Raises:
        UnsupportedError: the transform is another.
    """
    steps: list[Any] = list(getattr(transform, "transforms", ()))
    kinds = tuple(type(step).__name__ for step in steps)
    if kinds != _STEPS:
        raise UnsupportedError(
            f"{name} is written for {', '.join(_STEPS)} alone, and this transform is "
            f"{', '.join(kinds) or type(transform).__name__}"
        )
    crop, flip, _, normalize = steps
    if getattr(crop.interpolation, "value", crop.interpolation) != "bilinear":
        raise UnsupportedError(f"{name} resizes bilinearly, and this transform asks for {crop.interpolation}")
    height, width = crop.size
    return Crop(
        size_hw=(height, width),
        area=tuple(crop.scale),
        aspect_ratio=tuple(crop.ratio),
        flip_probability=flip.p,
        mean_255=tuple(255 * float(value) for value in normalize.mean),
        std_255=tuple(255 * float(value) for value in normalize.std),
    )
