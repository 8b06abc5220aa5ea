"""gpufeed's loader with given settings, in the process that measures them."""

from __future__ import annotations

import importlib
from collections.abc import Generator
from contextlib import contextmanager

from gpufeed.bench.contenders import Epochs
from gpufeed.bench.contenders.gpufeed_loader import gpufeed
from gpufeed.bench.tuning.filling import Filling
from gpufeed.bench.workload import Workload
from gpufeed.config import GpufeedSettings

__all__ = ["gpufeed_loader"]

# Imported here and not at the first use: the process that is forked for each setting then has it already.
importlib.import_module("nvidia.dali")
importlib.import_module("gpufeed.loader")


@contextmanager
def gpufeed_loader(workload: Workload, settings: GpufeedSettings, fills: bool = False) -> Generator[Epochs]:
    """A contender's factory with two more arguments.

    Args:
        workload: what is to be done.
        settings: of the loader.
        fills: whether the queues get full in the first epoch.

    Raises:
        UnsupportedError: gpufeed can't do the transform exactly.
        PipelineError: the pipeline has a mistake.
    """
    with gpufeed(workload, settings) as epochs:
        yield Filling(epochs, min(settings.prefetch_factor, workload.num_batches - 1)) if fills else epochs
