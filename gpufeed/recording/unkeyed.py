"""What a pipeline function must not do while it is called: draw by other generators, or give handles to modules."""

from __future__ import annotations

import random
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

import numpy as np
import torch
from nvidia.dali.data_node import DataNode

from gpufeed.errors import PipelineError
from gpufeed.recording.user_lines import is_users

__all__ = ["generator_states", "no_modules", "watched_lines"]


def generator_states() -> tuple[object, ...]:
    """The states of Python's, NumPy's and torch's global generators; equal where none has moved."""
    state = cast(Any, np.random.get_state())
    return random.getstate(), state[2], state[1].tobytes(), bytes(torch.get_rng_state().numpy())


@contextmanager
def watched_lines(own: str) -> Generator[list[tuple[str, int]]]:
    """Note the user's lines at which a global generator moved; slow: every line of theirs is looked at.

    Args:
        own: the file of the pipeline.

    Yields:
        A list that files and lines are added to.
    """
    found: list[tuple[str, int]] = []
    state = generator_states()
    last: tuple[str, int] | None = None

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal state, last
        del argument
        if event not in ("line", "return") or not is_users(frame.f_code.co_filename, own):
            return trace
        now = generator_states()
        if now != state and last is not None:
            found.append(last)
        state = now
        last = (frame.f_code.co_filename, frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield found
    finally:
        sys.settrace(before)


@contextmanager
def no_modules() -> Generator[None]:
    """Refuse modules of torch's that are called with a handle: torchvision's transforms pass on what is no image."""
    handle = torch.nn.modules.module.register_module_forward_pre_hook(_refuse)
    try:
        yield
    finally:
        handle.remove()


def _refuse(module: torch.nn.Module, arguments: Any) -> None:
    held = cast("tuple[object, ...]", arguments if isinstance(arguments, tuple) else (arguments,))
    if not any(isinstance(argument, DataNode) for argument in held):
        return
    name = type(module).__name__
    if type(module).__module__.startswith("torchvision.transforms"):
        raise PipelineError(
            f"the transform {name} was called with a handle of the graph, and torchvision passes on what is no image; "
            "give it to ops.apply(transform, image, sample), or to ops.apply(transform, images, samples) in the tail"
        )
    raise PipelineError(
        f"the module {name} was called with a handle of the graph, which holds no pixels while the graph is described; "
        "call it in the tail, a function under @NAME.tail, or in the training loop"
    )
