"""The image folder to measure on: listed as ``torchvision.datasets.ImageFolder`` lists it, without importing torch."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpufeed.errors import ArgumentError

__all__ = [
    "EXTENSIONS",
    "ImageFolderFiles",
    "check_images",
    "choose",
    "chosen_indices",
    "first_broken",
    "list_image_folder",
]

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""``torchvision.datasets.folder.IMG_EXTENSIONS``; a test compares them."""

_NEXT_STEP = "Give an image folder with one sub-folder per class, or leave DATA out to use built-in images"


@dataclass(frozen=True, slots=True)
class ImageFolderFiles:
    """An image folder's files in torchvision's order.

    Attributes:
        root: the folder.
        classes: names of the class folders, sorted; a target is an index into it.
        paths: the image files.
        targets: the class of each file, in [0, len(classes)).
    """

    root: str
    classes: tuple[str, ...]
    paths: tuple[str, ...]
    targets: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.paths)


def list_image_folder(root: Path) -> ImageFolderFiles:
    """List the images below the class folders of ``root``, links followed, in ``ImageFolder``'s order.

    Unlike ``ImageFolder`` a class folder without images is fine: nothing is measured on it.

    Raises:
        ArgumentError: ``root`` is missing, a file, unreadable, or has no class folders or no images in them.
    """
    root = root.expanduser()
    if not root.exists():
        raise ArgumentError(f"there is no folder {root}. {_NEXT_STEP}")
    if not root.is_dir():
        raise ArgumentError(f"{root} is a file, not an image folder. {_NEXT_STEP}")
    try:
        entries = sorted(os.scandir(root), key=lambda entry: entry.name)
        classes = tuple(entry.name for entry in entries if entry.is_dir())
        paths: list[str] = []
        targets: list[int] = []
        for target, name in enumerate(classes):
            found = _images_below(root / name)
            paths.extend(found)
            targets.extend([target] * len(found))
    except OSError as error:
        raise ArgumentError(f"{error.filename or root} can't be read ({error.strerror}). {_NEXT_STEP}") from error
    if not classes:
        loose = sum(entry.name.lower().endswith(EXTENSIONS) for entry in entries)
        found_instead = f"{loose} image{'s' * (loose != 1)} but no class folders" if loose else "no class folders"
        raise ArgumentError(f"{root} has {found_instead}. {_NEXT_STEP}")
    if not paths:
        raise ArgumentError(
            f"the {len(classes)} class folders of {root} hold no images ({', '.join(EXTENSIONS)}). {_NEXT_STEP}"
        )
    return ImageFolderFiles(str(root), classes, tuple(paths), tuple(targets))


def _images_below(folder: Path) -> list[str]:
    def fail(error: OSError) -> None:
        raise error

    found: list[str] = []
    for directory, _, names in sorted(os.walk(folder, followlinks=True, onerror=fail)):
        found.extend(os.path.join(directory, name) for name in sorted(names) if name.lower().endswith(EXTENSIONS))
    return found


def choose(files: ImageFolderFiles, num_samples: int, seed: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """A fixed choice of ``num_samples`` files with their targets.

    Fewer than there are: a random subset, fixed by ``seed``; a smaller choice is contained in a larger one. More than
    there are: every file is repeated equally often, and the rest is such a subset.

    Returns:
        Paths and targets, in the folder's order.
    """
    indices = chosen_indices(len(files), num_samples, seed)
    return tuple(files.paths[index] for index in indices), tuple(files.targets[index] for index in indices)


def chosen_indices(num_files: int, num_samples: int, seed: int) -> list[int]:
    """The choice that `choose` makes, as indices in [0, num_files), sorted."""
    repeats, rest = divmod(num_samples, num_files)
    subset = np.random.default_rng(seed).permutation(num_files)[:rest]
    return np.sort(np.concatenate([np.tile(np.arange(num_files), repeats), subset])).tolist()


def check_images(paths: Iterable[str]) -> None:
    """Read every distinct file once, which brings it into the page cache, and look at its header.

    Raises:
        ArgumentError: a file can't be read, or its header isn't that of an image that Pillow knows.
    """
    from PIL import Image, UnidentifiedImageError

    for path in dict.fromkeys(paths):
        try:
            with warnings.catch_warnings(), open(path, "rb") as file:
                warnings.simplefilter("ignore")  # about odd metadata; the loaders' own warnings are their business
                while file.read(1 << 20):
                    pass
                file.seek(0)
                Image.open(file).close()
        except UnidentifiedImageError as error:
            raise ArgumentError(f"{path} is not an image that Pillow can read; remove it or repair it") from error
        except OSError as error:
            raise ArgumentError(f"{path} can't be read ({error.strerror or error}); remove it or repair it") from error


def first_broken(paths: Iterable[str]) -> tuple[str, str] | None:
    """Decode every distinct file until one fails.

    Returns:
        Its path and what Pillow says, or ``None`` where all are fine.
    """
    from PIL import Image

    for path in dict.fromkeys(paths):
        try:
            with warnings.catch_warnings(), Image.open(path) as image:
                warnings.simplefilter("ignore")
                image.load()
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # what Pillow raises
            return path, str(error)
    return None
