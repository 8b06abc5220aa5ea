"""One epoch: indices from torch's samplers, jobs to the feed, batches to the caller."""

from __future__ import annotations

import os
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch.utils.data import default_collate
from torchvision import tv_tensors

from gpufeed import sampling
from gpufeed.cpus import default_num_threads
from gpufeed.draws import Draws, epoch_key
from gpufeed.errors import ArgumentError, FeedTimeoutError, UnsupportedError
from gpufeed.feed import Feed, Images, Job, Stages
from gpufeed.placement import Placement, place
from gpufeed.plan import Plan
from gpufeed.sources import FolderSource
from gpufeed.stages import CpuStages
from gpufeed.tensors import BatchMemory, hand_over, to_device
from gpufeed.translate import translate

__all__ = ["EpochIterator", "Runtime", "parse_device"]

_DEFAULT_IN_FLIGHT = 2
"""Batches in flight where ``prefetch_factor`` isn't given."""


@dataclass(frozen=True, slots=True)
class _Setup:
    """What a feed is made for; a feed is used again for an equal setup."""

    placement: Placement
    device: torch.device
    num_threads: int
    apply_exif: bool
    pin_memory: bool
    decode: Any


class Runtime:
    """What a loader holds between epochs: its device, its idle feed, the memory of its batches.

    Made empty and pickled never; threads exist from the first epoch on.
    """

    def __init__(self) -> None:
        self.device: torch.device | None = None
        self.memory = BatchMemory()
        self.running: weakref.WeakSet[_Epoch] = weakref.WeakSet()
        self._idle: dict[_Setup, Feed] = {}
        self._finalizer = weakref.finalize(self, _close_all, self._idle)

    def take(self, setup: _Setup) -> Feed:
        """A feed for ``setup``, the idle one if it fits."""
        feed = self._idle.pop(setup, None)
        return feed if feed is not None and feed.alive else Feed(partial(_make_stages, setup, self.memory))

    def give_back(self, setup: _Setup, feed: Feed) -> None:
        """Keep a feed for the next epoch; one is kept, others are closed."""
        if self._idle or not self._finalizer.alive:
            feed.close(wait=False)
        else:
            self._idle[setup] = feed

    def close(self) -> None:
        """End running epochs and release threads, graphs and memory; waits for the batches in flight."""
        for epoch in list(self.running):
            epoch.end(keep_feed=False)
        _close_all(self._idle)
        self.memory = BatchMemory()


def _close_all(feeds: dict[_Setup, Feed]) -> None:
    while feeds:
        feeds.popitem()[1].close()


def _make_stages(setup: _Setup, memory: BatchMemory) -> Stages:
    if setup.device.type == "cuda":
        from gpufeed.device_stages import DeviceStages

        return DeviceStages(setup.placement, setup.device, setup.num_threads, setup.apply_exif, setup.decode)
    return CpuStages(setup.placement, setup.num_threads, setup.apply_exif, setup.pin_memory, memory)


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

    def end(self, keep_feed: bool = True) -> None:
        """Cancel what is in flight and give the feed back; doesn't wait, unless ``keep_feed`` is false."""
        if self.ended:
            return
        self.ended = True
        for job in self.jobs:
            job.cancelled = True
        self.jobs.clear()
        self.ahead.clear()
        if self.rewind is not None:
            self.rewind.rewind()
        if keep_feed:
            self.runtime.give_back(self.setup, self.feed)
        else:
            self.feed.close()


class EpochIterator:
    """What ``iter(loader)`` returns; it advances the sampler on the thread that iterates."""

    def __init__(self, loader: Any, runtime: Runtime) -> None:
        self._runtime = runtime
        self._base_seed: int | None = None
        self._finalizer: weakref.finalize[Any, EpochIterator] | None = None
        self._begin(loader)

    def restart(self, loader: Any) -> None:
        """Begin the next epoch with the same iterator (``persistent_workers``)."""
        self._end()
        self._begin(loader)

    def _begin(self, loader: Any) -> None:
        runtime = self._runtime
        source = FolderSource(loader.dataset)
        plan = _plan_of(source, loader.pipeline)
        if runtime.device is None:
            runtime.device = resolve_device(loader.__dict__["device"])
        device = runtime.device
        loader.decode.resolve(device.type)  # refuses a placement that the device can't do
        placement = place(plan, "cuda" if device.type == "cuda" else "cpu").require()
        setup = _Setup(
            placement,
            device,
            loader.num_threads or loader.num_workers or default_num_threads(),
            loader.apply_exif,
            _pins(loader, device),
            loader.decode,
        )
        self._length = len(source)
        self._source = source
        self._plan = plan
        self._device = device
        self._collates = loader._auto_collation
        self._collate_fn: Callable[[Any], Any] = loader.collate_fn
        self._timeout_s: float = loader.timeout
        self._in_flight: int = loader.prefetch_factor or _DEFAULT_IN_FLIGHT
        self._ahead: int = (loader.prefetch_factor or _DEFAULT_IN_FLIGHT) * max(1, loader.num_workers)
        index_sampler = loader._index_sampler
        epoch = loader._epochs.advance(loader._samplers())
        innermost = sampling.unwrap(index_sampler)[-1]
        if isinstance(innermost, sampling.SeededSampler):
            innermost.set_epoch(epoch)
        self._len = partial(len, index_sampler)
        self._indices: Iterator[Any] = iter(index_sampler)
        self._exhausted = False
        seed = loader.seed
        if seed is None:
            if self._base_seed is None:
                self._base_seed = int(torch.empty((), dtype=torch.int64).random_(generator=loader.generator).item())
            seed = self._base_seed
        self._occurrences, rank = sampling.occurrences_for(innermost, self._length, loader.dataset)
        self._key = epoch_key(seed, epoch, rank)
        rewinds = loader.num_workers == 0 and loader.generator is not None
        rewind = sampling.GeneratorRewind(loader.generator) if rewinds else None
        self._state = _Epoch(runtime, setup, runtime.take(setup), rewind)
        runtime.running.add(self._state)
        self._finalizer = weakref.finalize(self, self._state.end)
        if rewind is not None:
            rewind.note()
        for _ in range(self._ahead):
            self._draw_indices()
        self._submit()

    # Drawing ahead -------------------------------------------------------------------------------------------------

    def _draw_indices(self) -> None:
        """Ask the sampler for one more batch of indices; an error of its waits for its turn."""
        if self._exhausted:
            return
        state = self._state
        job = Job(self._source, (), Draws(self._key, _NO_INDICES, _NO_INDICES))
        try:
            batch = next(self._indices)
            job.indices = self._checked(sampling.as_index_batch(batch) if self._collates else [sampling.as_index(batch)])
            index = np.array(job.indices, dtype=np.int64)
            job.draws = Draws(self._key, index, self._occurrences(index))
        except StopIteration:
            self._exhausted = True
            if state.rewind is not None:
                state.rewind.note()
            return
        except Exception as error:  # raised by `__next__` when it is this batch's turn, as torch without workers would
            self._exhausted = True
            job.fail(error)
        if state.rewind is not None:
            state.rewind.note()
        state.ahead.append(job)

    def _checked(self, indices: list[int]) -> list[int]:
        length = self._length
        for position, index in enumerate(indices):
            if not 0 <= index < length:
                if not -length <= index < 0:
                    raise IndexError(f"index {index} is out of range for a dataset of {length} samples")
                indices[position] = index + length
        return indices

    def _submit(self) -> None:
        state = self._state
        while state.ahead and len(state.jobs) < self._in_flight:
            job = state.ahead.popleft()
            state.jobs.append(job)
            if job.error is None and job.indices:
                state.feed.submit(job)

    # Handing over --------------------------------------------------------------------------------------------------

    def __iter__(self) -> EpochIterator:
        return self

    def __len__(self) -> int:
        return self._len()

    def __next__(self) -> Any:
        state = self._state
        if state.ended or not state.jobs:
            self._end()
            raise StopIteration
        with torch.autograd.profiler.record_function("enumerate(DataLoader)#gpufeed.DataLoader.__next__"):
            try:
                job = state.jobs[0]
                if job.indices or job.error is not None:
                    self._wait(job)
                state.jobs.popleft()
                self._draw_indices()
                self._submit()
                if state.rewind is not None:
                    state.rewind.handed_over()
                return self._collate(job)
            except BaseException:
                self._end()
                raise

    def _wait(self, job: Job) -> None:
        if not job.done.wait(self._timeout_s or None):
            raise FeedTimeoutError(
                f"DataLoader timed out after {self._timeout_s} seconds; raise timeout=, or find out what holds up "
                f"{self._source.name_of(job.indices[0])}"
            )
        if job.error is not None:
            raise job.error

    def _collate(self, job: Job) -> Any:
        targets = self._source.fields(job.indices)["target"]
        images = job.images
        if images is not None:
            hand_over(images)
        if not self._collates:
            return to_device(self._collate_fn((self._one_sample(images, 0), targets[0])), self._device)
        if self._collate_fn is default_collate and images is not None:
            batch = images if isinstance(images, torch.Tensor) else torch.stack(images)
            return [batch, to_device(default_collate(targets), self._device)]
        samples = [(self._one_sample(images, row), target) for row, target in enumerate(targets)]
        return to_device(self._collate_fn(samples), self._device)

    def _one_sample(self, images: Images | None, row: int) -> torch.Tensor:
        assert images is not None
        image = images[row]
        return tv_tensors.Image(image) if self._plan.output.container == "tv_image" else image

    def _end(self) -> None:
        if self._finalizer is not None:
            self._finalizer()

    def __getstate__(self) -> Any:
        raise NotImplementedError("an iterator can't be pickled; pickle the loader and call iter() there")


_NO_INDICES = np.empty(0, dtype=np.int64)


def _plan_of(source: FolderSource, pipeline: object) -> Plan:
    """The one plan of all samples.

    Raises:
        ArgumentError: for a transform in both places, or in none.
        UnsupportedError: for transforms that can't be translated, that differ, or that don't end in a tensor.
    """
    transforms = [leaf.transform for leaf in source.leaves()]
    if pipeline is not None:
        if any(transform is not None for transform in transforms):
            raise ArgumentError(
                "a transform is given twice, as the dataset's transform and as pipeline=; leave one of them out"
            )
        transforms = [pipeline]
    plans: dict[Plan, object] = {}
    seen: list[object] = []
    for transform in transforms:
        if any(transform is other for other in seen):
            continue
        seen.append(transform)
        plans.setdefault(translate(transform).require() if transform is not None else Plan(()), transform)
    if len(plans) > 1:
        raise UnsupportedError(
            f"the datasets in {type(source.dataset).__name__} have {len(plans)} different transforms, and gpufeed runs one "
            "per loader; give them equal transforms, or make one loader for each"
        )
    plan = next(iter(plans), Plan(()))
    if plan.output.container == "pil":
        raise UnsupportedError(
            "the transform must end in a tensor, and this one ends in a PIL image, which can't be collated; "
            "append ToTensor(), or ToImage() and ToDtype(torch.float32, scale=True)"
        )
    return plan


# Devices -----------------------------------------------------------------------------------------------------------


def parse_device(device: object) -> torch.device | None:
    """What ``device=`` means: a CPU or CUDA device, or ``None`` for ``"auto"``. Touches no device.

    Raises:
        ArgumentError: for anything else.
    """
    if device == "auto":
        return None
    try:
        parsed = torch.device(cast(Any, device))
    except (RuntimeError, TypeError) as error:
        raise ArgumentError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got {device!r}") from error
    if parsed.type not in ("cpu", "cuda"):
        raise ArgumentError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got {device!r}: DALI runs on no other")
    return parsed


def resolve_device(device: object) -> torch.device:
    """The device of a loader, at its first ``iter()``.

    Raises:
        ArgumentError: for a CUDA device on a machine that has none, or not so many.
    """
    parsed = parse_device(device)
    if parsed is not None and parsed.type == "cpu":
        return parsed
    if not torch.cuda.is_available():
        if parsed is None:
            return torch.device("cpu")
        raise ArgumentError(f"device={device!r} needs a CUDA device, and torch finds none; use device='auto' or 'cpu'")
    index = parsed.index if parsed is not None else None
    if index is None:
        local_rank = os.environ.get("LOCAL_RANK", "")
        index = int(local_rank) if local_rank.isdecimal() else torch.cuda.current_device()
    if index >= torch.cuda.device_count():
        raise ArgumentError(f"device index must be below {torch.cuda.device_count()}, the CUDA devices there are, got {index}")
    return torch.device("cuda", index)


def _pins(loader: Any, device: torch.device) -> bool:
    """Whether batches are to lie in page-locked memory; warns where torch would."""
    if not loader.pin_memory:
        return False
    if loader.pin_memory_device:
        warnings.warn("pin_memory_device is deprecated and ignored; the current accelerator is used", stacklevel=4)
    if not torch.accelerator.is_available():
        warnings.warn("pin_memory=True has no effect: there is no accelerator to pin memory for", stacklevel=4)
        return False
    return device.type == "cpu"
