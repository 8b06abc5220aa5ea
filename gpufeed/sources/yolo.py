"""Object detection in YOLO's layout: a text file of boxes for each image, parsed once into arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from gpufeed.errors import ArgumentError
from gpufeed.sources.base import Paths
from gpufeed.sources.faults import Faults
from gpufeed.sources.listing import IMAGE_SUFFIXES, FileList, digest_of, files_below, folder_path, stem_of

__all__ = ["YoloSource"]

_COLUMNS = 5
_COLUMN_RULES = (
    ("class", "an integer in [0, {num_classes})"),
    ("cx", "in [0, 1], as a share of the image's width"),
    ("cy", "in [0, 1], as a share of the image's height"),
    ("width", "in (0, 1], as a share of the image's width"),
    ("height", "in (0, 1], as a share of the image's height"),
)
_MOST_CLASSES = 1 << 24  # float32, which the target has, holds every integer below
_CLASS_LIST = "classes.txt"  # which labelling tools write beside the labels
_FILES_A_CHUNK = 512
_LEAST_READ = 1 << 16
_READERS = 4  # no slower than one with cached files (measured), and four wait at once where files answer slowly


@dataclass(init=False, frozen=True, slots=True, eq=False)
class YoloSource:
    """Images, and for each a text file with one box a line: ``class cx cy w h``.

    An image and its label file have the same path below their folders but for the suffix (compared in Unicode's
    composed form). Blank lines, Windows line ends, a byte order mark and empty files, of images without objects, are
    fine. A box may reach over the image's edge, as long as its centre, width and height are in their ranges; it stays
    as the file has it. Files are sorted by their names, links are followed, hidden files and folders are left out, and
    a ``classes.txt`` is a label file only where an image has that name. All label files are read when the source is
    made, about 30 µs for each from memory; what changes in them later isn't seen.

    Args:
        images: folder of the images; its sub-folders are searched too.
        labels: folder of the label files; by default ``images`` with its last part that is named ``images`` replaced by
            ``labels``.
        num_classes: classes are in [0, num_classes), num_classes at most 2**24; by default the number of ``names``, and
            without them any class is fine.
        names: of the classes, in order, or by their numbers, as a ``data.yaml`` has them.
        missing: what an image without label file is: an ``"error"``, or ``"background"``, without objects.
        progress: called with the numbers of the label files that are read and of all, on the calling thread.

    Attributes:
        images: the images' folder.
        labels: the label files' folder.
        num_classes: as given, or the number of ``names``; ``None`` without both.
        names: of the classes, in order; ``None`` where they weren't given.
        missing: as given.

    Raises:
        ArgumentError: for an argument outside its rule, a folder that is missing or empty, and for faults of the files,
            which one error names together: an image without label file or a label file without image, files of the same
            name but for the suffix, and in a label file a number of columns other than five (polygons, oriented boxes
            and keypoints are refused), what is no finite number, a class that is no integer or out of range, a centre
            outside of [0, 1], and a width or height outside of (0, 1].
    """

    images: str
    labels: str
    num_classes: int | None
    names: tuple[str, ...] | None
    missing: Literal["error", "background"]
    _files: FileList = field(repr=False)
    _rows: NDArray[np.float32] = field(repr=False)
    _ends: NDArray[np.int64] = field(repr=False)

    def __init__(
        self,
        images: str | os.PathLike[str],
        labels: str | os.PathLike[str] | None = None,
        *,
        num_classes: int | None = None,
        names: Sequence[str] | Mapping[int, str] | None = None,
        missing: Literal["error", "background"] = "error",
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        ordered = None if names is None else _ordered(names)
        num_classes = _class_count(num_classes, ordered)
        if missing not in ("error", "background"):
            raise ArgumentError(f"missing must be 'error' or 'background', got {missing!r}")
        image_root = folder_path(images, "images")
        label_root = folder_path(_label_folder(image_root) if labels is None else labels, "labels")
        faults = Faults(f"the labels of {image_root} in {label_root}")
        image_names = files_below(image_root, IMAGE_SUFFIXES, "images")
        label_names = _paired(image_root, image_names, label_root, missing, faults)
        rows, ends = _read(label_root, label_names, num_classes, faults, progress)
        faults.check()
        values = (
            image_root,
            label_root,
            num_classes,
            ordered,
            missing,
            FileList.of(image_root, image_names),
            rows,
            ends,
        )
        for name, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self._files)

    def read(self, indices: Sequence[int]) -> Paths:
        return Paths.of([self._files.path(index) for index in indices])

    def fields(self, indices: Sequence[int]) -> Mapping[str, Sequence[object]]:
        """The samples' boxes, N of them in a sample, in the order of the file; the arrays are the caller's own.

        Returns:
            boxes: (N, 4) float32 cx, cy, w, h as in the file: centre, width and height as shares of the image's width
                and height.
            labels: (N,) int64 classes.
            target: (N, 5) float32 class, cx, cy, w, h.

        Raises:
            ArgumentError: for an index that isn't in [0, len).
        """
        targets = [self._target(index) for index in indices]
        return {
            "boxes": [target[:, 1:].copy() for target in targets],
            "labels": [target[:, 0].astype(np.int64) for target in targets],
            "target": targets,
        }

    def name_of(self, index: int) -> str:
        return self._files.path(index)

    def fingerprint(self) -> str:
        """Covers the images' names below their folder, and all boxes and classes."""
        return digest_of(self._files, [self._ends, self._rows])

    def _target(self, index: int) -> NDArray[np.float32]:
        index = self._files.check(index)
        return self._rows[self._ends[index - 1] if index else 0 : self._ends[index]].copy()


def _ordered(names: Sequence[str] | Mapping[int, str]) -> tuple[str, ...]:
    if isinstance(names, Mapping):
        if set(names) != set(range(len(names))):
            raise ArgumentError(f"names must have the keys 0 to {len(names) - 1}, got {list(names)!r}; name each class")
        names = [names[number] for number in range(len(names))]
    if isinstance(names, str) or not names or not all(isinstance(name, str) for name in cast(Sequence[object], names)):
        raise ArgumentError(f"names must be the classes' names, such as ['person', 'car'], got {names!r}")
    return tuple(names)


def _class_count(num_classes: int | None, names: tuple[str, ...] | None) -> int | None:
    if num_classes is None:
        return None if names is None else len(names)
    if isinstance(num_classes, bool) or not isinstance(cast(object, num_classes), int):
        raise ArgumentError(f"num_classes must be an integer or None, got {num_classes!r}")
    if not 1 <= num_classes <= _MOST_CLASSES:
        raise ArgumentError(f"num_classes must be in [1, {_MOST_CLASSES}], got {num_classes}")
    if names is not None and num_classes != len(names):
        raise ArgumentError(f"num_classes is {num_classes}, and there are {len(names)} names; leave num_classes out")
    return num_classes


def _label_folder(images: str) -> str:
    """``images`` with its last part of that name replaced; the folders above a relative path count too."""
    for path in (Path(images), Path(os.path.abspath(images))):
        parts = list(path.parts)
        if "images" in parts:
            parts[len(parts) - 1 - parts[::-1].index("images")] = "labels"
            return str(Path(*parts))
    raise ArgumentError(
        f"where the labels of {images} are can't be told, as no folder in its path is named 'images'; "
        "give the label files' folder as labels="
    )


def _paired(
    image_root: str, images: list[str], label_root: str, missing: Literal["error", "background"], faults: Faults
) -> list[str | None]:
    """The label file of each image, relative to ``label_root``; ``None`` where there is none."""
    label_of: dict[str, str] = {}
    for name in files_below(label_root, (".txt",), "label files"):
        twin = label_of.setdefault(stem_of(name), name)
        if twin is not name:
            faults.add(f"{_join(label_root, name)}: {twin} is for the same image; keep one of them")
    image_of: dict[str, str] = {}
    found: list[str | None] = []
    for name in images:
        stem = stem_of(name)
        label = label_of.get(stem)
        twin = image_of.setdefault(stem, name)
        found.append(label)
        if twin is not name:
            faults.add(f"{_join(image_root, name)}: {twin} has the same label file; keep one of them, or rename one")
        elif label is None and missing == "error":
            expected = _join(label_root, os.path.splitext(name)[0])
            faults.add(
                f"{_join(image_root, name)}: there is no label file {expected}.txt; write it (empty for an image "
                "without objects), or give missing='background'"
            )
    for stem, name in label_of.items():
        if stem not in image_of and os.path.basename(name) != _CLASS_LIST:
            faults.add(f"{_join(label_root, name)}: there is no image of that name in {image_root}; delete or move it")
    return found


def _join(root: str, name: str) -> str:
    return os.path.join(root, name)


def _read(
    root: str,
    names: list[str | None],
    num_classes: int | None,
    faults: Faults,
    progress: Callable[[int, int], None] | None,
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """All label files.

    Returns:
        (M, 5) float32 rows, class, cx, cy, w, h, and (len(names),) int64 where each file's rows end.
    """
    chunks = [names[start : start + _FILES_A_CHUNK] for start in range(0, len(names), _FILES_A_CHUNK)]
    rows: list[NDArray[np.float32]] = []
    counts: list[int] = []

    def contents_of(chunk: list[str | None]) -> list[bytes | OSError]:
        return [b"" if name is None else _content(_join(root, name)) for name in chunk]

    with ThreadPoolExecutor(_READERS, "gpufeed-labels") as readers:
        for chunk, contents in zip(chunks, readers.map(contents_of, chunks), strict=True):
            chunk_rows, chunk_counts = _parsed(root, chunk, contents, num_classes, faults)
            rows.append(chunk_rows)
            counts += chunk_counts
            if progress is not None:
                progress(len(counts), len(names))
    return np.concatenate(rows), np.cumsum(counts, dtype=np.int64)


def _content(path: str) -> bytes | OSError:
    """A file's bytes; in half the time that ``open`` takes."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            content = os.read(descriptor, _LEAST_READ)
            # Only a file that fills the first piece can have more.
            while more := os.read(descriptor, 1 << 20) if len(content) >= _LEAST_READ else b"":
                content += more
        finally:
            os.close(descriptor)
    except OSError as error:
        return error
    return content.removeprefix(b"\xef\xbb\xbf")  # a byte order mark, as Windows' editors write it


def _parsed(
    root: str,
    names: Sequence[str | None],
    contents: Sequence[bytes | OSError],
    num_classes: int | None,
    faults: Faults,
) -> tuple[NDArray[np.float32], list[int]]:
    """Some label files.

    Returns:
        (M, 5) float32 rows, of no use where faults were found, and how many each file has.
    """
    values: list[float] = []
    counts: list[int] = []
    suspects: set[int] = set()
    for at, content in enumerate(contents):
        before = len(values)
        if isinstance(content, OSError) or not _parse_all(content, values):
            del values[before:]
            suspects.add(at)
        counts.append((len(values) - before) // _COLUMNS)
    exact = np.array(values, dtype=np.float64).reshape(-1, _COLUMNS)
    bad_rows = np.flatnonzero(~_good(exact, num_classes).all(axis=1))
    suspects.update(np.searchsorted(np.cumsum(counts), bad_rows, side="right").tolist())
    for at in sorted(suspects):
        _add_faults(_join(root, names[at] or ""), contents[at], num_classes, faults)
    with np.errstate(over="ignore"):  # such a row is a fault
        return exact.astype(np.float32), counts


def _parse_all(content: bytes, values: list[float]) -> bool:
    """Append the numbers of a file. ``False``, with some of them appended, where a line needs a closer look."""
    rows = [*map(bytes.split, content.splitlines())]
    if not {0, _COLUMNS}.issuperset(map(len, rows)) or b"_" in content:
        return False
    try:
        values.extend(map(float, chain.from_iterable(rows)))
    except ValueError:
        return False
    return True


def _add_faults(path: str, content: bytes | OSError, num_classes: int | None, faults: Faults) -> None:
    if isinstance(content, OSError):
        faults.add(f"{path}: it can't be read: {content.strerror}; restore or delete it")
        return
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        faults.add(f"{path}: it is UTF-16; save it as UTF-8 or ASCII")
        return
    for number, line in enumerate(content.splitlines(), 1):
        fault = _line_fault(line.split(), num_classes)
        if fault is not None:
            faults.add(f"{path}, line {number}: {fault}")


def _line_fault(columns: Sequence[bytes], num_classes: int | None) -> str | None:
    if not columns:
        return None
    if len(columns) > _COLUMNS:
        return (
            f"{len(columns)} columns, and a box has {_COLUMNS}: class cx cy w h; polygons, oriented boxes, keypoints "
            "and confidences aren't read, so write the box around each object instead"
        )
    if len(columns) < _COLUMNS:
        return f"{len(columns)} column{'s' * (len(columns) != 1)}, and a box has {_COLUMNS}: class cx cy w h"
    values = [*map(_number, columns)]
    if None in values:
        at = values.index(None)
        return f"{_COLUMN_RULES[at][0]} is {_shown(columns[at])}, and must be a number"
    good = _good(np.array([values], dtype=np.float64), num_classes)[0]
    if good.all():
        return None
    at = int(np.argmin(good))
    column, rule = _COLUMN_RULES[at]
    rule = rule.format(num_classes=_MOST_CLASSES if num_classes is None else num_classes)
    return f"{column} is {_shown(columns[at])}, and must be {rule}"


def _number(text: bytes) -> float | None:
    try:
        return None if b"_" in text else float(text)  # Python takes 0_1 as a number, and no other reader of labels does
    except ValueError:
        return None


def _shown(text: bytes) -> str:
    try:
        plain = text.decode()
    except UnicodeDecodeError:
        plain = "\0"
    if not plain.isprintable():
        plain = repr(text)[2:-1]
    return plain if len(plain) <= 24 else f"{plain[:24]}…"


def _good(rows: NDArray[np.float64], num_classes: int | None) -> NDArray[np.bool_]:
    """Which values of (M, 5) rows are as `_COLUMN_RULES` wants them, (M, 5)."""
    good = (rows >= 0.0) & (rows <= 1.0)  # never so for NaN
    good[:, 3:] &= rows[:, 3:] >= np.finfo(np.float32).tiny  # less would be nothing, or nearly, in float32
    classes = rows[:, 0]
    good[:, 0] = (classes >= 0) & (classes < (num_classes or _MOST_CLASSES)) & (classes == np.floor(classes))
    return good
