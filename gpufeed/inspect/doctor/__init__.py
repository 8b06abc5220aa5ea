"""Why is loading not faster, or why does it fail? The machine, the data and a running training, looked at from outside.

Nothing is changed, no GPU is touched, no image is decoded.
"""

from __future__ import annotations

from gpufeed.inspect.doctor.diagnosis import (
    MOST_FILES,
    SCHEMA,
    SCHEMA_VERSION,
    Diagnosis,
    Request,
    diagnose,
    to_json,
)

__all__ = [
    "MOST_FILES",
    "SCHEMA",
    "SCHEMA_VERSION",
    "Diagnosis",
    "Request",
    "diagnose",
    "to_json",
]
