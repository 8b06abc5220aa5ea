"""Lines of a user's file: which of them an error is about, and what was called there."""

from __future__ import annotations

import builtins
import linecache
import re
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import Any

import gpufeed

__all__ = ["Place", "code_at", "is_users", "place_of"]

_PACKAGE = Path(gpufeed.__file__).parent
_STANDARD = Path(sysconfig.get_path("stdlib"))
_HANDLES = ("nvidia.dali.data_node", "nvidia.dali._utils.hacks")  # a handle's own methods
_INSTALLED = {"site-packages", "dist-packages"}


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's that an error came from.

    Attributes:
        path: the file.
        line: its number, from 1.
        code: its text.
        expression: what failed there, as it is written, in one line; empty where that isn't known.
        names: what the names in it are.
        inner: the frames below the user's, from the outside.
        function: what was called, as Python names it.
        in_function: whether the error came from a line in it.
    """

    path: str
    line: int
    code: str
    expression: str = ""
    names: Mapping[str, object] = field(default_factory=dict[str, object])
    inner: tuple[FrameType, ...] = ()
    function: str = ""
    in_function: bool = True

    @property
    def called(self) -> str:
        """What was called there, such as ``np.flip``; empty where nothing was, or it has no name."""
        found = re.match(r"[A-Za-z_][\w.]*(?=\()", self.expression)
        return found[0] if found else ""

    @property
    def callee(self) -> object:
        """The object that was called; ``None`` where it isn't known."""
        root, *path = self.called.split(".")
        found = self.names.get(root, getattr(builtins, root, None))
        for name in path:
            # an attribute of an instance may be computed, its class's isn't
            holder: Any = found if isinstance(found, (ModuleType, type)) else type(found)
            found = getattr(holder, name, None)
        return found

    @property
    def library(self) -> str:
        """The package that the failing code belongs to, such as ``numpy``; empty where it is the user's."""
        for frame in self.inner:
            if frame.f_globals.get("__name__") in _HANDLES:
                continue
            for name in ("gpufeed", "nvidia", "numpy", "torchvision", "torch"):
                if frame.f_globals.get("__name__", "").partition(".")[0] == name:
                    return name
        root = self.names.get(self.called.partition(".")[0])
        module = root.__name__ if isinstance(root, ModuleType) else getattr(root, "__module__", None) or ""
        return str(module).partition(".")[0] if self.called else ""

    def mentions(self, kind: type) -> bool:
        """Whether a name in the failing expression is an object of this type."""
        words = re.findall(r"[A-Za-z_]\w*", self.expression)
        return any(isinstance(self.names.get(word), kind) for word in words)


def place_of(error: Exception, function: Callable[..., Any]) -> Place:
    """The innermost line of the user's that an error went through; the function's first where it went through none.

    Args:
        error: with its traceback.
        function: the user's function, which was called.
    """
    own = function.__code__.co_filename
    steps = list(_steps(error.__traceback__))
    users = [number for number, step in enumerate(steps) if is_users(step.tb_frame.f_code.co_filename, own)]
    if not users:
        line = function.__code__.co_firstlineno
        return Place(own, line, code_at(own, line), function=function.__qualname__, in_function=False)
    step, inner = steps[users[-1]], steps[users[-1] + 1 :]
    frame = step.tb_frame
    path, line = frame.f_code.co_filename, step.tb_lineno
    names = {**frame.f_globals, **frame.f_locals}
    return Place(
        path,
        line,
        code_at(path, line),
        _expression(step),
        names,
        tuple(one.tb_frame for one in inner),
        function.__qualname__,
    )


def _steps(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _expression(step: TracebackType) -> str:
    """What the interpreter was evaluating, in one line."""
    code = step.tb_frame.f_code
    first, last, start, end = list(code.co_positions())[step.tb_lasti // 2]
    if first is None or last is None or start is None or end is None:
        return ""
    lines = [linecache.getline(code.co_filename, line).rstrip("\n").encode() for line in range(first, last + 1)]
    lines[-1] = lines[-1][:end]  # columns are bytes
    lines[0] = lines[0][start:]
    return " ".join(line.decode(errors="replace").strip() for line in lines)


def is_users(filename: str, own: str = "") -> bool:
    """Whether a file is the user's, or a pipeline module that gpufeed ships, and not a library's.

    Args:
        filename: the file.
        own: that of the pipeline: where it is installed, so is the rest of its package.
    """
    if filename.startswith("<"):
        return False
    path = Path(filename)
    if path.is_relative_to(_PACKAGE):
        return path.is_relative_to(_PACKAGE / "shipped")
    package = _installed_package(filename)
    if package is not None:
        return package == _installed_package(own)
    return not path.is_relative_to(_STANDARD)


@cache
def _installed_package(filename: str) -> str | None:
    """The top-level folder or file among installed packages; ``None`` for a file elsewhere."""
    parts = Path(filename).parts
    places = [number for number, part in enumerate(parts) if part in _INSTALLED]
    return parts[places[-1] + 1] if places and places[-1] + 1 < len(parts) else None


def code_at(path: str, line: int) -> str:
    """The text of a line, without the spaces around it; empty where the file can't be read."""
    return linecache.getline(path, line).strip()
