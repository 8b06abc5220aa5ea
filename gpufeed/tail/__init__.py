"""Stage 4: what torch does, on uniform batches and with per-sample parameters; the same code on every device."""

from __future__ import annotations

from gpufeed.tail.program import Tail

__all__ = ["Tail"]
