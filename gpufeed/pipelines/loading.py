"""Objects that a person names as ``FILE.py:NAME``: the file runs only when it is named, and its errors are shown."""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

from gpufeed.errors import ArgumentError

__all__ = ["load_object", "split_reference"]

_NAMES_SHOWN = 12  # a list of names that is longer than two lines of a terminal helps nobody


def load_object(reference: str) -> object:
    """Run the Python file in ``reference`` and return what it calls ``NAME``.

    The file runs as a module, not as ``__main__``, so a training script with the usual guard at its end can be
    named. While it runs its folder is on ``sys.path``, as if it had been started as a script. Each call runs it anew.

    Args:
        reference: ``FILE.py:NAME``; ``FILE.py`` is absolute or relative to the current directory.

    Raises:
        ArgumentError: the form is wrong, the file is missing, it raises, or it has no such name.
    """
    path, name = split_reference(reference)
    module = _run(path.resolve())
    if not hasattr(module, name):
        raise ArgumentError(f"{path} has no name {name!r}; {_near(name, module)}{_names(module)}")
    return getattr(module, name)


def split_reference(reference: str) -> tuple[Path, str]:
    """The file and the name in ``FILE.py:NAME``, without running the file.

    Raises:
        ArgumentError: the form is wrong or the file is missing.
    """
    file_part, colon, name = reference.rpartition(":")
    if not colon or not file_part.endswith(".py") or not name.isidentifier():
        raise ArgumentError(
            f"expected FILE.py:NAME, such as transforms.py:train, got {reference!r}; for what has no name of "
            "its own in the file write NAME = ... at its end"
        )
    path = Path(file_part).expanduser()
    if not path.is_file():
        raise ArgumentError(f"there is no file {file_part} (in {Path.cwd()}); give the path of an existing Python file")
    return path, name


def _run(path: Path) -> ModuleType:
    module_name = f"gpufeed_file_{path.stem}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ArgumentError(f"{path} can't be loaded as a Python module")
    module = importlib.util.module_from_spec(spec)
    _forget_namesakes(path.parent)
    sys.modules[module_name] = module  # dataclasses and pickle look a module up by its name
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[module_name]
        if isinstance(error, ArgumentError) and str(path) in str(error):  # it has the place already
            raise ArgumentError(str(error)) from error
        text = error.msg if isinstance(error, SyntaxError) else error
        raise ArgumentError(f"{_place(path, error)}: {type(error).__name__}: {text}") from error
    except SystemExit as error:
        del sys.modules[module_name]
        raise ArgumentError(
            f"{path} ended Python (exit code {error.code!r}) while it was loaded; "
            'put what it runs under `if __name__ == "__main__":`'
        ) from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def _forget_namesakes(folder: Path) -> None:
    """Before a file of ``folder`` runs: modules that another file imported from beside itself, and that are called as
    one in this folder is, or the wrong one would be imported."""
    for name, module in list(sys.modules.items()):
        own = folder / f"{name}.py"
        file = getattr(module, "__file__", None)
        if "." in name or file is None or not own.is_file() or name.startswith("__"):
            continue
        if Path(file).parent != folder and Path(file).parent in _folders:
            del sys.modules[name]
    _folders.add(folder)


_folders: set[Path] = set()
"""Of the files that were run."""


def _place(path: Path, error: Exception) -> str:
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}, line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path}, line {lines[-1]}" if lines else f"{path}"


def _near(name: str, module: ModuleType) -> str:
    own = [known for known in vars(module) if not known.startswith("_")]
    near = difflib.get_close_matches(name, own, n=1)
    return f"did you mean {near[0]}? " if near else ""


def _names(module: ModuleType) -> str:
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and getattr(value, "__module__", module.__name__) == module.__name__
    ]
    # An instance carries its class's module, so an object made in the file from an imported class is found here.
    own += [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, type | ModuleType) and callable(value) and name not in own
    ]
    if not own:
        return "it defines no names"
    shown = ", ".join(own[:_NAMES_SHOWN])
    return f"it has {shown}" + (", …" if len(own) > _NAMES_SHOWN else "")
