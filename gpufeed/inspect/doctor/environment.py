"""The machine and what is installed, as facts, without importing torch or DALI and without touching a GPU."""

from __future__ import annotations

import importlib.util
import os
import re
import resource
import runpy
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from gpufeed.cpus import usable_cpus
from gpufeed.inspect.doctor.gpus import Driver, NoDriver, nvidia_devices, read_driver
from gpufeed.inspect.doctor.mounts import FileSystem, file_system
from gpufeed.temporary import too_long_for_workers

__all__ = ["DALI_WHEELS", "Environment", "look_at_environment"]

DALI_WHEELS = ("nvidia-dali-cuda120", "nvidia-dali-cuda130", "nvidia-dali-cuda110")
_PACKAGES = ("torch", "torchvision", "pillow", "pillow-simd", *DALI_WHEELS)
_VARIABLES = ("OMP_NUM_THREADS", "LOCAL_WORLD_SIZE", "CUDA_VISIBLE_DEVICES")


@dataclass(frozen=True, slots=True)
class Environment:
    """What was found. ``None`` stands for what the system doesn't tell.

    Attributes:
        driver: NVIDIA's driver and its GPUs.
        pci_gpus: NVIDIA's display controllers on the PCI bus, whether there is a driver or not.
        versions: installed distributions of those that matter, by name.
        required: what this gpufeed requires of them, by name, as in ``>=2.4,<3``; empty where it isn't known.
        torch_cuda: the CUDA version that torch is built for, as in ``13.0``; ``None`` for a build without CUDA.
        logical_cpus: of the machine.
        usable_cpus: of this process, by its affinity and its container's quota.
        variables: environment variables that matter, those that are set.
        shm_bytes: size of /dev/shm, ``None`` where there is none. [Unit: byte]
        open_files: soft and hard limit of descriptors in this process, -1 for none.
        memory_bytes: of the machine. [Unit: byte]
        memory_limit_bytes: of the container, ``None`` where it has none. [Unit: byte]
        file_system: of the data, ``None`` without data.
        temporary_too_long: why torch's workers can't work with the folder for temporary files; empty where they can.
    """

    driver: Driver | NoDriver
    pci_gpus: int
    versions: Mapping[str, str]
    required: Mapping[str, str]
    torch_cuda: str | None
    logical_cpus: int
    usable_cpus: int
    variables: Mapping[str, str]
    shm_bytes: int | None
    open_files: tuple[int, int]
    memory_bytes: int
    memory_limit_bytes: int | None
    file_system: FileSystem | None = field(default=None)
    temporary_too_long: str = ""

    @property
    def dali_wheels(self) -> tuple[str, ...]:
        """The installed wheels of DALI."""
        return tuple(name for name in DALI_WHEELS if name in self.versions)


def look_at_environment(
    data: Path | None,
    *,
    driver: Callable[[], Driver | NoDriver] = read_driver,
    root: Path = Path("/"),
    variables: Mapping[str, str] = os.environ,
) -> Environment:
    """Read everything; takes a few milliseconds.

    Args:
        data: the data's folder, for its file system.
        driver: what asks the driver (tests).
        root: below which /sys, /proc and /dev are (tests).
        variables: the environment variables (tests).
    """
    versions = {name: version for name in _PACKAGES if (version := _version(name)) is not None}
    return Environment(
        driver=driver(),
        pci_gpus=nvidia_devices(root / "sys/bus/pci/devices"),
        versions=versions,
        required=_required(),
        torch_cuda=_torch_cuda(),
        logical_cpus=os.cpu_count() or 1,
        usable_cpus=usable_cpus(root / "sys/fs/cgroup"),
        variables={name: variables[name] for name in _VARIABLES if name in variables},
        shm_bytes=_size(root / "dev/shm"),
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE),
        memory_bytes=psutil.virtual_memory().total,
        memory_limit_bytes=_memory_limit(root / "sys/fs/cgroup"),
        file_system=None if data is None else file_system(data, root / "proc/mounts"),
        temporary_too_long=too_long_for_workers(),
    )


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?\s*\(?([^;()]*)\)?\s*(;.*)?")


def _required() -> dict[str, str]:
    """What gpufeed's own metadata requires always, extras apart."""
    try:
        lines = metadata.requires("gpufeed") or []
    except metadata.PackageNotFoundError:  # run from a folder without being installed
        return {}
    found: dict[str, str] = {}
    for line in lines:
        match = _REQUIREMENT.fullmatch(line)
        if match is not None and "extra" not in (match[3] or ""):
            found[match[1].lower()] = match[2].strip()
    return found


def _torch_cuda() -> str | None:
    """``torch.version.cuda``, read from that module's file: importing torch takes seconds and may fail."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    try:
        values: dict[str, Any] = runpy.run_path(os.path.join(spec.submodule_search_locations[0], "version.py"))
    except OSError:
        return None
    cuda = values.get("cuda")
    return cuda if isinstance(cuda, str) else None


def _size(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).total
    except OSError:
        return None


def _memory_limit(cgroup: Path) -> int | None:
    """Bytes that cgroup v2's ``memory.max`` or v1's ``memory.limit_in_bytes`` grants; ``None`` if unlimited."""
    for file in (cgroup / "memory.max", cgroup / "memory" / "memory.limit_in_bytes"):
        try:
            limit = int(file.read_text())
        except (OSError, ValueError):  # ValueError: "max"
            continue
        if limit < 1 << 60:  # v1 says "unlimited" by a number near 2**63
            return limit
    return None
