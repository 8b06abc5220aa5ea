"""torch's own DataLoader, as people use it: without options, tuned, and tuned on decoded tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch.utils.data import DataLoader

from gpufeed.bench.contenders import Batch, Epochs
from gpufeed.bench.contenders.torch_side import TorchSide, torch_side
from gpufeed.bench.workload import Workload

__all__ = ["torch_default", "torch_tensor", "torch_tuned"]

_PREFETCH_FACTOR = 2  # torch's own default, given here because the comparison is defined by it


class _OnDevice:
    """A loader whose batches are brought to the device, as a training loop does it."""

    def __init__(self, loader: DataLoader[Any], device: str) -> None:
        self._loader: DataLoader[Any] | None = loader
        self._device = torch.device(device)

    def __iter__(self) -> Iterator[Batch]:
        if self._loader is None:
            raise RuntimeError("this contender is closed")
        for batch in self._loader:
            yield _moved(batch, self._device)

    def close(self) -> None:
        # Persistent workers end when the loader's iterator is collected, and the loader holds the only reference.
        self._loader = None


def _moved(value: Any, device: torch.device) -> Any:
    """The batch with every tensor in it on the device."""
    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, Mapping):
        return {key: _moved(item, device) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (tuple, list)):
        return [_moved(item, device) for item in cast("Sequence[Any]", value)]
    return value


@contextmanager
def torch_default(workload: Workload) -> Generator[Epochs]:
    """``DataLoader(dataset, batch_size, shuffle=True)`` and nothing else: all work in the calling thread."""
    yield _OnDevice(_loader(torch_side(workload), workload), workload.device)


@contextmanager
def torch_tuned(workload: Workload) -> Generator[Epochs]:
    """A persistent worker for each thread, with two batches under way each, pinned where there is CUDA."""
    with _with_workers(torch_side(workload), workload) as epochs:
        yield epochs


@contextmanager
def torch_tensor(workload: Workload) -> Generator[Epochs]:
    """``torch_tuned`` on uint8 tensors from torchvision's decoder, through the transform's v2 twin.

    Raises:
        UnsupportedError: the transform has no exact twin on tensors, or there is no tensor decoder; or a pipeline
            brings a Dataset of its own.
    """
    with _with_workers(torch_side(workload, tensors=True), workload) as epochs:
        yield epochs


@contextmanager
def _with_workers(side: TorchSide, workload: Workload) -> Generator[Epochs]:
    loader = _loader(
        side,
        workload,
        num_workers=workload.num_threads,
        prefetch_factor=_PREFETCH_FACTOR,
        persistent_workers=True,
        pin_memory=workload.device != "cpu",
        # The platform's usual way before Python 3.14; other ways would need the user's transform to be importable.
        multiprocessing_context="fork" if sys.platform == "linux" else None,
    )
    epochs = _OnDevice(loader, workload.device)
    del loader
    try:
        yield epochs
    finally:
        epochs.close()


def _loader(side: TorchSide, workload: Workload, **options: Any) -> DataLoader[Any]:
    make: Callable[..., DataLoader[Any]] = DataLoader
    return make(
        side.dataset,
        batch_size=workload.batch_size,
        shuffle=side.sampler is None,
        sampler=side.sampler,
        collate_fn=side.collate_fn,
        generator=torch.Generator().manual_seed(workload.seed),
        **options,
    )
