"""torch's loader with given settings, in the process that measures them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from gpufeed.bench.contenders import Epochs
from gpufeed.bench.contenders.torch_loaders import torch_tuned
from gpufeed.bench.tuning.filling import Filling
from gpufeed.bench.workload import Workload
from gpufeed.config import TorchSettings

__all__ = ["torch_loader"]


@contextmanager
def torch_loader(workload: Workload, settings: TorchSettings, fills: bool = False) -> Generator[Epochs]:
    """A contender's factory with two more arguments.

    Args:
        workload: what is to be done.
        settings: of the loader.
        fills: whether the queues get full in the first epoch.
    """
    with torch_tuned(workload, settings) as epochs:
        if not fills or not settings.num_workers:
            yield epochs
            return
        per_worker = -(-workload.num_batches // settings.num_workers)
        yield Filling(epochs, min(settings.prefetch_factor or 2, per_worker - 1))
