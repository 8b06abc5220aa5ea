"""The contenders that need a GPU, with their refusal of a CPU taken away, named as ``FILE.py:NAME``."""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest import mock

from gpufeed.bench.contenders import Epochs, dali_proxy, torch_gpu
from gpufeed.bench.workload import Workload


def cuda_decode(workload: Workload) -> AbstractContextManager[Epochs]:
    with mock.patch.object(torch_gpu, "refuse_without_gpu"):
        return _Begun(torch_gpu.torch_cuda_decode(workload))


def uint8(workload: Workload) -> AbstractContextManager[Epochs]:
    with mock.patch.object(torch_gpu, "refuse_without_gpu"):
        return _Begun(torch_gpu.torch_uint8(workload))


def proxy(workload: Workload) -> AbstractContextManager[Epochs]:
    with mock.patch.object(dali_proxy, "refuse_without_gpu"):
        return _Begun(dali_proxy.dali_proxy(workload))


class _Begun:
    """A context manager that is entered already."""

    def __init__(self, manager: AbstractContextManager[Epochs]) -> None:
        self._manager = manager
        self._epochs = manager.__enter__()

    def __enter__(self) -> Epochs:
        return self._epochs

    def __exit__(self, *error: object) -> None:
        self._manager.__exit__(None, None, None)
