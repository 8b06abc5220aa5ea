"""What becomes of a transform on a device: each step with its ops, where they run, and how equal they are."""

from __future__ import annotations

from gpufeed.inspect.explain.explanation import (
    ENDS_IN_PIL,
    SCHEMA,
    SCHEMA_VERSION,
    ExplainedGroup,
    ExplainedOp,
    ExplainedStep,
    Explanation,
    Library,
    Refused,
    RunsOn,
    described_op,
    explain,
    explain_plan,
    to_json,
)

__all__ = [
    "ENDS_IN_PIL",
    "SCHEMA",
    "SCHEMA_VERSION",
    "ExplainedGroup",
    "ExplainedOp",
    "ExplainedStep",
    "Explanation",
    "Library",
    "Refused",
    "RunsOn",
    "described_op",
    "explain",
    "explain_plan",
    "to_json",
]
