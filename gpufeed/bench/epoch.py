"""Timing one epoch of a loader and checking that it did all the work. Runs in the contender's process."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import torch

from gpufeed.bench.contenders import Batch
from gpufeed.bench.nvml import gpu_meter
from gpufeed.bench.others import BusyCpus
from gpufeed.bench.outputs import image_of, images_and_targets, num_samples, outputs_of
from gpufeed.bench.results import Epoch
from gpufeed.bench.usage import tree_cpu_s
from gpufeed.bench.workload import Workload
from gpufeed.errors import BenchmarkError

__all__ = ["check_epoch", "run_epoch", "waiter"]


def run_epoch(
    loader: Iterable[Batch],
    workload: Workload,
    *,
    with_pixels: bool = False,
    step: Callable[[Batch], object] | None = None,
    is_bound: bool = False,
) -> Epoch:
    """Time one epoch from ``iter()`` to exhaustion, each batch waited for on the device.

    Args:
        loader: what a contender's context manager entered.
        workload: for its device.
        with_pixels: also compute the mean and standard deviation of all pixels, inside the timing; for epochs whose
            time isn't used.
        step: what each batch feeds; the device is waited for after it too, and its time is part of the epoch's.
        is_bound: whether batches may be numbers of samples, and needn't be alike.

    Raises:
        BenchmarkError: there was no batch, or batches differ in dtype, device or image shape.
    """
    device = torch.device(workload.device)
    wait = waiter(device)
    sizes: list[int] = []
    targets: list[torch.Tensor] = []
    pixels = _Pixels() if with_pixels else None
    kinds: set[_Kind] = set()
    outputs: tuple[str, ...] = ()
    is_pair = workload.is_pipeline
    first_batch_s = 0.0
    step_s = 0.0
    gc.collect()  # not what an earlier epoch left behind
    cpus, cpu_before_s = BusyCpus(), tree_cpu_s(os.getpid())
    waits_s: list[float] = []
    with gpu_meter(_uuid(device)) as gpu_use:
        started_s = asked_s = time.perf_counter()
        for batch in iter(loader):
            wait()
            arrived_s = time.perf_counter()
            waits_s.append(arrived_s - asked_s)
            if not sizes:
                first_batch_s = arrived_s - started_s
            images = None
            if is_bound:
                count = batch if isinstance(batch, int) else num_samples(batch, workload.size_of(len(sizes)))
            elif workload.is_pipeline:
                count = num_samples(batch, workload.size_of(len(sizes)))
                images = image_of(batch, count)
                outputs = outputs or outputs_of(batch, count)
                is_pair = is_pair and images_and_targets(batch) is not None
            else:
                images, batch_targets = _pair(batch)
                count = len(images)
                targets.append(batch_targets)
            sizes.append(count)
            if images is not None:
                kinds.add((images.dtype, images.device, images.shape[1:]))
            if pixels is not None and images is not None:
                pixels.add(images)
            if step is not None:
                begun_s = time.perf_counter()
                step(batch)
                wait()
                step_s += time.perf_counter() - begun_s
            asked_s = time.perf_counter()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        elapsed_s = time.perf_counter() - started_s
        cpu_s = tree_cpu_s(os.getpid()) - cpu_before_s
        taken_cpu_s = cpus.taken_s(cpu_s, elapsed_s)
    dtype, image_device, shape = ("", workload.device, ()) if is_bound else _one_kind(kinds, sizes, workload)
    mean, std = pixels.mean_and_std() if pixels is not None else (None, None)
    return Epoch(
        elapsed_s=elapsed_s,
        first_batch_s=first_batch_s,
        cpu_s=cpu_s,
        num_samples=sum(sizes),
        num_batches=len(sizes),
        target_sum=sum(int(batch_targets.sum()) for batch_targets in targets),
        dtype=dtype,
        device=image_device,
        shape=shape,
        mean=mean,
        std=std,
        outputs=outputs,
        is_pair=is_pair,
        waits_s=tuple(waits_s),
        step_s=step_s,
        gpu=gpu_use(),
        taken_cpu_s=taken_cpu_s,
    )


def _uuid(device: torch.device) -> str | None:
    """A GPU's name as NVML knows it; ``None`` for the CPU."""
    if device.type != "cuda":
        return None
    uuid = str(cast(Any, torch.cuda).get_device_properties(device).uuid)
    return uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"


def _pair(batch: object) -> tuple[torch.Tensor, torch.Tensor]:
    pair = images_and_targets(batch)
    if pair is None:
        parts = cast("Sequence[object]", batch) if isinstance(batch, (tuple, list)) else None
        held = type(cast(Any, batch)).__name__
        inside = "" if parts is None else f" of {', '.join(type(part).__name__ for part in parts)}"
        raise BenchmarkError(
            f"gave a batch that is a {held}{inside}; each must be a pair of tensors, images and targets"
        )
    return pair


_Kind = tuple[torch.dtype, torch.device, torch.Size]


def _one_kind(kinds: set[_Kind], sizes: list[int], workload: Workload) -> tuple[str, str, tuple[int, ...]]:
    """What the images of an epoch are: dtype, device and shape; of a pipeline they may have none, or several shapes."""
    if workload.is_pipeline and sizes and not kinds:
        return "", workload.device, ()
    if workload.is_pipeline and len({kind[:2] for kind in kinds}) == 1:
        dtype, device, _ = next(iter(kinds))
        shapes = {tuple(shape) for _, _, shape in kinds}
        return str(dtype).removeprefix("torch."), str(device), shapes.pop() if len(shapes) == 1 else ()
    if len(kinds) != 1:
        raise BenchmarkError(_describe(kinds))
    ((dtype, device, shape),) = kinds
    return str(dtype).removeprefix("torch."), str(device), tuple(shape)


def _describe(kinds: set[_Kind]) -> str:
    if not kinds:
        return "gave no batch in an epoch"
    seen = ", ".join(sorted(f"{dtype} {tuple(shape)} on {device}" for dtype, device, shape in kinds))
    return f"gave batches of different kinds in one epoch: {seen}"


def check_epoch(epoch: Epoch, workload: Workload, *, is_bound: bool = False) -> None:
    """Refuse an epoch that is not exactly the workload's work; of a bound only its extent is known.

    Raises:
        BenchmarkError: with what differs, to be read after the contender's name.
    """
    targets = 0 if workload.is_pipeline or is_bound else workload.target_sum
    dtype = epoch.dtype if is_bound else workload.dtype or epoch.dtype
    differences = [
        f"{what} must be {expected}, got {got}"
        for what, expected, got in (
            ("samples per epoch", len(workload), epoch.num_samples),
            ("batches per epoch", workload.num_batches, epoch.num_batches),
            ("the sum of targets", targets, epoch.target_sum),
            ("dtype", dtype, epoch.dtype),
            ("device", torch.device(workload.device), torch.device(epoch.device)),
        )
        if expected != got
    ]
    if differences:
        raise BenchmarkError(f"did unequal work: {'; '.join(differences)}")


def waiter(device: torch.device) -> Callable[[], None]:
    """What returns when the device has done what its current stream was asked for; at once on the CPU."""
    if device.type != "cuda":
        return lambda: None
    # Only the caller's stream, on which a batch is handed over: waiting for the whole device would also wait for
    # batches that a loader is preparing ahead, and so forbid what is to be measured.
    return torch.cuda.current_stream(device).synchronize


class _Pixels:
    """Running sums over all values of all images.

    In one buffer of an image's size: temporary tensors of whole batches, freed between a loader's own allocations, have
    made the heap grow by more than a gigabyte, which was then taken for the loader's memory.
    """

    def __init__(self) -> None:
        self._count = 0
        self._sum = 0.0
        self._sum_of_squares = 0.0
        self._buffer = torch.empty(0, dtype=torch.float64)

    def add(self, images: torch.Tensor) -> None:
        self._count += images.numel()
        for image in images:
            if len(self._buffer) < image.numel() or self._buffer.device != image.device:
                self._buffer = torch.empty(image.numel(), dtype=torch.float64, device=image.device)
            values = self._buffer[: image.numel()]
            values.view(image.shape).copy_(image)
            self._sum += float(values.sum())
            self._sum_of_squares += float(values.dot(values))

    def mean_and_std(self) -> tuple[float, float]:
        if not self._count:  # a pipeline without a tensor of images
            return 0.0, 0.0
        mean = self._sum / self._count
        return mean, max(0.0, self._sum_of_squares / self._count - mean**2) ** 0.5
