"""Contenders for tests, named as ``fake_contenders.py:NAME``: honest ones, and some that aren't."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from gpufeed.bench.workload import Workload
from gpufeed.errors import UnsupportedError

Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]


class _Epochs:
    def __init__(self, make: Callable[[], Batches]) -> None:
        self._make = make

    def __iter__(self) -> Batches:
        return self._make()


def _batches(workload: Workload) -> Batches:
    images = torch.rand(len(workload), 3, 5, 7, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor(workload.targets)
    return zip(images.split(workload.batch_size), targets.split(workload.batch_size), strict=True)


@contextmanager
def honest(workload: Workload) -> Iterator[_Epochs]:
    yield _Epochs(lambda: _batches(workload))


@contextmanager
def counts(workload: Workload) -> Iterator[list[int]]:
    """A bound."""
    yield [workload.size_of(index) for index in range(workload.num_batches)]


@contextmanager
def senseless(workload: Workload) -> Iterator[list[int]]:
    """A bound."""
    raise UnsupportedError("no sense here")
    yield


@contextmanager
def broken(workload: Workload) -> Iterator[Batches]:
    """A bound."""

    def batches() -> Batches:
        raise OSError("no disk")
        yield

    yield batches()


def step(device: torch.device, images: torch.Tensor, targets: torch.Tensor) -> Callable[..., None]:
    """A training step that does nothing, and wants to be called as it should."""

    def run(images: torch.Tensor, targets: torch.Tensor) -> None:
        if (images.ndim, targets.ndim) != (4, 1):
            raise ValueError(f"{images.ndim} and {targets.ndim}")

    return run


@contextmanager
def one_short(workload: Workload) -> Iterator[_Epochs]:
    def batches() -> Batches:
        *most, (images, targets) = _batches(workload)
        return iter([*most, (images[:-1], targets[:-1])])

    yield _Epochs(batches)


@contextmanager
def unnormalised(workload: Workload) -> Iterator[_Epochs]:
    yield _Epochs(lambda: ((255 * images, targets) for images, targets in _batches(workload)))


@contextmanager
def refuses(workload: Workload) -> Iterator[_Epochs]:
    raise UnsupportedError(f"I don't do batches of {workload.batch_size}")
    yield


@contextmanager
def stalls(workload: Workload) -> Iterator[_Epochs]:
    def batches() -> Batches:
        print("AF_UNIX path too long", flush=True)
        threading.Event().wait()
        return _batches(workload)

    yield _Epochs(batches)


@contextmanager
def dies(workload: Workload) -> Iterator[_Epochs]:
    def batches() -> Batches:
        print("out of cheese", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        return _batches(workload)

    yield _Epochs(batches)
