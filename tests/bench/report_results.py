"""A comparison with everything in it, for tests of the report: made up, but as one on two cores could be."""

from __future__ import annotations

import random
from dataclasses import replace

from constructed import BATCH, NUM_BATCHES, comparison

from gpufeed.bench.results import (
    Comparison,
    ContenderResult,
    Cost,
    Epoch,
    GpuUse,
    Kind,
    LeftOut,
    Measurement,
    Mode,
    StepUsed,
)

NUM_ROUNDS = 9
BATCH_SIZE = BATCH
STEP_S = 0.025
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\"'\u202e"
"""Ends scripts, opens elements and attributes, and turns the direction of text."""


def _epoch(rng: random.Random, images_per_s: float, mode: Mode) -> Epoch:
    batch_s = BATCH_SIZE / images_per_s
    usual_s = batch_s if mode == "loader" else max(0.001, batch_s - STEP_S)
    waits_s = (min(0.3, 20 * batch_s) + 4 * batch_s, *(usual_s * rng.uniform(0.5, 1.5) for _ in range(NUM_BATCHES - 1)))
    step_s = 0.0 if mode == "loader" else NUM_BATCHES * STEP_S
    return Epoch(
        elapsed_s=sum(waits_s) + step_s + 0.0001,
        first_batch_s=waits_s[0],
        cpu_s=3.1,
        num_samples=NUM_BATCHES * BATCH_SIZE,
        num_batches=NUM_BATCHES,
        target_sum=0,
        dtype="float32",
        device="cpu",
        shape=(3, 224, 224),
        waits_s=waits_s,
        step_s=step_s,
    )


def result(
    name: str,
    images_per_s: float,
    kind: Kind = "loader",
    *,
    peak_pss_bytes: int | None = 900_000_000,
    num_rounds: int = NUM_ROUNDS,
    modes: tuple[Mode, ...] = ("loader", "step"),
    summary: str = "",
) -> ContenderResult:
    """A contender whose rounds scatter around a rate by a few percent."""
    rng = random.Random(name)
    measurements = tuple(
        Measurement(index, place, _epoch(rng, images_per_s * rng.gauss(1, 0.02), mode), mode)
        for index in range(num_rounds)
        for place, mode in enumerate(modes)
    )
    return ContenderResult(
        name=name,
        first_batch_s=0.2 + 250 / images_per_s,
        warm_up=_epoch(rng, images_per_s, "loader"),
        peak_pss_bytes=peak_pss_bytes,
        measurements=measurements,
        kind=kind,
        summary=summary,
    )


def _bound(name: str, images_per_s: float, summary: str) -> ContenderResult:
    return result(name, images_per_s, "bound", num_rounds=3, modes=("loader",), summary=summary)


COMPARISON = comparison(
    result("torch-default", 262, peak_pss_bytes=612_000_000, summary="DataLoader as it comes, without workers"),
    result("torch-tuned", 540, peak_pss_bytes=1_304_000_000, summary="DataLoader with a worker for each thread"),
    result("torch-tensor", 610, peak_pss_bytes=1_204_000_000, summary="torch-tuned with tensors instead of Pillow"),
    result("gpufeed", 1150, peak_pss_bytes=890_000_000, summary="gpufeed.DataLoader"),
    result("study/loaders/a_long_name.py:make_loader", 590, peak_pss_bytes=None),
    result("torch-tuned again", 543, "copy", summary="a second process of torch-tuned"),
    _bound("storage", 21_000, "reads the bytes of the files, and nothing else"),
    _bound("decode", 820, "decodes whole images"),
    _bound("region-decode", 1330, "decodes the regions that are needed"),
    _bound("cached", 48_000, "replays 20 of gpufeed's batches"),
    _bound("synthetic", 1_900_000, "hands over one tensor again and again"),
    data="512 made images that resemble ImageNet's",
    root="/home/somebody/.cache/gpufeed/images",
    transform_text=(
        "Compose(\n    RandomResizedCrop(size=(224, 224), scale=(0.08, 1.0))\n    RandomHorizontalFlip(p=0.5)\n"
        "    PILToTensor()\n    Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])\n)"
    ),
    elapsed_s=84.2,
    left_out=(LeftOut("torch-stateful", "torchdata is not installed"),),
    environment={
        "gpufeed": "0.1.0",
        "packages": {"torch": "2.14.0", "torchvision": "0.29.0"},
        "python": "3.11.2",
        "cpu": "AMD EPYC 7B13",
        "logical_cpus": 2,
        "usable_cpus": 2,
        "memory_bytes": 25_769_803_776,
        "gpus": [],
        "load_average_at_start": [0.51, 0.26, 0.13],
    },
    step=StepUsed("25ms", "a sleep of 25 ms", STEP_S),
    costs={
        "read": 0.00009,
        "decode": 0.0021,
        "RandomResizedCrop(size=(224, 224), scale=(0.08, 1.0))": 0.0011,
        "RandomHorizontalFlip(p=0.5)": 0.00004,
        "PILToTensor()": 0.00006,
        "Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])": 0.00031,
    },
    cache="The files were in the page cache: each was read before.",
)


def without_step(comparison: Comparison) -> Comparison:
    """The same without the step's rounds."""
    contenders = tuple(
        replace(result, measurements=result.in_mode("loader"), kind=result.kind) for result in comparison.contenders
    )
    return replace(comparison, contenders=contenders, step=None)


def hostile() -> Comparison:
    """A comparison whose every string tries to break out of the page."""
    contenders = tuple(
        replace(result, name=f"{result.name}{HOSTILE}", summary=HOSTILE) for result in COMPARISON.contenders
    )
    return replace(
        COMPARISON,
        data=HOSTILE,
        root=f"/{HOSTILE}",
        transform=HOSTILE,
        transform_text=HOSTILE,
        device_name=HOSTILE,
        baseline=f"torch-tuned{HOSTILE}",
        contenders=contenders,
        left_out=(LeftOut(HOSTILE, HOSTILE),),
        environment={HOSTILE: HOSTILE, "packages": {HOSTILE: HOSTILE}},
        parameters=(HOSTILE,),
        torch_side=HOSTILE,
        checked=HOSTILE,
        step=StepUsed(HOSTILE, HOSTILE, STEP_S),
        costs=(Cost("read", 0.0001), Cost("decode", 0.002), Cost(HOSTILE, 0.001)),
        cache=HOSTILE,
    )


def on_gpu() -> Comparison:
    """A comparison with what NVML tells."""

    def with_gpu(found: ContenderResult) -> ContenderResult:
        use = GpuUse(busy_share=0.62, jpeg_share=0.31, memory_bytes=2_100_000_000, pcie_received_bytes=800_000_000)
        measurements = tuple(replace(entry, epoch=replace(entry.epoch, gpu=use)) for entry in found.measurements)
        return replace(found, measurements=measurements)

    contenders = tuple(with_gpu(found) for found in COMPARISON.contenders)
    return replace(COMPARISON, device="cuda:0", device_name="NVIDIA H200", contenders=contenders)
