"""The stages of a pipeline on CUDA: one graph, and torch on a stream of the feed's."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import torch

from gpufeed.feed import Job
from gpufeed.graph.reading import ReadGraph
from gpufeed.pipeline_stages.base import PipelineStages
from gpufeed.pipeline_stages.feeding import device_inputs, equal_shapes, feed
from gpufeed.pipeline_stages.host_batch import HostBatch
from gpufeed.pipeline_stages.work import PipelineWork
from gpufeed.recording.batch_samples import in_turn
from gpufeed.recording.mistakes import failed_graph, graph_errors
from gpufeed.stages import chunks_of
from gpufeed.stats import Timed
from gpufeed.tensors import from_dali

__all__ = ["DevicePipelineStages"]


class DevicePipelineStages(PipelineStages):
    """Stages on a CUDA device: one graph, and a stream of its own for what torch does.

    Args:
        work: the pipeline; its device has an index.
        num_threads: CPU threads of each of DALI's graphs and of each pool.
    """

    dali_stage: ClassVar[str] = "graph"

    def __init__(self, work: PipelineWork, num_threads: int) -> None:
        super().__init__(work, num_threads)
        self._stream = torch.cuda.Stream(work.device)
        self._pipe: Any = None

    def _make_graph(self, max_batch_size: int) -> None:
        recorded = self._recorded_again(max_batch_size)
        self._pipe = recorded.graph
        if self._pipe is not None:
            with graph_errors(recorded.pipeline.function):
                self._pipe.build()

    def _explained(self, error: RuntimeError) -> Exception:
        return failed_graph(error, self._work.pipeline.function)

    def _drop_graph(self) -> None:
        self._pipe = None

    def _prepare(self, read: ReadGraph, job: Job) -> HostBatch:
        prepared = super()._prepare(read, job)
        with Timed(job.spent_s, "compute"):
            prepared.allocate(_plain_memory)
            self._pool.share(partial(prepared.compute, decoded={}), chunks_of(len(prepared), self._num_threads))
        return prepared

    def _schedule(self, prepared: HostBatch) -> None:
        if self._pipe is None:
            return
        for name, value in self._recorded.inputs.items():
            feed(self._pipe, name, value, prepared)
        for name, array in device_inputs(prepared).items():
            self._pipe.feed_input(name, array)
        self._pipe.schedule_run()

    def _result(self) -> Any:
        return [] if self._pipe is None else self._pipe.outputs()

    def _complete(self, job: Job, result: Any, prepared: HostBatch) -> None:
        try:
            with (
                Timed(job.spent_s, "tail"),
                torch.cuda.device(self._work.device),
                torch.cuda.stream(self._stream),
            ):
                outputs = [_cloned(output, len(prepared)) for output in result]
                made = self._finished(prepared, outputs, in_turn)
                self._stream.synchronize()  # only now may DALI use the memory of ``result`` again
        except BaseException as error:  # handed to the iterating thread, which raises it
            job.fail(error)
        else:
            job.complete(made)


def _plain_memory(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype)


def _cloned(output: Any, count: int) -> Any:
    """DALI's output on the device as tensors of the caller's own; on the current stream.

    A graph without any input fills its largest batch, of which ``count`` samples are wanted.
    """
    if equal_shapes(output):
        return from_dali(output.as_tensor())[:count].clone()
    return [from_dali(output[row]).clone() for row in range(count)]
