"""torch's own DataLoader, as people use it: without options, tuned, on tensors, filled ahead; and torchdata's."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, cast

import torch
from torch.utils.data import DataLoader

from gpufeed.bench.contenders import Batch, Epochs
from gpufeed.bench.contenders.torch_side import TorchSide, torch_side
from gpufeed.bench.workload import Workload
from gpufeed.config import TorchSettings
from gpufeed.errors import ArgumentError, UnsupportedError
from gpufeed.temporary import too_long_for_workers

__all__ = [
    "moved",
    "torch_default",
    "torch_prefetch",
    "torch_stateful",
    "torch_tensor",
    "torch_tuned",
    "tuned_loader",
]

_PREFETCH_FACTOR = 2  # torch's own default, given here because the comparison is defined by it
_AHEAD = 5  # batches: what the articles that recommend such a thread use


class _OnDevice:
    """A loader whose batches are brought to the device, as a training loop does it."""

    def __init__(self, loader: DataLoader[Any], device: str) -> None:
        self._loader: DataLoader[Any] | None = loader
        self._device = torch.device(device)

    def __iter__(self) -> Iterator[Batch]:
        if self._loader is None:
            raise RuntimeError("this contender is closed")
        for batch in self._loader:
            yield moved(batch, self._device)

    def close(self) -> None:
        # Persistent workers end when the loader's iterator is collected, and the loader holds the only reference.
        self._loader = None


def moved(value: Any, device: torch.device) -> Any:
    """The batch with every tensor in it on the device."""
    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, Mapping):
        return {key: moved(item, device) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (tuple, list)):
        return [moved(item, device) for item in cast("Sequence[Any]", value)]
    return value


@contextmanager
def torch_default(workload: Workload) -> Generator[Epochs]:
    """``DataLoader(dataset, batch_size, shuffle=True)`` and nothing else: all work in the calling thread."""
    yield _OnDevice(_loader(torch_side(workload), workload), workload.device)


@contextmanager
def torch_tuned(workload: Workload, settings: TorchSettings | None = None) -> Generator[Epochs]:
    """A persistent worker for each thread, with two batches under way each, pinned where there is CUDA.

    Args:
        workload: what is to be done.
        settings: others in place of these.
    """
    with _with_workers(torch_side(workload), workload, settings) as epochs:
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
def torch_prefetch(workload: Workload) -> Generator[Epochs]:
    """``torch_tuned`` inside `gpufeed.PrefetchLoader`: a thread keeps 5 batches on the device."""
    from gpufeed import PrefetchLoader

    loader = tuned_loader(torch_side(workload), workload)
    epochs = _Filled(PrefetchLoader(loader, _AHEAD, workload.device))
    del loader
    try:
        yield epochs
    finally:
        epochs.close()


class _Filled:
    """A prefetching loader that lets go of its torch loader, and so of its workers, when it is closed."""

    def __init__(self, loader: Any) -> None:
        self._loader: Any = loader

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._loader)

    def close(self) -> None:
        loader, self._loader = self._loader, ()
        loader.close()


@contextmanager
def torch_stateful(workload: Workload) -> Generator[Epochs]:
    """``torch_tuned`` with torchdata's ``StatefulDataLoader``, which can resume in the middle of an epoch.

    Raises:
        UnsupportedError: torchdata isn't installed, or doesn't work with this torch.
    """
    try:
        make = importlib.import_module("torchdata.stateful_dataloader").StatefulDataLoader
    except ImportError as error:
        raise UnsupportedError(f"it needs torchdata ({error}); `pip install torchdata` brings it") from error
    with _entered(tuned_loader(torch_side(workload), workload, make), workload) as epochs:
        yield epochs


@contextmanager
def _with_workers(side: TorchSide, workload: Workload, settings: TorchSettings | None = None) -> Generator[Epochs]:
    with _entered(tuned_loader(side, workload, settings=settings), workload) as epochs:
        yield epochs


def tuned_loader(
    side: TorchSide,
    workload: Workload,
    make: Callable[..., Any] = DataLoader,
    settings: TorchSettings | None = None,
) -> Any:
    """A loader with a persistent worker for each thread, two batches under way each, pinned where there is CUDA.

    Args:
        side: the dataset, sampler and collate function.
        workload: for the rest.
        make: the loader's class.
        settings: others in place of these.

    Raises:
        ArgumentError: workers can't hand over batches here.
    """
    settings = settings or TorchSettings(
        num_workers=workload.num_threads,
        prefetch_factor=_PREFETCH_FACTOR,
        persistent_workers=True,
        pin_memory=workload.device != "cpu",
    )
    if settings.num_workers and (why_not := too_long_for_workers()):
        raise ArgumentError(f"{why_not}; set TMPDIR to a shorter one, such as TMPDIR=/tmp")
    return _loader(
        side,
        workload,
        make,
        **asdict(settings),
        # The platform's usual way before Python 3.14; other ways would need the user's transform to be importable.
        multiprocessing_context="fork" if sys.platform == "linux" and settings.num_workers else None,
    )


@contextmanager
def _entered(loader: Any, workload: Workload) -> Generator[Epochs]:
    epochs = _OnDevice(loader, workload.device)
    del loader
    try:
        yield epochs
    finally:
        epochs.close()


def _loader(side: TorchSide, workload: Workload, make: Callable[..., Any] = DataLoader, **options: Any) -> Any:
    return make(
        side.dataset,
        batch_size=workload.batch_size,
        shuffle=side.sampler is None,
        sampler=side.sampler,
        collate_fn=side.collate_fn,
        generator=torch.Generator().manual_seed(workload.seed),
        **options,
    )
