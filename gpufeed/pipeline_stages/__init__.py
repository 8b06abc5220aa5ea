"""The stages of a custom pipeline: the host computes, the user's graph runs, the user's tail ends the batch.

On the CPU the images are decoded and finished before the graph, which takes them as arrays; on CUDA they are nodes of
the one graph. Both give the tail the same batches.
"""

from __future__ import annotations

from gpufeed.pipeline_stages.cpu import CpuPipelineStages
from gpufeed.pipeline_stages.device import DevicePipelineStages
from gpufeed.pipeline_stages.work import PipelineWork

__all__ = ["CpuPipelineStages", "DevicePipelineStages", "PipelineWork"]
