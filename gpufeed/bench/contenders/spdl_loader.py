"""SPDL's pipeline over the same dataset: its threads run what torch's workers run in processes."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from gpufeed.bench.contenders.torch_loaders import moved
from gpufeed.bench.contenders.torch_side import Collate, ShuffledIndices, TorchSide, torch_side
from gpufeed.bench.workload import Workload
from gpufeed.errors import UnsupportedError

if TYPE_CHECKING:
    from gpufeed.bench.contenders import Batch, Epochs

__all__ = ["spdl"]

_BUFFERED_BATCHES = 2


@contextmanager
def spdl(workload: Workload) -> Generator[Epochs]:
    """Samples by as many threads as the workload allows, collated in one of them, two batches in the buffer.

    The dataset is torch's side of the workload, as for ``torch-tuned``. Each epoch builds a pipeline anew, as SPDL's
    own loaders do.

    Raises:
        UnsupportedError: SPDL isn't installed.
    """
    try:
        pipeline = importlib.import_module("spdl.pipeline")
    except ImportError as error:
        raise UnsupportedError(f"it needs SPDL ({error}); `pip install spdl` brings it") from error
    yield _Epochs(pipeline.PipelineBuilder, torch_side(workload), workload)


class _Epochs:
    def __init__(self, builder: Callable[[], Any], side: TorchSide, workload: Workload) -> None:
        self._builder = builder
        self._dataset: Any = side.dataset
        self._collate = side.collate_fn or Collate()
        self._indices = side.sampler or ShuffledIndices(range(len(workload)), workload.seed)
        self._workload = workload

    def __iter__(self) -> Iterator[Batch]:
        workload = self._workload
        pipeline = (
            self._builder()
            .add_source(iter(self._indices))
            .pipe(self._dataset.__getitem__, concurrency=workload.num_threads, max_failures=0)
            .aggregate(workload.batch_size)
            .pipe(self._collate, max_failures=0)
            .add_sink(_BUFFERED_BATCHES)
            .build(num_threads=workload.num_threads)
        )
        device = torch.device(workload.device)
        with pipeline.auto_stop():
            for batch in pipeline:
                yield moved(batch, device)
