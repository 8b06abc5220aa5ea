"""The stages of a pipeline on the host."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from gpufeed.feed import Job
from gpufeed.graph.decoding import DecodedWindows, DecodeGraph
from gpufeed.pipeline_stages.base import PipelineStages
from gpufeed.pipeline_stages.feeding import equal_shapes, feed
from gpufeed.pipeline_stages.host_batch import HostBatch
from gpufeed.pipeline_stages.work import PipelineWork
from gpufeed.recording import Recorded
from gpufeed.recording.mistakes import graph_errors
from gpufeed.stages import Countdown, chunks_of
from gpufeed.stats import StageClock
from gpufeed.tensors import BatchMemory, from_numpy

__all__ = ["CpuPipelineStages"]


class CpuPipelineStages(PipelineStages):
    """Stages on the host.

    Args:
        work: the pipeline.
        num_threads: threads of each of DALI's graphs and of each pool.
        pin_memory: whether batches lie in page-locked memory.
        memory: where batches lie otherwise.
    """

    def __init__(self, work: PipelineWork, num_threads: int, pin_memory: bool, memory: BatchMemory) -> None:
        super().__init__(work, num_threads)
        self._pin_memory = pin_memory
        self._memory = memory
        self._decode: DecodeGraph | None = None
        self._graph: _HostGraph | None = None
        self._clocks = {stage: StageClock() for stage in ("compute", "graph", "tail")}

    def _make_graph(self, max_batch_size: int) -> None:
        self._decode = DecodeGraph(max_batch_size, self._num_threads, self._apply_exif)
        self._graph = None
        if self._recorded.graph is not None:
            self._graph = _HostGraph(partial(self._recorded_again, max_batch_size), self._allocate)
        else:
            self._recorded_again(max_batch_size)  # refuses a function that describes something else each time

    def _drop_graph(self) -> None:
        self._decode = None
        self._graph = None

    def _schedule(self, prepared: HostBatch) -> None:
        assert self._decode is not None
        for slot, windows in prepared.windows.items():
            self._decode.schedule(prepared.encoded[slot], windows)

    def _result(self) -> dict[int, DecodedWindows]:
        assert self._decode is not None
        found: dict[int, DecodedWindows] = {}
        failed: RuntimeError | None = None
        for slot in self._host.decoded:  # all of them, or a next batch would get what is left
            try:
                found[slot] = self._decode.result()
            except RuntimeError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return found

    def _complete(self, job: Job, result: dict[int, DecodedWindows], prepared: HostBatch) -> None:
        prepared.allocate(self._allocate)
        chunks = chunks_of(len(prepared), self._num_threads)
        countdown = Countdown(job, len(chunks), partial(self._end, job, prepared, self._graph, time.perf_counter()))
        for rows in chunks:
            self._pool.submit(_compute_chunk, prepared, rows, result, countdown)

    def _end(self, job: Job, batch: HostBatch, graph: _HostGraph | None, given_at: float) -> None:
        """With the last chunk, on its thread: the user's graph and tail."""
        computed_at = self._clock(job, "compute", given_at)
        if job.cancelled:
            return
        outputs = [] if graph is None else graph.run(batch)
        graph_done_at = computed_at if graph is None else self._clock(job, "graph", computed_at)
        result = self._finished(batch, outputs, self._each_row)
        self._clock(job, "tail", graph_done_at)
        job.complete(result)

    def _clock(self, job: Job, stage: str, given_at: float) -> float:
        """Write down a stage's time; returns when it was done."""
        job.spent_s[stage] = self._clocks[stage].spent_s(given_at)
        return time.perf_counter()

    def _allocate(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        if self._pin_memory:
            return torch.empty(shape, dtype=dtype, pin_memory=True)
        return self._memory.take(shape, dtype)


def _compute_chunk(batch: HostBatch, rows: range, decoded: Mapping[int, DecodedWindows], countdown: Countdown) -> None:
    """Some rows of a batch, on a thread of the pool."""
    try:
        if not countdown.job.cancelled:
            batch.compute(rows, decoded)
        countdown.chunk_done(None)
    except BaseException as error:  # handed to the iterating thread, which raises it
        countdown.chunk_done(error)


class _HostGraph:
    """The user's graph on the host, run for one batch at a time.

    Args:
        make: records the graph; called again after a failure.
        allocate: memory for outputs.
    """

    def __init__(
        self, make: Callable[[], Recorded], allocate: Callable[[tuple[int, ...], torch.dtype], torch.Tensor]
    ) -> None:
        self._make = make
        self._allocate = allocate
        self._lock = threading.Lock()
        self._recorded: Recorded | None = self._built()

    def _built(self) -> Recorded:
        recorded = self._make()
        with graph_errors(recorded.pipeline.function):
            recorded.graph.build()
        return recorded

    def run(self, batch: HostBatch) -> list[Any]:
        """The outputs: a tensor each where all samples have one shape, else a list.

        Raises:
            PipelineError: where the graph fails, with the line of the user's.
        """
        with self._lock:
            recorded = self._recorded or self._built()
            self._recorded = None  # until it has worked: inputs may have been fed and not taken
            pipe = recorded.graph
            with graph_errors(recorded.pipeline.function):
                for name, value in recorded.inputs.items():
                    feed(pipe, name, value, batch)
                pipe.schedule_run()
                outputs = [self._taken(output, len(batch)) for output in pipe.outputs()]
            self._recorded = recorded
            return outputs

    def _taken(self, output: Any, count: int) -> Any:
        """In memory of torch's: DALI uses its own again. A graph without any input fills its largest batch."""
        if equal_shapes(output):
            array = np.asarray(output.as_tensor())[:count]
            out = self._allocate(array.shape, from_numpy(array[:0]).dtype)
            out.copy_(from_numpy(array))
            return out
        return [from_numpy(np.array(output[row])) for row in range(count)]
