"""Stages 1 and 3: what DALI does. Nothing here knows torchvision."""

from __future__ import annotations
