"""gpufeed's own loader, used as a person would use it after changing the import line."""

from __future__ import annotations

import importlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpufeed.bench.contenders.folder import WorkloadFolder
from gpufeed.bench.workload import Workload

if TYPE_CHECKING:
    from gpufeed.bench.contenders import Epochs

__all__ = ["gpufeed"]


@contextmanager
def gpufeed(workload: Workload) -> Generator[Epochs]:
    """``gpufeed.DataLoader`` over the same dataset, with the workload's threads, device and seed.

    Raises:
        UnsupportedError: gpufeed can't do the transform exactly.
    """
    from gpufeed import DataLoader

    importlib.import_module("nvidia.dali")  # imports aren't part of the time to the first batch, for anyone
    with DataLoader(
        WorkloadFolder(workload, workload.load_transform()),
        batch_size=workload.batch_size,
        shuffle=True,
        device=workload.device,
        seed=workload.seed,
        num_threads=workload.num_threads,
    ) as loader:
        yield loader
