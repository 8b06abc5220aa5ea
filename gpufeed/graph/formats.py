"""What headers tell: formats and variants that DALI doesn't decode, or not to Pillow's values.

JPEG, PNG and WebP are told by their first bytes, for a whole batch at once. Of the rarer formats only the variants that
were found equal to Pillow bit for bit are let through; the others are refused, never approximated.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from PIL import Image

if TYPE_CHECKING:  # so that headers can be looked at where DALI can't be imported
    from gpufeed.graph.reading import Encoded

__all__ = ["describe_format", "refused_formats"]

_SIGNATURES = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"GIF8", "GIF"),
    (b"BM", "BMP"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"\0\0\0\x0cjP  ", "JPEG 2000"),
    (b"\xff\x4f\xff\x51", "JPEG 2000"),
)
_WAY_OUT = "convert it to 8-bit RGB, as PNG or JPEG"
_DEEP = f"it has more than 8 bits per channel, which DALI brings to 8 bits differently from Pillow; {_WAY_OUT}"


def describe_format(header: bytes) -> str | None:
    """The format's name by the first bytes of a file; ``None`` if they are no image's that we know."""
    for signature, name in _SIGNATURES:
        if header.startswith(signature):
            return name
    if header[:4] == b"RIFF" and header[8:12] == b"WEBP":
        return "WebP"
    if header[4:8] == b"ftyp":
        return "AVIF" if header[8:12] in (b"avif", b"avis") else "HEIF or a video"
    if header[:1] == b"P" and header[1:2] in b"123456" and header[2:3].isspace():
        return "PNM"
    return None


def refused_formats(encoded: Encoded) -> dict[int, str]:
    """Rows of a batch that would decode to other values than Pillow's, with the cause and the way out."""
    header = encoded.header
    first, marker = header[:, 0], header[:, 3]
    jpeg = (first == 0xFF) & (header[:, 1] == 0xD8)
    png = first == 0x89
    webp = first == ord("R")
    refused = {int(row): _DEEP for row in np.flatnonzero(png & (header[:, 24] == 16))}
    # JFIF and Exif mean grey or YCbCr; Photoshop's CMYK begins otherwise.
    plain_jpeg = jpeg & ((marker == 0xE0) | (marker == 0xE1))
    for row in np.flatnonzero(~plain_jpeg & ~png & ~webp):
        content = np.asarray(encoded.content[int(row)]).tobytes()
        cause = _jpeg_cause(content) if jpeg[row] else _rare_cause(content)
        if cause is not None:
            refused[int(row)] = cause
    return refused


def _jpeg_cause(content: bytes) -> str | None:
    """Four channels are inverted by Pillow only where an Adobe marker says that they are stored so."""
    position, adobe = 2, False
    while position + 9 < len(content) and content[position] == 0xFF:
        marker = content[position + 1]
        adobe = adobe or (marker == 0xEE and content[position + 4 : position + 9] == b"Adobe")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # a frame header; its channels
            four = content[position + 9] == 4
            return f"it is a CMYK JPEG without Adobe's marker; {_WAY_OUT}" if four and not adobe else None
        position += 2 + int.from_bytes(content[position + 2 : position + 4], "big")
    return None


def _rare_cause(content: bytes) -> str | None:
    kind = describe_format(content[:32])
    if kind == "PNM":
        return _pnm_cause(content)
    if kind == "BMP":
        return _bmp_cause(content)
    if kind == "JPEG 2000":
        return _jpeg_2000_cause(content)
    if kind == "TIFF":
        return _tiff_cause(content)
    return None  # DALI refuses what it doesn't know


_PNM_HEADER = re.compile(rb"P[56](?:\s|#[^\n]*\n)+\d+(?:\s|#[^\n]*\n)+\d+(?:\s|#[^\n]*\n)+(\d+)\s")


def _pnm_cause(content: bytes) -> str | None:
    header = _PNM_HEADER.match(content[:4096])
    if header is None:
        return f"of PNM only binary P5 and P6 are decoded here; {_WAY_OUT}"
    if header[1] != b"255":
        return f"its largest value is {header[1].decode()}, which DALI doesn't scale to 255 as Pillow does; {_WAY_OUT}"
    return None


def _bmp_cause(content: bytes) -> str | None:
    bits = int.from_bytes(content[28:30], "little")
    compression = int.from_bytes(content[30:34], "little")
    if bits == 16 or compression == 3:  # 3: channels by bit masks
        return f"it is a BMP with {bits} bits per pixel in bit masks, which DALI rounds differently; {_WAY_OUT}"
    return None


def _jpeg_2000_cause(content: bytes) -> str | None:
    start = content.find(b"\xff\x4f\xff\x51", 0, 4096)  # the codestream and its size marker (ISO 15444-1, A.5.1)
    deep = start < 0 or (content[start + 42 : start + 43] or b"\0")[0] & 0x7F != 7
    return _DEEP if deep else None


# TIFF 6.0: tags and values.
_BITS, _PHOTOMETRIC, _ORIENTATION, _CHANNELS, _EXTRA = 258, 262, 274, 277, 338
_BLACK_IS_ZERO, _RGB, _STRAIGHT_ALPHA = 1, 2, (2,)


def _tiff_cause(content: bytes) -> str | None:
    try:
        with Image.open(io.BytesIO(content)) as image:
            tags: dict[int, Any] = dict(getattr(image, "tag_v2", {}))
    except (OSError, SyntaxError, ValueError) as error:  # Pillow's ways to say that it can't read this
        return f"Pillow can't read this TIFF ({error}); {_WAY_OUT}"
    bits = cast("tuple[int, ...]", tags.get(_BITS, (1,)))
    if max(bits) > 8:
        return _DEEP
    if tags.get(_ORIENTATION, 1) != 1:
        return f"it has an orientation, which Pillow applies to a TIFF and DALI doesn't; {_WAY_OUT}"
    photometric, channels = tags.get(_PHOTOMETRIC), tags.get(_CHANNELS, 1)
    grey = photometric == _BLACK_IS_ZERO and channels == 1
    rgb = photometric == _RGB and (channels == 3 or (channels == 4 and tags.get(_EXTRA) == _STRAIGHT_ALPHA))
    if not (grey or rgb) or set(bits) != {8}:
        return f"of TIFF only 8-bit grey, RGB and RGBA with straight alpha are decoded here; {_WAY_OUT}"
    return None
