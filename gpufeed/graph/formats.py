"""What headers tell: formats and depths that DALI doesn't decode, or not to Pillow's values."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

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
_EIGHT_BIT_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
_DEPTH_CAUSE = "it has 16 bits per channel, which DALI scales to 8 bits differently from Pillow; convert it to 8 bits"


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
    """Rows of a batch that would decode to other values than Pillow's, with the cause."""
    header = encoded.header
    first = header[:, 0]
    jpeg_or_webp = (first == 0xFF) | (first == ord("R"))
    png = first == 0x89
    refused = {int(row): _DEPTH_CAUSE for row in np.flatnonzero(png & (header[:, 24] == 16))}
    for row in np.flatnonzero(~jpeg_or_webp & ~png):  # rare formats: Pillow reads the header
        mode = _pillow_mode(np.asarray(encoded.content[int(row)]))
        if mode is not None and mode not in _EIGHT_BIT_MODES:
            refused[int(row)] = (
                _DEPTH_CAUSE if mode.startswith("I") else f"its pixels have Pillow's mode {mode!r}, not 8-bit colour"
            )
    return refused


def _pillow_mode(content: NDArray[np.uint8]) -> str | None:
    try:
        with Image.open(io.BytesIO(content.tobytes())) as image:
            return image.mode
    except (OSError, SyntaxError, ValueError):  # Pillow's ways to say that it can't read this
        return None
