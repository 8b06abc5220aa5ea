"""What the header of one image file tells, from a few kilobytes of it and without decoding.

JPEG's markers are those of ITU-T T.81, table B.1; the orientation is EXIF's tag 0x0112.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, cast

import numpy as np
from PIL import Image

from gpufeed.graph.formats import describe_format, refused_formats

__all__ = ["Colour", "Fault", "ImageHeader", "JpegCoding", "read_header"]

JpegCoding = Literal["baseline", "extended", "progressive", "other"]
"""``other``: lossless, hierarchical or arithmetic coding, which hardly anything decodes."""

Colour = Literal["grey", "RGB", "CMYK", "YCCK", "other"]
"""How a JPEG stores its channels; ``RGB`` stands for YCbCr too."""

Fault = Literal["unreadable", "empty", "no image", "cut off"]
"""``cut off``: without the format's end marker, or shorter than its header needs."""

_HEAD_BYTES = 4096
_TAIL_BYTES = 65536
_LARGEST_TIFF = 1 << 28  # a TIFF's directory may be anywhere, so that the whole file is read

_SOI, _SOS, _EOI = 0xD8, 0xDA, 0xD9
_STANDALONE = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a length
_NOT_FRAMES = frozenset({0xC4, 0xC8, 0xCC})  # Huffman tables, reserved, arithmetic conditioning
_CODINGS: dict[int, JpegCoding] = {0xC0: "baseline", 0xC1: "extended", 0xC2: "progressive"}
_DECODED = frozenset({"JPEG", "PNG", "WebP", "JPEG 2000", "BMP", "TIFF", "PNM"})
_PNG_END = b"IEND"
_EXIF = b"Exif\0\0"


@dataclass(frozen=True, slots=True)
class ImageHeader:
    """What is known of a file.

    Attributes:
        path: the file.
        file_bytes: its size. [Unit: byte]
        format: such as ``JPEG`` or ``GIF``; ``None`` for no image that is known here.
        size_hw: height and width as stored, before any orientation; ``None`` where the header doesn't tell.
        fault: what is wrong with the file, if anything.
        detail: the system's or Pillow's words about the fault.
        refusal: why gpufeed refuses the file, with the way out; ``None`` for what it decodes.
        orientation: EXIF's, in [1, 8].
        jpeg_coding: of a JPEG.
        jpeg_colour: of a JPEG.
        jpeg_bits: per channel, of a JPEG.
    """

    path: str
    file_bytes: int
    format: str | None = None
    size_hw: tuple[int, int] | None = None
    fault: Fault | None = None
    detail: str = ""
    refusal: str | None = None
    orientation: int = 1
    jpeg_coding: JpegCoding | None = None
    jpeg_colour: Colour | None = None
    jpeg_bits: int | None = None

    @property
    def pixels(self) -> int | None:
        """Height times width."""
        return None if self.size_hw is None else self.size_hw[0] * self.size_hw[1]

    @property
    def engine_decodes(self) -> bool:
        """Whether a GPU's JPEG engine takes it: baseline, 8 bits, grey or YCbCr (NVIDIA's nvJPEG documentation)."""
        return self.jpeg_coding == "baseline" and self.jpeg_bits == 8 and self.jpeg_colour in ("grey", "RGB")


def read_header(path: str) -> ImageHeader:
    """Look at a file; whatever is wrong with it is in the result, nothing is raised.

    A few kilobytes at its beginning and up to 64 KiB at its end are read; a TIFF of up to 256 MiB is read whole.
    Pillow's warnings pass through.
    """
    try:
        with open(path, "rb") as file:
            file_bytes = os.fstat(file.fileno()).st_size
            if file_bytes == 0:
                return ImageHeader(path, 0, fault="empty")
            head = file.read(_HEAD_BYTES)
            kind = describe_format(head)
            if kind == "JPEG":
                return _jpeg(path, file, file_bytes)
            return _other(path, file, file_bytes, head, kind)
    except OSError as error:
        return ImageHeader(path, 0, fault="unreadable", detail=error.strerror or str(error))


# JPEG -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Frame:
    """A JPEG's frame header and what stood before it. Offsets are from the beginning of the file."""

    marker: int
    bits: int
    size_hw: tuple[int, int]
    channels: int
    ends_at: int
    adobe_transform: int | None
    orientation: int


def _jpeg(path: str, file: BinaryIO, file_bytes: int) -> ImageHeader:
    frame = _frame(file)
    if frame is None:
        return ImageHeader(path, file_bytes, "JPEG", fault="cut off", detail="it has no image behind its header")
    cut_off = not _ends_with(file, file_bytes, bytes((0xFF, _EOI)), frame.ends_at)
    return ImageHeader(
        path,
        file_bytes,
        "JPEG",
        size_hw=frame.size_hw,
        fault="cut off" if cut_off else None,
        detail="JPEG's end marker is missing" if cut_off else "",
        refusal=_refusal(_start(file, frame.ends_at)) if frame.channels == 4 else None,
        orientation=frame.orientation,
        jpeg_coding=_CODINGS.get(frame.marker, "other"),
        jpeg_colour=_colour(frame),
        jpeg_bits=frame.bits,
    )


def _frame(file: BinaryIO) -> _Frame | None:
    """Walk over the segments up to the frame header, reading only those that matter."""
    position, adobe, orientation = 2, None, 1
    while True:
        file.seek(position)
        head = file.read(4)
        if len(head) < 4 or head[0] != 0xFF:
            return None
        marker = head[1]
        if marker == 0xFF or marker in _STANDALONE:  # fill bytes may stand before a marker
            position += 1 if marker == 0xFF else 2
            continue
        length = int.from_bytes(head[2:], "big")
        if marker in (_SOI, _EOI, _SOS) or length < 2:
            return None
        if marker in (0xE1, 0xEE) or (0xC0 <= marker <= 0xCF and marker not in _NOT_FRAMES):
            body = file.read(length - 2)
            if len(body) < length - 2:
                return None
            if marker == 0xE1 and body.startswith(_EXIF):
                orientation = _orientation(body.removeprefix(_EXIF))
            elif marker == 0xEE and body.startswith(b"Adobe") and len(body) >= 12:
                adobe = body[11]
            elif marker not in (0xE1, 0xEE) and len(body) >= 6:
                size_hw = (int.from_bytes(body[1:3], "big"), int.from_bytes(body[3:5], "big"))
                if 0 in size_hw:  # the height may follow the image (DNL); hardly anything reads that
                    return None
                return _Frame(marker, body[0], size_hw, body[5], position + 2 + length, adobe, orientation)
        position += 2 + length


def _orientation(tiff: bytes) -> int:
    """EXIF's orientation in the block's first directory, 1 where there is none."""
    order: Literal["little", "big"] = "little" if tiff[:2] == b"II" else "big"
    at = int.from_bytes(tiff[4:8], order)
    for entry in range(int.from_bytes(tiff[at : at + 2], order)):
        field = tiff[at + 2 + 12 * entry : at + 14 + 12 * entry]
        if int.from_bytes(field[:2], order) == 0x0112:
            value = int.from_bytes(field[8:10], order)
            return value if 1 <= value <= 8 else 1
    return 1


def _colour(frame: _Frame) -> Colour:
    if frame.channels == 4:
        return "YCCK" if frame.adobe_transform == 2 else "CMYK"
    return {1: "grey", 3: "RGB"}.get(frame.channels, "other")  # type: ignore[return-value]


# Other formats --------------------------------------------------------------------------------------------------------


def _other(path: str, file: BinaryIO, file_bytes: int, head: bytes, kind: str | None) -> ImageHeader:
    if kind is None:
        return ImageHeader(path, file_bytes, fault="no image", detail="its first bytes are no image format's")
    size_hw, orientation, detail = _pillow_header(file)
    cut_off = kind == "PNG" and not _ends_with(file, file_bytes, _PNG_END, 0)
    fault: Fault | None = "cut off" if cut_off else None
    if cut_off:
        detail = "PNG's end chunk is missing"
    elif detail and kind in _DECODED:
        fault = "no image"
    if kind not in _DECODED:
        refusal = f"DALI doesn't decode {kind}; convert it to 8-bit RGB, as PNG or JPEG"
    else:
        whole = kind == "TIFF" and file_bytes <= _LARGEST_TIFF
        refusal = None if fault else _refusal(_start(file, file_bytes) if whole else head)
    return ImageHeader(path, file_bytes, kind, size_hw, fault, detail if fault else "", refusal, orientation)


def _pillow_header(file: BinaryIO) -> tuple[tuple[int, int] | None, int, str]:
    """Height and width, EXIF's orientation, and Pillow's complaint if there is one."""
    file.seek(0)
    try:
        image = Image.open(file)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # what Pillow raises
        return None, 1, str(error)
    exif: object = image.info.get("exif")  # Image.getexif would decode a PNG for it
    turned = _orientation(exif.removeprefix(_EXIF)) if isinstance(exif, bytes) else 1
    return (image.height, image.width), turned, ""


# Both -----------------------------------------------------------------------------------------------------------------


def _start(file: BinaryIO, length: int) -> bytes:
    file.seek(0)
    return file.read(length)


def _ends_with(file: BinaryIO, file_bytes: int, marker: bytes, earliest: int) -> bool:
    """Whether a marker stands near the file's end: some programs append to what they write."""
    for tail_bytes in (16, _TAIL_BYTES):  # most end with it
        file.seek(max(earliest, file_bytes - tail_bytes))
        if marker in file.read(tail_bytes):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Heads:
    """What `refused_formats` reads of its batch: the beginning of one file."""

    content: list[np.ndarray[Any, np.dtype[np.uint8]]]
    header: np.ndarray[Any, np.dtype[np.uint8]]


def _refusal(beginning: bytes) -> str | None:
    """Why gpufeed refuses a file that begins so."""
    content = np.frombuffer(beginning, dtype=np.uint8)
    header = np.frombuffer(beginning[:32].ljust(32, b"\0"), dtype=np.uint8)[None]
    return refused_formats(cast(Any, _Heads([content], header))).get(0)
