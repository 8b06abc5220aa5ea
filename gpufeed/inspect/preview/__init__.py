"""``gpufeed preview``: a few samples as the model will see them, epoch after epoch, and as the reference makes them."""

from __future__ import annotations

from gpufeed.inspect.preview.previewing import (
    MAX_TILES,
    Request,
    preview,
)

__all__ = [
    "MAX_TILES",
    "Request",
    "preview",
]
