"""One image file of each kind that `gpufeed doctor` tells apart, made here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def photo(height: int = 60, width: int = 80, seed: int = 0) -> Image.Image:
    """Noise: nothing compresses it to a few bytes."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def baseline(path: Path, height: int = 60, width: int = 80) -> Path:
    photo(height, width).save(path, "JPEG")
    return path


def progressive(path: Path) -> Path:
    photo().save(path, "JPEG", progressive=True)
    return path


def grey(path: Path) -> Path:
    photo().convert("L").save(path, "JPEG")
    return path


def cmyk(path: Path) -> Path:
    """With Adobe's marker, as Pillow and Photoshop write it."""
    photo().convert("CMYK").save(path, "JPEG")
    return path


def ycck(path: Path) -> Path:
    """As `cmyk`, with the marker's transform saying YCCK; only the header is right."""
    content = bytearray(cmyk(path).read_bytes())
    content[content.index(b"Adobe") + 11] = 2
    path.write_bytes(content)
    return path


def cmyk_without_adobe(path: Path) -> Path:
    content = cmyk(path).read_bytes()
    start = content.index(b"\xff\xee")
    length = int.from_bytes(content[start + 2 : start + 4], "big")
    path.write_bytes(content[:start] + content[start + 2 + length :])
    return path


def turned(path: Path, orientation: int = 6) -> Path:
    exif = Image.Exif()
    exif[0x0112] = orientation
    photo().save(path, exif=exif)
    return path


def cut_off(path: Path) -> Path:
    whole = baseline(path).read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    return path


def gif(path: Path) -> Path:
    photo().convert("P").save(path, "GIF")
    return path


def png(path: Path) -> Path:
    photo().save(path, "PNG")
    return path


def png_16_bit(path: Path) -> Path:
    values = np.random.default_rng(0).integers(0, 65536, (20, 30)).astype(np.uint16)
    Image.fromarray(values).save(path, "PNG")
    return path


def write_all(folder: Path) -> None:
    """Every kind once, in two levels of folders."""
    below = folder / "one" / "two"
    below.mkdir(parents=True)
    baseline(below / "baseline.jpg")
    progressive(below / "progressive.jpg")
    grey(below / "grey.jpeg")
    cmyk(below / "cmyk.jpg")
    ycck(below / "ycck.jpg")
    cmyk_without_adobe(below / "cmyk_without_adobe.jpg")
    turned(folder / "turned.jpg")
    cut_off(folder / "cut_off.JPG")
    gif(folder / "named_so.jpg")
    gif(folder / "plain.gif")
    png(folder / "plain.png")
    png_16_bit(folder / "deep.png")
    (folder / "empty.jpg").touch()
    (folder / "text.jpg").write_text("no image")
    (folder / "labels.txt").write_text("not looked at")
