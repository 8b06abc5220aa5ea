"""``gpufeed check``: a pipeline runs on the CPU, is described for a GPU, and is held to what it promises."""

from __future__ import annotations

from gpufeed.inspect.check.checking import (
    Request,
    check,
    pipelines_of,
)

__all__ = [
    "Request",
    "check",
    "pipelines_of",
]
