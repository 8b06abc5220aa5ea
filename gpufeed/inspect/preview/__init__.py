"""A contact sheet of what a model will see."""

from __future__ import annotations
