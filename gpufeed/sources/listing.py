"""Files below a folder: listed in one order everywhere, paired by their stems, and kept without an object for each."""

from __future__ import annotations

import hashlib
import operator
import os
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from gpufeed.errors import ArgumentError

__all__ = ["IMAGE_SUFFIXES", "FileList", "digest_of", "files_below", "folder_path", "stem_of"]

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""``torchvision.datasets.folder.IMG_EXTENSIONS``, in lower case; a test compares them."""


@dataclass(frozen=True, slots=True, eq=False)
class FileList:
    """Files below a folder, packed: a list of strings would cost an object for each file, in each process.

    Attributes:
        root: the folder.
        packed: the names relative to it, one after the other, as the file system encodes them.
        ends: (N,) int64, where each name ends in ``packed``.
    """

    root: str
    packed: bytes
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, root: str, names: Iterable[str]) -> FileList:
        """Pack names relative to ``root``, in their order."""
        encoded = [os.fsencode(name) for name in names]
        return cls(root, b"".join(encoded), np.fromiter(accumulate(map(len, encoded)), np.int64, len(encoded)))

    def __len__(self) -> int:
        return len(self.ends)

    def path(self, index: int) -> str:
        """The path of a file: the folder's, as it was given, and the name in it.

        Raises:
            ArgumentError: for an index that isn't in [0, len).
        """
        index = self.check(index)
        start = int(self.ends[index - 1]) if index else 0
        return os.path.join(self.root, os.fsdecode(self.packed[start : int(self.ends[index])]))

    def check(self, index: int) -> int:
        """The index as an ``int``.

        Raises:
            ArgumentError: for an index that isn't in [0, len).
        """
        plain = operator.index(index)
        if not 0 <= plain < len(self.ends):
            raise ArgumentError(f"a sample's index must be in [0, {len(self.ends)}), got {plain}")
        return plain


def digest_of(files: FileList, parts: Iterable[NDArray[np.generic] | bytes]) -> str:
    """A hexadecimal SHA-256 of the files' names, without their folder, and of what belongs to them."""
    digest = hashlib.sha256()
    for part in (files.packed, files.ends, *parts):
        content = part if isinstance(part, bytes) else part.tobytes()
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def folder_path(folder: str | os.PathLike[str], what: str) -> str:
    """A folder's path as a string, ``~`` resolved.

    Args:
        folder: as the user gave it.
        what: the argument that it was given for.

    Raises:
        ArgumentError: where it is no folder.
    """
    try:
        path = os.path.expanduser(os.fsdecode(folder))
    except TypeError:
        raise ArgumentError(f"{what} must be a folder's path, got {folder!r}") from None
    if not os.path.exists(path):
        raise ArgumentError(f"there is no folder {path}; give {what} the path of an existing folder")
    if not os.path.isdir(path):
        raise ArgumentError(f"{path} is a file; give {what} the path of a folder")
    return path


def files_below(folder: str, suffixes: Sequence[str], what: str) -> list[str]:
    """Files in a folder and its sub-folders by their suffix, whatever its case.

    Links are followed, but for a link to a folder above itself, whose files are listed already. Names that begin with a
    dot are left out, folders too.

    Args:
        folder: an existing folder.
        suffixes: in lower case, with the dot.
        what: the files are, for the message.

    Returns:
        Names relative to ``folder``, sorted by their code points; at least one.

    Raises:
        ArgumentError: where there is no such file, or a folder can't be read.
    """
    wanted = tuple(suffixes)
    found: list[str] = []
    pending: list[tuple[str, frozenset[tuple[int, int]]]] = [("", frozenset())]
    try:
        while pending:
            prefix, above = pending.pop()
            here = os.path.join(folder, prefix)
            status = os.stat(here)
            identity = (status.st_dev, status.st_ino)
            if identity in above:
                continue
            names, folders = _entries(here, wanted)
            found += [prefix + name for name in names]
            pending += [(f"{prefix}{name}/", above | {identity}) for name in folders]
    except OSError as error:
        raise ArgumentError(f"{error.filename or folder} can't be read: {error.strerror}; make it readable") from error
    if not found:
        raise ArgumentError(
            f"{folder} holds no {what}: looked for {', '.join(suffixes)} in it and its sub-folders, without hidden ones"
        )
    return sorted(found)


def _entries(folder: str, suffixes: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Names of the files with these suffixes, and of the sub-folders."""
    files: list[str] = []
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if name.startswith("."):
                continue
            if entry.is_dir():
                folders.append(name)
            # A link to nothing is listed, so that the file is named when it is read, and not taken as missing.
            elif name.lower().endswith(suffixes) and (entry.is_file() or entry.is_symlink()):
                files.append(name)
    return files, folders


def stem_of(name: str) -> str:
    """What files are paired by: the relative name without its suffix.

    In Unicode's composed form: archives made on macOS spell "ü" by two code points, and a person can't see it.
    """
    return unicodedata.normalize("NFC", os.path.splitext(name)[0])
