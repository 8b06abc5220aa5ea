"""Who can be measured: a table of names, and for each the factory that its own process calls.

A factory takes a :class:`~gpufeed.bench.workload.Workload` and returns a context manager. What it enters is an
iterable whose every ``iter()`` is one whole epoch of ``(images, targets)``, or of what a pipeline gives, on the
workload's device, started with empty queues. Entering may import and construct; what reads and decodes belongs to the
first ``iter()``, whose time to the first batch is measured. Leaving ends every thread and process. A factory raises
:class:`~gpufeed.errors.UnsupportedError` where it can't do exactly this workload; an optional contender is then left
out, and the sentence is shown.

A bound's factory enters an iterable of the same kind, whose batches may also be plain numbers of samples: what was
read or decoded and thrown away. To add a contender, write a factory and add it to ``CONTENDERS``; to measure one
without adding it, name its file as `custom_contender` takes it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from gpufeed.bench.results import Kind
from gpufeed.bench.workload import Workload
from gpufeed.config import Config
from gpufeed.errors import ArgumentError, GpufeedError
from gpufeed.pipelines import load_object, split_reference

if TYPE_CHECKING:
    import torch

__all__ = [
    "ASKED_RANK",
    "BASELINE",
    "BOUNDS",
    "CONTENDERS",
    "Batch",
    "Contender",
    "Epochs",
    "Factory",
    "asked",
    "configured",
    "contenders_named",
    "copy_of",
    "custom_contender",
    "default_names",
]

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
        kind: a loader, the baseline's copy, or a bound.
        every: it runs in the first of this many rounds: 1 for each round.
        feeds_step: whether it also runs with a training step, where one is asked for.
        options: keyword arguments of the factory besides the workload, by name.
    """

    name: str
    factory: str
    summary: str
    default: bool = True
    leave_out_rank: int | None = None
    queued_batches: int = 0
    queued_batches_per_thread: int = 0
    kind: Kind = "loader"
    every: int = 1
    feeds_step: bool = True
    options: tuple[tuple[str, Any], ...] = ()

    def runs_in(self, round_index: int) -> bool:
        """Whether it is measured in this round, counted from 0."""
        return round_index % self.every == 0

    def batches_in_flight(self, num_threads: int) -> int:
        """How many batches it has under way at once, at least 1."""
        return max(1, self.queued_batches + self.queued_batches_per_thread * num_threads)

    def load_factory(self) -> Factory:
        """Import the factory, and with it whatever loader it uses."""
        module, _, name = self.factory.rpartition(":")
        options = dict(self.options)
        if module.endswith(".py"):
            found = cast(Any, load_object(self.factory))
            return _entered(self.factory, partial(found, **options) if options else found)
        return cast(Factory, partial(getattr(importlib.import_module(module), name), **options))


def _entered(reference: str, factory: Any) -> Factory:
    """A person's factory; where it returns a loader that isn't a context manager, that is what is entered."""
    if not callable(factory):
        raise ArgumentError(
            f"{reference} is of type {type(factory).__name__}, not a function that takes a workload and gives a loader"
        )
    make: Callable[[Workload], Any] = factory

    @contextmanager
    def entered(workload: Workload) -> Generator[Iterable[Batch]]:
        try:
            made = make(workload)
        except GpufeedError:
            raise
        except Exception as error:
            raise ArgumentError(
                f"{reference} fails: {type(error).__name__}: {error}; it is called once with a workload and returns a "
                "loader, as gpufeed compare --help shows"
            ) from error
        if not hasattr(made, "__enter__"):
            yield _checked(reference, made)
            return
        with made as loader:
            yield _checked(reference, loader)

    return entered


def _checked(reference: str, loader: Any) -> Any:
    if not hasattr(loader, "__iter__"):
        raise ArgumentError(
            f"{reference} gave {type(loader).__name__}, which can't be iterated over; return a loader whose every "
            "iter() is one epoch of batches"
        )
    return loader


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
            "torch-prefetch",
            f"{_HERE}.torch_loaders:torch_prefetch",
            "torch-tuned, and a thread that keeps 5 batches on the device, by gpufeed.PrefetchLoader",
            default=False,
            leave_out_rank=2,
            queued_batches=5,
            queued_batches_per_thread=2,
        ),
        Contender(
            "torch-stateful",
            f"{_HERE}.torch_loaders:torch_stateful",
            "torch-tuned, with torchdata's StatefulDataLoader in place of torch's",
            default=False,
            leave_out_rank=2,
            queued_batches_per_thread=2,
        ),
        Contender(
            "torch-cuda-decode",
            f"{_HERE}.torch_gpu:torch_cuda_decode",
            "workers read bytes; torchvision's CUDA decoder and transforms.v2 do the rest on the GPU",
            default=False,
            leave_out_rank=2,
            queued_batches_per_thread=2,
        ),
        Contender(
            "torch-uint8",
            f"{_HERE}.torch_gpu:torch_uint8",
            "torch-tuned, but uint8 crosses the bus, and the GPU casts and normalises",
            default=False,
            leave_out_rank=2,
            queued_batches_per_thread=2,
        ),
        Contender(
            "spdl",
            f"{_HERE}.spdl_loader:spdl",
            "an SPDL pipeline that runs the same dataset in threads",
            default=False,
            leave_out_rank=2,
            queued_batches=4,
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
        Contender(
            "dali-proxy",
            f"{_HERE}.dali_proxy:dali_proxy",
            "torch's DataLoader whose workers hand paths to a DALI graph on the GPU, by DALI's proxy",
            default=False,
            leave_out_rank=2,
            queued_batches_per_thread=2,
        ),
    )
}
"""Every contender by name, in the order in which tables show them."""

_BOUND_EVERY = 3  # rounds: a bound is steadier than what it bounds, and is there for shares, not for ratios
_LAST_TO_GO = 9  # nothing else tells what holds a loader back; those that cost next to nothing go after the others


_CHEAP = ("storage", "cached", "synthetic")


def _bound(name: str, factory: str, summary: str, queued_batches: int = 0, feeds_step: bool = False) -> Contender:
    return Contender(
        name,
        f"{_HERE}.bounds:{factory}",
        summary,
        leave_out_rank=_LAST_TO_GO + (name in _CHEAP),
        queued_batches=queued_batches,
        kind="bound",
        every=_BOUND_EVERY,
        feeds_step=feeds_step,
    )


BOUNDS = (
    _bound("storage", "storage", "the files' bytes are read, and nothing else", queued_batches=2),
    _bound("decode", "decode", "whole images are read and decoded by DALI, and nothing else", queued_batches=2),
    _bound("region-decode", "region_decode", "only the windows that the transform's crop keeps are decoded", 2),
    _bound("cached", "cached", "a few real batches on the device, over and over", feeds_step=True),
    _bound("synthetic", "synthetic", "one tensor on the device, over and over", feeds_step=True),
)
"""What no loader can exceed, from the disk to the device. They share one process."""

ASKED_RANK = 20
"""From this ``leave_out_rank`` on a contender was asked for by name: a budget that is too short for it is refused, not
measured without it. It is still left out where it can't do the workload or isn't installed."""


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


def asked(contender: Contender) -> Contender:
    """The contender as somebody asked for it by name: it isn't left out for lack of time."""
    rank = contender.leave_out_rank
    return contender if rank is None else replace(contender, leave_out_rank=max(rank, ASKED_RANK))


def custom_contender(reference: str) -> Contender:
    """The contender of a person's own file, named as its factory is; the file isn't run.

    Args:
        reference: ``FILE.py:NAME``. ``NAME`` takes a `Workload` and returns an iterable whose every ``iter()`` is one
            whole epoch of batches as the workload describes them, or a context manager that enters one.

    Raises:
        ArgumentError: the form is wrong, the file is missing, or a contender of gpufeed's own has this name.
    """
    _, name = split_reference(reference)
    if name in CONTENDERS:
        raise ArgumentError(f"the contender {reference} has the name of one of gpufeed's own; give it another")
    return Contender(
        name,
        reference,
        f"{name} of {reference.rpartition(':')[0]}",
        default=False,
        leave_out_rank=ASKED_RANK,
        queued_batches_per_thread=2,  # as torch's own: what a file does can't be known
    )


def configured(contender: Contender, config: Config) -> Contender:
    """``torch-tuned`` and ``gpufeed`` with the settings of a file that ``gpufeed tune`` wrote; others as they are."""
    settings = {BASELINE: config.torch, "gpufeed": config.gpufeed}.get(contender.name)
    if settings is None:
        return contender
    return replace(
        contender,
        summary=f"{contender.summary}; as tuned: {settings}",
        options=(("settings", settings),),
        queued_batches=settings.batches_in_flight + 1,
        queued_batches_per_thread=0,
    )


def copy_of(contender: Contender) -> Contender:
    """The contender once more, in a process of its own: how much two runs of one thing differ is the machine's noise.

    It is the first to be left out where the budget is short.
    """
    return replace(
        contender,
        name=f"{contender.name} again",
        summary=f"{contender.name} once more, to show this machine's noise",
        kind="copy",
        leave_out_rank=-1,
        feeds_step=False,
    )
