"""Mistakes in a user's file: which line, and what is wrong with it, instead of DALI's or torch's traceback."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from gpufeed.errors import PipelineError
from gpufeed.recording.causes import cause_at
from gpufeed.recording.user_lines import code_at, is_users, place_of

__all__ = [
    "DALI_ERRORS",
    "at_function",
    "at_operator",
    "explained",
    "failed_graph",
    "graph_errors",
    "made_by",
    "operator_name",
]


def explained(error: Exception, function: Callable[..., Any]) -> PipelineError:
    """What a user's function raised, as the line of the user's that is to blame, and what is wrong there.

    Args:
        error: with its traceback.
        function: what was called.
    """
    if isinstance(error, PipelineError) and error.path:
        return error
    place = place_of(error, function)
    return PipelineError(cause_at(error, place), place.path, place.line, place.code)


def at_function(cause: str, function: Callable[..., Any]) -> PipelineError:
    """A mistake of a whole function, at the line where it begins."""
    code = function.__code__
    return PipelineError(cause, code.co_filename, code.co_firstlineno, f"def {code.co_name}(...)")


# A graph that fails while it is built or runs -------------------------------------------------------------------------

_LONGEST_REASON = 300  # characters: some of DALI's lists have a line for each sample
_HINTS = (
    ("out of bounds", 'resize before it, or give it out_of_bounds_policy="pad" or "trim_to_shape"'),
    ("allowed layouts", "DALI's image operators take (H, W, C): call them before ops.normalize and ops.to_chw"),
    ("broadcast shapes", "bring both to one shape first"),
)
"""What helps, by what DALI says."""


DALI_ERRORS = (RuntimeError, ValueError, TypeError, IndexError)
"""What DALI raises for a mistake in a graph, by what kind of mistake it is."""


@contextmanager
def graph_errors(function: Callable[..., Any]) -> Generator[None]:
    """DALI's errors inside are mistakes of the pipeline function's."""
    try:
        yield
    except DALI_ERRORS as error:
        raise failed_graph(error, function) from None


def failed_graph(error: Exception, function: Callable[..., Any]) -> PipelineError:
    """What DALI said when the user's graph was built or ran, as the user's line and the reason."""
    text = str(error)
    places = re.findall(r'File "([^"]+)", line (\d+)', text)
    own = [(path, int(line)) for path, line in places if is_users(path, function.__code__.co_filename)]
    operator = re.search(r"operator `nvidia\.dali\.([\w.]+)`", text)
    name = f"{_as_written(operator[1])} failed" if operator else "the graph failed"
    reason = _dali_reason(text)
    hint = next((f"; {hint}" for said, hint in _HINTS if said in reason), "")
    cause = f"{name} while it ran: {reason}{hint}"
    if not own:
        return at_function(cause, function)
    path, line = own[-1]
    return PipelineError(cause, path, line, code_at(path, line))


def _dali_reason(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    after = lines[lines.index("encountered:") + 1 :] if "encountered:" in lines else lines
    kept = [line for line in after if line and not line.startswith(("C++ context", "Current pipeline", "Critical"))]
    reason = re.sub(r'^Assert on ".*?" failed: ', "", " ".join(kept)).rstrip(" :.")
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 1]}…"


# Operators of a graph -------------------------------------------------------------------------------------------------


def at_operator(operator: Any, cause: str, function: Callable[..., Any]) -> PipelineError:
    """A mistake that is known of an operator of the graph; DALI keeps the lines that made it."""
    own = function.__code__.co_filename
    places = [place for place in made_by(operator) if is_users(place[0], own)]
    if not places:
        return at_function(cause, function)
    path, line = places[-1]
    return PipelineError(cause, path, line, code_at(path, line))


def made_by(operator: Any) -> list[tuple[str, int]]:
    """Files and lines that an operator was made by, from the outside."""
    text = str(operator.spec)
    files = re.search(r"_origin_stack_filename: \[(.*?), \]\n", text)
    lines = re.search(r"_origin_stack_lineno: \[(.*?), \]\n", text)
    if not files or not lines:
        return []
    paths, numbers = files[1].split(", "), lines[1].split(", ")
    # a path with a comma and a space in it can't be told from two
    return list(zip(paths, map(int, numbers), strict=True)) if len(paths) == len(numbers) else []


_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "//", "fdiv": "/", "neg": "-"}


def operator_name(operator: Any) -> str:
    """What people write for an operator, such as ``fn.rotate``."""
    text = str(operator.spec)
    parts: dict[str, str] = {}
    for key in ("_module", "_display_name"):
        found = re.search(rf"^    {key}: (.*)$", text, re.MULTILINE)
        parts[key] = found[1] if found else ""
    module = parts["_module"].removeprefix("nvidia.dali.")
    return _as_written(f"{module}.{parts['_display_name']}") if module else str(operator._op.schema.Name())


def _as_written(name: str) -> str:
    """An operator of Python's where DALI calls it by a name."""
    module, _, last = name.rpartition(".")
    return f"the operator {_ARITHMETIC[last]}" if module == "math" and last in _ARITHMETIC else name
