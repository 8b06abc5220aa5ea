"""An image folder by its files' headers: formats, variants, sizes and faults, in numbers. Nothing is decoded."""

from __future__ import annotations

import os
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from gpufeed.bench.images import EXTENSIONS
from gpufeed.bench.progress import Reporter
from gpufeed.errors import ArgumentError
from gpufeed.inspect.doctor.headers import Fault, ImageHeader, read_header

__all__ = [
    "MOST_NAMED",
    "NEEDED_SHORT_SIDE",
    "OVERSIZED_PIXELS",
    "RESIZED_SHORT_SIDE",
    "DataSurvey",
    "Distribution",
    "Named",
    "spread",
    "survey",
]

MOST_NAMED = 5
"""So many files of a kind are named, the others counted."""

OVERSIZED_PIXELS = 20_000_000
NEEDED_SHORT_SIDE = 256
"""What Resize(256) and CenterCrop(224) keep, and about what a RandomResizedCrop(224) of half the area needs."""

RESIZED_SHORT_SIDE = 512
"""The usual size of a copy that is made once: 4 times the pixels of `NEEDED_SHORT_SIDE`."""

_OTHER_IMAGES = (".gif", ".avif", ".heic", ".heif", ".jp2", ".j2k", ".jpe", ".jfif", ".jxl")
"""Suffixes of images that ``ImageFolder`` doesn't list."""

_AT_ONCE = 8  # headers; hides the round trips of a network file system
_CHUNK = 256
_PATIENCE_S = 2.0  # without a word


@dataclass(frozen=True, slots=True)
class Distribution:
    """Of a positive quantity over the files whose headers tell it."""

    median: float
    p95: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Distribution | None:
        """``None`` where there are no values."""
        if not values:
            return None
        array = np.asarray(values, dtype=np.float64)
        return cls(*(float(value) for value in np.percentile(array, (50, 95, 100))))


@dataclass(frozen=True, slots=True)
class Named:
    """Files with something in common: how many, and the first few with what is said about each."""

    count: int = 0
    files: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DataSurvey:
    """What was found; counts are of the files that were looked at, where nothing else is said.

    Of files that ``ImageFolder`` doesn't list only the format and the file's size are taken.

    Attributes:
        root: the folder.
        num_images: files with an image's suffix below it.
        num_looked_at: of these.
        not_listed: suffixes of images that ``ImageFolder`` leaves out, with the number of such files below the folder.
        unreadable_folders: folders that could not be listed.
        formats: by format.
        faults: files that can't be read, by what is wrong.
        refused: intact files that gpufeed refuses.
        num_progressive: JPEGs in several scans.
        num_four_channels: CMYK and YCCK JPEGs.
        num_unusual: JPEGs with neither Huffman coding of 8 bits nor anything else that is usual.
        num_engine: files that a GPU's JPEG engine decodes.
        orientations: files to be turned, by EXIF's number in [2, 8].
        num_oversized: files of more than `OVERSIZED_PIXELS`.
        num_large: files of more than 4 times the pixels that a shorter side of `NEEDED_SHORT_SIDE` has.
        median_size_hw: medians of height and width.
        pixels: of height times width.
        file_bytes: of the files' sizes. [Unit: byte]
        bits_per_pixel: of the encoded size.
        mean_file_bytes: of the files' sizes. [Unit: byte]
        pixels_ratio: all pixels, divided by those left with every shorter side at most `RESIZED_SHORT_SIDE`.
    """

    root: str
    num_images: int
    num_looked_at: int
    not_listed: Mapping[str, int]
    unreadable_folders: tuple[str, ...]
    formats: Mapping[str, int]
    faults: Mapping[Fault, Named]
    refused: Named
    num_progressive: int
    num_four_channels: int
    num_unusual: int
    num_engine: int
    orientations: Mapping[int, int]
    num_oversized: int
    num_large: int
    median_size_hw: tuple[int, int] | None
    pixels: Distribution | None
    file_bytes: Distribution | None
    bits_per_pixel: Distribution | None
    mean_file_bytes: float
    pixels_ratio: float

    @property
    def estimated_bytes(self) -> int:
        """Of all images, from the mean of those looked at. [Unit: byte]"""
        return round(self.mean_file_bytes * self.num_images)


def survey(root: Path, most: int | None, progress: Reporter, patience_s: float = _PATIENCE_S) -> DataSurvey:
    """Look at the headers of an image folder's files, at any depth, links followed, hidden names left out.

    Args:
        root: the folder.
        most: look at no more files, evenly spread over the sorted list; ``None`` for all.
        progress: told what is done when it takes longer than ``patience_s``.
        patience_s: how long nothing is said. [Unit: second]

    Raises:
        ArgumentError: ``root`` is missing or no folder, or there is no image below it.
    """
    root = root.expanduser()
    if not root.exists():
        raise ArgumentError(f"there is no folder {root}; give the folder that holds the images")
    if not root.is_dir():
        raise ArgumentError(f"{root} is a file; give the folder that holds the images")
    patient = _Patient(progress, time.monotonic() + patience_s)
    listing = _listed(root, patient)
    if not listing.paths:
        closed = f"; {len(listing.unreadable)} of its folders can't be read" if listing.unreadable else ""
        raise ArgumentError(f"{root} holds no image ({', '.join((*EXTENSIONS, *_OTHER_IMAGES))}), at any depth{closed}")
    chosen = spread(sorted(listing.paths), most)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, about sizes and odd metadata
        return _summarised(str(root), listing, _headers(chosen, patient), len(chosen))


def spread(paths: Sequence[str], most: int | None) -> Sequence[str]:
    """At most ``most`` of them, at even distances, none at an end more than elsewhere."""
    if most is None or len(paths) <= most:
        return paths
    return [paths[(2 * number + 1) * len(paths) // (2 * most)] for number in range(most)]


class _Patient:
    """Passes progress on, but nothing in the first seconds."""

    def __init__(self, progress: Reporter, from_s: float) -> None:
        self._progress = progress
        self._from_s = from_s
        self._said = ""

    def count(self, stage: str, done: int, total: int = 0) -> None:
        """``done`` pieces of the stage are finished, of ``total`` where that is known."""
        if time.monotonic() < self._from_s:
            return
        if stage != self._said:
            self._said = stage
            self._progress.say(stage)
        if total:
            self._progress.count(done, total)
        else:
            self._progress.detail(f"{done:,}")


# Listing --------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Listing:
    """Files below a folder."""

    paths: list[str] = field(default_factory=list[str])
    not_listed: Counter[str] = field(default_factory=Counter[str])
    unreadable: list[str] = field(default_factory=list[str])


def _listed(root: Path, progress: _Patient) -> _Listing:
    found = _Listing()
    pending: list[tuple[str, frozenset[tuple[int, int]]]] = [(str(root), frozenset())]
    while pending:
        folder, above = pending.pop()
        try:
            status = os.stat(folder)
            identity = (status.st_dev, status.st_ino)
            if identity in above:  # a link to a folder above itself
                continue
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir():
                        pending.append((entry.path, above | {identity}))
                    else:
                        _take(found, entry)
        except OSError:
            found.unreadable.append(folder)
        progress.count("listing the files", len(found.paths))
    return found


def _take(found: _Listing, entry: os.DirEntry[str]) -> None:
    """A file of an image's suffix; a link to nothing too, so that it is named. Pipes and the like would block."""
    suffix = os.path.splitext(entry.name)[1].lower()
    if (suffix in EXTENSIONS or suffix in _OTHER_IMAGES) and (entry.is_file() or entry.is_symlink()):
        found.paths.append(entry.path)
        if suffix in _OTHER_IMAGES:
            found.not_listed[suffix] += 1


def _is_other(path: str) -> bool:
    return path.lower().endswith(_OTHER_IMAGES)


def _headers(paths: Sequence[str], progress: _Patient) -> Iterator[ImageHeader]:
    rest = iter(paths)
    done = 0
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="gpufeed-headers") as pool:
        while chunk := list(islice(rest, _CHUNK)):
            yield from pool.map(read_header, chunk)
            done += len(chunk)
            progress.count("reading headers", done, len(paths))


# In numbers -----------------------------------------------------------------------------------------------------------


class _Naming:
    """Counts files, and keeps the first few."""

    def __init__(self) -> None:
        self._count = 0
        self._files: list[tuple[str, str]] = []

    def add(self, path: str, text: str) -> None:
        self._count += 1
        if len(self._files) < MOST_NAMED:
            self._files.append((path, text))

    def named(self) -> Named:
        return Named(self._count, tuple(self._files))


def _summarised(root: str, listing: _Listing, headers: Iterable[ImageHeader], num_looked_at: int) -> DataSurvey:
    formats: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    orientations: Counter[int] = Counter()
    faults: dict[Fault, _Naming] = {}
    refused = _Naming()
    sizes: list[tuple[int, int]] = []
    file_bytes: list[int] = []
    bits: list[float] = []
    for header in headers:
        formats[header.format or "no image"] += 1
        file_bytes.append(header.file_bytes)
        if _is_other(header.path):  # nobody will read it
            continue
        if header.fault is not None:
            faults.setdefault(header.fault, _Naming()).add(header.path, header.detail)
            continue
        if header.refusal is not None:
            refused.add(header.path, header.refusal)
        if header.orientation != 1:
            orientations[header.orientation] += 1
        counts.update(_kinds(header))
        if header.size_hw is not None and header.pixels:
            sizes.append(header.size_hw)
            bits.append(8 * header.file_bytes / header.pixels)
    pixels = [height * width for height, width in sizes]
    kept = sum(_resized_pixels(size_hw) for size_hw in sizes)
    return DataSurvey(
        root=root,
        num_images=len(listing.paths),
        num_looked_at=num_looked_at,
        not_listed=dict(listing.not_listed),
        unreadable_folders=tuple(listing.unreadable),
        formats=dict(formats.most_common()),
        faults={fault: naming.named() for fault, naming in faults.items()},
        refused=refused.named(),
        num_progressive=counts["progressive"],
        num_four_channels=counts["four channels"],
        num_unusual=counts["unusual"],
        num_engine=counts["engine"],
        orientations=dict(sorted(orientations.items())),
        num_oversized=sum(count > OVERSIZED_PIXELS for count in pixels),
        num_large=sum(min(size_hw) > 2 * NEEDED_SHORT_SIDE for size_hw in sizes),
        median_size_hw=_median(sizes),
        pixels=Distribution.of(pixels),
        file_bytes=Distribution.of(file_bytes),
        bits_per_pixel=Distribution.of(bits),
        mean_file_bytes=float(np.mean(file_bytes)),
        pixels_ratio=sum(pixels) / kept if kept else 1.0,
    )


def _kinds(header: ImageHeader) -> Iterator[str]:
    if header.engine_decodes:
        yield "engine"
    if header.jpeg_coding == "progressive":
        yield "progressive"
    if header.jpeg_colour in ("CMYK", "YCCK"):
        yield "four channels"
    unusual_bits = header.jpeg_bits not in (None, 8)
    if header.jpeg_coding == "other" or unusual_bits or header.jpeg_colour == "other":
        yield "unusual"


def _median(sizes: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    if not sizes:
        return None
    height, width = np.median(np.asarray(sizes), axis=0)
    return round(float(height)), round(float(width))


def _resized_pixels(size_hw: tuple[int, int]) -> float:
    """Pixels with the shorter side at most `RESIZED_SHORT_SIDE`, at the same ratio of the sides."""
    scale = min(1.0, RESIZED_SHORT_SIDE / min(size_hw))
    return size_hw[0] * size_hw[1] * scale**2
