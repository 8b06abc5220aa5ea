"""Sections about the machine, and about what was compared on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element

from gpufeed.bench.gpu_figures import gpu_summaries
from gpufeed.bench.report.charts import Bar, bar_chart
from gpufeed.bench.report.elements import element
from gpufeed.bench.report.figures import num_rounds
from gpufeed.bench.report.quantities import megabytes, percent, seconds, tick_megabytes, tick_number
from gpufeed.bench.report.sections import MODES, WHERE, heading, style_of
from gpufeed.bench.report.tables import facts, table
from gpufeed.bench.results import Comparison
from gpufeed.bench.statistics import summarize

__all__ = ["compared", "environment", "gpu", "processor"]

_ENVIRONMENT_WORDS = {
    "cpu": "CPU",
    "gpus": "GPUs",
    "logical_cpus": "logical CPUs",
    "usable_cpus": "usable CPUs",
    "memory_bytes": "memory",
    "load_average_at_start": "load at start",
    "python": "Python",
    "cuda": "CUDA of torch",
}


def processor(comparison: Comparison) -> Iterator[Element]:
    """CPU cores, CPU time and memory of every loader."""
    rows = [row for row in summarize(comparison) if row.kind == "loader"]
    if not rows:
        return
    yield from heading("CPU and memory", "Of the loader's whole process tree on the host, worker processes included.")
    cores = [Bar(row.name, row.cpu_cores, f"{row.cpu_cores:.2f} cores", style_of(row.name, comparison)) for row in rows]
    yield element("h3", "CPU cores kept busy")
    yield element("figure", bar_chart("chart-cpu", "CPU cores kept busy, loader alone", cores, tick_number))
    memory = [
        Bar(row.name, row.peak_pss_bytes, megabytes(row.peak_pss_bytes), style_of(row.name, comparison))
        for row in rows
        if row.peak_pss_bytes is not None
    ]
    if memory:
        yield element("h3", "Peak memory")
        yield element("figure", bar_chart("chart-memory", "Peak memory (PSS)", memory, tick_megabytes))
    cells = [
        (row.name, f"{row.cpu_cores:.2f}", seconds(row.cpu_s_per_image), megabytes(row.peak_pss_bytes)) for row in rows
    ]
    yield table("CPU time and memory, loader alone", ("contender", "CPU cores", "CPU per image", "peak memory"), cells)


def gpu(comparison: Comparison) -> Iterator[Element]:
    """What NVML told of the GPU; nothing without one."""
    for mode in MODES:
        summaries = gpu_summaries(comparison, mode)
        if not summaries:
            continue
        where = WHERE[mode]
        yield from heading(f"GPU, {where}")
        cells = [
            (
                gpu.name,
                "n/a" if gpu.busy_share is None else percent(gpu.busy_share),
                "n/a" if gpu.jpeg_share is None else percent(gpu.jpeg_share),
                megabytes(gpu.memory_bytes),
                "n/a" if gpu.pcie_received_bytes_per_s is None else f"{megabytes(gpu.pcie_received_bytes_per_s)}/s",
            )
            for gpu in summaries
        ]
        head = ("contender", "busy", "JPEG engines", "memory", "received over PCIe")
        yield table(f"What the GPU did, {where}, by NVML", head, cells)


def compared(comparison: Comparison) -> Iterator[Element]:
    """Data, transform, batch and everything else that was the same for all."""
    repeated = comparison.samples_per_round > comparison.num_files
    files = f" of {comparison.num_files:,} files" if repeated else ""
    step = comparison.step
    rounds = num_rounds(comparison, "loader")
    yield from heading("What was compared")
    yield facts(
        {
            "data": comparison.data,
            "folder": comparison.root if comparison.root != comparison.data else "",
            "each round": f"{comparison.samples_per_round:,} images{files}",
            "rounds": f"{rounds}, interleaved in rotating order after a warm-up",
            "transform": " ".join((comparison.transform, *comparison.parameters)),
            "in full": element("pre", comparison.transform_text) if comparison.transform_text else None,
            "torch's side": comparison.torch_side,
            "checked": comparison.checked or "every epoch, for complete work",
            "batch": f"{comparison.batch_size} images, {comparison.dtype}",
            "threads": comparison.num_threads,
            "device": comparison.device_name or comparison.device,
            "step": "" if step is None else f"{step.name}: {step.what}, {seconds(step.s_per_batch)} per batch",
            "page cache": comparison.cache,
            "seed": comparison.seed,
            "time": f"{comparison.elapsed_s:.0f} of {comparison.budget_s:.0f} s",
        }
    )
    summaries = {result.name: result.summary for result in comparison.contenders if result.kind != "bound"}
    if any(summaries.values()):
        yield element("h3", "Who they are")
        yield facts(summaries)


def environment(environment: dict[str, Any]) -> Iterator[Element]:
    """Versions and the machine; nothing where they are unknown."""
    if not environment:
        return
    entries: dict[str, object] = {}
    for name, value in environment.items():
        words: object = value
        if name == "memory_bytes" and isinstance(value, (int, float)):
            words = megabytes(value)
        elif name == "load_average_at_start" and isinstance(value, list):
            words = ", ".join(f"{load:.1f}" for load in value)  # pyright: ignore[reportUnknownVariableType]
        elif isinstance(value, list) and not value:
            words = "none"
        entries[_ENVIRONMENT_WORDS.get(name, name.replace("_", " "))] = words
    yield from heading("Environment")
    yield facts(entries)
