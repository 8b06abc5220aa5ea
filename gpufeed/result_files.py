"""Results of commands as JSON files: an earlier result may be replaced, nothing else, and none is ever half written."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, cast

from gpufeed.errors import ArgumentError

__all__ = ["check_target", "result_of", "write"]


def result_of(text: str, schema: str) -> dict[str, Any] | None:
    """The document of a result, if ``text`` is one.

    Args:
        text: JSON, or anything.
        schema: the name of the command's own schema, such as ``gpufeed.compare``.
    """
    try:
        document: object = json.loads(text)
    except ValueError:
        return None
    if not isinstance(document, dict):
        return None
    known = cast("dict[str, Any]", document)
    return known if known.get("schema") == schema and "schema_version" in known else None


def check_target(path: Path, schema: str) -> None:
    """Refuse a file that a result must not or can't be written to, before the work begins.

    Raises:
        ArgumentError: ``path`` holds something other than an earlier result of this schema, or its folder can't be
            written to.
    """
    if path.is_dir():
        raise ArgumentError(f"{path} is a folder; give --json a file name")
    if not path.parent.is_dir():
        raise ArgumentError(f"there is no folder {path.parent} to write {path.name} to; make it first")
    if not os.access(path.parent, os.W_OK):
        raise ArgumentError(f"the folder {path.parent} can't be written to; give --json another place")
    if not path.exists():
        return
    if not path.is_file():  # a device or a pipe, which may never end
        raise ArgumentError(f"{path} is no ordinary file; give --json another name, or - for stdout")
    try:
        earlier = result_of(path.read_text(encoding="utf-8"), schema)
    except (OSError, UnicodeDecodeError):
        earlier = None
    if earlier is None:
        command = schema.replace(".", " ")
        raise ArgumentError(f"{path} exists and is not a result of {command}; give --json another name")


def write(text: str, path: Path, schema: str) -> None:
    """Write a result whole or not at all: under a temporary name first, then renamed.

    Raises:
        ArgumentError: see `check_target`; or the disk is full or the like.
    """
    check_target(path, schema)
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", suffix=".tmp", delete=False
        ) as file:
            temporary = Path(file.name)
            file.write(text)
        temporary.chmod(0o666 & ~_umask())  # a temporary file is private, a result is like any other file
        temporary.replace(path)
    except OSError as error:
        raise ArgumentError(f"{path} can't be written ({error.strerror or error})") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
