"""DALI's modules as `Any`: their stubs leave out most operators and all constants."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["ONE_BATCH_A_RUN", "backend", "fn", "pipeline_def", "pipeline_of_dali", "types"]

backend: Any = importlib.import_module("nvidia.dali.backend")
fn: Any = importlib.import_module("nvidia.dali.fn")
types: Any = importlib.import_module("nvidia.dali.types")
pipeline_def: Any = importlib.import_module("nvidia.dali").pipeline_def
pipeline_of_dali: Any = importlib.import_module("nvidia.dali").Pipeline

ONE_BATCH_A_RUN: dict[str, Any] = {"prefetch_queue_depth": 1, "exec_dynamic": True}
"""Arguments of every pipeline: DALI prefetches nothing by itself, so that each ``schedule_run`` is one batch; and its
outputs stay valid as long as anybody holds them."""
