"""Segmentation: an image and a PNG of class indices for each, paired by their names."""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from gpufeed.errors import ArgumentError, SampleError
from gpufeed.sources.base import Paths
from gpufeed.sources.faults import Faults
from gpufeed.sources.listing import IMAGE_SUFFIXES, FileList, digest_of, files_below, folder_path, stem_of

__all__ = ["MaskPairSource"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HEADER_BYTES = 26  # the signature, and of the IHDR chunk its length, its name, width, height, bit depth, colour type
_GREY, _PALETTE = 0, 3  # PNG's colour types
_OTHER_COLOURS = {2: "RGB", 4: "grey with alpha", 6: "RGBA"}
_TO_GREY = "map its colours to class indices once, and save them as an 8-bit grey PNG"
_READERS = 4
_FILES_A_CHUNK = 64


@dataclass(init=False, frozen=True, slots=True, eq=False)
class MaskPairSource:
    """Images, and for each a mask of class indices.

    An image and its mask have the same path below their folders but for the suffix (compared in Unicode's composed
    form), as ``images/a/b.jpg`` and ``masks/a/b.png``. A mask is a PNG of 8-bit grey, of a palette, whose indices count
    and whose colours don't, or of 1 bit. Files are sorted by their names, links are followed, hidden files and folders
    are left out. Files are listed when the source is made; masks are read each time they are asked for.

    Args:
        images: folder of the images; its sub-folders are searched too.
        masks: folder of the masks.
        num_classes: a mask's values are in [0, num_classes), num_classes at most 256, or `ignore_index`; ``None`` takes
            any.
        ignore_index: the value of pixels that belong to no class, in [0, 255]; ``None`` for none.

    Attributes:
        images: the images' folder.
        masks: the masks' folder.
        num_classes: as given.
        ignore_index: as given.

    Raises:
        ArgumentError: for an argument outside its rule, a folder that is missing or empty, and for faults of the files,
            which one error names together: an image without mask or a mask without image, files of the same name but
            for the suffix, and masks that are no PNG by their name.
    """

    images: str
    masks: str
    num_classes: int | None
    ignore_index: int | None
    _files: FileList = field(repr=False)
    _mask_files: FileList = field(repr=False)

    def __init__(
        self,
        images: str | os.PathLike[str],
        masks: str | os.PathLike[str],
        *,
        num_classes: int | None = None,
        ignore_index: int | None = 255,
    ) -> None:
        _check_integer("num_classes", num_classes, 1, 256)
        _check_integer("ignore_index", ignore_index, 0, 255)
        image_root, mask_root = folder_path(images, "images"), folder_path(masks, "masks")
        faults = Faults(f"the masks of {image_root} in {mask_root}")
        image_names = files_below(image_root, IMAGE_SUFFIXES, "images")
        mask_names = _paired(image_root, image_names, mask_root, faults)
        faults.check()
        files, mask_files = FileList.of(image_root, image_names), FileList.of(mask_root, mask_names)
        values = (image_root, mask_root, num_classes, ignore_index, files, mask_files)
        for name, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self._files)

    def read(self, indices: Sequence[int]) -> Paths:
        return Paths.of([self._files.path(index) for index in indices])

    def fields(self, indices: Sequence[int]) -> Mapping[str, Sequence[object]]:
        """The samples' masks, read and decoded now, on the calling thread; the arrays are the caller's own.

        Returns:
            mask: (H, W) uint8 class indices, H and W the image's as it is stored: an EXIF orientation turns neither.
            target: the same arrays.

        Raises:
            ArgumentError: for an index that isn't in [0, len).
            SampleError: for the first mask that can't be read, is no PNG of a kind named above, has another size than
                its image, or has a value outside of [0, num_classes) that isn't ``ignore_index``. The image's size is
                taken from its header; where that can't be read it isn't compared.
        """
        masks = [self._mask(index) for index in indices]
        return {"mask": masks, "target": masks.copy()}

    def name_of(self, index: int) -> str:
        return self._files.path(index)

    def fingerprint(self) -> str:
        """Covers the images' names below their folder, and the masks' encoded bytes: reads all masks, every time."""
        indices = range(len(self))
        chunks = [indices[start : start + _FILES_A_CHUNK] for start in indices[::_FILES_A_CHUNK]]
        with ThreadPoolExecutor(_READERS, "gpufeed-masks") as readers:
            return digest_of(self._files, readers.map(self._digests, chunks))

    def _digests(self, indices: Sequence[int]) -> bytes:
        return b"".join(hashlib.sha256(self._encoded(index)).digest() for index in indices)

    def _encoded(self, index: int) -> bytes:
        path = self._mask_files.path(index)
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError as error:
            cause = f"its mask {path} can't be read: {error.strerror}; restore the file"
            raise SampleError(index, self.name_of(index), cause) from error

    def _mask(self, index: int) -> NDArray[np.uint8]:
        index = self._files.check(index)
        encoded = self._encoded(index)
        image = self.name_of(index)
        cause = _header_fault(encoded) or _size_fault(encoded, image)
        if cause is None:
            try:
                mask = _decoded(encoded)
            except (OSError, SyntaxError, ValueError, EOFError, zlib.error, struct.error) as error:
                cause = f"is damaged or cut short ({error}); replace it"
            except Image.DecompressionBombError as error:
                cause = f"is too large for Pillow: {error}; raise PIL.Image.MAX_IMAGE_PIXELS"
            else:
                cause = _value_fault(mask, self.num_classes, self.ignore_index)
                if cause is None:
                    return mask
        raise SampleError(index, image, f"its mask {self._mask_files.path(index)} {cause}")


def _check_integer(name: str, value: object, low: int, high: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ArgumentError(f"{name} must be an integer in [{low}, {high}] or None, got {value!r}: masks have 8 bits")


def _paired(image_root: str, images: list[str], mask_root: str, faults: Faults) -> list[str]:
    """The mask of each image, relative to ``mask_root``; empty where there is none."""
    mask_of: dict[str, str] = {}
    for name in files_below(mask_root, IMAGE_SUFFIXES, "masks"):
        path = os.path.join(mask_root, name)
        if not name.lower().endswith(".png"):
            faults.add(f"{path}: a mask must be a PNG, as other formats may change its values; save it as PNG")
        twin = mask_of.setdefault(stem_of(name), name)
        if twin is not name:
            faults.add(f"{path}: {twin} is for the same image; keep one of them")
    image_of: dict[str, str] = {}
    found: list[str] = []
    for name in images:
        path, stem = os.path.join(image_root, name), stem_of(name)
        twin = image_of.setdefault(stem, name)
        found.append(mask_of.get(stem, ""))
        if twin is not name:
            faults.add(f"{path}: {twin} has the same mask; keep one of them, or rename one")
        elif stem not in mask_of:
            expected = os.path.join(mask_root, os.path.splitext(name)[0])
            faults.add(f"{path}: there is no mask {expected}.png; add it, or take the image out of the folder")
    for stem, name in mask_of.items():
        if stem not in image_of:
            path = os.path.join(mask_root, name)
            faults.add(f"{path}: there is no image of that name in {image_root}; delete or move it")
    return found


def _header_fault(encoded: bytes) -> str | None:
    """What makes a file no mask, by its first bytes: decoded, a 16-bit or a 2-bit one would look like any other."""
    if not encoded:
        return "is empty; replace it"
    if not encoded.startswith(_SIGNATURE) or len(encoded) < _HEADER_BYTES:
        return f"is no PNG, whatever its name says: it begins with {encoded[:8]!r}; save it as PNG"
    bits, colour = encoded[24], encoded[25]
    if colour in _OTHER_COLOURS:
        return f"is {_OTHER_COLOURS[colour]}, and must be 8-bit grey, palette or 1-bit; {_TO_GREY}"
    if bits == 16:
        return "has 16 bits, and must have 8, a palette or 1; save its class indices, 0 to 255, as an 8-bit grey PNG"
    if colour == _GREY and bits in (2, 4):
        return (
            f"has {bits} bits, which decoders spread over 0 to 255, and must have 8, a palette or 1; "
            "save its class indices as an 8-bit grey PNG"
        )
    return None


def _size_fault(encoded: bytes, image: str) -> str | None:
    width, height = struct.unpack(">II", encoded[16:24])
    try:
        with Image.open(image) as opened:  # reads the header only
            size = opened.size
    except (OSError, SyntaxError, ValueError, struct.error, Image.DecompressionBombError):
        return None  # a fault of the image, which whoever reads it reports
    if size == (width, height):
        return None
    return (
        f"is {width}x{height}, and its image {size[0]}x{size[1]} (width x height); they must be equal, "
        "before any EXIF orientation"
    )


def _decoded(encoded: bytes) -> NDArray[np.uint8]:
    with Image.open(BytesIO(encoded), formats=("PNG",)) as opened:
        return np.array(opened).astype(np.uint8, copy=False)  # 1-bit ones come as truth values


def _value_fault(mask: NDArray[np.uint8], num_classes: int | None, ignore_index: int | None) -> str | None:
    if num_classes is None or int(mask.max()) < num_classes:
        return None
    wrong = mask >= num_classes
    if ignore_index is not None:
        wrong &= mask != ignore_index
    first = int(np.argmax(wrong))
    if not wrong.flat[first]:
        return None
    row, column = divmod(first, mask.shape[1])
    count = int(np.count_nonzero(wrong))
    return (
        f"has the value {mask[row, column]} at row {row}, column {column} ({count} such pixel{'s' * (count != 1)} in "
        f"all), and must be in [0, {num_classes}) or be ignore_index={ignore_index}; correct it, or num_classes"
    )
