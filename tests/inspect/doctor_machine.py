"""Machines for tests of `gpufeed doctor`: constructed, whatever this one is."""

from __future__ import annotations

from dataclasses import replace

from gpufeed.inspect.doctor.environment import Environment
from gpufeed.inspect.doctor.gpus import Driver, NoDriver, NvidiaGpu, jpeg_engines

GIB = 1 << 30


def machine() -> Environment:
    """One without a GPU on which nothing is wrong, and torch is a CPU build."""
    return Environment(
        driver=NoDriver(installed=False, reason="NVML Shared Library Not Found"),
        pci_gpus=0,
        versions={"torch": "2.14.1", "torchvision": "0.29.1", "pillow": "13.0.0", "nvidia-dali-cuda120": "2.4.0"},
        required={"torch": ">=2.11", "torchvision": ">=0.26", "pillow": ">=10.3", "nvidia-dali-cuda120": ">=2.4,<3"},
        torch_cuda=None,
        logical_cpus=8,
        usable_cpus=8,
        variables={},
        shm_bytes=8 * GIB,
        open_files=(65536, 65536),
        memory_bytes=16 * GIB,
        memory_limit_bytes=None,
    )


def with_gpu(name: str, capability: tuple[int, int], cuda: tuple[int, int] = (13, 0)) -> Environment:
    """`machine` with a GPU, a driver and a CUDA build of torch for them."""
    gpu = NvidiaGpu(0, name, 80 * GIB, capability, jpeg_engines(name, capability))
    return replace(machine(), driver=Driver("580.65.06", cuda, (gpu,)), torch_cuda="13.0")
