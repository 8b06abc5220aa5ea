"""Pixels and draws on a person's files, held to torchvision's."""

from __future__ import annotations
