"""The training step that batches feed: a torchvision model's, a person's own, or a given time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, cast

from gpufeed.bench.workload import Workload
from gpufeed.errors import ArgumentError
from gpufeed.pipelines import load_object, split_reference

__all__ = ["MODELS", "NO_STEP", "Step", "check_step", "given_time_s", "make_step", "time_step"]

NO_STEP = "none"
MODELS = ("resnet18", "resnet50", "vit_b_16")
"""torchvision's, by the names of their functions."""

_GIVEN_TIME = re.compile(r"(\d+(?:\.\d+)?)(ms|s)")
_LEARNING_RATE = 0.01  # small: weights must not become inf or nan, which some processors are slow at
_MOMENTUM = 0.9
_NUM_CLASSES = 1000  # as ImageNet's; more where the data have more
_MOST_TIMED, _LEAST_TIMED = 7, 3
_TIMING_S = 3.0  # no further step begins after this; a step of a CPU may take seconds


@dataclass(frozen=True, slots=True)
class Step:
    """A training step.

    Attributes:
        name: as it was asked for.
        what: it is in words.
        run: takes a batch as the loader gives it; may return before the device has done the work.
    """

    name: str
    what: str
    run: Callable[[Any], object]


def check_step(name: str) -> None:
    """Refuse what can't be a step, without importing torch or running a file.

    Raises:
        ArgumentError: it is neither ``none``, a model's name, a time, nor ``FILE.py:NAME`` of a file that is there.
    """
    if name in (NO_STEP, *MODELS) or given_time_s(name) is not None:
        return
    if ".py" not in name:
        raise ArgumentError(
            f"the step must be {NO_STEP}, {', '.join(MODELS)}, a time such as 25ms, or FILE.py:NAME, got {name!r}"
        )
    split_reference(name)


def given_time_s(name: str) -> float | None:
    """The time in ``25ms`` or ``0.5s``; ``None`` for another step. [Unit: second]

    Raises:
        ArgumentError: the time is 0.
    """
    match = _GIVEN_TIME.fullmatch(name)
    if match is None:
        return None
    seconds = float(match[1]) / (1000 if match[2] == "ms" else 1)
    if not seconds:
        raise ArgumentError(f"a step's time must be above 0, got {name}; leave it out to have none")
    return seconds


def make_step(name: str, workload: Workload, batch: Any) -> Step:
    """Make a step.

    A file's ``NAME`` is called once, as ``NAME(device, images, targets)`` with a batch that lies on the device, and
    returns the function that does one step, which is called as ``step(images, targets)``. Of a pipeline that gives
    other things, each takes what a loop over the loader would unpack.

    Args:
        name: see `check_step`; not ``none``.
        workload: for the device and the number of classes.
        batch: one of it.

    Raises:
        ArgumentError: the batch isn't what the model takes, or the file or what it names is wrong.
    """
    seconds = given_time_s(name)
    if seconds is not None:
        return _waiting(name, seconds, workload.device)
    if name in MODELS:
        return _model_step(name, workload, batch)
    return _own_step(name, workload.device, batch)


def _waiting(name: str, seconds: float, device: str) -> Step:
    if device == "cpu":
        return Step(name, f"a pause of {1000 * seconds:g} ms, in which the CPU is free", lambda _: time.sleep(seconds))
    return Step(name, f"{1000 * seconds:g} ms in which the GPU is occupied", _occupying(seconds, device))


def _occupying(seconds: float, device: str) -> Callable[[Any], object]:
    """Keep the current stream busy for a time, by a kernel that counts clock cycles."""
    import torch

    spin: Callable[[int], None] = cast(Any, torch.cuda)._sleep
    probe = 50_000_000  # cycles: some tens of milliseconds
    begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.device(device):
        for _ in range(2):  # the first also loads the kernel
            begun.record()
            spin(probe)
            ended.record()
            ended.synchronize()
    cycles = round(probe * seconds / (begun.elapsed_time(ended) / 1000))
    return lambda _: spin(cycles)


def _model_step(name: str, workload: Workload, batch: Any) -> Step:
    import torch
    from torchvision import models

    from gpufeed.bench.outputs import images_and_targets

    pair = images_and_targets(batch)
    if pair is None or pair[0].ndim != 4 or pair[0].shape[1] != 3 or pair[1].ndim != 1:
        raise ArgumentError(
            f"the step {name} takes images (B, 3, H, W) and targets (B,), and these batches hold something else; give "
            "--step FILE.py:NAME, or a time such as 25ms"
        )
    on_gpu = workload.device != "cpu"
    num_classes = max(_NUM_CLASSES, len(workload.classes), int(pair[1].max()) + 1)
    model: Any = getattr(models, name)(weights=None, num_classes=num_classes).to(workload.device).train()
    parameters = list(model.parameters())
    optimizer: Any = torch.optim.SGD(parameters, _LEARNING_RATE, momentum=_MOMENTUM)

    def run(batch: Any) -> None:
        images, targets = batch
        if not images.is_floating_point():
            images = images.float() / 255
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=on_gpu):
            loss: Any = torch.nn.functional.cross_entropy(model(images), targets.long())
        loss.backward()
        optimizer.step()

    precision = "bf16 on the GPU" if on_gpu else "float32 on the CPU, whose cores the loader uses too"
    return Step(name, f"a training step of torchvision's {name} with SGD, {precision}", _explained(name, run))


def _own_step(name: str, device: str, batch: Any) -> Step:
    import torch

    make: Any = load_object(name)
    if not callable(make):
        raise ArgumentError(f"{name} is of type {type(make).__name__}, not a function that makes a step")
    step: Any = _explained(name, make)(torch.device(device), *_unpacked(batch))
    if not callable(step):
        raise ArgumentError(
            f"{name} must return a step, a function of a batch's images and targets, got {type(step).__name__}; it is "
            "called once as NAME(device, images, targets), and what it returns for every batch"
        )
    run = _explained(name, step)
    return Step(name, f"{name}", lambda batch: run(*_unpacked(batch)))


def _unpacked(batch: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", batch) if isinstance(batch, (tuple, list)) else (batch,)


def _explained(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with the step's name before what it raises."""

    def explained(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            lines = str(error).splitlines() or [""]
            raise ArgumentError(f"the step {name} fails: {type(error).__name__}: {lines[0]}") from error

    return explained


def time_step(step: Step, batch: Any, wait: Callable[[], None]) -> float:
    """What the step takes for a batch that lies on the device: the median of a few, after one that isn't counted.

    Args:
        step: what is timed.
        batch: what it gets each time.
        wait: returns when the device has done what it was asked for.

    Returns:
        Seconds.
    """
    begun_s = time.perf_counter()
    step.run(batch)
    wait()
    times_s: list[float] = []
    while len(times_s) < _LEAST_TIMED or (len(times_s) < _MOST_TIMED and time.perf_counter() - begun_s < _TIMING_S):
        started_s = time.perf_counter()
        step.run(batch)
        wait()
        times_s.append(time.perf_counter() - started_s)
    return median(times_s)
