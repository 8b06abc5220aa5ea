"""What a GPU does while an epoch runs, by NVML in a thread: it reads the driver's counters and touches nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pynvml

from gpufeed.bench.results import GpuUse

__all__ = ["GpuMeter", "gpu_meter"]

_INTERVAL_S = 0.1  # NVML's own figures are over 1/6 s to 1 s; PCIe's take 20 ms each to measure
_KILO = 1000  # PCIe throughput is told in KB/s


class GpuMeter:
    """Reads a GPU now and then until it is stopped.

    Args:
        nvml: ``pynvml``, opened.
        handle: of the GPU.
        interval_s: between two looks. [Unit: second]
        clock: seconds that only grow.
    """

    def __init__(
        self,
        nvml: Any,
        handle: Any,
        interval_s: float = _INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nvml = nvml
        self._handle = handle
        self._interval_s = interval_s
        self._clock = clock
        self._busy: list[float] = []
        self._jpeg: list[float] = []
        self._received_per_s: list[float] = []
        self._memory_bytes: int | None = None
        self._started_s = clock()
        self._seconds = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpufeed-gpu-meter", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._started_s = self._clock()
        self._thread.start()

    def stop(self) -> None:
        """End, with a last look."""
        self._seconds = self._clock() - self._started_s
        self._stop.set()
        self._thread.join()
        self.look()

    def look(self) -> None:
        """Take one sample of each figure that this GPU tells."""
        nvml = self._nvml
        rates = self._ask("nvmlDeviceGetUtilizationRates")
        if rates is not None:
            self._busy.append(float(rates.gpu) / 100)
        jpeg = self._ask("nvmlDeviceGetJpgUtilization")
        if jpeg is not None:
            self._jpeg.append(float(jpeg[0]) / 100)
        received = self._ask("nvmlDeviceGetPcieThroughput", getattr(nvml, "NVML_PCIE_UTIL_RX_BYTES", 1))
        if received is not None:
            self._received_per_s.append(float(received) * _KILO)
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        if memory is not None:
            self._memory_bytes = max(int(memory.used), self._memory_bytes or 0)

    def use(self) -> GpuUse:
        """What was seen: shares are means over the looks; PCIe's bytes the mean rate times the seconds."""
        received_per_s = _mean(self._received_per_s)
        return GpuUse(
            busy_share=_mean(self._busy),
            jpeg_share=_mean(self._jpeg),
            memory_bytes=self._memory_bytes,
            pcie_received_bytes=None if received_per_s is None else round(received_per_s * self._seconds),
        )

    def _ask(self, question: str, *arguments: object) -> Any:
        ask = getattr(self._nvml, question, None)  # older versions of pynvml lack some
        if ask is None:
            return None
        try:
            return ask(self._handle, *arguments)
        except self._nvml.NVMLError:  # this GPU or this driver doesn't tell, as a MIG slice
            return None

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            self.look()


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


@contextmanager
def gpu_meter(uuid: str | None, nvml: Any = pynvml) -> Generator[Callable[[], GpuUse | None]]:
    """Watch a GPU while the context is open; what it gives tells afterwards what was seen.

    Args:
        uuid: NVML's name of the GPU, ``GPU-`` and hexadecimal digits; ``None`` for the CPU, which isn't watched.
        nvml: what is asked.

    Returns:
        A function that gives ``None`` where there is no GPU, or no driver that knows it.
    """
    handle = None if uuid is None else _opened(nvml, uuid)
    if handle is None:
        yield lambda: None
        return
    meter = GpuMeter(nvml, handle)
    meter.start()
    try:
        yield meter.use
    finally:
        meter.stop()
        nvml.nvmlShutdown()


def _opened(nvml: Any, uuid: str) -> Any:
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    try:
        return nvml.nvmlDeviceGetHandleByUUID(uuid)
    except nvml.NVMLError:
        nvml.nvmlShutdown()
        return None
