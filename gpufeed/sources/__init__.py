"""Where samples come from: one module per kind of source."""

from __future__ import annotations

from gpufeed.sources.base import Paths, Source
from gpufeed.sources.folders import FolderSource

__all__ = ["FolderSource", "Paths", "Source"]
