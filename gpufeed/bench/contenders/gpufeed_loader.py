"""gpufeed's own loader, used as a person would use it after changing the import line."""

from __future__ import annotations

import importlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpufeed.bench.contenders.folder import WorkloadFolder
from gpufeed.bench.contenders.torch_side import ShuffledIndices, opened_source
from gpufeed.bench.workload import Workload
from gpufeed.config import GpufeedSettings
from gpufeed.pipelines import Pipeline

if TYPE_CHECKING:
    from gpufeed.bench.contenders import Epochs

__all__ = ["gpufeed"]


@contextmanager
def gpufeed(workload: Workload, settings: GpufeedSettings | None = None) -> Generator[Epochs]:
    """``gpufeed.DataLoader`` over the same dataset, with the workload's threads, device and seed.

    Args:
        workload: what is to be done.
        settings: in place of the workload's threads and the loader's defaults.

    Raises:
        UnsupportedError: gpufeed can't do the transform exactly.
        PipelineError: the pipeline has a mistake.
    """
    from gpufeed import DataLoader

    importlib.import_module("nvidia.dali")  # imports aren't part of the time to the first batch, for anyone
    settings = settings or GpufeedSettings(workload.num_threads)
    subject = workload.load_subject()
    sampler = None if workload.indices is None else ShuffledIndices(workload.indices, workload.seed)
    if isinstance(subject, Pipeline):
        dataset, pipeline = opened_source(workload, subject), subject
    else:
        dataset, pipeline = WorkloadFolder(workload, subject), None
    with DataLoader(
        dataset,
        batch_size=workload.batch_size,
        shuffle=sampler is None,
        sampler=sampler,
        pipeline=pipeline,
        device=workload.device,
        seed=workload.seed,
        num_threads=settings.num_threads,
        prefetch_factor=settings.prefetch_factor,
        decode=settings.decode(),
    ) as loader:
        yield loader
