"""torch's DataLoader with a part of the work on the GPU: torchvision's CUDA decoder, or the cast and normalisation."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import nn
from torchvision import transforms as tv
from torchvision.transforms import v2

from gpufeed.bench.contenders.folder import WorkloadFolder
from gpufeed.bench.contenders.tensor_twin import tensor_twin
from gpufeed.bench.contenders.torch_loaders import moved, tuned_loader
from gpufeed.bench.contenders.torch_side import TorchSide
from gpufeed.bench.workload import Workload
from gpufeed.errors import UnsupportedError

if TYPE_CHECKING:
    from gpufeed.bench.contenders import Batch, Epochs

__all__ = ["Split", "refuse_without_gpu", "split_at_cast", "torch_cuda_decode", "torch_uint8"]

_JPEG = b"\xff\xd8\xff"


def refuse_without_gpu(workload: Workload, what: str) -> None:
    """Refuse a workload whose batches don't end on a GPU, and pipelines.

    Raises:
        UnsupportedError: saying that ``what`` needs one.
    """
    if workload.device == "cpu":
        raise UnsupportedError(f"{what} needs an NVIDIA GPU, and batches end on the CPU here")
    if workload.is_pipeline:
        raise UnsupportedError(f"{what} runs a torchvision transform, and this is a pipeline")


@contextmanager
def torch_cuda_decode(workload: Workload) -> Generator[Epochs]:
    """Workers read the files; the calling thread decodes a batch of JPEGs at once on the GPU and transforms there.

    What isn't a JPEG is decoded on the CPU. Random draws are the v2 twin's, image by image, so the pixels are
    torchvision's own for a decoder that isn't exactly libjpeg-turbo.

    Raises:
        UnsupportedError: there is no GPU, no such decoder in this torchvision, or no twin on tensors.
    """
    refuse_without_gpu(workload, "torchvision's CUDA decoder")
    io = importlib.import_module("torchvision.io")
    if not hasattr(io, "decode_jpeg"):
        raise UnsupportedError("this torchvision has no decode_jpeg any more")
    twin = tensor_twin(workload.load_transform())
    side = TorchSide(WorkloadFolder(workload, None, _contents), collate_fn=_bytes_and_targets)
    epochs = _Finished(tuned_loader(side, workload), _decoding(io, twin, torch.device(workload.device)))
    try:
        yield epochs
    finally:
        epochs.close()


def _contents(path: str) -> torch.Tensor:
    # Not torchvision's read_file: it maps the file, and a worker can't hand a mapped tensor over ("Bad file
    # descriptor" in the queue's thread), so that the loader waits for ever.
    return cast(Any, torch).from_numpy(np.fromfile(path, dtype=np.uint8))


def _bytes_and_targets(samples: list[Any]) -> tuple[list[torch.Tensor], torch.Tensor]:
    contents, targets = zip(*samples, strict=True)
    return list(contents), torch.tensor(targets)


def _decoding(io: Any, twin: Callable[[Any], Any], device: torch.device) -> Callable[[Any], Batch]:
    def finish(batch: Any) -> Batch:
        contents, targets = batch
        is_jpeg = [bytes(content[: len(_JPEG)].tolist()) == _JPEG for content in contents]
        jpegs = [content for content, yes in zip(contents, is_jpeg, strict=True) if yes]
        decoded = iter(io.decode_jpeg(jpegs, mode=io.ImageReadMode.RGB, device=device) if jpegs else ())
        images = [
            next(decoded) if yes else io.decode_image(content, mode=io.ImageReadMode.RGB).to(device)
            for content, yes in zip(contents, is_jpeg, strict=True)
        ]
        return torch.stack([twin(image) for image in images]), targets.to(device, non_blocking=True)

    return finish


@contextmanager
def torch_uint8(workload: Workload) -> Generator[Epochs]:
    """``torch_tuned`` up to uint8 tensors, a quarter of the bytes to copy; the GPU casts and normalises a batch.

    Raises:
        UnsupportedError: there is no GPU, or the transform isn't a Compose that ends in a cast and Normalize.
    """
    refuse_without_gpu(workload, "torch-uint8")
    split = split_at_cast(workload.load_transform())
    device = torch.device(workload.device)
    side = TorchSide(WorkloadFolder(workload, split.on_host))

    def finish(batch: Any) -> Batch:
        images, targets = moved(batch, device)
        return split.on_device(images), targets

    epochs = _Finished(tuned_loader(side, workload), finish)
    try:
        yield epochs
    finally:
        epochs.close()


class _Finished:
    """A loader whose batches are finished on the calling thread."""

    def __init__(self, loader: Any, finish: Callable[[Any], Batch]) -> None:
        self._loader: Any = loader
        self._finish = finish

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._loader:
            yield self._finish(batch)

    def close(self) -> None:
        # Persistent workers end when the loader's iterator is collected, and the loader holds the only reference.
        self._loader = ()


@dataclass(frozen=True, slots=True)
class Split:
    """A transform in two.

    Attributes:
        on_host: from a PIL image to a uint8 tensor (C, H, W).
        on_device: from a uint8 batch (B, C, H, W) to float32 as the whole transform gives it.
    """

    on_host: Callable[[Any], torch.Tensor]
    on_device: Callable[[torch.Tensor], torch.Tensor]


def split_at_cast(transform: Any) -> Split:
    """Split a Compose where it casts to float32 in [0, 1].

    Raises:
        UnsupportedError: it doesn't cast, or something that isn't Normalize follows.
    """
    steps = _flat(transform)
    for place, step in enumerate(steps):
        if type(step).__name__ == "ToTensor":
            return Split(v2.Compose([*steps[:place], tv.PILToTensor()]), _normalised(steps[place + 1 :]))
        if _casts(step):
            return Split(v2.Compose(steps[:place]), _normalised(steps[place + 1 :]))
    raise UnsupportedError("torch-uint8 moves the cast to float32 to the GPU, and this transform has none")


def _flat(transform: Any) -> list[Any]:
    if type(transform).__name__ != "Compose":
        return [transform]
    return [leaf for step in transform.transforms for leaf in _flat(step)]


def _casts(step: Any) -> bool:
    kind = type(step).__name__
    return (kind == "ToDtype" and step.dtype == torch.float32 and step.scale is True) or (
        kind == "ConvertImageDtype" and step.dtype == torch.float32
    )


def _normalised(steps: Sequence[Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    others = [type(step).__name__ for step in steps if type(step).__name__ not in ("Normalize", "ToPureTensor")]
    if others:
        raise UnsupportedError(
            f"torch-uint8 runs what follows the cast once for a whole batch, and {', '.join(others)} can't be"
        )
    rest = nn.Sequential(*(step for step in steps if type(step).__name__ == "Normalize"))

    def on_device(images: torch.Tensor) -> torch.Tensor:
        return rest(images.as_subclass(torch.Tensor).float().div(255))

    return on_device
