"""Who can be measured: a table of names, and for each the factory that its own process calls.

A factory takes a :class:`~gpufeed.bench.workload.Workload` and returns a context manager. What it enters is an
iterable whose every ``iter()`` is one whole epoch of ``(images, targets)``, or of what a pipeline gives, on the
workload's device, started with empty queues. Entering may import and construct; what reads and decodes belongs to the
first ``iter()``, whose time to the first batch is measured. Leaving ends every thread and process. A factory raises
:class:`~gpufeed.errors.UnsupportedError` where it can't do exactly this workload; an optional contender is then left
out, and the sentence is shown.

To add a contender, write a factory and add it to ``CONTENDERS``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from gpufeed.bench.workload import Workload
from gpufeed.errors import ArgumentError
from gpufeed.pipelines import load_object

if TYPE_CHECKING:
    import torch

__all__ = ["BASELINE", "CONTENDERS", "Batch", "Contender", "Epochs", "Factory", "contenders_named", "default_names"]

Batch: TypeAlias = "tuple[torch.Tensor, torch.Tensor] | Any"
"""Of a pipeline, tensors and lists in any structure."""


class Epochs(Protocol):
    """What a factory's context manager enters: each ``iter()`` is one whole epoch."""

    def __iter__(self) -> Iterator[Batch]: ...


Factory: TypeAlias = Callable[[Workload], AbstractContextManager[Iterable[Batch]]]

BASELINE = "torch-tuned"
"""Ratios are taken to this contender."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A loader to measure.

    Attributes:
        name: what people call it.
        factory: where its factory is, ``"module:function"`` or ``"FILE.py:function"``; imported in its own process.
        summary: what it is, in a few words.
        default: whether it runs without being asked for.
        leave_out_rank: when the budget is short, contenders are left out from the lowest rank up; ``None`` is never
            left out.
        queued_batches: batches it has under way at once, whatever the number of threads.
        queued_batches_per_thread: and in addition for each thread or worker process.
    """

    name: str
    factory: str
    summary: str
    default: bool = True
    leave_out_rank: int | None = None
    queued_batches: int = 0
    queued_batches_per_thread: int = 0

    def batches_in_flight(self, num_threads: int) -> int:
        """How many batches it has under way at once, at least 1."""
        return max(1, self.queued_batches + self.queued_batches_per_thread * num_threads)

    def load_factory(self) -> Factory:
        """Import the factory, and with it whatever loader it uses."""
        module, _, name = self.factory.rpartition(":")
        found = load_object(self.factory) if module.endswith(".py") else getattr(importlib.import_module(module), name)
        return cast(Factory, found)


_HERE = "gpufeed.bench.contenders"

CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender(
            "torch-default",
            f"{_HERE}.torch_loaders:torch_default",
            "torch's DataLoader as it is without options: no workers, PIL images",
            leave_out_rank=0,
        ),
        Contender(
            "torch-tuned",
            f"{_HERE}.torch_loaders:torch_tuned",
            "torch's DataLoader with a persistent worker per thread, prefetch_factor 2, pinned where there is CUDA",
            queued_batches_per_thread=2,
        ),
        Contender(
            "torch-tensor",
            f"{_HERE}.torch_loaders:torch_tensor",
            "torch-tuned, but decoded to uint8 tensors by torchvision.io and transformed by transforms.v2 on tensors",
            leave_out_rank=1,
            queued_batches_per_thread=2,
        ),
        Contender(
            "gpufeed",
            f"{_HERE}.gpufeed_loader:gpufeed",
            "gpufeed.DataLoader",
            queued_batches=3,
        ),
        Contender(
            "dali-handwritten",
            f"{_HERE}.dali_handwritten:dali_handwritten",
            "a DALI graph for the training transform as DALI's own examples write it",
            default=False,
            leave_out_rank=2,
            queued_batches=2,
        ),
    )
}
"""Every contender by name, in the order in which tables show them."""


def default_names() -> tuple[str, ...]:
    """The names of the contenders that run without being asked for."""
    return tuple(contender.name for contender in CONTENDERS.values() if contender.default)


def contenders_named(names: Iterable[str]) -> tuple[Contender, ...]:
    """The contenders of these names, in the table's order.

    Raises:
        ArgumentError: a name is unknown or given twice, or there is none.
    """
    wanted = [name.strip() for name in names if name.strip()]
    known = ", ".join(CONTENDERS)
    if not wanted:
        raise ArgumentError(f"name at least one contender of {known}")
    for name in wanted:
        if name not in CONTENDERS:
            raise ArgumentError(f"there is no contender {name!r}; there are {known}")
        if wanted.count(name) > 1:
            raise ArgumentError(f"the contender {name!r} is named twice; name each once")
    return tuple(contender for contender in CONTENDERS.values() if contender.name in wanted)
