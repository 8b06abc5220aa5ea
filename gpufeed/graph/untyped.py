"""DALI's modules as `Any`: their stubs leave out most operators and all constants."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["backend", "fn", "pipeline_def", "types"]

backend: Any = importlib.import_module("nvidia.dali.backend")
fn: Any = importlib.import_module("nvidia.dali.fn")
types: Any = importlib.import_module("nvidia.dali.types")
pipeline_def: Any = importlib.import_module("nvidia.dali").pipeline_def
