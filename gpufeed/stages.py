"""The four stages of a batch, and those on the host: DALI reads and decodes, a pool of threads runs the tail."""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, cast

import torch

from gpufeed.errors import GpufeedError
from gpufeed.feed import Images, Job
from gpufeed.graph.decoding import DecodedWindows, DecodeGraph
from gpufeed.graph.forking import forget_pipelines_in_children
from gpufeed.graph.reading import ReadGraph
from gpufeed.graph.windows import Region
from gpufeed.parameters import BatchParameters
from gpufeed.placement import Placement
from gpufeed.recovery import Prepared, drawn, find_bad_sample
from gpufeed.stats import StageClock, Timed
from gpufeed.tail import Tail
from gpufeed.tail.geometry import crop
from gpufeed.tensors import BatchMemory, from_numpy
from gpufeed.threads import Pool

__all__ = ["Countdown", "CpuStages", "GraphStages", "PlanStages", "chunks_of", "one_torch_thread"]

_MAX_CHUNK = 6
"""Samples that one worker finishes at a time: as many float32 pixels at 224 x 224 as a core's cache holds."""


@dataclass(slots=True, eq=False)
class _Started:
    """A job whose pixels are on their way."""

    job: Job
    prepared: Any
    given_at: float


class GraphStages(ABC):
    """What all stages have in common: reading, order, growth and recovery.

    Args:
        num_threads: threads of each of DALI's graphs.
        apply_exif: whether to apply the EXIF orientation.
    """

    dali_stage: ClassVar[str] = "decode"
    """What DALI's stage is called in a job's times."""

    def __init__(self, num_threads: int, apply_exif: bool) -> None:
        forget_pipelines_in_children()
        self._num_threads = num_threads
        self._apply_exif = apply_exif
        self._started: deque[_Started] = deque()
        self._max_batch_size = 0
        self._read: ReadGraph | None = None
        self._dali_clock = StageClock()

    @property
    def started(self) -> int:
        """Jobs started and not yet finished."""
        return len(self._started)

    def start(self, job: Job) -> None:
        """Read, draw, and set the graph going; returns before the pixels are there.

        Raises:
            SampleError: for a sample that can't be read, or that gpufeed refuses.
        """
        self._grow(len(job.indices))
        assert self._read is not None
        try:
            prepared = self._prepare(self._read, job)
            self._schedule(prepared)
        except GpufeedError:
            raise
        except BaseException as error:
            # Inputs may have been fed and not taken; a next batch must not meet them, so the graphs are made anew.
            self._read = None
            self._start_again(job, error)
            return
        self._started.append(_Started(job, prepared, time.perf_counter()))

    def finish(self) -> None:
        """Wait for the oldest job started and bring it to its end, at once or soon; never raises."""
        started = self._started.popleft()
        job = started.job
        try:
            try:
                result = self._result()
            except RuntimeError as error:
                if not job.cancelled:
                    self._start_again(job, error)
                return
            job.spent_s[self.dali_stage] = self._dali_clock.spent_s(started.given_at)
            if not job.cancelled:
                self._complete(job, result, started.prepared)
        except BaseException as error:  # handed to the iterating thread, which raises it
            job.fail(error)

    def close(self) -> None:
        """Release graphs and threads; no job is under way any more."""
        self._read = None
        self._drop_graph()

    def _grow(self, batch_size: int) -> None:
        """Make the graphs anew where a batch is larger than any before: DALI fixes the largest size when it builds."""
        if self._read is not None and batch_size <= self._max_batch_size:
            return
        while self._started:
            self.finish()
        size = max(self._max_batch_size, 1 << max(batch_size - 1, 0).bit_length())
        read = ReadGraph(size, self._num_threads, self._apply_exif)
        self._make_graph(size)
        self._read, self._max_batch_size = read, size

    def _start_again(self, job: Job, error: BaseException) -> None:
        """After a failure: name the bad sample, or, where none is bad this time, run the whole job once more."""
        if not isinstance(error, RuntimeError):  # DALI's are; others don't come from a sample's bytes
            raise error
        self._find_bad_sample(job)
        if job.retried:
            raise self._explained(error)
        job.retried = True
        self.start(job)

    def _explained(self, error: RuntimeError) -> Exception:
        """What a failure is to be raised as that no sample is to blame for."""
        return error

    @abstractmethod
    def _make_graph(self, max_batch_size: int) -> None: ...

    @abstractmethod
    def _drop_graph(self) -> None: ...

    @abstractmethod
    def _prepare(self, read: ReadGraph, job: Job) -> Any:
        """Stages 1 and 2: what the others take of the job."""

    @abstractmethod
    def _find_bad_sample(self, job: Job) -> None:
        """Raise a `SampleError` for the sample to blame, if one is."""

    @abstractmethod
    def _schedule(self, prepared: Any) -> None: ...

    @abstractmethod
    def _result(self) -> Any: ...

    @abstractmethod
    def _complete(self, job: Job, result: Any, prepared: Any) -> None: ...


class PlanStages(GraphStages):
    """Stages of a plan.

    Args:
        placement: of the plan on the device.
        num_threads: threads of each of DALI's graphs.
        apply_exif: whether to apply the EXIF orientation.
    """

    def __init__(self, placement: Placement, num_threads: int, apply_exif: bool) -> None:
        super().__init__(num_threads, apply_exif)
        self._placement = placement

    def _prepare(self, read: ReadGraph, job: Job) -> Prepared:
        with Timed(job.spent_s, "read"):
            encoded = read.read(job.source.read(job.indices))
        with Timed(job.spent_s, "draw"):
            return drawn(encoded, job.source, job.indices, job.draws, self._placement)

    def _find_bad_sample(self, job: Job) -> None:
        find_bad_sample(job.source, job.indices, job.draws, self._placement, self._apply_exif)


class CpuStages(PlanStages):
    """Stages on the host.

    Args:
        placement: of the plan on the CPU.
        num_threads: threads of each of DALI's graphs and of the pool; at any time about as many are busy.
        apply_exif: whether to apply the EXIF orientation.
        pin_memory: whether batches lie in page-locked memory.
        memory: where batches lie otherwise.
    """

    def __init__(
        self, placement: Placement, num_threads: int, apply_exif: bool, pin_memory: bool, memory: BatchMemory
    ) -> None:
        super().__init__(placement, num_threads, apply_exif)
        self._pin_memory = pin_memory
        self._memory = memory
        self._tail = Tail(placement)
        self._output = placement.output
        self._decode: DecodeGraph | None = None
        self._pool = Pool(num_threads, "gpufeed-tail", one_torch_thread)
        self._tail_clock = StageClock()

    def close(self) -> None:
        self._pool.close()
        super().close()

    def _make_graph(self, max_batch_size: int) -> None:
        self._decode = DecodeGraph(max_batch_size, self._num_threads, self._apply_exif)

    def _drop_graph(self) -> None:
        self._decode = None

    def _schedule(self, prepared: Prepared) -> None:
        assert self._decode is not None
        self._decode.schedule(prepared.encoded, prepared.region.windows)

    def _result(self) -> DecodedWindows:
        assert self._decode is not None
        return self._decode.result()

    def _complete(self, job: Job, result: DecodedWindows, prepared: Prepared) -> None:
        """Hand the decoded windows to the pool, in chunks; the last chunk completes the job."""
        parameters, region = prepared.parameters, prepared.region
        size_hw = parameters.uniform_size_hw
        output = self._output
        dtype = cast(torch.dtype, getattr(torch, output.dtype))
        out: Images
        one = () if output.tuple_of is None else (output.tuple_of,)
        if size_hw is None:
            out = [
                self._allocate((*one, output.channels, int(height), int(width)), dtype)
                for height, width in parameters.sizes_hw[-1]
            ]
        else:
            # the images of a tuple are collated apart: the first ones of all samples lie together, and so on
            out = self._allocate((*one, len(result), output.channels, *size_hw), dtype)
            out = out if output.tuple_of is None else out.transpose(0, 1)
        chunks = chunks_of(len(result), self._num_threads)
        countdown = Countdown(job, len(chunks), partial(self._end, job, out, time.perf_counter()))
        for rows in chunks:
            self._pool.submit(_finish_chunk, self._tail, out, result, parameters, region, rows, countdown)

    def _end(self, job: Job, out: Images, given_at: float) -> None:
        """With the last chunk, on its thread."""
        job.spent_s["tail"] = self._tail_clock.spent_s(given_at)
        job.complete(out)

    def _allocate(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        if self._pin_memory:
            return torch.empty(shape, dtype=dtype, pin_memory=True)
        return self._memory.take(shape, dtype)


def chunks_of(count: int, num_threads: int) -> list[range]:
    """The rows of a batch, in pieces that threads share well."""
    chunk = max(1, min(_MAX_CHUNK, math.ceil(count / (2 * num_threads))))
    return [range(start, min(start + chunk, count)) for start in range(0, count, chunk)]


@dataclass(slots=True, eq=False)
class Countdown:
    """Completes a job with its last chunk, or fails it with the first error.

    Attributes:
        job: whose chunks they are.
        left: how many are still to come.
        complete: called with the last one, on its thread.
    """

    job: Job
    left: int
    complete: Callable[[], None]
    lock: threading.Lock = field(default_factory=threading.Lock)

    def chunk_done(self, error: BaseException | None) -> None:
        with self.lock:
            self.left -= 1
            left = self.left
        if error is not None:
            self.job.fail(error)
        elif left == 0 and self.job.error is None:
            self.complete()


def _finish_chunk(
    tail: Tail,
    out: Images,
    windows: DecodedWindows,
    parameters: BatchParameters,
    region: Region,
    rows: range,
    countdown: Countdown,
) -> None:
    """Stage 4 of some rows of a batch, on a thread of the pool."""
    error: BaseException | None = None
    try:
        if not countdown.job.cancelled:
            images = [from_numpy(pixels).permute(2, 0, 1) for pixels in windows.pixels(rows)]
            for number, row in enumerate(rows):
                window = region.outer.get(row)
                if window is not None:
                    images[number] = crop(images[number][None], window)[0]
            if isinstance(out, list):
                for row, image in zip(rows, images, strict=True):
                    out[row].copy_(tail.run_one(image, parameters, row))
            else:
                tail.run_into(out[rows.start : rows.stop], images, parameters, rows.start)
    except BaseException as caught:  # handed to the iterating thread, which raises it
        error = caught
    countdown.chunk_done(error)


_torch_threads_lock = threading.Lock()


def one_torch_thread() -> None:
    """Make torch use one thread for what this thread asks of it; the pool is the parallelism.

    ``torch.set_num_threads`` sets the calling thread's OpenMP team, and the default of threads that haven't used torch
    yet. The default is set back from a thread that ends at once.
    """
    with _torch_threads_lock:
        default = torch.get_num_threads()
        torch.set_num_threads(1)
        restore = threading.Thread(target=torch.set_num_threads, args=(default,))
        restore.start()
        restore.join()
