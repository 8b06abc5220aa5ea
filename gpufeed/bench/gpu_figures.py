"""What each contender made the GPU do, over its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpufeed.bench.results import Comparison, ContenderResult, GpuUse, Mode
from gpufeed.bench.statistics import median

__all__ = ["GpuSummary", "gpu_summaries"]


@dataclass(frozen=True, slots=True)
class GpuSummary:
    """What a contender made the GPU do, by NVML; what no round tells is ``None``.

    Attributes:
        name: the contender's.
        busy_share: of the time, median over the rounds, in [0, 1].
        jpeg_share: of the time in which the JPEG engines were busy, likewise.
        memory_bytes: the most over the rounds. [Unit: byte]
        pcie_received_bytes_per_s: from the host, median over the rounds. [Unit: byte/second]
    """

    name: str
    busy_share: float | None
    jpeg_share: float | None
    memory_bytes: int | None
    pcie_received_bytes_per_s: float | None


def gpu_summaries(comparison: Comparison, mode: Mode) -> tuple[GpuSummary, ...]:
    """A row for each loader with GPU figures in a mode, in the results' order; empty without a GPU."""
    found = [(result.name, _seen(result, mode)) for result in comparison.loaders]
    return tuple(_gpu_summary(name, seen) for name, seen in found if seen)


def _seen(result: ContenderResult, mode: Mode) -> list[tuple[GpuUse, float]]:
    epochs = [entry.epoch for entry in result.in_mode(mode)]
    return [(epoch.gpu, epoch.elapsed_s) for epoch in epochs if epoch.gpu is not None]


def _gpu_summary(name: str, seen: Sequence[tuple[GpuUse, float]]) -> GpuSummary:
    received = [gpu.pcie_received_bytes / elapsed_s for gpu, elapsed_s in seen if gpu.pcie_received_bytes is not None]
    return GpuSummary(
        name=name,
        busy_share=_median_of([gpu.busy_share for gpu, _ in seen]),
        jpeg_share=_median_of([gpu.jpeg_share for gpu, _ in seen]),
        memory_bytes=max((gpu.memory_bytes for gpu, _ in seen if gpu.memory_bytes is not None), default=None),
        pcie_received_bytes_per_s=_median_of(received),
    )


def _median_of(values: Sequence[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return median(told) if told else None
