"""DALI's proxy: torch's DataLoader and dataset stay, and the workers hand paths to a DALI graph on the GPU."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from nvidia.dali.pipeline import pipeline_def

from gpufeed.bench.contenders.dali_handwritten import Crop, augmented, crop_of, fn
from gpufeed.bench.contenders.folder import WorkloadFolder
from gpufeed.bench.contenders.torch_gpu import refuse_without_gpu
from gpufeed.bench.contenders.torch_loaders import moved
from gpufeed.bench.workload import Workload
from gpufeed.errors import UnsupportedError

if TYPE_CHECKING:
    from gpufeed.bench.contenders import Batch, Epochs

__all__ = ["dali_proxy", "proxy_graph"]

_PREFETCH_FACTOR = 2


@contextmanager
def dali_proxy(workload: Workload) -> Generator[Epochs]:
    """Workers send paths to DALI's server in the calling process, whose graph is that of ``dali-handwritten``.

    Its crops and resize are DALI's own, so its pixels are not torchvision's.

    Raises:
        UnsupportedError: there is no GPU, this DALI has no proxy, or the transform isn't the training transform.
    """
    refuse_without_gpu(workload, "dali-proxy")
    try:
        proxy = importlib.import_module("nvidia.dali.plugin.pytorch.experimental.proxy")
    except ImportError as error:
        raise UnsupportedError(f"this DALI has no proxy for torch ({error})") from error
    crop = crop_of(workload.load_transform(), "dali-proxy")
    epochs = _Epochs(proxy, proxy_graph(workload, crop), workload)
    try:
        yield epochs
    finally:
        epochs.close()


class _Epochs:
    def __init__(self, proxy: Any, graph: Any, workload: Workload) -> None:
        self._server = proxy.DALIServer(graph)
        dataset = WorkloadFolder(workload, self._server.proxy, _path)
        self._loader: Any = proxy.DataLoader(
            self._server,
            dataset,
            batch_size=workload.batch_size,
            shuffle=True,
            num_workers=workload.num_threads,
            prefetch_factor=_PREFETCH_FACTOR,
            persistent_workers=True,
            generator=torch.Generator().manual_seed(workload.seed),
            multiprocessing_context="fork",
        )
        self._device = torch.device(workload.device)

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._loader:
            yield moved(batch, self._device)

    def close(self) -> None:
        self._server.stop_thread()  # first: a loader that is collected while the server runs prints "Stop"
        self._loader = ()
        gc.collect()  # the loader and its iterator hold each other, and the workers end with them


def _path(path: str) -> NDArray[np.int8]:
    return np.frombuffer(path.encode(), dtype=np.int8)


def proxy_graph(workload: Workload, crop: Crop) -> Any:
    """The graph that DALI's server runs, not built yet."""
    on_gpu = workload.device != "cpu"

    def define() -> Any:
        return augmented(fn.io.file.read(fn.external_source(name="paths", no_copy=True)), crop, on_gpu)

    make: Any = pipeline_def(define)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]
    return make(
        batch_size=workload.batch_size,
        num_threads=workload.num_threads,
        device_id=torch.device(workload.device).index if on_gpu else None,
        seed=workload.seed,
        prefetch_queue_depth=_PREFETCH_FACTOR * workload.num_threads,
    )
