"""What a result depends on besides the code: versions, processor, memory. For the JSON and the table's header."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import psutil
import pynvml

from gpufeed import __version__
from gpufeed.cpus import usable_cpus

__all__ = ["describe", "nvidia_gpus"]

_PACKAGES = (
    "torch",
    "torchvision",
    "nvidia-dali-cuda120",
    "nvidia-dali-cuda130",
    "torchcodec",
    "torchdata",
    "spdl",
    "numpy",
    "pillow",
    "psutil",
)


def describe() -> dict[str, Any]:
    """The environment as plain data for JSON, without importing any of the packages that it lists."""
    return {
        "gpufeed": __version__,
        "packages": {name: version for name in _PACKAGES if (version := _version(name)) is not None},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu_model(),
        "logical_cpus": os.cpu_count(),
        "usable_cpus": usable_cpus(),
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": list(nvidia_gpus()),
        "load_average_at_start": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
    }


def nvidia_gpus() -> tuple[str, ...]:
    """The names of the NVIDIA GPUs that the driver knows, without touching one; empty without a driver."""
    nvml = cast(Any, pynvml)
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return ()
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        return tuple(str(nvml.nvmlDeviceGetName(handle)) for handle in handles)
    except nvml.NVMLError:
        return ()
    finally:
        nvml.nvmlShutdown()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()
