"""Whether a pipeline module is right, and how fast it is."""

from __future__ import annotations
