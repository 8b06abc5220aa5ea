"""Decoded bytes equal Pillow's: formats, modes, orientation, windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from oracle import EXACT, assert_pixels, dataset_of, expected, load
from PIL import Image, ImageOps
from pixel_files import natural
from torchvision.transforms import v2

from gpufeed import DataLoader, SampleError

BYTES = v2.Compose([v2.PILToTensor()])


def test_every_format_and_mode_decodes_to_pillows_rgb(format_files: list[Path]) -> None:
    for path in format_files:
        assert_pixels(load([path], BYTES), expected([path], BYTES), EXACT, scale=1)


def test_windows_of_every_format_are_cut_from_the_same_pixels(format_files: list[Path]) -> None:
    transform = v2.Compose([v2.RandomCrop((23, 31)), v2.PILToTensor()])
    for epoch in range(3):
        assert_pixels(load(format_files, transform, epoch), expected(format_files, transform, epoch), EXACT, scale=1)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
def test_exif_orientation_is_ignored_unless_asked_for(tmp_path: Path, orientation: int, suffix: str) -> None:
    folder = tmp_path / "class"
    folder.mkdir()
    path = folder / f"turned.{suffix}"
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(natural(37, 53, 1)).save(path, exif=exif, **({"lossless": True} if suffix == "webp" else {}))
    with Image.open(path) as image:
        plain = torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)
        turned = torch.from_numpy(np.array(ImageOps.exif_transpose(image).convert("RGB"))).permute(2, 0, 1)
    assert torch.equal(load([path], BYTES)[0], plain)
    assert torch.equal(load([path], BYTES, apply_exif=True)[0], turned)
    crop = v2.Compose([v2.CenterCrop((20, 12)), v2.PILToTensor()])
    assert torch.equal(load([path], crop, apply_exif=True)[0], v2.functional.center_crop(turned, [20, 12]))


def test_unicode_and_long_names_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "Füße 日本"
    folder.mkdir()
    paths = [folder / "ключ 🙂.png", folder / ("x" * 200 + ".png"), folder / "a.png"]
    for number, path in enumerate(paths):
        Image.fromarray(natural(9, 13, number)).save(path)
    assert_pixels(load(paths, BYTES), expected(paths, BYTES), EXACT, scale=1)


def save_16_bit_grey(path: Path) -> None:
    Image.fromarray((np.arange(64, dtype=np.uint16) * 1000).reshape(8, 8)).save(path)


@pytest.mark.parametrize("name", ["deep.png", "deep.tif", "deep.pgm"])
def test_16_bits_are_refused_not_approximated(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "class"
    folder.mkdir()
    save_16_bit_grey(folder / name)
    with pytest.raises(SampleError, match=r"more than 8 bits per channel|largest value is") as caught:
        load([folder / name], BYTES)
    assert caught.value.name.endswith(name)
    assert "convert it to 8-bit RGB" in str(caught.value)


def raw_tiff(path: Path, tags: dict[int, tuple[int, list[int]]], pixels: bytes) -> None:
    """A little-endian TIFF of one strip, 13 x 9, with these tags: number -> (type, values), values up to 4 bytes."""
    tags = {256: (3, [13]), 257: (3, [9]), 259: (3, [1]), 278: (3, [9]), 279: (4, [len(pixels)]), **tags}
    start = 8 + 2 + 12 * (len(tags) + 1) + 4
    extra = b""
    entries: list[bytes] = []
    for number, (kind, values) in sorted({**tags, 273: (4, [0])}.items()):
        size = {3: 2, 4: 4}[kind]
        value = b"".join(v.to_bytes(size, "little") for v in values)
        if len(value) > 4:
            value, extra = (start + len(extra)).to_bytes(4, "little"), extra + value
        entries.append(number.to_bytes(2, "little") + kind.to_bytes(2, "little") + len(values).to_bytes(4, "little"))
        entries.append(value.ljust(4, b"\0"))
    directory = b"".join(entries)
    strip = (273).to_bytes(2, "little") + (4).to_bytes(2, "little") + (1).to_bytes(4, "little")
    directory = directory.replace(strip + bytes(4), strip + (start + len(extra)).to_bytes(4, "little"))
    count = (len(tags) + 1).to_bytes(2, "little")
    path.write_bytes(b"II*\0" + (8).to_bytes(4, "little") + count + directory + bytes(4) + extra + pixels)


RGB_TAGS = {258: (3, [8, 8, 8]), 262: (3, [2]), 277: (3, [3])}
RGB_PIXELS = natural(9, 13, 1).tobytes()
DEEP_TAGS = {**RGB_TAGS, 258: (3, [16, 16, 16])}
ALPHA_TAGS = {258: (3, [8] * 4), 262: (3, [2]), 277: (3, [4])}


def test_a_raw_tiff_decodes(tmp_path: Path) -> None:
    (tmp_path / "class").mkdir()
    path = tmp_path / "class" / "plain.tif"
    raw_tiff(path, RGB_TAGS, RGB_PIXELS)
    assert_pixels(load([path], BYTES), expected([path], BYTES), EXACT, scale=1)


def cmyk_without_marker(path: Path) -> None:
    Image.fromarray(natural(9, 13, 1)).convert("CMYK").save(path, "JPEG")
    content = path.read_bytes()
    start = content.index(b"\xff\xee")
    length = int.from_bytes(content[start + 2 : start + 4], "big")
    path.write_bytes(content[:start] + content[start + 2 + length :])


def masked_bmp(path: Path) -> None:
    Image.fromarray(natural(9, 13, 1)).save(path)
    content = bytearray(path.read_bytes())
    content[28:30] = (16).to_bytes(2, "little")
    path.write_bytes(bytes(content))


REFUSED = {
    "turned.tif": ("has an orientation", lambda path: raw_tiff(path, {**RGB_TAGS, 274: (3, [6])}, RGB_PIXELS)),
    "deep.tif": ("more than 8 bits", lambda path: raw_tiff(path, DEEP_TAGS, RGB_PIXELS * 2)),
    "premultiplied.tif": (
        "straight alpha",
        lambda path: raw_tiff(path, {**ALPHA_TAGS, 338: (3, [1])}, bytes(9 * 13 * 4)),
    ),
    "palette.tif": ("of TIFF only", lambda path: Image.fromarray(natural(9, 13, 1)).quantize(9).save(path)),
    "cmyk.tif": ("of TIFF only", lambda path: Image.fromarray(natural(9, 13, 1)).convert("CMYK").save(path)),
    "fifteen.ppm": ("largest value is 15", lambda path: path.write_bytes(b"P6 # a\n13 9\n15\n" + bytes(9 * 13 * 3))),
    "wide.ppm": ("largest value is 65535", lambda path: path.write_bytes(b"P6 13 9 65535\n" + bytes(9 * 13 * 6))),
    "ascii.ppm": ("of PNM only binary", lambda path: path.write_bytes(b"P3 1 1 255\n1 2 3\n")),
    "masks.bmp": ("in bit masks", masked_bmp),
    "cmyk.jpg": ("without Adobe's marker", cmyk_without_marker),
}


@pytest.mark.parametrize("name", REFUSED)
def test_variants_that_would_decode_to_other_values_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "class").mkdir()
    path = tmp_path / "class" / name
    cause, make = REFUSED[name]
    make(path)
    with pytest.raises(SampleError, match=cause) as caught:
        load([path], BYTES)
    assert caught.value.name == str(path)


def test_a_name_is_a_path_never_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "class").mkdir()
    path = tmp_path / "class" / "a.png"
    Image.fromarray(natural(9, 13, 1)).save(path)
    monkeypatch.chdir(tmp_path)
    relative = tmp_path / "file:" / "b.png"
    relative.parent.mkdir()
    relative.write_bytes(path.read_bytes())
    dataset = dataset_of([path], BYTES)
    dataset.samples = [("file:/b.png", 0)]
    with DataLoader(dataset, device="cpu") as loader:
        assert next(iter(loader))[0].shape == (1, 3, 9, 13)
    dataset.samples = [(f"file://{path}", 0)]
    with DataLoader(dataset, device="cpu") as loader, pytest.raises(SampleError, match="No such file"):
        next(iter(loader))
