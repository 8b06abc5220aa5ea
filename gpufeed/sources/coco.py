"""Object detection in COCO's layout: one JSON file for all images, parsed once into arrays."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from gpufeed.errors import ArgumentError
from gpufeed.sources.base import Paths
from gpufeed.sources.faults import Faults
from gpufeed.sources.listing import FileList, digest_of, folder_path

__all__ = ["CocoSource"]

_Record = dict[str, Any]

_SECTIONS = ("images", "annotations", "categories")
_KEYS = {
    "images": ("id", "file_name", "width", "height"),
    "annotations": ("id", "image_id", "category_id", "bbox"),
    "categories": ("id", "name"),
}
_NOUNS = {"images": "image", "annotations": "annotation", "categories": "category"}
_LARGEST_ID = (1 << 63) - 1
_LARGEST_AREA = float(np.finfo(np.float32).max)
_RECORDS_A_STEP = 8192  # between two calls of progress


@dataclass(frozen=True, slots=True, eq=False)
class _Boxes:
    """All boxes, those of an image one after the other in the order of the file.

    Attributes:
        corners: (M, 4) float32 x1, y1, x2, y2 in pixels, within the image.
        labels: (M,) int64 category ids.
        crowd: (M,) bool.
        area: (M,) float32 in square pixels.
        ends: (N,) int64, where each image's boxes end.
        num_dropped: boxes that aren't here, as nothing of them was within the image.
    """

    corners: NDArray[np.float32]
    labels: NDArray[np.int64]
    crowd: NDArray[np.bool_]
    area: NDArray[np.float32]
    ends: NDArray[np.int64]
    num_dropped: int

    def of(self, index: int) -> slice:
        return slice(int(self.ends[index - 1]) if index else 0, int(self.ends[index]))


@dataclass(init=False, frozen=True, slots=True, eq=False)
class CocoSource:
    """Images with the boxes of a COCO ``instances`` file, crowds included and marked.

    Samples are sorted by image id, as torchvision's ``CocoDetection`` sorts them; the boxes of one are in the order of
    the file. Images without boxes are kept. A box is clipped to its image, whose size is the file's ``width`` and
    ``height``, and dropped where no width or height is left. The annotations are read when the source is made; what
    changes in them later isn't seen.

    Args:
        images: the folder that each ``file_name`` starts from.
        annotations: the JSON file.
        progress: called with the numbers of the images and annotations that are checked and of all, on the calling
            thread; parsing the JSON comes before and reports nothing.

    Attributes:
        images: the images' folder.
        annotations: the JSON file.
        category_names: by category id, in the order of the file.
        num_dropped: boxes that were dropped because nothing of them is within the image.

    Raises:
        ArgumentError: for a folder or file that is missing, JSON that isn't COCO's, and for faults in it, which one
            error names together: a missing or ill-typed value, two records with one id, an unknown image or category,
            a bbox that isn't four finite numbers or has a negative width or height, and an image file that is missing.
    """

    images: str
    annotations: str
    category_names: dict[int, str]
    num_dropped: int
    _files: FileList = field(repr=False)
    _image_ids: NDArray[np.int64] = field(repr=False)
    _boxes: _Boxes = field(repr=False)

    def __init__(
        self,
        images: str | os.PathLike[str],
        annotations: str | os.PathLike[str],
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        root = folder_path(images, "images")
        path = os.path.expanduser(os.fsdecode(annotations))
        sections = _sections(path)
        faults = Faults(f"the annotations {path} of {root}")
        total = len(sections["images"]) + len(sections["annotations"])
        step = _Steps(progress, total)
        categories = _by_id("categories", sections["categories"], faults, _Steps(None, 0))
        names = {number: _category_name(record, faults) for number, record in categories.items()}
        by_id = _by_id("images", sections["images"], faults, step)
        ids = sorted(by_id)
        ordered = [by_id[number] for number in ids]
        sizes = [_size_of(record, faults) for record in ordered]
        file_names = _file_names(root, ordered, faults)
        rows = {number: row for row, number in enumerate(ids)}
        boxes = _boxes_of(sections["annotations"], rows, names, sizes, faults, step)
        faults.check()
        files = FileList.of(root, file_names)
        values = (root, path, names, boxes.num_dropped, files, np.array(ids, dtype=np.int64), boxes)
        for name, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self._files)

    def read(self, indices: Sequence[int]) -> Paths:
        return Paths.of([self._files.path(index) for index in indices])

    def fields(self, indices: Sequence[int]) -> Mapping[str, Sequence[object]]:
        """The samples' boxes, N of them in a sample; the arrays are the caller's own.

        Returns:
            boxes: (N, 4) float32 x1, y1, x2, y2 in pixels of the image as it is stored, within [0, width] and
                [0, height], x1 < x2 and y1 < y2.
            labels: (N,) int64 category ids, as in the file.
            crowd: (N,) bool ``iscrowd``, ``False`` where the file doesn't say.
            area: (N,) float32 in square pixels: the file's, of the object and not of the clipped box; the whole bbox's
                where the file doesn't say.
            image_id: int, as in the file.
            target: the same int.

        Raises:
            ArgumentError: for an index that isn't in [0, len).
        """
        checked = [self._files.check(index) for index in indices]
        boxes = self._boxes
        slices = [boxes.of(index) for index in checked]
        image_ids = [int(self._image_ids[index]) for index in checked]
        return {
            "boxes": [boxes.corners[part].copy() for part in slices],
            "labels": [boxes.labels[part].copy() for part in slices],
            "crowd": [boxes.crowd[part].copy() for part in slices],
            "area": [boxes.area[part].copy() for part in slices],
            "image_id": image_ids,
            "target": image_ids.copy(),
        }

    def name_of(self, index: int) -> str:
        return self._files.path(index)

    def fingerprint(self) -> str:
        """Covers the images' names below their folder and ids, and all boxes with what belongs to them."""
        boxes = self._boxes
        parts = [self._image_ids, boxes.ends, boxes.corners, boxes.labels, boxes.crowd, boxes.area]
        return digest_of(self._files, parts)


class _Steps:
    """Counts records, and reports every few thousand and the last one."""

    def __init__(self, progress: Callable[[int, int], None] | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def advance(self) -> None:
        self._done += 1
        if self._progress is not None and (self._done % _RECORDS_A_STEP == 0 or self._done == self._total):
            self._progress(self._done, self._total)


def _sections(path: str) -> dict[str, list[object]]:
    """The three lists that COCO's file has.

    Raises:
        ArgumentError: where the file can't be read or isn't COCO's.
    """
    wanted = "give annotations= a COCO file such as instances_val2017.json"
    if os.path.isdir(path):
        raise ArgumentError(f"{path} is a folder; {wanted}")
    try:
        with open(path, "rb") as file:
            document: object = json.loads(file.read())
    except OSError as error:
        raise ArgumentError(f"{path} can't be read: {error.strerror}; {wanted}") from error
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"{path} is no JSON: {error}; {wanted}") from error
    if not isinstance(document, dict):
        raise ArgumentError(f"{path} isn't COCO: it holds {_kind(document)}, not an object; {wanted}")
    known = cast(_Record, document)
    missing = [name for name in _SECTIONS if not isinstance(known.get(name), list)]
    if missing:
        found = ", ".join(f"{name} ({_kind(value)})" for name, value in list(known.items())[:10]) or "nothing"
        raise ArgumentError(
            f"{path} isn't COCO: it must have the lists {', '.join(_SECTIONS)}, and {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing; found {found}; {wanted}"
        )
    if not known["images"]:
        raise ArgumentError(f"{path} has no images: its list of them is empty; {wanted}")
    return {name: known[name] for name in _SECTIONS}


def _kind(value: object) -> str:
    if isinstance(value, list):
        return f"a list of {len(cast(list[object], value))}"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, str):
        return "a string"
    return "null" if value is None else "a truth value" if isinstance(value, bool) else "a number"


def _by_id(section: str, records: list[object], faults: Faults, steps: _Steps) -> dict[int, _Record]:
    """The records of a section by their id; those with a fault too, so that what refers to them is no fault as well."""
    found: dict[int, _Record] = {}
    for at, record in enumerate(records):
        steps.advance()
        fault = _record_fault(section, at, record)
        if fault is not None:
            faults.add(fault)
        number = cast(_Record, record).get("id") if isinstance(record, dict) else None
        if not _is_id(number):
            continue
        twin = found.setdefault(number, cast(_Record, record))
        if twin is not record:
            faults.add(
                f"{_NOUNS[section]} {number}: two records have this id{_own_names(twin, cast(_Record, record))}; "
                "number them anew"
            )
    return found


def _own_names(*records: _Record) -> str:
    names = [str(record.get("file_name", record.get("name", ""))) for record in records]
    return f", {' and '.join(names)}" if all(names) else ""


def _record_fault(section: str, at: int, record: object) -> str | None:
    """What makes a record unusable: what it is, its keys, or its id."""
    place = f"{section}[{at}]"
    if not isinstance(record, dict):
        return f"{place}: it is {_kind(record)}, and must be an object with {', '.join(_KEYS[section])}"
    known = cast(_Record, record)
    missing = [key for key in _KEYS[section] if key not in known]
    if missing:
        found = ", ".join(list(known)[:10]) or "nothing"
        number = known.get("id")
        place = f"{_NOUNS[section]} {number}" if _is_id(number) else place
        return f"{place}: it has no {', '.join(missing)}; found {found}"
    if not _is_id(known["id"]):
        return f"{place}: id is {_shown(known['id'])}, and must be an integer of 64 bits"
    return None


def _is_id(value: object) -> TypeGuard[int]:
    return type(value) is int and -_LARGEST_ID <= value <= _LARGEST_ID


def _category_name(record: _Record, faults: Faults) -> str:
    name = record.get("name", "")
    if not isinstance(name, str):
        faults.add(f"category {record['id']}: name is {_shown(name)}, and must be a string")
        return ""
    return name


def _size_of(image: _Record, faults: Faults) -> tuple[float, float]:
    """Width and height in pixels; infinite where they are faulty."""
    sides: list[float] = []
    for name in ("width", "height"):
        side = image.get(name, math.inf)  # a missing one is named already
        if side is not math.inf and not (_is_finite(side) and side > 0 and side == int(side)):
            faults.add(f"image {image['id']}: {name} is {_shown(side)}, and must be a whole number of pixels above 0")
            side = math.inf
        sides.append(float(side))
    return sides[0], sides[1]


def _file_names(root: str, images: Sequence[_Record], faults: Faults) -> list[str]:
    """The images' ``file_name``s; each folder is listed once, which is quicker than to ask for each file."""
    listed: dict[str, frozenset[str]] = {}
    names: list[str] = []
    for image in images:
        name: object = image.get("file_name", "")
        names.append(name if isinstance(name, str) else "")
        if not isinstance(name, str) or not name:
            if "file_name" in image:
                faults.add(f"image {image['id']}: file_name is {_shown(name)}, and must be a path")
            continue
        folder, base = os.path.split(os.path.join(root, name))
        if folder not in listed:
            listed[folder] = _entries(folder)
        if base not in listed[folder]:
            faults.add(
                f"image {image['id']}: there is no file {os.path.join(folder, base)}; restore it, or give images= the "
                "folder that file_name starts from"
            )
    return names


def _entries(folder: str) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except (OSError, ValueError):  # each file in it is named as missing
        return frozenset()


def _boxes_of(
    records: list[object],
    rows: Mapping[int, int],
    categories: Mapping[int, str],
    sizes: Sequence[tuple[float, float]],
    faults: Faults,
    steps: _Steps,
) -> _Boxes:
    """The annotations as arrays, by image.

    Args:
        records: the annotations.
        rows: each image id's place among the samples.
        categories: by their ids.
        sizes: each sample's width and height in pixels.
        faults: where they are added.
        steps: advanced with each record.
    """
    kept: list[_Record] = []
    for number, record in _by_id("annotations", records, faults, steps).items():
        if any(key not in record for key in _KEYS["annotations"]):
            continue  # named already
        fault = _annotation_fault(record, rows, categories)
        if fault is None:
            kept.append(record)
        else:
            faults.add(f"annotation {number}: {fault}")
    owners = np.fromiter((rows[record["image_id"]] for record in kept), np.int64, len(kept))
    boxes = np.array([record["bbox"] for record in kept], dtype=np.float64).reshape(-1, 4)
    areas = np.fromiter(map(_area_of, kept), np.float64, len(kept)).astype(np.float32)
    labels = np.fromiter((record["category_id"] for record in kept), np.int64, len(kept))
    crowd = np.fromiter((bool(record.get("iscrowd", 0)) for record in kept), np.bool_, len(kept))
    order = np.argsort(owners, kind="stable")
    corners = _clipped(boxes[order], np.array(sizes, dtype=np.float64).reshape(-1, 2)[owners[order]])
    whole = (corners[:, 2:] > corners[:, :2]).all(axis=1)
    order = order[whole]
    return _Boxes(
        corners[whole],
        labels[order],
        crowd[order],
        areas[order],
        np.cumsum(np.bincount(owners[order], minlength=len(sizes)), dtype=np.int64),
        int(np.count_nonzero(~whole)),
    )


def _clipped(boxes: NDArray[np.float64], sizes: NDArray[np.float64]) -> NDArray[np.float32]:
    """(M, 4) x, y, width, height as x1, y1, x2, y2 within images of (M, 2) width and height."""
    with np.errstate(over="ignore"):  # a sum beyond float64 is clipped as well
        corners = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
    return np.clip(corners, 0.0, np.tile(sizes, 2)).astype(np.float32)


def _annotation_fault(record: _Record, rows: Mapping[int, int], categories: Mapping[int, str]) -> str | None:
    image_id, category_id, bbox = record["image_id"], record["category_id"], record["bbox"]
    if not _is_id(image_id) or image_id not in rows:
        return f"there is no image with the id {_shown(image_id)}; add it to images, or delete the annotation"
    if not _is_id(category_id) or category_id not in categories:
        return f"there is no category with the id {_shown(category_id)}; add it to categories"
    if not _is_bbox(bbox):
        return f"bbox is {_shown(bbox)}, and must be four finite numbers: x, y, width, height in pixels"
    if bbox[2] < 0 or bbox[3] < 0:
        return f"bbox is {_shown(bbox)}, and its width and height must be at least 0; a bbox is x, y, width, height"
    area, crowd = _area_of(record), record.get("iscrowd", 0)
    if not _is_finite(area) or not 0 <= area <= _LARGEST_AREA:
        return f"area is {_shown(area)}, and must be a finite number of square pixels, at least 0"
    if crowd not in (0, 1):
        return f"iscrowd is {_shown(crowd)}, and must be 0 or 1"
    return None


def _area_of(record: _Record) -> Any:
    return record["area"] if "area" in record else float(record["bbox"][2]) * record["bbox"][3]


def _is_bbox(value: object) -> TypeGuard[list[float]]:
    if not isinstance(value, list):
        return False
    sides = cast(list[object], value)
    return len(sides) == 4 and all(map(_is_finite, sides))


def _is_finite(value: object) -> TypeGuard[float]:
    kind = type(value)
    if kind is float:
        return math.isfinite(cast(float, value))
    return kind is int and abs(cast(int, value)) <= _LARGEST_ID


def _shown(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        text = _kind(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
