"""The four stages on the host: DALI reads and decodes in its threads, a pool of threads runs the tail."""

from __future__ import annotations

import math
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from gpufeed.errors import SampleError
from gpufeed.feed import Images, Job
from gpufeed.graph.decoding import DecodeGraph
from gpufeed.graph.reading import ReadGraph
from gpufeed.graph.windows import Region
from gpufeed.parameters import BatchParameters
from gpufeed.placement import Placement
from gpufeed.recovery import Prepared, prepare, reread
from gpufeed.tail import Tail
from gpufeed.tail.geometry import crop
from gpufeed.tensors import BatchMemory

__all__ = ["CpuStages"]

_MAX_CHUNK = 6
"""Samples that one worker finishes at a time: their float32 pixels at 224 x 224 are about as much as a core's cache holds."""


@dataclass(slots=True, eq=False)
class _Started:
    """A job whose pixels are being decoded."""

    job: Job
    prepared: Prepared


class CpuStages:
    """Stages on the host: DALI reads and decodes, a pool of threads runs the tail.

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
        self._placement = placement
        self._num_threads = num_threads
        self._apply_exif = apply_exif
        self._pin_memory = pin_memory
        self._memory = memory
        self._tail = Tail(placement)
        self._started: deque[_Started] = deque()
        self._max_batch_size = 0
        self._read: ReadGraph | None = None
        self._decode: DecodeGraph | None = None
        self._pool = ThreadPoolExecutor(num_threads, "gpufeed-tail", initializer=one_torch_thread)

    @property
    def started(self) -> int:
        return len(self._started)

    def start(self, job: Job) -> None:
        read, decode = self._graphs(len(job.indices))
        try:
            prepared = prepare(read, job.source, job.indices, job.draws, self._placement)
        except SampleError:
            raise
        except RuntimeError:
            self._recover(job)
            return
        decode.schedule(prepared.encoded, prepared.region.windows)
        self._started.append(_Started(job, prepared))

    def finish(self) -> None:
        assert self._decode is not None
        started = self._started.popleft()
        try:
            pixels = self._decode.result()
        except RuntimeError:
            if not started.job.cancelled:
                self._recover(started.job)
            return
        if not started.job.cancelled:
            self._finish(started.job, pixels, started.prepared)

    def close(self) -> None:
        self._pool.shutdown()
        self._read = self._decode = None

    def _graphs(self, batch_size: int) -> tuple[ReadGraph, DecodeGraph]:
        """The graphs, made anew where a batch is larger than any before: DALI fixes the largest size when it builds."""
        if batch_size > self._max_batch_size or self._read is None or self._decode is None:
            while self._started:
                self.finish()
            self._max_batch_size = 1 << max(batch_size - 1, 0).bit_length()
            self._read = ReadGraph(self._max_batch_size, self._num_threads, self._apply_exif)
            self._decode = DecodeGraph(self._max_batch_size, self._num_threads, self._apply_exif)
        return self._read, self._decode

    def _recover(self, job: Job) -> None:
        try:
            pixels, prepared = reread(job.source, job.indices, job.draws, self._placement, self._apply_exif)
        except BaseException as error:
            job.fail(error)
            return
        self._finish(job, pixels, prepared)

    def _finish(self, job: Job, pixels: list[NDArray[np.uint8]], prepared: Prepared) -> None:
        """Hand the decoded windows to the pool, in chunks; the last chunk completes the job."""
        parameters, region = prepared.parameters, prepared.region
        size_hw = parameters.uniform_size_hw
        output = self._placement.plan.output
        dtype = cast(torch.dtype, getattr(torch, output.dtype))
        out: Images
        if size_hw is None:
            out = [
                self._allocate((output.channels, int(height), int(width)), dtype)
                for height, width in parameters.sizes_hw[-1]
            ]
        else:
            out = self._allocate((len(pixels), output.channels, *size_hw), dtype)
        chunk = max(1, min(_MAX_CHUNK, math.ceil(len(pixels) / (2 * self._num_threads))))
        starts = range(0, len(pixels), chunk)
        countdown = _Countdown(job, out, len(starts))
        for start in starts:
            rows = slice(start, start + chunk)
            self._pool.submit(_finish_chunk, self._tail, out, pixels[rows], parameters, region, start, countdown)

    def _allocate(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        if self._pin_memory:
            return torch.empty(shape, dtype=dtype, pin_memory=True)
        return self._memory.take(shape, dtype)


@dataclass(slots=True, eq=False)
class _Countdown:
    """Completes a job with its last chunk, or fails it with the first error."""

    job: Job
    out: Images
    left: int
    lock: threading.Lock = field(default_factory=threading.Lock)

    def chunk_done(self, error: BaseException | None) -> None:
        with self.lock:
            self.left -= 1
            left = self.left
        if error is not None:
            self.job.fail(error)
        elif left == 0 and self.job.error is None:
            self.job.complete(self.out)


def _finish_chunk(
    tail: Tail,
    out: Images,
    pixels: list[NDArray[np.uint8]],
    parameters: BatchParameters,
    region: Region,
    first_row: int,
    countdown: _Countdown,
) -> None:
    """Stage 4 of some samples of a batch, on a thread of the pool."""
    error: BaseException | None = None
    try:
        if not countdown.job.cancelled:
            images = [torch.from_numpy(one).permute(2, 0, 1) for one in pixels]
            for number in range(len(images)):
                window = region.outer.get(first_row + number)
                if window is not None:
                    images[number] = crop(images[number][None], window)[0]
            if isinstance(out, list):
                for number, image in enumerate(images):
                    row = first_row + number
                    out[row].copy_(tail.run_one(image, parameters, row))
            else:
                tail.run_into(out[first_row : first_row + len(images)], images, parameters, first_row)
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
