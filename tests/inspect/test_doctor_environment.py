"""`gpufeed doctor` on constructed machines: each finding with its level, its value and its next step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from doctor_machine import GIB, machine, with_gpu

from gpufeed.errors import ArgumentError
from gpufeed.inspect.doctor.environment import Environment, look_at_environment
from gpufeed.inspect.doctor.environment_findings import environment_findings, file_system_findings
from gpufeed.inspect.doctor.findings import Finding
from gpufeed.inspect.doctor.gpus import Driver, NoDriver
from gpufeed.inspect.doctor.mounts import FileSystem, file_system, kind_of

H100 = ("NVIDIA H100 80GB HBM3", (9, 0))
BOTH = {"nvidia-dali-cuda120": "2.4.0", "nvidia-dali-cuda130": "2.4.0"}


def _with_versions(change: Mapping[str, str | None]) -> Environment:
    versions = {**machine().versions, **change}
    return replace(machine(), versions={name: version for name, version in versions.items() if version is not None})


@pytest.mark.parametrize("environment", [machine(), with_gpu(*H100)], ids=["cpu", "gpu"])
def test_nothing_is_wrong_with_a_good_machine(environment: Environment) -> None:
    assert {finding.level for finding in environment_findings(environment)} == {"ok"}


CASES: list[tuple[str, Environment, str, str, str]] = [
    (
        "driver that doesn't answer",
        replace(machine(), driver=NoDriver(installed=True, reason="Driver/library version mismatch")),
        "problem",
        "doesn't answer: Driver/library version mismatch",
        "modprobe nvidia",
    ),
    ("GPU without a driver", replace(machine(), pci_gpus=2), "problem", "shows 2 NVIDIA GPUs", "--gpus all"),
    (
        "driver without a GPU",
        replace(machine(), driver=Driver("580.65.06", (13, 0), ())),
        "problem",
        "driver 580.65.06 answers, and shows no GPU",
        "--gpus all",
    ),
    (
        "hidden GPUs",
        replace(with_gpu(*H100), variables={"CUDA_VISIBLE_DEVICES": ""}),
        "problem",
        "CUDA_VISIBLE_DEVICES='' hides every GPU",
        "unset CUDA_VISIBLE_DEVICES",
    ),
    (
        "torch for CUDA without a GPU",
        replace(machine(), torch_cuda="13.0"),
        "note",
        "build for CUDA 13.0, and no GPU can be used",
        "whl/cpu",
    ),
    (
        "torch without CUDA on a GPU",
        replace(with_gpu(*H100), torch_cuda=None),
        "problem",
        "torch 2.14.1 is a build without CUDA",
        "whl/cu126",
    ),
    (
        "torch newer than the driver",
        with_gpu(*H100, cuda=(12, 4)),
        "problem",
        "torch is built for CUDA 13.0, and the driver 580.65.06 runs up to 12.4",
        "a build for CUDA 12",
    ),
    (
        "minor version",
        replace(with_gpu(*H100, cuda=(12, 4)), torch_cuda="12.6"),
        "note",
        "torch is built for CUDA 12.6, and the driver 580.65.06 is of 12.4",
        "update the driver",
    ),
    (
        "DALI newer than the driver",
        replace(with_gpu(*H100, cuda=(11, 8)), torch_cuda="11.8"),
        "problem",
        "DALI (nvidia-dali-cuda120) is built for CUDA 12.0",
        "a build for CUDA 11",
    ),
    (
        "unknown engines",
        with_gpu("NVIDIA Something New", (15, 0)),
        "note",
        "whether it has hardware JPEG decoders isn't known",
        "datasheet",
    ),
    (
        "both wheels of DALI",
        _with_versions(BOTH),
        "problem",
        "2 wheels of DALI are installed at once: nvidia-dali-cuda120, nvidia-dali-cuda130",
        "pip uninstall -y nvidia-dali-cuda120 nvidia-dali-cuda130 && pip install 'nvidia-dali-cuda120>=2.4,<3'",
    ),
    (
        "no DALI",
        _with_versions({"nvidia-dali-cuda120": None}),
        "problem",
        "DALI isn't installed",
        "pip install 'nvidia-dali-cuda120>=2.4,<3'",
    ),
    (
        "no torchvision",
        _with_versions({"torchvision": None}),
        "problem",
        "torchvision isn't installed",
        "pip install 'torchvision>=0.26'",
    ),
    (
        "an old torch",
        _with_versions({"torch": "2.9.1"}),
        "problem",
        "torch is 2.9.1, and gpufeed needs >=2.11",
        "pip install 'torch>=2.11'",
    ),
    (
        "a DALI too new",
        _with_versions({"nvidia-dali-cuda120": "3.0.0"}),
        "problem",
        "nvidia-dali-cuda120 is 3.0.0, and gpufeed needs >=2.4,<3",
        "pip install",
    ),
    (
        "pillow-simd beside Pillow",
        _with_versions({"pillow-simd": "9.5.0"}),
        "problem",
        "pillow-simd 9.5.0 is installed beside Pillow",
        "pip uninstall -y pillow-simd pillow",
    ),
    (
        "pillow-simd alone",
        _with_versions({"pillow-simd": "9.5.0", "pillow": None}),
        "note",
        "in place of Pillow",
        "pip uninstall -y pillow-simd &&",
    ),
    (
        "a quota",
        replace(machine(), logical_cpus=64, usable_cpus=4),
        "note",
        "may use 4 of 64 CPUs",
        "OMP_NUM_THREADS=4",
    ),
    (
        "too many OpenMP threads",
        replace(machine(), variables={"OMP_NUM_THREADS": "96"}),
        "note",
        "OMP_NUM_THREADS=96 is more than the 8 usable CPUs",
        "OMP_NUM_THREADS=8",
    ),
    (
        "no number of OpenMP threads",
        replace(machine(), variables={"OMP_NUM_THREADS": "all"}),
        "note",
        "OMP_NUM_THREADS='all'",
        "OMP_NUM_THREADS=8",
    ),
    (
        "few CPUs for a GPU",
        replace(with_gpu(*H100), logical_cpus=2, usable_cpus=2),
        "note",
        "2 CPUs for 1 GPU: fewer than 4 for each",
        "--device cuda",
    ),
    ("Docker's /dev/shm", replace(machine(), shm_bytes=64 << 20), "problem", "It has 64 MiB", "--shm-size"),
    ("a tight /dev/shm", replace(machine(), shm_bytes=GIB // 2), "note", "It has 512 MiB", "--shm-size"),
    ("a long TMPDIR", replace(machine(), temporary_too_long="the path is long"), "problem", "The path", "TMPDIR=/tmp"),
    ("no /dev/shm", replace(machine(), shm_bytes=None), "problem", "There is none", "--shm-size"),
    (
        "the usual limit of descriptors",
        replace(machine(), open_files=(1024, 4096)),
        "note",
        "1,024 files open; the hard limit is 4,096",
        "ulimit -n 4096",
    ),
    ("few descriptors", replace(machine(), open_files=(256, -1)), "problem", "256 files open", "ulimit -n 65536"),
    ("a low hard limit", replace(machine(), open_files=(512, 512)), "problem", "512 files open", "limits.conf"),
    (
        "a small container",
        replace(machine(), memory_limit_bytes=2 * GIB),
        "note",
        "may use 2.0 GiB of 16 GiB",
        "docker run --memory",
    ),
]


@pytest.mark.parametrize(
    ("environment", "level", "what", "step"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_each_finding(environment: Environment, level: str, what: str, step: str) -> None:
    findings = [finding for finding in environment_findings(environment) if what in finding.what]
    assert [finding.level for finding in findings] == [level], [one.what for one in environment_findings(environment)]
    assert step in findings[0].next_step


def test_an_engines_number_comes_with_its_origin() -> None:
    finding = next(one for one in environment_findings(with_gpu(*H100)) if one.topic == "JPEG engines")
    assert "7 (NVIDIA's MIG user guide" in finding.what


def test_a_container_with_enough_memory_is_fine() -> None:
    limited = replace(machine(), memory_limit_bytes=8 * GIB)
    assert {finding.level for finding in environment_findings(limited)} == {"ok"}


def test_versions_without_metadata_are_said_not_judged() -> None:
    finding = environment_findings(replace(machine(), required={}))
    assert any("What gpufeed requires isn't known" in one.what for one in finding)
    assert not any(one.level == "problem" for one in finding)


def test_a_problem_needs_a_next_step() -> None:
    with pytest.raises(ArgumentError, match="a problem must have a next step, got none for 'GPU'"):
        Finding("environment", "GPU", "problem", "It is gone.")


# Reading the machine --------------------------------------------------------------------------------------------------


def _root(folder: Path, texts: Mapping[str, str]) -> Path:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def _look(folder: Path, **arguments: Any) -> Environment:
    return look_at_environment(None, driver=lambda: NoDriver(installed=False, reason=""), root=folder, **arguments)


@pytest.mark.parametrize(
    ("texts", "limit"),
    [
        ({"sys/fs/cgroup/memory.max": "max\n"}, None),
        ({"sys/fs/cgroup/memory.max": "2147483648\n"}, 2 * GIB),
        ({"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, None),
        ({"sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n"}, GIB),
        ({}, None),
    ],
)
def test_the_memory_limit_of_both_cgroups(texts: Mapping[str, str], limit: int | None, tmp_path: Path) -> None:
    assert _look(_root(tmp_path, texts)).memory_limit_bytes == limit


def test_the_machine_is_read_below_the_root(tmp_path: Path) -> None:
    found = _look(
        _root(tmp_path, {"sys/fs/cgroup/cpu.max": "100000 100000\n"}), variables={"OMP_NUM_THREADS": "3", "HOME": "x"}
    )
    assert (found.usable_cpus, found.shm_bytes, found.file_system) == (1, None, None)
    assert dict(found.variables) == {"OMP_NUM_THREADS": "3"}


def test_what_is_installed_here_is_found_and_in_range(tmp_path: Path) -> None:
    import torch

    found = _look(tmp_path)
    assert found.versions["torch"].partition("+")[0] == torch.__version__.partition("+")[0]
    assert found.torch_cuda == torch.version.cuda
    assert found.required["pillow"] == ">=10.3"
    assert "pytest" not in found.required
    assert found.dali_wheels
    assert not [one for one in environment_findings(found) if one.topic in ("versions", "DALI") and one.level != "ok"]


# File systems ---------------------------------------------------------------------------------------------------------


def _mounts(folder: Path, *lines: str) -> Path:
    table = folder / "mounts"
    table.write_text("".join(f"{line} rw 0 0\n" for line in lines))
    return table


def test_the_longest_mount_above_the_path_counts_and_the_last_of_equal_ones(tmp_path: Path) -> None:
    data = tmp_path / "my data" / "photos"
    data.mkdir(parents=True)
    escaped = str(tmp_path / "my data").replace(" ", "\\040")
    lines = ["overlay / overlay", f"server:/x {escaped} ext4", f"server:/x {escaped} nfs4", f"none {tmp_path}/my tmpfs"]
    found = file_system(data, _mounts(tmp_path, *lines))
    assert (found.type, found.kind, found.mounted_at) == ("nfs4", "network", str(tmp_path / "my data"))
    assert file_system(tmp_path, _mounts(tmp_path, *lines)).kind == "overlay"
    assert file_system(tmp_path, tmp_path / "no table").kind == "unknown"
    assert found.free_bytes > 0


def test_links_are_followed_to_where_the_data_lies(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far")
    assert file_system(tmp_path / "link", _mounts(tmp_path, "/ / ext4", f"x {tmp_path}/far lustre")).type == "lustre"


@pytest.mark.parametrize(
    ("name", "kind", "level"),
    [
        ("ext4", "local", "ok"),
        ("tmpfs", "memory", "ok"),
        ("nfs", "network", "note"),
        ("fuse.gcsfuse", "network", "note"),
        ("overlay", "overlay", "note"),
        ("fuse.something", "unknown", "note"),
    ],
)
def test_kinds_of_file_systems(name: str, kind: str, level: str) -> None:
    assert kind_of(name) == kind
    (finding,) = file_system_findings(FileSystem(name, kind_of(name), "/data", 5 * GIB))
    assert finding.level == level
    assert f"DATA lies on {name}, mounted at /data" in finding.what
    assert "5.0 GiB free" in finding.what
