"""Results of commands as files: an earlier result may be replaced, nothing else, and none is ever half written."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from gpufeed.errors import ArgumentError

__all__ = ["check_place", "check_target", "read_text", "result_of", "write", "write_whole"]

_MOST_BYTES = 1_000_000_000  # of a result; every measurement of a long run is a few megabytes


def result_of(text: str, schema: str) -> dict[str, Any] | None:
    """The document of a result, if ``text`` is one.

    Args:
        text: JSON, or anything.
        schema: the name of the command's own schema, such as ``gpufeed.compare``.
    """
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError):  # the latter: brackets within brackets, thousands of times
        return None
    if not isinstance(document, dict):
        return None
    known = cast("dict[str, Any]", document)
    return known if known.get("schema") == schema and "schema_version" in known else None


def check_target(path: Path, schema: str) -> None:
    """Refuse a file that a result's JSON must not or can't be written to, before the work begins.

    Raises:
        ArgumentError: ``path`` holds something other than an earlier result of this schema, or its folder can't be
            written to.
    """
    check_place(path, "--json", schema, lambda content: result_of(content.decode(), schema) is not None)


def check_place(path: Path, option: str, schema: str, is_earlier: Callable[[bytes], bool]) -> None:
    """Refuse a file that a result must not or can't be written to, before the work begins.

    Args:
        path: of the file.
        option: what the user named it by, for messages.
        schema: the name of the command's own schema, for messages.
        is_earlier: whether a file's bytes are such a result; what it can't decode is none.

    Raises:
        ArgumentError: ``path`` holds something other than an earlier result, or its folder can't be written to.
    """
    if path.is_dir():
        raise ArgumentError(f"{path} is a folder; give {option} a file name")
    if not path.parent.is_dir():
        raise ArgumentError(f"there is no folder {path.parent} to write {path.name} to; make it first")
    if not os.access(path.parent, os.W_OK):
        raise ArgumentError(f"the folder {path.parent} can't be written to; give {option} another place")
    if not path.exists():
        return
    if not path.is_file():  # a device or a pipe, which may never end
        otherwise = ", or - for stdout" if option == "--json" else ""
        raise ArgumentError(f"{path} is no ordinary file; give {option} another name{otherwise}")
    try:
        earlier = is_earlier(path.read_bytes())
    except (OSError, UnicodeDecodeError):
        earlier = False
    if not earlier:
        command = schema.replace(".", " ")
        raise ArgumentError(f"{path} exists and is not a result of {command}; give {option} another name")


def read_text(path: Path, next_step: str) -> str:
    """The text of a file that a command wrote earlier.

    Args:
        path: of the file.
        next_step: of the message, what to do instead.

    Raises:
        ArgumentError: it isn't there, is a folder, a device or a pipe, can't be read, or is larger than any result.
        UnicodeDecodeError: it is no text.
    """
    try:
        if path.exists() and not path.is_file():
            raise ArgumentError(f"{path} is no ordinary file; {next_step}")
        if path.stat().st_size > _MOST_BYTES:
            raise ArgumentError(f"{path} is larger than any result ({path.stat().st_size:,} bytes); {next_step}")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"{path} can't be read ({error.strerror or error}); {next_step}") from error


def write(text: str, path: Path, schema: str) -> None:
    """Write a result's JSON whole or not at all: under a temporary name first, then renamed.

    Raises:
        ArgumentError: see `check_target`; or the disk is full or the like.
    """
    check_target(path, schema)
    write_whole(text.encode(), path)


def write_whole(content: bytes, path: Path) -> None:
    """Write a file whole or not at all, replacing what is there: see `check_place` for what may be.

    Raises:
        ArgumentError: the disk is full or the like.
    """
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(
            "wb", dir=path.parent, prefix=f".{path.name}.", suffix=".tmp", delete=False
        ) as file:
            temporary = Path(file.name)
            file.write(content)
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
