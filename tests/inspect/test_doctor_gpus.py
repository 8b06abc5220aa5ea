"""What `gpufeed doctor` asks NVML, answered by a constructed driver."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from gpufeed.inspect.doctor.gpus import (
    Driver,
    GpuReading,
    JpegEngines,
    NoDriver,
    gpu_meter,
    jpeg_engines,
    nvidia_devices,
    read_driver,
)

GIB = 1 << 30


class FakeNvml:
    """Answers as NVML does for the GPUs that it is given; other questions are not supported."""

    NVMLError = pynvml.NVMLError
    NVML_ERROR_LIBRARY_NOT_FOUND = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND

    def __init__(self, *names: str, fails_with: int | None = None) -> None:
        self._names = names
        self._fails_with = fails_with
        self.open = 0
        self.silent: set[str] = set()

    def nvmlInit(self) -> None:  # noqa: N802
        if self._fails_with is not None:
            raise pynvml.NVMLError(self._fails_with)
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def __getattr__(self, name: str) -> Any:
        answers: dict[str, Any] = {
            "nvmlDeviceGetCount": lambda: len(self._names),
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlSystemGetDriverVersion": lambda: b"580.65.06",
            "nvmlSystemGetCudaDriverVersion": lambda: 13100,
            "nvmlDeviceGetName": lambda handle: self._names[handle],
            "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=80 * GIB),
            "nvmlDeviceGetCudaComputeCapability": lambda _: (8, 0),
            "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=40 + handle),
            "nvmlDeviceGetJpgUtilization": lambda _: (7, 20000),
            "nvmlDeviceGetComputeRunningProcesses": lambda handle: [SimpleNamespace(pid=100 + handle)],
        }
        if name not in answers:
            raise AttributeError(name)

        def answer(*arguments: object) -> object:
            assert self.open == 1
            if name in self.silent:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            return answers[name](*arguments)

        return answer


def test_the_driver_and_its_gpus() -> None:
    nvml = FakeNvml("NVIDIA A100-SXM4-80GB", "NVIDIA Something New")
    found = read_driver(nvml)
    assert isinstance(found, Driver)
    assert (found.version, found.cuda) == ("580.65.06", (13, 10))
    assert [(gpu.index, gpu.name, gpu.memory_bytes) for gpu in found.gpus] == [
        (0, "NVIDIA A100-SXM4-80GB", 80 * GIB),
        (1, "NVIDIA Something New", 80 * GIB),
    ]
    assert [gpu.jpeg_engines and gpu.jpeg_engines.count for gpu in found.gpus] == [1, None]
    assert nvml.open == 0


def test_what_a_gpu_does_not_tell_is_none() -> None:
    nvml = FakeNvml("NVIDIA A30")
    nvml.silent = {"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetCudaComputeCapability", "nvmlSystemGetCudaDriverVersion"}
    found = read_driver(nvml)
    assert isinstance(found, Driver)
    assert found.cuda is None
    assert (found.gpus[0].memory_bytes, found.gpus[0].compute_capability) == (None, None)


def test_no_library_is_no_driver_and_another_failure_is_a_broken_one() -> None:
    missing = read_driver(FakeNvml(fails_with=pynvml.NVML_ERROR_LIBRARY_NOT_FOUND))
    assert missing == NoDriver(installed=False, reason="NVML Shared Library Not Found")
    broken = read_driver(FakeNvml(fails_with=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH))
    assert isinstance(broken, NoDriver)
    assert broken.installed
    assert "mismatch" in broken.reason.lower()


_SOME = JpegEngines(None, "nvJPEG's documentation")


@pytest.mark.parametrize(
    ("name", "capability", "count"),
    [
        ("NVIDIA A100-SXM4-80GB", (8, 0), 1),
        ("NVIDIA A100 80GB PCIe", (8, 0), 1),
        ("NVIDIA A30", (8, 0), 1),
        ("NVIDIA H100 80GB HBM3", (9, 0), 7),
        ("NVIDIA H100 NVL", (9, 0), 7),
        ("NVIDIA H200", (9, 0), 7),
        ("NVIDIA L4", (8, 9), 4),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", (12, 0), 4),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", (12, 0), 4),
        ("NVIDIA RTX PRO 5000 Blackwell", (12, 0), 1),
        ("NVIDIA RTX PRO 4500 Blackwell", (12, 0), 2),
        ("NVIDIA Thor", (11, 0), 2),
        ("NVIDIA A10", (8, 6), 0),  # not A100
        ("NVIDIA A40", (8, 6), 0),
        ("NVIDIA GeForce RTX 3090", (8, 6), 0),
        ("Orin", (8, 7), 0),
        ("Tesla V100-SXM2-32GB", (7, 0), 0),
        ("Tesla T4", (7, 5), 0),
    ],
)
def test_engines_are_those_of_the_whole_model_name_or_of_the_architecture(
    name: str, capability: tuple[int, int], count: int
) -> None:
    found = jpeg_engines(name, capability)
    assert found is not None
    assert found.count == count
    assert found.origin


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("NVIDIA L40S", (8, 9)),  # not L4
        ("NVIDIA GeForce RTX 4090", (8, 9)),
        ("NVIDIA GH200 480GB", (9, 0)),
        ("NVIDIA B200", (10, 0)),  # NVIDIA's guide contradicts itself
        ("NVIDIA GeForce RTX 5090", (12, 0)),
        ("NVIDIA RTX PRO 5000 Blackwell Generation Laptop GPU", (12, 0)),
    ],
)
def test_some_architectures_have_engines_of_an_unknown_number(name: str, capability: tuple[int, int]) -> None:
    assert jpeg_engines(name, capability) == _SOME


@pytest.mark.parametrize(("name", "capability"), [("NVIDIA A30X", (8, 0)), ("NVIDIA Something New", None)])
def test_engines_that_no_document_tells_of_are_unknown(name: str, capability: tuple[int, int] | None) -> None:
    assert jpeg_engines(name, capability) is None


def test_the_meter_reads_every_gpu_and_closes() -> None:
    nvml = FakeNvml("NVIDIA A100", "NVIDIA A100")
    with gpu_meter(nvml) as meter:
        assert meter() == (GpuReading(0, 40, 7, frozenset({100})), GpuReading(1, 41, 7, frozenset({101})))
        nvml.silent = {"nvmlDeviceGetJpgUtilization", "nvmlDeviceGetComputeRunningProcesses"}
        assert meter()[0] == GpuReading(0, 40, None, frozenset())
        nvml.silent = {"nvmlDeviceGetUtilizationRates"}
        assert meter() == ()
    assert nvml.open == 0


def test_the_meter_without_a_driver_reads_nothing() -> None:
    with gpu_meter(FakeNvml(fails_with=pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)) as meter:
        assert meter() == ()


def test_gpus_on_the_bus_without_a_driver(tmp_path: Path) -> None:
    devices = {"a": ("0x10de", "0x030200"), "b": ("0x10de", "0x040300"), "c": ("0x8086", "0x030000")}
    for name, (vendor, kind) in devices.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(f"{vendor}\n")
        (tmp_path / name / "class").write_text(f"{kind}\n")
    (tmp_path / "gone").mkdir()
    assert nvidia_devices(tmp_path) == 1
    assert nvidia_devices(tmp_path / "no such bus") == 0
