"""Decoded bytes equal Pillow's: formats, modes, orientation, windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from oracle import EXACT, assert_pixels, expected, load
from PIL import Image, ImageOps
from pixel_files import natural
from torchvision.transforms import v2

from gpufeed import SampleError

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
    with pytest.raises(SampleError, match="16 bits per channel") as caught:
        load([folder / name], BYTES)
    assert caught.value.name.endswith(name)
    assert "convert it to 8 bits" in str(caught.value)
