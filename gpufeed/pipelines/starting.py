"""Writing a pipeline module to start from, with its test; never over a file that is there."""

from __future__ import annotations

import importlib.util
import keyword
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gpufeed.errors import ArgumentError
from gpufeed.pipelines.naming import shipped_folder

__all__ = ["TASKS", "WrittenModule", "write_module"]

TASKS = {
    "classification": "classification",
    "ssl": "self_supervised",  # a module named ssl would hide Python's
    "detection": "detection",
    "segmentation": "segmentation",
}
"""A task to the template that is written for it: NAME.py and test_NAME.py in the shipped folder ``templates``."""


@dataclass(frozen=True, slots=True)
class WrittenModule:
    """What was written: the pipeline module, and its test beside it."""

    module: Path
    test: Path


def write_module(name: str, task: str) -> WrittenModule:
    """Write a pipeline module for a task, and its test.

    Args:
        name: of the module, with or without ``.py``; it may begin with a folder that is there.
        task: one of `TASKS`.

    Raises:
        ArgumentError: the name can't be a module's or would hide another one, the folder is missing or can't be written
            to, or one of both files is there already. Nothing is written then.
    """
    if task not in TASKS:
        raise ArgumentError(f"the task must be one of {', '.join(TASKS)}, got {task!r}")
    path = Path(name).expanduser()
    stem = path.name.removesuffix(".py")
    folder = path.parent
    _check_folder(folder)
    written = WrittenModule(folder / f"{stem}.py", folder / f"test_{stem}.py")
    _check_stem(stem)
    for target in (written.module, written.test):
        if os.path.lexists(target):
            raise _there(target)
    _check_hides_nothing(stem)
    template = TASKS[task]
    _write_both(written, *(_filled(file, template, stem) for file in (f"{template}.py", f"test_{template}.py")))
    return written


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise ArgumentError(f"there is no folder {folder}; make it first")


def _check_stem(stem: str) -> None:
    if stem.isidentifier() and not keyword.iskeyword(stem):
        return
    letters = "".join(letter if letter.isalnum() else "_" for letter in stem).strip("_")
    proposed = letters if letters.isidentifier() and not keyword.iskeyword(letters) else f"my_{letters}".rstrip("_")
    raise ArgumentError(
        f"{stem!r} can't be the name of a Python module: it needs letters, digits and _ and mustn't begin with a digit "
        f"or be a word of Python's; try {proposed}"
    )


def _check_hides_nothing(stem: str) -> None:
    """A file's folder comes first where Python looks for modules, so ``torch.py`` would be imported as torch."""
    if stem in sys.stdlib_module_names:
        raise ArgumentError(f"{stem}.py would hide Python's own module {stem}; try my_{stem}")
    found = importlib.util.find_spec(stem)
    if found is not None and found.origin is not None:  # a folder of this name on the path has no origin
        raise ArgumentError(f"{stem}.py would hide the installed module {stem}; try my_{stem}")


def _there(path: Path) -> ArgumentError:
    return ArgumentError(f"{path} is there already, and nothing is overwritten; choose another name")


def _filled(file: str, template: str, stem: str) -> str:
    text = (shipped_folder() / "templates" / file).read_text(encoding="utf-8")
    return text.replace(f"{template}.p", f"{stem}.p")  # NAME.py, test_NAME.py and NAME.png


def _write_both(written: WrittenModule, module_text: str, test_text: str) -> None:
    """Both files whole, or none: they are complete before they get their names."""
    building = None
    try:
        building = Path(tempfile.mkdtemp(prefix=".gpufeed-new-", dir=written.module.parent))
        ready = WrittenModule(building / written.module.name, building / written.test.name)
        ready.module.write_text(module_text, encoding="utf-8")
        ready.test.write_text(test_text, encoding="utf-8")
        _place(ready.module, written.module)
        try:
            _place(ready.test, written.test)
        except BaseException:
            written.module.unlink()
            raise
    except OSError as error:
        raise ArgumentError(
            f"{written.module} can't be written ({error.strerror or error}); choose another folder"
        ) from error
    finally:
        if building is not None:
            shutil.rmtree(building, ignore_errors=True)


def _place(ready: Path, target: Path) -> None:
    """Give a file its name, unless that was taken meanwhile."""
    try:
        os.link(ready, target)
    except FileExistsError:
        raise _there(target) from None
    except OSError:  # a file system without links
        _copy(ready, target)


def _copy(ready: Path, target: Path) -> None:
    try:
        file = target.open("xb")
    except FileExistsError:
        raise _there(target) from None
    try:
        with file:
            file.write(ready.read_bytes())
    except BaseException:
        target.unlink()
        raise
