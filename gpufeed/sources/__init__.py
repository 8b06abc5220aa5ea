"""Where samples come from: one module per kind of source, `gpufeed.sources.base` for what they have in common.

The public names are imported when they are first used, so that the graph knows sources without knowing torchvision.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpufeed.sources.coco import CocoSource
    from gpufeed.sources.masks import MaskPairSource
    from gpufeed.sources.yolo import YoloSource

_HOMES = {
    "CocoSource": "gpufeed.sources.coco",
    "MaskPairSource": "gpufeed.sources.masks",
    "YoloSource": "gpufeed.sources.yolo",
}

__all__ = ["CocoSource", "MaskPairSource", "YoloSource"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'gpufeed.sources' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
