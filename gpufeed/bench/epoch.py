"""Timing one epoch of a loader and checking that it did all the work. Runs in the contender's process."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable

import torch

from gpufeed.bench.contenders import Batch
from gpufeed.bench.results import Epoch
from gpufeed.bench.usage import tree_cpu_s
from gpufeed.bench.workload import Workload
from gpufeed.errors import BenchmarkError

__all__ = ["check_epoch", "run_epoch"]


def run_epoch(loader: Iterable[Batch], workload: Workload, *, with_pixels: bool = False) -> Epoch:
    """Time one epoch from ``iter()`` to exhaustion, each batch waited for on the device.

    Args:
        loader: what a contender's context manager entered.
        workload: for its device.
        with_pixels: also compute the mean and standard deviation of all pixels, inside the timing; for epochs whose
            time isn't used.

    Raises:
        BenchmarkError: there was no batch, or batches differ in dtype, device or image shape.
    """
    device = torch.device(workload.device)
    wait = _waiter(device)
    sizes: list[int] = []
    targets: list[torch.Tensor] = []
    pixels = _Pixels() if with_pixels else None
    kinds: set[tuple[torch.dtype, torch.device, torch.Size]] = set()
    first_batch_s = 0.0
    gc.collect()  # not what an earlier epoch left behind
    cpu_before_s = tree_cpu_s(os.getpid())
    started_s = time.perf_counter()
    for images, batch_targets in iter(loader):
        wait()
        if not sizes:
            first_batch_s = time.perf_counter() - started_s
        sizes.append(len(images))
        kinds.add((images.dtype, images.device, images.shape[1:]))
        targets.append(batch_targets)
        if pixels is not None:
            pixels.add(images)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elapsed_s = time.perf_counter() - started_s
    cpu_s = tree_cpu_s(os.getpid()) - cpu_before_s
    if len(kinds) != 1:
        raise BenchmarkError(_describe(kinds))
    ((dtype, image_device, shape),) = kinds
    mean, std = pixels.mean_and_std() if pixels is not None else (None, None)
    return Epoch(
        elapsed_s=elapsed_s,
        first_batch_s=first_batch_s,
        cpu_s=cpu_s,
        num_samples=sum(sizes),
        num_batches=len(sizes),
        target_sum=sum(int(batch_targets.sum()) for batch_targets in targets),
        dtype=str(dtype).removeprefix("torch."),
        device=str(image_device),
        shape=tuple(shape),
        mean=mean,
        std=std,
    )


def _describe(kinds: set[tuple[torch.dtype, torch.device, torch.Size]]) -> str:
    if not kinds:
        return "gave no batch in an epoch"
    seen = ", ".join(sorted(f"{dtype} {tuple(shape)} on {device}" for dtype, device, shape in kinds))
    return f"gave batches of different kinds in one epoch: {seen}"


def check_epoch(epoch: Epoch, workload: Workload) -> None:
    """Refuse an epoch that is not exactly the workload's work.

    Raises:
        BenchmarkError: with what differs, to be read after the contender's name.
    """
    differences = [
        f"{what} must be {expected}, got {got}"
        for what, expected, got in (
            ("samples per epoch", len(workload), epoch.num_samples),
            ("batches per epoch", workload.num_batches, epoch.num_batches),
            ("the sum of targets", workload.target_sum, epoch.target_sum),
            ("dtype", workload.dtype, epoch.dtype),
            ("device", torch.device(workload.device), torch.device(epoch.device)),
        )
        if expected != got
    ]
    if differences:
        raise BenchmarkError(f"did unequal work: {'; '.join(differences)}")


def _waiter(device: torch.device) -> Callable[[], None]:
    if device.type != "cuda":
        return lambda: None
    # Only the caller's stream, on which a batch is handed over: waiting for the whole device would also wait for
    # batches that a loader is preparing ahead, and so forbid what is to be measured.
    return torch.cuda.current_stream(device).synchronize


class _Pixels:
    """Running sums over all values of all images."""

    def __init__(self) -> None:
        self._count = 0
        self._sum = 0.0
        self._sum_of_squares = 0.0

    def add(self, images: torch.Tensor) -> None:
        self._count += images.numel()
        values = images.float()  # float64 sums of float32 values: enough for a mean over 1e9 values
        self._sum += float(values.sum(dtype=torch.float64))
        self._sum_of_squares += float(values.square().sum(dtype=torch.float64))

    def mean_and_std(self) -> tuple[float, float]:
        mean = self._sum / self._count
        return mean, max(0.0, self._sum_of_squares / self._count - mean**2) ** 0.5
