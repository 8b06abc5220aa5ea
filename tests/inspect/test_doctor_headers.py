"""What `gpufeed doctor` reads from one file's header."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import doctor_files as files
import pytest
from PIL import Image

from gpufeed.inspect.doctor.headers import ImageHeader, read_header


def _of(make: Callable[[Path], Path], folder: Path) -> ImageHeader:
    return read_header(str(make(folder / "image.jpg")))


@pytest.mark.parametrize(
    ("make", "coding", "colour", "engine"),
    [
        (files.baseline, "baseline", "RGB", True),
        (files.grey, "baseline", "grey", True),
        (files.progressive, "progressive", "RGB", False),
        (files.cmyk, "baseline", "CMYK", False),
        (files.ycck, "baseline", "YCCK", False),
    ],
)
def test_jpeg_variants(make: Callable[[Path], Path], coding: str, colour: str, engine: bool, tmp_path: Path) -> None:
    header = _of(make, tmp_path)
    assert (header.format, header.size_hw, header.jpeg_bits) == ("JPEG", (60, 80), 8)
    assert (header.jpeg_coding, header.jpeg_colour, header.engine_decodes) == (coding, colour, engine)
    assert (header.fault, header.refusal, header.orientation) == (None, None, 1)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp"])
def test_the_orientation_is_exifs_and_the_size_is_as_stored(orientation: int, suffix: str, tmp_path: Path) -> None:
    header = read_header(str(files.turned(tmp_path / f"image{suffix}", orientation)))
    assert (header.orientation, header.size_hw) == (orientation, (60, 80))


def test_a_big_endian_orientation_and_nonsense_in_its_place(tmp_path: Path) -> None:
    content = files.turned(tmp_path / "image.jpg", 3).read_bytes()
    start = content.index(b"Exif\0\0") + 6
    assert content[start : start + 2] == b"MM"  # what Pillow writes
    little = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x05\0\0\0\0\0\0\0"
    at_most = int.from_bytes(content[start - 8 : start - 6], "big") - 8
    for exif, orientation in ((little[:at_most], 5), (b"MM\0*\xff\xff\xff\xff", 1), (b"", 1)):
        segment = b"\xff\xe1" + (8 + len(exif)).to_bytes(2, "big") + b"Exif\0\0" + exif
        (tmp_path / "other.jpg").write_bytes(content[:2] + segment + content[2:])
        # The file's own segment follows; the last one with an orientation wins, so it is made unknown here.
        text = (tmp_path / "other.jpg").read_bytes()
        first = text.index(b"Exif\0\0")
        own = text.index(b"Exif\0\0", first + 6)
        (tmp_path / "other.jpg").write_bytes(text[:own] + b"Exit\0\0" + text[own + 6 :])
        header = read_header(str(tmp_path / "other.jpg"))
        assert (header.orientation, header.fault) == (orientation, None)


def test_cmyk_without_adobes_marker_is_refused_by_gpufeeds_own_rule(tmp_path: Path) -> None:
    header = _of(files.cmyk_without_adobe, tmp_path)
    assert header.jpeg_colour == "CMYK"
    assert header.refusal is not None
    assert "CMYK JPEG without Adobe's marker" in header.refusal


def test_a_cmyk_profile_of_many_segments_is_skipped_not_searched(tmp_path: Path) -> None:
    path = tmp_path / "image.jpg"
    files.photo().convert("CMYK").save(path, icc_profile=bytes(200_000))
    assert (read_header(str(path)).jpeg_colour, read_header(str(path)).refusal) == ("CMYK", None)


def test_what_is_cut_off_lacks_its_end_marker(tmp_path: Path) -> None:
    assert _of(files.cut_off, tmp_path).fault == "cut off"
    png = files.png(tmp_path / "image.png")
    png.write_bytes(png.read_bytes()[:-20])
    assert read_header(str(png)).fault == "cut off"


def test_a_thumbnails_end_marker_is_not_the_images(tmp_path: Path) -> None:
    path = files.cut_off(tmp_path / "image.jpg")
    content = path.read_bytes()
    segment = b"\xff\xe1\x00\x0a" + b"Exif\0\0\xff\xd9"
    path.write_bytes(content[:2] + segment + content[2:])
    assert read_header(str(path)).fault == "cut off"


def test_something_appended_is_no_fault(tmp_path: Path) -> None:
    path = files.baseline(tmp_path / "image.jpg")
    path.write_bytes(path.read_bytes() + bytes(1000))
    assert read_header(str(path)).fault is None


@pytest.mark.parametrize("length", [2, 3, 10, 20, 60, 163, 200])
def test_a_jpeg_that_ends_in_its_header_is_cut_off(length: int, tmp_path: Path) -> None:
    path = files.baseline(tmp_path / "image.jpg")
    path.write_bytes(path.read_bytes()[:length])
    header = read_header(str(path))
    assert header.fault in ("cut off", "no image")
    assert header.size_hw is None or header.fault == "cut off"


def test_fill_bytes_and_markers_without_a_length_are_passed_over(tmp_path: Path) -> None:
    path = files.baseline(tmp_path / "image.jpg")
    content = path.read_bytes()
    path.write_bytes(content[:2] + b"\xff\x01\xff\xff" + content[2:])
    assert (read_header(str(path)).size_hw, read_header(str(path)).fault) == ((60, 80), None)


def test_a_segment_of_no_length_ends_the_search(tmp_path: Path) -> None:
    path = tmp_path / "image.jpg"
    path.write_bytes(b"\xff\xd8\xff\xe0\x00\x00" + bytes(100))
    assert read_header(str(path)).fault == "cut off"


def test_other_formats_are_told_by_their_content(tmp_path: Path) -> None:
    gif = _of(files.gif, tmp_path)
    assert (gif.format, gif.size_hw) == ("GIF", (60, 80))
    assert gif.refusal is not None
    assert "DALI doesn't decode GIF" in gif.refusal
    png = _of(files.png, tmp_path)
    assert (png.format, png.refusal, png.fault, png.engine_decodes) == ("PNG", None, None, False)
    deep = _of(files.png_16_bit, tmp_path)
    assert deep.size_hw == (20, 30)
    assert deep.refusal is not None
    assert "more than 8 bits per channel" in deep.refusal


def test_a_tiffs_directory_behind_its_pixels_is_read(tmp_path: Path) -> None:
    path = tmp_path / "image.tif"
    files.photo(100, 100).save(path, compression="tiff_lzw")
    assert (read_header(str(path)).size_hw, read_header(str(path)).refusal) == ((100, 100), None)
    files.photo().convert("CMYK").save(path)
    refusal = read_header(str(path)).refusal
    assert refusal is not None
    assert "of TIFF only" in refusal


def test_no_images(tmp_path: Path) -> None:
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "text.jpg").write_text("no image")
    (tmp_path / "head.bmp").write_bytes(b"BM")
    found = [read_header(str(tmp_path / name)).fault for name in ("empty.jpg", "text.jpg", "head.bmp", "missing.jpg")]
    assert found == ["empty", "no image", "no image", "unreadable"]
    assert read_header(str(tmp_path / "missing.jpg")).detail == "No such file or directory"


def test_nothing_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("decoded")

    files.write_all(tmp_path)
    monkeypatch.setattr(Image.Image, "load", fail)
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", fail)
    for path in tmp_path.rglob("*.*"):
        read_header(str(path))


def test_neither_torch_nor_dali_is_needed() -> None:
    code = (
        "import sys\nimport gpufeed.inspect.doctor, gpufeed.inspect.doctor.render\n"
        "assert not {'torch', 'torchvision', 'nvidia.dali'} & sys.modules.keys()\n"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
