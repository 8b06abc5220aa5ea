"""Factories with settings for tests, named as ``fake_tuned.py:NAME``."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from gpufeed.bench.workload import Workload
from gpufeed.config import GpufeedSettings, TorchSettings
from gpufeed.errors import UnsupportedError

Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]


class _Epochs:
    def __init__(self, make: Callable[[], Batches]) -> None:
        self._make = make

    def __iter__(self) -> Batches:
        return self._make()


def _batches(workload: Workload) -> Batches:
    images = torch.zeros(len(workload), 3, 5, 7)
    targets = torch.tensor(workload.targets)
    return zip(images.split(workload.batch_size), targets.split(workload.batch_size), strict=True)


@contextmanager
def quick(workload: Workload, settings: object, fills: bool = False) -> Iterator[_Epochs]:
    yield _Epochs(lambda: _batches(workload))


@contextmanager
def dies_with_many(workload: Workload, settings: TorchSettings, fills: bool = False) -> Iterator[_Epochs]:
    def batches() -> Batches:
        if settings.num_workers > 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return _batches(workload)

    yield _Epochs(batches)


@contextmanager
def hoards(workload: Workload, settings: GpufeedSettings, fills: bool = False) -> Iterator[_Epochs]:
    """30 MB for each thread."""
    held = torch.ones(settings.num_threads * 30_000_000 // 4)
    yield _Epochs(lambda: _batches(workload))
    del held


@contextmanager
def refuses(workload: Workload, settings: object, fills: bool = False) -> Iterator[_Epochs]:
    raise UnsupportedError("I don't do this transform")
    yield


@contextmanager
def fails(workload: Workload, settings: object, fills: bool = False) -> Iterator[_Epochs]:
    raise RuntimeError("out of cheese")
    yield


@contextmanager
def interrupted(workload: Workload, settings: TorchSettings, fills: bool = False) -> Iterator[_Epochs]:
    """Ctrl-C comes to the command when the second setting is opened, which takes for ever."""
    if settings.num_workers != 1:
        os.kill(int(os.environ["FAKE_TUNED_PID"]), signal.SIGINT)
        signal.pause()
    yield _Epochs(lambda: _batches(workload))
