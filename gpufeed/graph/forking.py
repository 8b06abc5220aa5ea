"""A forked child has its parent's pipelines without their threads: none of them may be ended there."""

from __future__ import annotations

import importlib
import os
import threading
from typing import Any

__all__ = ["forget_pipelines_in_children"]

_hooked = threading.Lock()  # taken once, by whoever registers the hook


def forget_pipelines_in_children() -> None:
    """From now on, forked children don't end their parent's pipelines.

    DALI ends every pipeline when the interpreter exits. In a forked child that hangs or crashes, since it waits for
    threads which only the parent has. Nothing else ends them there: they belong to the feed's thread.
    """
    if _hooked.acquire(blocking=False):
        os.register_at_fork(after_in_child=_forget)


def _forget() -> None:
    pipeline: Any = importlib.import_module("nvidia.dali.pipeline").Pipeline
    getattr(pipeline, "_pipes", set[Any]()).clear()
