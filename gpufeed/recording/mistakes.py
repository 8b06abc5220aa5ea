"""Mistakes in a user's file: which line, and what is wrong with it, instead of DALI's traceback."""

from __future__ import annotations

import difflib
import linecache
import random
import re
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

import gpufeed
from gpufeed.errors import GpufeedError, PipelineError
from gpufeed.graph.untyped import fn

__all__ = ["at_operator", "explained", "failed_graph", "unkeyed_draws", "watched_lines"]

_PACKAGE = Path(gpufeed.__file__).parent
_FOREIGN = ("gpufeed", "nvidia", "torch", "torchvision", "numpy", "PIL")
_TAIL = "move it into the tail, a function under @NAME.tail, where images are tensors, or use an operator of fn"


def explained(error: Exception, function: Callable[..., Any]) -> PipelineError:
    """What a user's function raised, as the line of the user's that is to blame, and what is wrong there.

    Args:
        error: with its traceback.
        function: what was called.
    """
    path, line = _place(error, function)
    return PipelineError(_cause(error, _code(path, line)), path, line, _code(path, line))


def _place(error: Exception, function: Callable[..., Any]) -> tuple[str, int]:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_users(frame.filename)]
    if own:
        return own[-1].filename, own[-1].lineno or 0
    code = function.__code__
    return code.co_filename, code.co_firstlineno


def _is_users(filename: str) -> bool:
    """Whether a file is the user's, or a pipeline module that gpufeed ships, and not a library's."""
    path = Path(filename)
    if filename.startswith("<"):
        return False
    if path.is_relative_to(_PACKAGE):
        return path.is_relative_to(_PACKAGE / "shipped")
    parts = path.parts
    return not ("site-packages" in parts and any(name in parts for name in _FOREIGN))


def _code(path: str, line: int) -> str:
    return linecache.getline(path, line).strip()


def _cause(error: Exception, code: str) -> str:
    text = str(error)
    if isinstance(error, PipelineError):
        return error.cause
    if isinstance(error, GpufeedError):
        return text
    missing = re.search(r"module 'nvidia\.dali\.(fn[\w.]*|types)' has no attribute '(\w+)'", text)
    if isinstance(error, AttributeError) and missing is not None:
        return _no_operator(missing[1], missing[2])
    if "conditional context" in text or "truth" in text.lower():
        return (
            "the function describes the graph of all samples, so it can't branch on one sample's value; multiply by "
            "sample.coin(), or branch in the tail with torch.where"
        )
    on_node = "Node" in text
    if isinstance(error, TypeError) and on_node and "Tensor" in text:
        return f"a torch function got a handle of the graph, which holds no pixels while it is described; {_TAIL}"
    if isinstance(error, AttributeError) and on_node:
        name = re.search(r"has no attribute '(\w+)'", text)
        what = f".{name[1]}" if name else "this"
        return f"a handle of the graph has no {what}: it is no tensor and no array; {_TAIL}"
    if on_node and isinstance(error, (TypeError, ValueError)):
        return (
            f"a handle of the graph was used as a number or an array ({_first_line(text)}); its values exist only when "
            f"the graph runs; {_TAIL}"
        )
    device = re.search(r"\bgpu\b.*\bcpu\b|\bcpu\b.*\bgpu\b", text, re.IGNORECASE | re.DOTALL)
    if device is not None:
        return _device_mistake(text)
    del code
    return f"{type(error).__name__}: {_first_line(text)}"


def _device_mistake(text: str) -> str:
    if "rgument" in text and "put" not in text.split("rgument")[0][-30:]:
        return (
            f"a named argument lies on the GPU, and DALI needs it on the host ({_first_line(text)}); compute it from "
            "draws and fields, which are on the host"
        )
    return (
        f"an operator on the host gets data from the GPU ({_first_line(text)}), and DALI doesn't go back; leave "
        "device= out, or do it before the image reaches the GPU, or in the tail"
    )


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else "no message"


def _no_operator(module: str, name: str) -> str:
    names = [known for known in dir(fn) if not known.startswith("_")]
    for inside in ("decoders", "random", "experimental", "readers", "transforms", "noise", "segmentation", "io"):
        names += [f"{inside}.{known}" for known in dir(getattr(fn, inside, None)) if not known.startswith("_")]
    asked = f"{module.removeprefix('fn').lstrip('.')}.{name}".lstrip(".")
    near = difflib.get_close_matches(asked, names, n=2, cutoff=0.5)
    guess = f"; did you mean fn.{' or fn.'.join(near)}?" if near else ""
    return f"DALI has no operator fn.{asked}{guess}"


# A graph that fails while it runs -----------------------------------------------------------------------------------


def failed_graph(error: RuntimeError, function: Callable[..., Any]) -> PipelineError:
    """What DALI said when the user's graph ran, as the user's line and the reason."""
    text = str(error)
    places = re.findall(r'File "([^"]+)", line (\d+)', text)
    own = [(path, int(line)) for path, line in places if _is_users(path)]
    path, line = own[-1] if own else (function.__code__.co_filename, function.__code__.co_firstlineno)
    operator = re.search(r"operator `nvidia\.dali\.([\w.]+)`", text)
    name = f"{operator[1]} failed" if operator else "the graph failed"
    return PipelineError(f"{name} while it ran: {_dali_reason(text)}", path, line, _code(path, line))


def _dali_reason(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    after = lines[lines.index("encountered:") + 1 :] if "encountered:" in lines else lines
    kept = [line for line in after if line and not line.startswith(("C++", "Current pipeline", "Critical"))]
    return " ".join(kept[:2]).rstrip(" :.") or "DALI gave no reason"


def at_operator(operator: Any, cause: str, function: Callable[..., Any]) -> PipelineError:
    """A mistake that is known of an operator of the graph; DALI keeps the lines that made it."""
    text = str(operator.spec)
    files = re.search(r"_origin_stack_filename: \[(.*?), \]\n", text)
    lines = re.search(r"_origin_stack_lineno: \[(.*?), \]\n", text)
    path, line = function.__code__.co_filename, function.__code__.co_firstlineno
    if files and lines:
        places = list(zip(files[1].split(", "), map(int, lines[1].split(", ")), strict=False))
        path, line = next((place for place in reversed(places) if _is_users(place[0])), (path, line))
    return PipelineError(cause, path, line, _code(path, line))


# Randomness that isn't the sample's ---------------------------------------------------------------------------------


def _generator_states() -> tuple[Any, ...]:
    state: Any = np.random.get_state()
    return random.getstate(), state[2], state[1].tobytes(), bytes(torch.get_rng_state().numpy())


@contextmanager
def unkeyed_draws(function: Callable[..., Any]) -> Generator[None]:
    """Refuse Python's, NumPy's and torch's own generators inside: they would draw once for the whole training.

    Raises:
        PipelineError: with the line, after the block.
    """
    before = _generator_states()
    yield
    if _generator_states() == before:
        return
    raise PipelineError(
        "a number was drawn by random, numpy.random or torch while the graph was described: it would be the same for "
        "every sample of every epoch; draw it by sample.uniform(), sample.coin() and so on, which are drawn for each "
        "sample",
        function.__code__.co_filename,
        function.__code__.co_firstlineno,
        _code(function.__code__.co_filename, function.__code__.co_firstlineno),
    )


@contextmanager
def watched_lines(seen: dict[str, tuple[str, int]]) -> Generator[None]:
    """Note the last of the user's lines before a generator moved, as ``seen["line"]``; slow, for the second look."""
    state = _generator_states()
    last: tuple[str, int] | None = None

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal state, last
        del argument
        if event not in ("line", "return") or not _is_users(frame.f_code.co_filename):
            return trace
        now = _generator_states()
        if now != state and last is not None:
            seen.setdefault("line", last)
        state = now
        last = (frame.f_code.co_filename, frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
