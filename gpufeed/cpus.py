"""How many CPUs this process may use: its affinity, its container's quota, its share among the ranks of a machine."""

from __future__ import annotations

import math
import os
from pathlib import Path

__all__ = ["default_num_threads", "usable_cpus"]


def usable_cpus(cgroup_root: Path = Path("/sys/fs/cgroup")) -> int:
    """CPUs that this process may use, at least 1: the scheduler's affinity, or less if a cgroup quota says so.

    Args:
        cgroup_root: where the cgroup file system is mounted (tests).
    """
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_quota(cgroup_root)
    return max(1, affinity if quota is None else min(affinity, math.ceil(quota)))


def default_num_threads() -> int:
    """Usable CPUs divided among the ranks of this machine (``LOCAL_WORLD_SIZE``, set by torchrun), at least 1."""
    try:
        ranks = max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    except ValueError:
        ranks = 1
    return max(1, usable_cpus() // ranks)


def _cgroup_quota(root: Path) -> float | None:
    """CPUs granted by cgroup v2's ``cpu.max``, or v1's ``cpu.cfs_quota_us`` and period; None if unlimited."""
    try:
        quota, period = (root / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        pass
    try:
        quota_us = int((root / "cpu" / "cpu.cfs_quota_us").read_text())
        period_us = int((root / "cpu" / "cpu.cfs_period_us").read_text())
        return quota_us / period_us if quota_us > 0 and period_us > 0 else None
    except (OSError, ValueError):
        return None
