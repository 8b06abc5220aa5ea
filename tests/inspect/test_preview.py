"""What a preview shows, against the loader, the files and torchvision; and that it is drawn where it belongs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torchvision.datasets import ImageFolder

from gpufeed import DataLoader
from gpufeed.bench.progress import Silent
from gpufeed.errors import ArgumentError, TranslationError, UnsupportedError
from gpufeed.inspect.example_data import ExampleData, example_data
from gpufeed.inspect.preview.contact_sheet import (
    PALETTE,
    check_sheet_target,
    colour_of,
    drawn_sheet,
    painted_tile,
    write_sheet,
)
from gpufeed.inspect.preview.previewing import Request, preview
from gpufeed.inspect.preview.results import Box, Preview, SampleRow, Strip, Tile
from gpufeed.ops import IMAGENET_MEAN, IMAGENET_STD
from gpufeed.pipelines import load_pipeline, load_subject

SUBJECTS = """
import numpy as np
import torch
import gpufeed
from gpufeed import ops
from gpufeed.sources import CocoSource, MaskPairSource, YoloSource
from nvidia.dali import fn, types
from torchvision.transforms import v2

crop = v2.Compose([
    v2.RandomResizedCrop(120), v2.RandomHorizontalFlip(), v2.ToImage(), v2.ToDtype(torch.float32, scale=True),
    v2.Normalize(ops.IMAGENET_MEAN, ops.IMAGENET_STD)])
grey = v2.Compose([v2.CenterCrop(112), v2.Grayscale(), v2.PILToTensor()])
five = v2.Compose([v2.FiveCrop(40), v2.ToImage()])
opaque = v2.Compose([v2.Lambda(lambda image: image), v2.PILToTensor()])
ends_in_pil = v2.Compose([v2.CenterCrop(32)])
number = 7

@gpufeed.pipeline
def flip(sample, *, size: int = 128):
    return ops.apply(v2.RandomHorizontalFlip(), sample.center_crop(size), sample), sample.target

@flip.reference
def flip_torch(*, size: int):
    return v2.Compose([v2.CenterCrop(size), v2.RandomHorizontalFlip(), v2.PILToTensor()])

@gpufeed.pipeline
def opaque_reference(sample):
    return sample.center_crop(128)

@opaque_reference.reference
def opaque_torch():
    return v2.Compose([v2.CenterCrop(128), v2.Lambda(lambda image: image), v2.PILToTensor()])

@gpufeed.pipeline
def graph(sample):
    image = fn.flip(sample.center_crop(128), horizontal=1)
    return fn.crop_mirror_normalize(
        image, dtype=types.FLOAT, output_layout="CHW", mean=[10.0, 90.0, 200.0], std=[50.0, 60.0, 70.0], scale=4.0,
        shift=0.5)

@gpufeed.pipeline
def tail(sample):
    return ops.to_chw(sample.center_crop(128)), sample.target
@tail.tail
def tail_tail(images, target, *, samples):
    steps = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(ops.IMAGENET_MEAN, ops.IMAGENET_STD)]
    return {"view": ops.apply(v2.Compose(steps), images, samples), "label": 1 - target}

@gpufeed.pipeline
def views(sample):
    return {"a": sample.random_resized_crop(112), "b": [ops.to_chw(sample.random_resized_crop(30))]}

@gpufeed.pipeline
def stacked(sample):
    return ops.to_chw(sample.center_crop(112)), sample.target
@stacked.tail
def stacked_tail(images, target):
    return torch.stack([images, images.flip(-1)], 1), target

@gpufeed.pipeline
def no_image(sample):
    return sample.target, sample.index

@gpufeed.pipeline
def yolo(sample):
    image = sample.random_resized_crop(160, scale=(0.6, 1.0))
    boxes, labels = ops.boxes_like(image, sample.boxes, sample.labels, format="cxcywh", normalized=True)
    return image, boxes, labels
@gpufeed.pipeline
def yolo_targets(sample):
    return sample.decode(), sample.target
@yolo.source
@yolo_targets.source
def yolo_source(root):
    return YoloSource(f"{root}/images", names=["blue", "green", "orange", "violet"])

@gpufeed.pipeline
def padded(sample):
    image = sample.decode()
    boxes, count = ops.pad(ops.boxes_like(image, sample.boxes))
    labels, _ = ops.pad(sample.labels, fill=-1)
    return image, boxes, count, labels, sample.crowd, sample.target
@padded.source
def coco_source(root):
    return CocoSource(f"{root}/images", f"{root}/annotations.json")

@gpufeed.pipeline
def masks(sample):
    image = sample.decode()
    return {"image": ops.ragged(image), "mask": ops.ragged(ops.masks_like(image, sample.mask))}
@masks.source
def mask_source(root):
    return MaskPairSource(f"{root}/images", f"{root}/masks")
"""

Pixels = NDArray[np.uint8]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "subjects.py"
    path.write_text(SUBJECTS)
    return str(path)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Five images of noise in two class folders, of odd sizes; PNG, so that nothing is lost."""
    root = tmp_path_factory.mktemp("data") / "photos"
    for number in range(5):
        folder = root / ("ant" if number < 3 else "bee")
        folder.mkdir(parents=True, exist_ok=True)
        shape = (141 + 2 * number, 163 - 4 * number, 3)
        pixels = np.random.default_rng(number).integers(0, 256, size=shape, dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return str(root)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> ExampleData:
    return example_data(tmp_path_factory.mktemp("examples"), count=4)


def shown(subject: str, data: str, **options: object) -> Preview:
    request = Request(subject, data, num_samples=2, num_views=3, device="cpu")
    chosen = {name: getattr(request, name) for name in request.__slots__} | options
    return preview(Request(**chosen), Silent())


def pixels_of(strip: Strip) -> list[Pixels]:
    found = [tile.pixels for tile in strip.tiles]
    assert all(pixels is not None for pixels in found)
    return [pixels for pixels in found if pixels is not None]


def file_pixels(row: SampleRow) -> Pixels:
    assert row.original.pixels is not None
    return row.original.pixels


def centred(pixels: Pixels, size: int) -> Pixels:
    top, left = (round((side - size) / 2) for side in pixels.shape[:2])
    return pixels[top : top + size, left : left + size]


# Pixels ---------------------------------------------------------------------------------------------------------------


def test_views_are_the_loaders_epoch_by_epoch_denormalised(file: str, photos: str) -> None:
    found = shown(f"{file}:crop", photos, seed=3)
    loader = DataLoader(ImageFolder(photos), batch_size=5, pipeline=load_subject(f"{file}:crop"), device="cpu", seed=3)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (IMAGENET_MEAN, IMAGENET_STD))
    assert [row.index for row in found.rows] == [0, 2]
    for epoch in range(3):
        loader.set_epoch(epoch)
        ((images, _),) = loader
        for row in found.rows:
            expected = ((images[row.index] * std + mean) * 255).round().clamp(0, 255).permute(1, 2, 0)
            mine = pixels_of(row.strips[0])[epoch]
            assert np.abs(mine.astype(int) - expected.numpy()).max() <= 1e-3
    assert "the Plan's mean (0.485, 0.456, 0.406) and std (0.229, 0.224, 0.225) undone" in found.lines[1]
    first = pixels_of(found.rows[0].strips[0])
    assert not np.array_equal(first[0], first[1])


def test_torchvisions_views_have_the_same_draws(file: str, photos: str) -> None:
    for row in shown(f"{file}:crop", photos).rows:
        ours, theirs = row.strips
        assert (ours.source, theirs.source) == ("gpufeed", "torchvision")
        assert [tile.label for tile in theirs.tiles] == [f"torchvision, epoch {epoch}" for epoch in range(3)]
        for mine, reference in zip(pixels_of(ours), pixels_of(theirs), strict=True):
            assert (np.abs(mine.astype(int) - reference) <= 1).mean() > 0.999


def test_a_pipelines_reference_is_beneath_with_the_same_draws(file: str, photos: str) -> None:
    found = shown(f"{file}:flip", photos, num_views=6, assignments=("size=120",))
    assert found.title == "gpufeed preview, " + f"{file}:flip(size=120)"
    flipped: set[bool] = set()
    for row in found.rows:
        ours, theirs = row.strips
        assert theirs.source == "reference"
        upright = centred(file_pixels(row), 120)
        for mine, reference in zip(pixels_of(ours), pixels_of(theirs), strict=True):
            assert np.array_equal(mine, reference)
            is_flipped = np.array_equal(mine, upright[:, ::-1])
            assert is_flipped != np.array_equal(mine, upright)
            flipped.add(is_flipped)
    assert flipped == {True, False}


def test_a_reference_that_gpufeed_cant_draw_for_is_left_out_and_the_sheet_says_why(file: str, photos: str) -> None:
    found = shown(f"{file}:opaque_reference", photos)
    assert [len(row.strips) for row in found.rows] == [1, 1]
    assert "the reference isn't shown" in found.notes[0]
    assert "a function can't be looked into" in found.notes[0]


def test_what_the_graph_normalises_by_is_read_from_its_operator(file: str, photos: str) -> None:
    found = shown(f"{file}:graph", photos)
    assert "the graph's mean" in found.lines[1]
    for row in found.rows:
        for mine in pixels_of(row.strips[0]):
            assert np.array_equal(mine, centred(file_pixels(row), 128)[:, ::-1])


def test_what_a_tail_normalises_by_is_told_from_the_values(file: str, photos: str) -> None:
    found = shown(f"{file}:tail", photos)
    assert "ImageNet's mean and std undone, as the values suggest" in found.lines[1]
    for row in found.rows:
        assert np.array_equal(pixels_of(row.strips[0])[0], centred(file_pixels(row), 128))


def test_grey_images(file: str, photos: str) -> None:
    for row in shown(f"{file}:grey", photos).rows:
        expected = np.array(Image.fromarray(centred(file_pixels(row), 112)).convert("L"))
        mine = pixels_of(row.strips[0])[0]
        assert mine.shape == (112, 112, 3)
        assert np.array_equal(mine, np.repeat(expected[..., None], 3, axis=2))


def test_several_images_of_a_sample_have_a_strip_each(file: str, photos: str) -> None:
    row = shown(f"{file}:views", photos).rows[0]
    assert [strip.output for strip in row.strips] == ["['a']", "['b'][0]"]
    assert row.strips[1].tiles[2].label == "['b'][0] epoch 2"
    assert pixels_of(row.strips[1])[0].shape == (30, 30, 3)


def test_stacked_images_are_taken_apart(file: str, photos: str) -> None:
    first, second = shown(f"{file}:stacked", photos).rows[0].strips
    assert np.array_equal(pixels_of(first)[0], pixels_of(second)[0][:, ::-1])


def test_tuples_of_images_have_the_references_beneath_each(file: str, photos: str) -> None:
    strips = shown(f"{file}:five", photos).rows[1].strips
    assert [strip.source for strip in strips] == ["gpufeed", "torchvision"] * 5
    for ours, theirs in zip(strips[::2], strips[1::2], strict=True):
        assert all(map(np.array_equal, pixels_of(ours), pixels_of(theirs)))


# Labels ---------------------------------------------------------------------------------------------------------------


def test_captions_have_file_size_and_class_and_views_a_class_that_differs(file: str, photos: str) -> None:
    rows = shown(f"{file}:flip", photos, num_samples=5).rows
    assert rows[4].caption == "4.png,  sample 4,  147 x 149 pixels,  bee"
    assert {tile.text for row in rows for tile in row.strips[0].tiles} == {""}
    other = shown(f"{file}:tail", photos, num_samples=5).rows
    assert [tile.text for tile in other[4].strips[0].tiles] == ["ant"] * 3


def as_tuples(tile: Tile) -> list[tuple[float, float, float, float]]:
    return [(box.left, box.top, box.right, box.bottom) for box in tile.boxes]


def test_boxes_of_originals_and_views_are_around_what_they_name(file: str, objects: ExampleData) -> None:
    colours = {"blue": (40, 90, 230), "green": (30, 170, 60), "orange": (240, 130, 20), "violet": (160, 50, 190)}
    for row in shown(f"{file}:yolo", str(objects.objects)).rows:
        tiles = [row.original, *row.strips[0].tiles]
        assert sum(len(tile.boxes) for tile in tiles) >= 4
        for tile in tiles:
            assert tile.pixels is not None
            for box in tile.boxes:
                inside = tile.pixels[round(box.top) : round(box.bottom), round(box.left) : round(box.right)]
                near = np.abs(inside.astype(int) - colours[box.text]).max(axis=2) < 60
                if min(near.shape) >= 12:  # narrower ones are mostly what JPEG and the resize blurred
                    assert near.mean() > 0.6
                    assert near[:, :4].any()
                    assert near[-4:].any()


def test_yolo_targets_and_padded_boxes_are_those_of_the_source(file: str, objects: ExampleData) -> None:
    root = str(objects.objects)
    coco = load_pipeline(f"{file}:padded").make_source(root)
    for name, text in (("yolo_targets", "cxcywh in shares of the image's sides"), ("padded", "xyxy in pixels")):
        found = shown(f"{file}:{name}", root, num_samples=4)
        assert any(text in line for line in found.lines)
        for row in found.rows:
            expected = coco.fields([row.index])["boxes"][0]
            for tile in (row.original, *row.strips[0].tiles):
                assert np.allclose(as_tuples(tile), expected, atol=0.01)
    assert [box.text for box in found.rows[0].original.boxes] == [box.text for box in tiles_boxes(found)]
    assert found.rows[0].caption.endswith("target 1")  # an image's id, not the category 1
    assert "not drawn: crowd" in found.lines[-1]


def tiles_boxes(found: Preview) -> tuple[Box, ...]:
    boxes = found.rows[0].strips[0].tiles[0].boxes
    assert {box.text for box in boxes} <= {"blue_disc", "green_box", "orange_box", "violet_disc"}
    assert {box.label for box in boxes} <= {1, 3, 4, 7}
    return boxes


def test_masks_are_those_of_the_files(file: str, objects: ExampleData) -> None:
    found = shown(f"{file}:masks", str(objects.objects))
    assert found.lines[1] == "gpufeed: (*, *, 3) uint8; values as they are"
    for row in found.rows:
        with Image.open(objects.objects / "masks" / f"{row.index:04d}.png") as image:
            expected = np.array(image)
        for tile in (row.original, *row.strips[0].tiles):
            assert tile.mask is not None
            assert np.array_equal(tile.mask, expected)


# Drawing --------------------------------------------------------------------------------------------------------------


def tile_of(pixels: Pixels, **what: object) -> Tile:
    return Tile(**{"label": "", "pixels": pixels, **what})  # type: ignore[arg-type]


def test_a_box_is_drawn_where_it_is() -> None:
    pixels = np.random.default_rng(0).integers(0, 200, size=(150, 200, 3), dtype=np.uint8)
    painted = np.array(painted_tile(tile_of(pixels, boxes=(Box(20, 30, 81, 90, 3),))))
    rim = np.zeros((150, 200), dtype=bool)
    rim[30:90, 20:81] = True
    rim[32:88, 22:79] = False
    assert (painted[rim] == colour_of(3)).all()
    assert np.array_equal(painted[~rim], pixels[~rim])


def test_a_boxs_name_stays_within_the_image_and_leaves_the_rest_alone() -> None:
    pixels = np.full((150, 200, 3), 77, dtype=np.uint8)
    box = Box(190, 0, 260, 40, 1, "a name that is much longer than its box")
    painted = np.array(painted_tile(tile_of(pixels, boxes=(box,))))
    assert painted.shape == pixels.shape
    changed = np.argwhere((painted != 77).any(axis=2))
    assert changed[:, 0].max() < 41
    assert 100 < changed[:, 1].min() < 130


def test_boxes_move_with_an_image_that_is_shrunk_or_enlarged() -> None:
    for side, factor in ((640, 0.5), (50, 2)):
        pixels = np.zeros((side, side, 3), dtype=np.uint8)
        painted = np.array(painted_tile(tile_of(pixels, boxes=(Box(10, 20, 40, 44, 0),))))
        assert painted.shape[0] == side * factor
        rows, columns = np.nonzero(painted.any(axis=2))
        assert (rows.min(), rows.max() + 1) == (20 * factor, 44 * factor)
        assert (columns.min(), columns.max() + 1) == (10 * factor, 40 * factor)


def test_masks_are_half_transparent_with_white_rims_and_what_is_ignored_is_hatched() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, size=(120, 120, 3), dtype=np.uint8)
    mask = np.zeros((120, 120), dtype=np.int64)
    mask[20:60, 10:50] = 2
    mask[80:, :] = 255
    painted = np.array(painted_tile(tile_of(pixels, mask=mask)))
    inside = painted[21:59, 11:49].astype(float)
    assert np.abs(inside - (pixels[21:59, 11:49] * 0.5 + np.array(PALETTE[2]) * 0.5)).max() <= 0.5
    assert (painted[20, 10:50] == 255).all()
    assert np.array_equal(painted[:20], pixels[:20])
    hatched = (painted[80:] != pixels[80:]).any(axis=2)
    assert 0.3 < hatched.mean() < 0.5
    assert {tuple(value) for value in painted[80:][hatched]} == {(20, 20, 20), (235, 235, 235)}


def places_of(pixels: Pixels, sheet: Pixels) -> list[tuple[int, int]]:
    """Where a picture is found in another one, pixel by pixel."""
    height, width = pixels.shape[:2]
    starts = np.argwhere((sheet == pixels[0, 0]).all(axis=2)).tolist()
    return [
        (top, left) for top, left in starts if np.array_equal(sheet[top : top + height, left : left + width], pixels)
    ]


def test_every_tile_is_on_the_sheet_unchanged_and_in_order(file: str, photos: str) -> None:
    found = shown(f"{file}:crop", photos)
    sheet = np.array(drawn_sheet(found))
    lefts: list[int] = []
    for row in found.rows:
        ((top, left),) = places_of(file_pixels(row), sheet)
        ours, theirs = ([places_of(pixels, sheet) for pixels in pixels_of(strip)] for strip in row.strips)
        # where torchvision's pixels are the very same, each is found twice, the one below the other
        ours, theirs = [found_at[0] for found_at in ours], [found_at[-1] for found_at in theirs]
        assert {place[0] for place in ours} == {top}
        assert {place[0] for place in theirs} == {top + 120 + 8 + 19}
        assert left < ours[0][1] < ours[1][1] < ours[2][1]
        lefts += [place[1] for place in ours]
    assert lefts[:3] == lefts[3:]


def test_small_pictures_still_have_room_for_the_lines_at_the_top(file: str, photos: str) -> None:
    sheet = drawn_sheet(shown(f"{file}:views", photos, num_samples=1, num_views=1))
    assert sheet.width >= 560
    margin = np.array(sheet)[:, -10:]
    assert (margin == 250).all()  # nothing is cut off


# Refusals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        ({"num_samples": 0}, "--samples must be at least 1, got 0"),
        ({"num_views": -1}, "--views must be at least 1, got -1"),
        ({"num_samples": 100, "num_views": 11}, "must be at most 1000, got 100 times 11"),
        ({"seed": 2**63}, "--seed must be in"),
    ],
)
def test_numbers_out_of_range(options: dict[str, int], phrase: str) -> None:
    with pytest.raises(ArgumentError, match=phrase):
        Request("subjects.py:crop", **options)  # type: ignore[arg-type]


def test_more_samples_than_there_are_shows_those_and_says_so(file: str, photos: str) -> None:
    found = shown(f"{file}:crop", photos, num_samples=9, num_views=1)
    assert len(found.rows) == 5
    assert found.notes == ("9 samples were asked for, and the data has 5",)


def test_a_bad_file_is_left_out_and_the_others_shown(file: str, photos: str, tmp_path: Path) -> None:
    folder = tmp_path / "bad" / "ant"
    folder.mkdir(parents=True)
    (folder / "0.png").write_bytes(b"no image")
    (folder / "1.png").write_bytes(Path(photos, "ant", "1.png").read_bytes())
    found = shown(f"{file}:crop", str(folder.parent))
    assert [row.index for row in found.rows] == [1]
    assert "0.png is left out: " in found.notes[0]
    (folder / "1.png").write_bytes(b"neither")
    with pytest.raises(ArgumentError, match=r"none of the 2 samples could be loaded; 0\.png is left out: "):
        shown(f"{file}:crop", str(folder.parent))


def test_what_cant_be_shown_is_refused(file: str, photos: str, tmp_path: Path) -> None:
    with pytest.raises(TranslationError, match="a function can't be looked into"):
        shown(f"{file}:opaque", photos)
    with pytest.raises(UnsupportedError, match="ends in a PIL image"):
        shown(f"{file}:ends_in_pil", photos)
    with pytest.raises(UnsupportedError, match=r"no image among the outputs to draw; they are .*int64"):
        shown(f"{file}:no_image", photos)
    with pytest.raises(ArgumentError, match="is of type int, neither a pipeline nor a transform"):
        shown(f"{file}:number", photos)
    with pytest.raises(ArgumentError, match=r"-p gives values to a pipeline's parameters.*leave -p size=3 out"):
        shown(f"{file}:crop", photos, assignments=("size=3",))
    with pytest.raises(ArgumentError, match="can't be opened as a folder with one sub-folder per class"):
        shown(f"{file}:crop", str(tmp_path / "nowhere"))


# Writing --------------------------------------------------------------------------------------------------------------


def first_pixel(path: Path) -> object:
    with Image.open(path) as image:
        return image.getpixel((0, 0))


def test_nothing_is_overwritten_not_even_what_appears_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sheet.png"
    sheet = Image.new("RGB", (5, 4), (1, 2, 3))
    write_sheet(sheet, path)
    assert first_pixel(path) == (1, 2, 3)
    other = Image.new("RGB", (5, 4))
    with pytest.raises(ArgumentError, match=r"exists, and nothing is overwritten; .* or add --force"):
        write_sheet(other, path)

    def saved(self: Image.Image, target: Path, kind: str) -> None:
        save(self, target, kind)
        (tmp_path / "late.png").write_bytes(b"somebody's")

    save = Image.Image.save
    monkeypatch.setattr(Image.Image, "save", saved)
    with pytest.raises(ArgumentError, match=r"late\.png exists"):
        write_sheet(other, tmp_path / "late.png")
    assert (tmp_path / "late.png").read_bytes() == b"somebody's"
    write_sheet(other, path, force=True)
    assert first_pixel(path) == (0, 0, 0)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["late.png", "sheet.png"]


def test_targets_that_cant_be_written(tmp_path: Path) -> None:
    for name, phrase in (
        ("a.jpg", "must end in .png"),
        ("nowhere/a.png", "no folder .*nowhere"),
        ("d.png", "no ordinary"),
    ):
        (tmp_path / "d.png").mkdir(exist_ok=True)
        with pytest.raises(ArgumentError, match=phrase):
            check_sheet_target(tmp_path / name, force=True)
