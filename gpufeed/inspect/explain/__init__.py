"""What becomes of a transform or a pipeline, and how equal it is."""

from __future__ import annotations
