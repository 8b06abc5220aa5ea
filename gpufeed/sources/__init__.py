"""Where samples come from: one module per kind of source, `gpufeed.sources.base` for what they have in common.

Nothing is imported here, so that the graph knows sources without knowing torchvision.
"""

from __future__ import annotations
