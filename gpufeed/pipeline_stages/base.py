"""What the stages of a pipeline have in common on both devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gpufeed.collation import PipelineResult
from gpufeed.feed import Job
from gpufeed.graph.reading import ReadGraph
from gpufeed.pipeline_stages.bad_samples import find_bad_sample
from gpufeed.pipeline_stages.host_batch import HostBatch, HostWork, draw_batch, read_batch
from gpufeed.pipeline_stages.outputs import as_list, collated, run_tail
from gpufeed.pipeline_stages.work import PipelineWork
from gpufeed.recording import HostLeaf, Recorded, check_same
from gpufeed.recording.batch_samples import BatchSamples, EachRow
from gpufeed.recording.values import HostValue
from gpufeed.stages import GraphStages, chunks_of, one_torch_thread
from gpufeed.stats import Timed
from gpufeed.tensors import map_tensors, to_device
from gpufeed.threads import Pool

__all__ = ["PipelineStages"]


class PipelineStages(GraphStages):
    """What both devices have in common: reading, computing on the host, the tail, and finding a bad sample."""

    def __init__(self, work: PipelineWork, num_threads: int) -> None:
        super().__init__(num_threads, work.apply_exif)
        self._work = work
        self._recorded = work.record()
        self._host = HostWork(self._recorded)
        self._pool = Pool(num_threads, "gpufeed-pipeline", one_torch_thread)
        self._tail_pool = Pool(num_threads, "gpufeed-tail", one_torch_thread) if self._has_tail else None

    @property
    def _has_tail(self) -> bool:
        return self._work.pipeline.has("tail")

    def close(self) -> None:
        self._pool.close()
        if self._tail_pool is not None:
            self._tail_pool.close()
        super().close()

    def _prepare(self, read: ReadGraph, job: Job) -> HostBatch:
        with Timed(job.spent_s, "read"):
            batch = read_batch(self._host, read, job.source, job.indices, job.draws)
        with Timed(job.spent_s, "draw"):
            draw_batch(batch)
        return batch

    def _find_bad_sample(self, job: Job) -> None:
        find_bad_sample(self._host, job.source, job.indices, job.draws, self._apply_exif)

    def _recorded_again(self, max_batch_size: int) -> Recorded:
        """The graph for batches of another size: DALI fixes the largest when it builds."""
        again = self._work.record(max_batch_size, self._num_threads)
        check_same(self._recorded, again)
        return again

    def _finished(self, batch: HostBatch, outputs: Sequence[Any], each_row: EachRow) -> PipelineResult:
        """The batch after the tail, from the graph's outputs and what the host computed."""
        device = self._work.device
        leaves: list[Any] = []
        handed_over: set[HostValue] = set()
        for leaf in self._recorded.leaves:
            if isinstance(leaf, HostLeaf):
                made = to_device(collated(batch.results[leaf.value], leaf), device)
                # a handle that is returned twice makes two outputs, each with memory of its own
                leaves.append(map_tensors(made, torch.clone) if leaf.value in handed_over else made)
                handed_over.add(leaf.value)
            else:
                leaves.append(as_list(outputs[leaf.position], leaf.ragged))
        result = PipelineResult(leaves, self._recorded.outputs)
        if not self._has_tail:
            return result
        samples = BatchSamples(batch.draws, self._recorded.next_number, device, each_row)
        return run_tail(self._work.pipeline, result, samples)

    def _each_row(self, function: Callable[[range], None], count: int) -> None:
        """Share rows among the tail's threads; waits for them."""
        assert self._tail_pool is not None
        self._tail_pool.share(function, chunks_of(count, self._num_threads))
