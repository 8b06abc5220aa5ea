"""torch's own DataLoader, as people use it: without options, tuned, and tuned on decoded tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from gpufeed.bench.contenders import Batch, Epochs
from gpufeed.bench.contenders.folder import WorkloadFolder
from gpufeed.bench.contenders.tensor_twin import tensor_decoder, tensor_twin
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
        for images, targets in self._loader:
            yield images.to(self._device, non_blocking=True), targets.to(self._device, non_blocking=True)

    def close(self) -> None:
        # Persistent workers end when the loader's iterator is collected, and the loader holds the only reference.
        self._loader = None


@contextmanager
def torch_default(workload: Workload) -> Generator[Epochs]:
    """``DataLoader(dataset, batch_size, shuffle=True)`` and nothing else: all work in the calling thread."""
    yield _OnDevice(_loader(WorkloadFolder(workload, workload.load_transform()), workload), workload.device)


@contextmanager
def torch_tuned(workload: Workload) -> Generator[Epochs]:
    """A persistent worker for each thread, with two batches under way each, pinned where there is CUDA."""
    with _with_workers(WorkloadFolder(workload, workload.load_transform()), workload) as epochs:
        yield epochs


@contextmanager
def torch_tensor(workload: Workload) -> Generator[Epochs]:
    """``torch_tuned`` on uint8 tensors from torchvision's decoder, through the transform's v2 twin.

    Raises:
        UnsupportedError: the transform has no exact twin on tensors, or there is no tensor decoder.
    """
    twin = tensor_twin(workload.load_transform())
    with _with_workers(WorkloadFolder(workload, twin, loader=tensor_decoder()), workload) as epochs:
        yield epochs


@contextmanager
def _with_workers(dataset: Dataset[Any], workload: Workload) -> Generator[Epochs]:
    loader = _loader(
        dataset,
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


def _loader(dataset: Dataset[Any], workload: Workload, **options: Any) -> DataLoader[Any]:
    make: Callable[..., DataLoader[Any]] = DataLoader
    generator = torch.Generator().manual_seed(workload.seed)
    return make(dataset, batch_size=workload.batch_size, shuffle=True, generator=generator, **options)
