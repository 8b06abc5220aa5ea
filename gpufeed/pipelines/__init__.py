"""Pipelines: functions that describe what happens to a sample, and how people name them.

Nothing here imports torch or DALI: a pipeline module is recorded by `gpufeed.recording`, when a loader needs it.
"""

from __future__ import annotations

from gpufeed.pipelines.definition import Bound, Parameter, Pipeline, pipeline
from gpufeed.pipelines.loading import load_object, split_reference
from gpufeed.pipelines.naming import (
    NamedPipeline,
    is_pipeline_reference,
    load_pipeline,
    load_subject,
    named_pipelines,
    pipelines_named,
)

__all__ = [
    "Bound",
    "NamedPipeline",
    "Parameter",
    "Pipeline",
    "is_pipeline_reference",
    "load_object",
    "load_pipeline",
    "load_subject",
    "named_pipelines",
    "pipeline",
    "pipelines_named",
    "split_reference",
]
