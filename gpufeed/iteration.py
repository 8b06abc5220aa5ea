"""One epoch: indices from torch's samplers, jobs to the feed, batches to the caller."""

from __future__ import annotations

import math
import operator
import time
import warnings
import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from gpufeed import sampling
from gpufeed.collation import Collation, PipelineCollation, PlanCollation
from gpufeed.cpus import default_num_threads
from gpufeed.devices import resolve_device
from gpufeed.draws import Draws, epoch_key
from gpufeed.errors import ArgumentError, FeedTimeoutError, UnsupportedError
from gpufeed.feed import Feed, Job, Stages
from gpufeed.pipeline_stages import CpuPipelineStages, DevicePipelineStages, PipelineWork
from gpufeed.pipelines import Pipeline
from gpufeed.placement import Placement, place
from gpufeed.plan import Plan
from gpufeed.sources.base import Source
from gpufeed.sources.folders import FolderSource, pinned, resolved, source_of
from gpufeed.stages import CpuStages
from gpufeed.stats import EpochRecord, Timed
from gpufeed.tensors import BatchMemory
from gpufeed.threads import at_work
from gpufeed.translation import translate

__all__ = ["EpochIterator", "Runtime"]

_DEFAULT_IN_FLIGHT = 2
"""Batches in flight where ``prefetch_factor`` isn't given."""

_SIGNALS_EVERY_S = 0.5
"""How long a wait for a batch lasts at once. Python doesn't notice a signal that arrives just before it begins to wait:
without an end to the wait a Ctrl-C could be lost."""


@dataclass(frozen=True, slots=True)
class _Setup:
    """What a feed is made for; a feed is used again for an equal setup."""

    work: Placement | PipelineWork
    device: torch.device
    num_threads: int
    apply_exif: bool
    pin_memory: bool
    decode: Any


class Runtime:
    """What a loader holds between epochs: its device, its idle feed, the memory of its batches.

    Made empty, and pickled as if it were; threads exist from the first epoch on, and end when this is collected.
    """

    def __init__(self) -> None:
        self.device: torch.device | None = None
        self.record = EpochRecord()
        self._memory = BatchMemory()
        self._running: weakref.WeakValueDictionary[int, _Epoch] = weakref.WeakValueDictionary()
        self._idle: dict[_Setup, Feed] = {}
        self._checked: set[PipelineWork] = set()

    def __reduce__(self) -> tuple[type[Runtime], tuple[()]]:
        return Runtime, ()

    def check(self, work: PipelineWork) -> None:
        """Call a pipeline's function here, where its mistakes can be seen; once for each pipeline.

        Raises:
            PipelineError: for a mistake of the function's.
        """
        if work not in self._checked:
            work.record()
            self._checked = {work}

    def begin(self, setup: _Setup, rewind: sampling.GeneratorRewind | None) -> _Epoch:
        """A new epoch, with the idle feed if that fits."""
        feed = self._idle.pop(setup, None)
        if feed is None or not feed.alive:
            feed = Feed(partial(_make_stages, setup, self._memory))
        epoch = _Epoch(self, setup, feed, rewind)
        self._running[id(epoch)] = epoch
        return epoch

    def give_back(self, setup: _Setup, feed: Feed) -> None:
        """Keep a feed for the next epoch: one, the latest; others are closed. May be called from any thread."""
        if feed.alive and self._idle.setdefault(setup, feed) is not feed:
            feed.close(wait=False)
        for other in list(self._idle):
            stale = self._idle.pop(other, None) if other != setup else None
            if stale is not None:
                stale.close(wait=False)

    def close(self) -> None:
        """End running epochs and release threads, graphs and memory; waits for the batches in flight."""
        feeds = list(self._idle.values())
        for reference in self._running.valuerefs():
            epoch = reference()
            if epoch is not None:
                feeds.append(epoch.feed)
                epoch.end(keep_feed=False)
        self._idle.clear()
        for feed in feeds:
            feed.close(wait=False)
        for feed in feeds:
            feed.close()
        self._memory = BatchMemory()


def _make_stages(setup: _Setup, memory: BatchMemory) -> Stages:
    if isinstance(setup.work, PipelineWork):
        if setup.device.type == "cuda":
            return DevicePipelineStages(setup.work, setup.num_threads)
        return CpuPipelineStages(setup.work, setup.num_threads, setup.pin_memory, memory)
    if setup.device.type == "cuda":
        from gpufeed.device_stages import DeviceStages

        return DeviceStages(setup.work, setup.device, setup.num_threads, setup.apply_exif, setup.decode)
    return CpuStages(setup.work, setup.num_threads, setup.apply_exif, setup.pin_memory, memory)


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Epoch:
    """The state of one epoch, apart from the iterator so that it can be ended when the iterator is collected."""

    runtime: Runtime
    setup: _Setup
    feed: Feed
    rewind: sampling.GeneratorRewind | None
    ahead: deque[Job] = field(default_factory=deque[Job])
    jobs: deque[Job] = field(default_factory=deque[Job])
    ended: bool = False
    ends: Iterator[int] = field(default_factory=count)

    def end(self, keep_feed: bool = True) -> None:
        """Cancel what is in flight and give the feed back, or leave it; never waits. May be called from any thread."""
        if next(self.ends):  # a single step of the interpreter: one caller gets 0
            return
        self.ended = True
        if self.feed.foreign:  # a forked child has no part in it
            return
        jobs, self.jobs, self.ahead = self.jobs, deque(), deque()
        for job in list(jobs):  # the one that another thread may be waiting for is still among them
            job.cancel()
        if self.rewind is not None:
            self.rewind.rewind()
        if keep_feed:
            self.runtime.give_back(self.setup, self.feed)


class EpochIterator:
    """What ``iter(loader)`` returns; it advances the sampler on the thread that iterates."""

    def __init__(self, loader: Any, runtime: Runtime) -> None:
        self._runtime = runtime
        self._base_seed: int | None = None
        self._finalizer: weakref.finalize[Any, EpochIterator] | None = None
        self._exhausted: bool | None = None
        self._begin(loader)

    def restart(self, loader: Any) -> None:
        """Begin the next epoch with the same iterator (``persistent_workers``)."""
        self._end()
        self._begin(loader)

    def _begin(self, loader: Any) -> None:
        record = EpochRecord()
        with at_work():
            self._set_up(loader)
        record.begun()
        self._record = self._runtime.record = record

    def _set_up(self, loader: Any) -> None:
        runtime = self._runtime
        source = source_of(loader.dataset)
        described = _described(source, loader.loaded_pipeline())
        if runtime.device is None:
            runtime.device = resolve_device(loader.__dict__["device"])
        device = runtime.device
        loader.decode.resolve(device.type)  # refuses a placement that the device can't do
        work = _work_of(described, source, device, loader)
        if isinstance(work, PipelineWork):
            runtime.check(work)
        setup = _Setup(
            work,
            device,
            loader.num_threads or loader.num_workers or default_num_threads(),
            loader.apply_exif,
            _pins(loader, device),
            loader.decode,
        )
        torch.get_num_threads()  # settles this thread's own number: the pool's threads change the default for a moment
        self._length = len(source)
        self._source = source
        self._draws_others = isinstance(work, PipelineWork)
        self._collates: bool = loader._auto_collation
        self._collation: Collation = (
            PipelineCollation(device, self._collates, loader.collate_fn)
            if isinstance(work, PipelineWork)
            else PlanCollation(work.output, device, self._collates, loader.collate_fn)
        )
        self._timeout_s: float = loader.timeout
        self._in_flight: int = loader.prefetch_factor or _DEFAULT_IN_FLIGHT
        self._ahead: int = self._in_flight * max(1, loader.num_workers)
        epoch = loader._epochs.advance(loader._samplers())
        self._exhausted = None  # nothing is drawn yet
        self._key = self._begin_order(loader, epoch)
        self._state = runtime.begin(setup, self._make_rewind(loader))
        self._finalizer = weakref.finalize(self, self._state.end)
        self._finalizer.atexit = False  # the feed's thread is ended by then
        if loader.num_workers > 0:
            self._draw_ahead()

    def _begin_order(self, loader: Any, epoch: int) -> tuple[int, int]:
        """Touch the sampler and the generator as torch's loader does in ``iter()``; returns the key of the draws."""
        index_sampler = loader._index_sampler
        self._len = partial(len, index_sampler)
        self._indices: Iterator[Any] = iter(index_sampler)
        seed = loader.seed
        if seed is None:
            if self._base_seed is None:
                base_seed = torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
                self._base_seed = int(base_seed.item())
                if loader.num_workers > 0:
                    self._indices = iter(index_sampler)  # torch does it again when its workers are up
            seed = self._base_seed
        innermost = sampling.unwrap(index_sampler)[-1]
        self._epoch_of_order = (innermost, epoch) if isinstance(innermost, sampling.SeededSampler) else None
        given = bool(loader._given_samplers)
        self._occurrences, rank = sampling.occurrences_for(innermost, self._length, loader.dataset, given)
        return epoch_key(int(seed), epoch, rank)

    def _make_rewind(self, loader: Any) -> sampling.GeneratorRewind | None:
        """What undoes drawing ahead where torch wouldn't have: without workers, for the generators that were given."""
        generators = sampling.given_generators(loader.generator, sampling.unwrap(loader._index_sampler))
        return sampling.GeneratorRewind(generators) if generators and loader.num_workers == 0 else None

    # Drawing ahead -------------------------------------------------------------------------------------------------

    def _draw_ahead(self) -> None:
        """Draw the first indices: in ``iter()`` where torch has workers, else with the first batch asked for."""
        if self._epoch_of_order is not None:  # only now, since another iterator may have used the sampler meanwhile
            sampler, epoch = self._epoch_of_order
            sampler.set_epoch(epoch)
        self._note()
        self._exhausted = False
        for _ in range(self._ahead):
            if self._exhausted:
                break
            self._draw_indices()
        self._submit()

    def _draw_indices(self) -> None:
        """Ask the sampler for one more batch of indices; an error waits for its turn."""
        if self._exhausted:
            return
        job = Job(self._source, (), _NO_DRAWS)
        try:
            batch = next(self._indices)
        except StopIteration:
            self._exhausted = True
            self._note()
            return
        except Exception as error:  # raised by `__next__` when it is this batch's turn
            self._exhausted = True
            in_sampler = error.__traceback__ and error.__traceback__.tb_next
            job.fail(error.with_traceback(in_sampler))  # our own frame would keep the iterator alive
        else:
            self._set_indices(job, batch)
        self._note()
        self._state.ahead.append(job)

    def _set_indices(self, job: Job, batch: object) -> None:
        try:
            indices = sampling.as_index_batch(batch) if self._collates else [operator.index(cast(Any, batch))]
            job.indices, array = self._resolved(indices)
            # a pipeline may draw other samples, so that it needs the whole source
            job.source = self._source if self._draws_others else pinned(self._source, job.indices)
            job.draws = Draws(self._key, array, self._occurrences(array))
        except Exception as error:  # raised by `__next__` when it is this batch's turn
            job.indices = ()
            job.fail(error.with_traceback(None))  # its frames are ours, and would keep the iterator alive

    def _resolved(self, indices: list[int]) -> tuple[list[int], NDArray[np.int64]]:
        """The indices, counted from the beginning; errors as the dataset would raise them."""
        try:
            array = np.array(indices, dtype=np.int64)
            if not indices or (array.min() >= 0 and array.max() < self._length):
                return indices, array
        except OverflowError:  # out of range in any case
            pass
        indices = [resolved(self._source, index) for index in indices]
        return indices, np.array(indices, dtype=np.int64)

    def _note(self) -> None:
        if self._state.rewind is not None:
            self._state.rewind.note()

    def _submit(self) -> None:
        state = self._state
        while state.ahead and len(state.jobs) < self._in_flight:
            job = state.ahead.popleft()
            state.jobs.append(job)
            if job.error is None and job.indices:
                state.feed.submit(job)
            else:
                job.done.set()

    # Handing over --------------------------------------------------------------------------------------------------

    def __iter__(self) -> EpochIterator:
        return self

    def __len__(self) -> int:
        return self._len()

    def __next__(self) -> Any:
        state = self._state
        if state.ended:
            raise StopIteration
        asked_at = time.perf_counter()
        with at_work(), torch.autograd.profiler.record_function("enumerate(DataLoader)#gpufeed.DataLoader.__next__"):
            try:
                if self._exhausted is None:
                    self._draw_ahead()
                if state.rewind is not None:
                    state.rewind.asked()
                jobs = state.jobs
                done = [job.done.is_set() for job in jobs]
                if not jobs or not self._arrived(jobs[0]):
                    raise StopIteration
                job = jobs.popleft()
                self._draw_indices()
                _raise_error_of(job)
                self._submit()
                with Timed(job.spent_s, "collate"):
                    batch = self._collation(job)
            except BaseException:
                self._end()
                self._record.end(asked_at)
                raise
            self._record.handed_over(asked_at, job.spent_s, len(done), sum(done), done[0], len(job.indices))
            return batch

    def _arrived(self, job: Job) -> bool:
        """Wait for a batch; false if the loader was closed meanwhile."""
        feed = self._state.feed
        if feed.foreign:
            raise UnsupportedError(
                "this iterator was made before the process was forked, and its threads are in the parent; "
                "call iter(loader) in this process"
            )
        if not feed.alive and not job.done.is_set():
            return False
        deadline = time.monotonic() + self._timeout_s if self._timeout_s else math.inf
        while not job.done.wait(max(0.0, min(_SIGNALS_EVERY_S, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                raise FeedTimeoutError(
                    f"DataLoader timed out after {self._timeout_s} seconds; raise timeout=, or find out what holds up "
                    f"{job.source.name_of(job.indices[0])}"
                )
        return not job.cancelled

    def _end(self) -> None:
        if self._finalizer is not None:
            self._finalizer()

    def __getstate__(self) -> Any:
        raise NotImplementedError("an iterator can't be pickled; pickle the loader and call iter() there")


def _raise_error_of(job: Job) -> None:
    error, job.error = job.error, None
    if error is not None:
        try:
            raise error
        finally:
            del error  # or the error, its traceback and this frame would keep each other alive


_NO_DRAWS = Draws((0, 0), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def _described(source: Source, pipeline: object) -> Plan | Pipeline:
    """What is done with the samples: the one plan of all of them, or a pipeline.

    Raises:
        ArgumentError: for a transform in both places, or in none.
        UnsupportedError: for transforms that can't be translated, that differ, or that don't end in a tensor.
    """
    transforms = list(source.transforms()) if isinstance(source, FolderSource) else [None]
    if pipeline is not None:
        if any(transform is not None for transform in transforms):
            raise ArgumentError(
                "a transform is given twice, as the dataset's transform and as pipeline=; leave one of them out"
            )
        if isinstance(pipeline, Pipeline):
            return pipeline
        transforms = [pipeline]
    plans: dict[Plan, object] = {}
    seen: list[object] = []
    for transform in transforms:
        if any(transform is other for other in seen):
            continue
        seen.append(transform)
        plans.setdefault(translate(transform).require() if transform is not None else Plan(()), transform)
    if len(plans) > 1:
        dataset = source.dataset if isinstance(source, FolderSource) else source
        raise UnsupportedError(
            f"the datasets in {type(dataset).__name__} have {len(plans)} different transforms, and gpufeed runs "
            "one per loader; give them equal transforms, or make one loader for each"
        )
    plan = next(iter(plans), Plan(()))
    if plan.output.container == "pil":
        raise UnsupportedError(
            "the transform must end in a tensor, and this one ends in a PIL image, which can't be collated; "
            "append ToTensor(), or ToImage() and ToDtype(torch.float32, scale=True)"
        )
    return plan


def _work_of(described: Plan | Pipeline, source: Source, device: torch.device, loader: Any) -> Placement | PipelineWork:
    """What the stages are made for."""
    if isinstance(described, Plan):
        return place(described, "cuda" if device.type == "cuda" else "cpu").require(strict=loader.strict)
    if loader.strict:
        raise UnsupportedError(
            f"strict=True judges torchvision's transforms, and the pipeline {described.name} runs operators that have "
            "no bound of their own; leave strict out, and hold it to its reference by `gpufeed verify`"
        )
    example = {name: held[0] for name, held in source.fields([0]).items()} if len(source) else None
    return PipelineWork(described, device, example, loader.decode, loader.apply_exif)


def _pins(loader: Any, device: torch.device) -> bool:
    """Whether batches are to lie in page-locked memory; warns where torch would, in its words: people filter them."""
    if not loader.pin_memory:
        return False
    if loader.pin_memory_device:
        warnings.warn(
            "pin_memory_device is deprecated, the current accelerator will be used as the device,"
            f"ignore pin_memory_device='{loader.pin_memory_device}'.",
            stacklevel=6,
        )
    if not torch.accelerator.is_available():
        warnings.warn(
            "'pin_memory' argument is set as true but no accelerator is found, "
            "then device pinned memory won't be used.",
            stacklevel=6,
        )
        return False
    return device.type == "cpu"
