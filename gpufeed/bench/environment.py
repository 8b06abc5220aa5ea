"""What a result depends on besides the code: versions, processor, memory. For the JSON and the table's header."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from gpufeed import __version__

__all__ = ["describe", "usable_cores"]

_PACKAGES = (
    "torch",
    "torchvision",
    "nvidia-dali-cuda120",
    "nvidia-dali-cuda130",
    "torchcodec",
    "numpy",
    "pillow",
    "psutil",
)


def usable_cores() -> int:
    """CPUs that this process may use: those of its affinity, fewer where a cgroup allows less time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_quota()
    return max(1, cores if quota is None else min(cores, int(quota)))


def _cgroup_quota() -> float | None:
    """CPU seconds per second that the cgroup (version 2, then 1) allows, if it limits them."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").read_text().strip()
            period = Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    return None if quota in ("max", "-1") else int(quota) / int(period)


def describe() -> dict[str, Any]:
    """The environment as plain data for JSON, without importing any of the packages that it lists."""
    return {
        "gpufeed": __version__,
        "packages": {name: version for name in _PACKAGES if (version := _version(name)) is not None},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu_model(),
        "logical_cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_average_at_start": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
    }


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
