"""`MaskPairSource`: what it gives, and every fault of folders and masks by its message."""

from __future__ import annotations

import struct
import unicodedata
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy
from PIL import Image
from source_harness import check_contract, lines_of

from gpufeed.errors import ArgumentError, SampleError
from gpufeed.sources import MaskPairSource

SHAPE = (11, 17)


def write(path: Path, image: Image.Image, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)


def grey(values: np.ndarray) -> Image.Image:
    return Image.fromarray(values.astype(np.uint8))


def picture(width: int = SHAPE[1], height: int = SHAPE[0]) -> Image.Image:
    return Image.new("RGB", (width, height), (200, 30, 60))


def mask_values(seed: int = 0, high: int = 21) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, high, SHAPE, dtype=np.uint8)


def dataset(root: Path, *stems: str) -> tuple[Path, Path]:
    """Folders ``images`` and ``masks`` with a pair for each stem, the masks all different."""
    for seed, stem in enumerate(stems):
        write(root / f"images/{stem}.jpg", picture())
        write(root / f"masks/{stem}.png", grey(mask_values(seed)))
    return root / "images", root / "masks"


def faults(root: Path, **arguments: Any) -> list[str]:
    images, masks = root / "images", root / "masks"
    first, *rest = lines_of(lambda: MaskPairSource(images, masks, **arguments))
    assert first.startswith(f"the masks of {images} in {masks}: ")
    return [line.replace(f"{root}/", "") for line in rest]


def cause_of(root: Path, content: bytes | Image.Image | None = None, **arguments: Any) -> str:
    """Why a mask is refused when it is read, without its path; the other sample still loads."""
    images, masks = dataset(root, "a", "b")
    if isinstance(content, Image.Image):
        content.save(masks / "b.png")
    elif content is not None:
        (masks / "b.png").write_bytes(content)
    source = MaskPairSource(images, masks, **arguments)
    with pytest.raises(SampleError) as raised:
        source.fields([0, 1])
    assert (raised.value.index, raised.value.name) == (1, str(images / "b.jpg"))
    np.testing.assert_array_equal(source.fields([0])["mask"][0], mask_values(0))
    prefix = f"its mask {masks / 'b.png'} "
    assert raised.value.cause.startswith(prefix)
    return raised.value.cause.removeprefix(prefix)


def png(width: int, height: int, bits: int, colour: int, rows: bytes) -> bytes:
    """A PNG file written by hand, as Pillow can't write all kinds."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + (chunk(b"PLTE", bytes(range(48))) if colour == 3 else b"")
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def test_the_contract(tmp_path: Path) -> None:
    check_contract(MaskPairSource(*dataset(tmp_path, "b", "sub/a ü", "c.x")))


def test_pairs_are_made_by_the_relative_stem_never_by_position(tmp_path: Path) -> None:
    images, masks = dataset(tmp_path, "b", "a/b", "a/c")
    (images / "b.jpg").rename(images / "b.JPEG")
    (masks / "a/c.png").rename(masks / "a/c.PNG")
    source = MaskPairSource(images, masks)
    assert [source.name_of(index) for index in range(3)] == [
        str(images / name) for name in ("a/b.jpg", "a/c.jpg", "b.JPEG")
    ]
    for index, seed in enumerate((1, 2, 0)):
        fields = source.fields([index])
        mask: Any = fields["mask"][0]
        assert (mask.dtype, fields["target"][0] is mask) == (np.uint8, True)
        np.testing.assert_array_equal(mask, mask_values(seed))
    assert (source.images, source.masks, source.num_classes, source.ignore_index) == (
        str(images),
        str(masks),
        None,
        255,
    )


@given(st_numpy.arrays(np.uint8, st_numpy.array_shapes(min_dims=2, max_dims=2, max_side=9)), st.sampled_from("LP1"))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read(tmp_path: Path, values: np.ndarray, mode: str) -> None:
    image = grey(values)
    if mode == "P":
        image.putpalette(np.random.default_rng(3).bytes(768))
    elif mode == "1":
        values = values & 1
        image = Image.fromarray(values.astype(bool))
    assert image.mode == mode
    write(tmp_path / "masks/a.png", image)
    write(tmp_path / "images/a.png", picture(*image.size))
    mask: Any = MaskPairSource(tmp_path / "images", tmp_path / "masks").fields([0])["mask"][0]
    assert (mask.dtype, mask.flags.writeable) == (np.uint8, True)
    np.testing.assert_array_equal(mask, values)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_a_palettes_indices_count_whatever_their_bits(tmp_path: Path, bits: int) -> None:
    content = png(8 // bits, 1, bits, 3, bytes([0, 0b10110001 if bits < 8 else 14]))
    write(tmp_path / "images/a.jpg", picture(8 // bits, 1))
    (tmp_path / "masks").mkdir()
    (tmp_path / "masks/a.png").write_bytes(content)
    expected = {1: [1, 0, 1, 1, 0, 0, 0, 1], 2: [2, 3, 0, 1], 4: [11, 1], 8: [14]}[bits]
    mask: Any = MaskPairSource(tmp_path / "images", tmp_path / "masks").fields([0])["mask"][0]
    assert mask.tolist() == [expected]


def test_an_exif_orientation_turns_neither_image_nor_mask(tmp_path: Path) -> None:
    images, masks = dataset(tmp_path, "a")
    exif = Image.Exif()
    exif[0x0112] = 6
    write(images / "a.jpg", picture(), exif=exif)
    assert MaskPairSource(images, masks).fields([0])["mask"][0].shape == SHAPE  # type: ignore[attr-defined]


GREY = "map its colours to class indices once, and save them as an 8-bit grey PNG"


@pytest.mark.parametrize(
    ("image", "cause"),
    [
        (Image.new("RGB", SHAPE[::-1]), f"is RGB, and must be 8-bit grey, palette or 1-bit; {GREY}"),
        (Image.new("RGBA", SHAPE[::-1]), f"is RGBA, and must be 8-bit grey, palette or 1-bit; {GREY}"),
        (Image.new("LA", SHAPE[::-1]), f"is grey with alpha, and must be 8-bit grey, palette or 1-bit; {GREY}"),
        (
            Image.new("I;16", SHAPE[::-1]),
            "has 16 bits, and must have 8, a palette or 1; save its class indices, 0 to 255, as an 8-bit grey PNG",
        ),
        (
            png(1, 1, 2, 0, b"\0\xc0"),
            (
                "has 2 bits, which decoders spread over 0 to 255, and must have 8, a palette or 1; save its class "
                "indices as an 8-bit grey PNG"
            ),
        ),
        (b"", "is empty; replace it"),
        (
            b"\x89PNG\r\n\x1a\n123",
            r"is no PNG, whatever its name says: it begins with b'\x89PNG\r\n\x1a\n'; save it as PNG",
        ),
        (b"GIF89a....", "is no PNG, whatever its name says: it begins with b'GIF89a..'; save it as PNG"),
    ],
)
def test_a_mask_of_another_kind_is_refused(tmp_path: Path, image: Image.Image | bytes, cause: str) -> None:
    assert cause_of(tmp_path, image) == cause


@pytest.mark.parametrize("kept", [30, 60, -30])
def test_a_mask_that_is_cut_short_is_named(tmp_path: Path, kept: int) -> None:
    _, masks = dataset(tmp_path, "a", "b")
    cause = cause_of(tmp_path, (masks / "b.png").read_bytes()[:kept])
    assert cause.startswith("is damaged or cut short (")
    assert cause.endswith("); replace it")


def test_a_mask_that_is_gone_is_named(tmp_path: Path) -> None:
    images, masks = dataset(tmp_path, "a", "b")
    source = MaskPairSource(images, masks)
    (masks / "b.png").unlink()
    for call in (lambda: source.fields([1]), source.fingerprint):
        with pytest.raises(SampleError, match=r"b\.png can't be read: No such file or directory; restore the file"):
            call()


def test_a_mask_too_large_for_pillow_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images, masks = dataset(tmp_path, "a")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(SampleError, match=r"a\.png is too large for Pillow: .*; raise PIL\.Image\.MAX_IMAGE_PIXELS"):
        MaskPairSource(images, masks).fields([0])


def test_a_mask_must_have_its_images_size(tmp_path: Path) -> None:
    assert cause_of(tmp_path, grey(mask_values().T)) == (
        "is 11x17, and its image 17x11 (width x height); they must be equal, before any EXIF orientation"
    )


def test_an_image_that_cannot_be_read_is_left_to_its_reader(tmp_path: Path) -> None:
    images, masks = dataset(tmp_path, "a", "b")
    (images / "a.jpg").write_bytes(b"no image")
    source = MaskPairSource(images, masks)
    np.testing.assert_array_equal(source.fields([0])["mask"][0], mask_values(0))


@pytest.mark.parametrize(
    ("ignore_index", "value", "cause"),
    [
        (255, 21, "has the value 21 at row 2, column 5 (2 such pixels in all), and must be in [0, 21) or be "),
        (255, 254, "has the value 254 at row 2, column 5 (2 such pixels in all), and must be in [0, 21) or be "),
        (0, 255, "has the value 255 at row 2, column 5 (2 such pixels in all), and must be in [0, 21) or be "),
        (None, 255, "has the value 255 at row 2, column 5 (2 such pixels in all), and must be in [0, 21) or be "),
    ],
)
def test_a_value_beyond_the_classes_is_named_with_its_pixel(
    tmp_path: Path, ignore_index: int | None, value: int, cause: str
) -> None:
    values = mask_values()
    values[0, 0] = 20 if ignore_index is None else ignore_index
    values[2, 5] = values[10, 16] = value
    assert cause_of(tmp_path, grey(values), num_classes=21, ignore_index=ignore_index) == (
        f"{cause}ignore_index={ignore_index}; correct it, or num_classes"
    )


def test_values_within_the_classes_and_the_ignored_one_are_fine(tmp_path: Path) -> None:
    images, masks = dataset(tmp_path, "a")
    values = mask_values()
    values[3, 4] = 255
    grey(values).save(masks / "a.png")
    np.testing.assert_array_equal(MaskPairSource(images, masks, num_classes=21).fields([0])["mask"][0], values)
    np.testing.assert_array_equal(
        MaskPairSource(images, masks, num_classes=256, ignore_index=None).fields([0])["mask"][0], values
    )


def test_a_missing_mask_and_a_mask_without_image_are_named(tmp_path: Path) -> None:
    images, masks = dataset(tmp_path, "a", "b", "c", "sub/d")
    (masks / "b.png").rename(masks / "B.png")
    (images / "sub/d.jpg").rename(images / "d.jpg")
    assert faults(tmp_path) == [
        "images/b.jpg: there is no mask masks/b.png; add it, or take the image out of the folder",
        "images/d.jpg: there is no mask masks/d.png; add it, or take the image out of the folder",
        "masks/B.png: there is no image of that name in images; delete or move it",
        "masks/sub/d.png: there is no image of that name in images; delete or move it",
    ]


def test_two_files_of_one_stem_are_named(tmp_path: Path) -> None:
    images, masks = dataset(tmp_path, "a", "b")
    write(images / "a.webp", picture())
    write(masks / "b.PNG", grey(mask_values()))
    assert faults(tmp_path) == [
        "masks/b.png: b.PNG is for the same image; keep one of them",
        "images/a.webp: a.jpg has the same mask; keep one of them, or rename one",
    ]


def test_a_mask_that_is_no_png_by_its_name_is_named(tmp_path: Path) -> None:
    images, masks = dataset(tmp_path, "a", "b")
    write(images / "c.jpg", picture())
    write(masks / "c.jpg", grey(mask_values()))
    assert faults(tmp_path) == [
        "masks/c.jpg: a mask must be a PNG, as other formats may change its values; save it as PNG"
    ]


def test_at_most_ten_faults_are_shown(tmp_path: Path) -> None:
    images, _ = dataset(tmp_path, "a")
    for number in range(12):
        (images / f"b{number:02}.jpg").touch()
    lines = faults(tmp_path)
    assert [line.split(":")[0] for line in lines] == [
        *(f"images/b{number:02}.jpg" for number in range(10)),
        "and 2 more",
    ]


def test_missing_and_empty_folders_are_named(tmp_path: Path) -> None:
    images, masks = tmp_path / "images", tmp_path / "masks"
    with pytest.raises(ArgumentError, match=r"there is no folder .*/images; give images"):
        MaskPairSource(images, masks)
    images.mkdir()
    with pytest.raises(ArgumentError, match=r"there is no folder .*/masks; give masks"):
        MaskPairSource(images, masks)
    masks.mkdir()
    with pytest.raises(ArgumentError, match=r"images holds no images: looked for \.jpg"):
        MaskPairSource(images, masks)
    write(images / "a.jpg", picture())
    with pytest.raises(ArgumentError, match=r"masks holds no masks: looked for \.jpg, \.jpeg, \.png"):
        MaskPairSource(images, masks)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 0}, r"num_classes must be in.*"),
        ({"num_classes": 257}, r"num_classes must be an integer in \[1, 256\] or None, got 257: masks have 8 bits"),
        ({"num_classes": 2.0}, r"num_classes must be an integer in \[1, 256\] or None, got 2\.0"),
        ({"num_classes": True}, r"num_classes must be an integer in \[1, 256\] or None, got True"),
        ({"ignore_index": -100}, r"ignore_index must be an integer in \[0, 255\] or None, got -100"),
        ({"ignore_index": 256}, r"ignore_index must be an integer in \[0, 255\] or None, got 256"),
    ],
)
def test_arguments_outside_their_rule_are_refused(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message.replace("be in.*", "be an integer in")):
        MaskPairSource(*dataset(tmp_path, "a"), **arguments)


def test_names_in_any_unicode_form_are_paired_though_they_sort_otherwise(tmp_path: Path) -> None:
    images, masks = dataset(tmp_path, "日本 語/ä", "日本 語/b")
    composed = masks / "日本 語" / unicodedata.normalize("NFC", "ä.png")
    composed.rename(composed.with_name(unicodedata.normalize("NFD", "ä.png")))
    source = MaskPairSource(images, masks)
    assert [Path(source.name_of(index)).name for index in (0, 1)] == ["b.jpg", unicodedata.normalize("NFC", "ä.jpg")]
    for index, seed in ((0, 1), (1, 0)):
        np.testing.assert_array_equal(source.fields([index])["mask"][0], mask_values(seed))


def test_the_fingerprint_covers_names_and_masks_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fingerprint(folder: str, *stems: str, pixel: int | None = None, **arguments: Any) -> str:
        images, masks = dataset(tmp_path / folder, *stems)
        if pixel is not None:
            values = mask_values(2)
            values[5, 6] = pixel
            grey(values).save(masks / f"{stems[2]}.png")
        return MaskPairSource(images, masks, **arguments).fingerprint()

    base = fingerprint("base", "a", "b", "c")
    assert base == fingerprint("moved", "a", "b", "c", num_classes=21, ignore_index=None)
    monkeypatch.setattr("gpufeed.sources.masks._FILES_A_CHUNK", 2)
    others = [
        fingerprint("pixel", "a", "b", "c", pixel=21),
        fingerprint("swapped", "b", "a", "c"),
        fingerprint("name", "a", "b", "d"),
        fingerprint("more", "a", "b", "c", "d"),
    ]
    assert len({base, *others}) == 5
