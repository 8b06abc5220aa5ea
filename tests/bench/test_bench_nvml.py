"""What a GPU did during an epoch, from a driver that is played."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpufeed.bench.nvml import GpuMeter, gpu_meter
from gpufeed.bench.results import GpuUse


class NVMLError(Exception):
    """As pynvml's."""


class FakeNvml:
    """A driver with one GPU; `refused` are questions that it doesn't answer."""

    NVMLError = NVMLError
    NVML_PCIE_UTIL_RX_BYTES = 1

    def __init__(self, refused: tuple[str, ...] = (), busy: tuple[int, ...] = (50, 100)) -> None:
        self.refused = refused
        self.busy = iter(busy)
        self.memory = iter((3_000, 9_000, 4_000))
        self.opened = 0

    def _answer(self, question: str, value: Any) -> Any:
        if question in self.refused:
            raise NVMLError(question)
        return value

    def nvmlInit(self) -> None:  # noqa: N802
        self._answer("init", None)
        self.opened += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.opened -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        return self._answer("uuid", f"handle of {uuid}")

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:  # noqa: N802
        assert handle == "handle of GPU-1"
        return self._answer("busy", SimpleNamespace(gpu=next(self.busy, 0)))

    def nvmlDeviceGetJpgUtilization(self, handle: str) -> Any:  # noqa: N802
        return self._answer("jpeg", [20, 167_000])

    def nvmlDeviceGetPcieThroughput(self, handle: str, counter: int) -> int:  # noqa: N802
        assert counter == self.NVML_PCIE_UTIL_RX_BYTES
        return self._answer("pcie", 2_000)  # KB/s

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:  # noqa: N802
        return self._answer("memory", SimpleNamespace(used=next(self.memory)))


def _meter(nvml: FakeNvml, seconds: float) -> GpuMeter:
    clock = iter((0.0, 0.0, seconds))
    return GpuMeter(nvml, "handle of GPU-1", interval_s=1e9, clock=lambda: next(clock))


def test_shares_are_means_memory_the_most_and_bytes_the_rate_times_the_seconds() -> None:
    meter = _meter(FakeNvml(), 3.0)
    meter.start()
    meter.look()
    meter.stop()
    assert meter.use() == GpuUse(0.75, pytest.approx(0.2), 9_000, 6_000_000)


def test_what_the_driver_does_not_tell_is_none() -> None:
    meter = _meter(FakeNvml(refused=("busy", "jpeg", "pcie", "memory")), 3.0)
    meter.start()
    meter.stop()
    assert meter.use() == GpuUse()


def test_the_context_opens_and_closes_the_driver() -> None:
    nvml = FakeNvml()
    with gpu_meter("GPU-1", nvml) as use:
        assert nvml.opened == 1
    assert nvml.opened == 0
    found = use()
    assert found is not None
    assert found.busy_share == pytest.approx(0.5)  # the last look


def test_the_driver_is_closed_after_an_error_too() -> None:
    nvml = FakeNvml()
    with pytest.raises(ZeroDivisionError), gpu_meter("GPU-1", nvml):
        _ = 1 / 0
    assert nvml.opened == 0


@pytest.mark.parametrize("refused", ["init", "uuid"])
def test_without_a_driver_that_knows_the_gpu_there_is_nothing(refused: str) -> None:
    nvml = FakeNvml(refused=(refused,))
    with gpu_meter("GPU-1", nvml) as use:
        pass
    assert use() is None
    assert nvml.opened == 0


def test_the_cpu_is_not_watched() -> None:
    nvml = FakeNvml(refused=("init",))
    with gpu_meter(None, nvml) as use:
        pass
    assert use() is None
