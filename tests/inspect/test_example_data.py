"""The example data: labels of all kinds are those of the pixels that were drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from torchvision.datasets import ImageFolder

from gpufeed.errors import ArgumentError
from gpufeed.inspect.example_data import CLASSES, ExampleData, example_data, open_data
from gpufeed.pipelines import pipeline
from gpufeed.sources import CocoSource, MaskPairSource, YoloSource

COUNT = 9


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> ExampleData:
    return example_data(tmp_path_factory.mktemp("example"), COUNT)


def _read(path: Path) -> tuple[str, np.ndarray]:
    with Image.open(path) as image:
        return image.mode, np.asarray(image)


def _pixels(data: ExampleData, stem: str) -> tuple[np.ndarray, np.ndarray]:
    """The image (H, W, 3) and its mask (H, W)."""
    mode, mask = _read(data.objects / "masks" / f"{stem}.png")
    assert mode == "P"
    return _read(data.objects / "images" / f"{stem}.jpg")[1].astype(int), mask


def _objects(data: ExampleData) -> list[tuple[str, list[dict[str, Any]]]]:
    """Each image's stem and COCO annotations."""
    document = json.loads((data.objects / "annotations.json").read_text())
    return [
        (image["file_name"].removesuffix(".jpg"), [a for a in document["annotations"] if a["image_id"] == image["id"]])
        for image in document["images"]
    ]


def test_masks_are_of_the_pixels_with_the_classes_colours(data: ExampleData) -> None:
    for stem, _ in _objects(data):
        image, mask = _pixels(data, stem)
        assert image.shape == (*mask.shape, 3)
        for number, known in enumerate(CLASSES, start=1):
            inside = mask == number
            # Away from the rim, where JPEG mixes both sides.
            core = (
                inside & np.roll(inside, 4, 0) & np.roll(inside, -4, 0) & np.roll(inside, 4, 1) & np.roll(inside, -4, 1)
            )
            near = np.abs(image - known.colour).max(axis=-1) < 60
            assert near[core].mean() > 0.99 if core.any() else not inside.any()
            assert near[mask == 0].mean() < 0.05


def test_cocos_boxes_are_those_of_the_masks(data: ExampleData) -> None:
    objects = _objects(data)
    assert len(objects) == COUNT
    numbers = {known.category_id: number for number, known in enumerate(CLASSES, start=1)}
    for stem, instances in objects:
        left_over = _pixels(data, stem)[1].copy()
        assert instances
        for annotation in instances:
            x, y, w, h = annotation["bbox"]
            there = left_over[y : y + h, x : x + w]
            covered = there == numbers[annotation["category_id"]]
            assert covered.sum() == annotation["area"] == (there > 0).sum()
            # It reaches all four sides of its box.
            assert all((covered[0].any(), covered[-1].any(), covered[:, 0].any(), covered[:, -1].any()))
            assert there.shape == (h, w)
            there[...] = 0
        assert not left_over.any(), "a shape without an annotation"


def test_yolos_lines_are_cocos_boxes(data: ExampleData) -> None:
    category_ids = [known.category_id for known in CLASSES]
    for stem, instances in _objects(data):
        height, width = _pixels(data, stem)[1].shape
        lines = (data.objects / "labels" / f"{stem}.txt").read_text().splitlines()
        assert len(lines) == len(instances)
        for line, annotation in zip(lines, instances, strict=True):
            label, x, y, w, h = line.split()
            assert category_ids[int(label)] == annotation["category_id"]
            box = np.array([float(x) - float(w) / 2, float(y) - float(h) / 2, float(w), float(h)])
            np.testing.assert_allclose(box * [width, height, width, height], annotation["bbox"], atol=1e-4)


def test_folders_hold_the_same_images_by_the_class_of_their_first_shape(data: ExampleData) -> None:
    folder = ImageFolder(str(data.folders))
    assert folder.classes == [known.name for known in CLASSES]
    assert len(folder) == COUNT
    for path, target in folder.samples:
        stem = Path(path).stem
        assert Path(path).read_bytes() == (data.objects / "images" / f"{stem}.jpg").read_bytes()
        first = (data.objects / "labels" / f"{stem}.txt").read_text().split()[0]
        assert int(first) == target


def test_sizes_vary(data: ExampleData) -> None:
    sizes = [_pixels(data, stem)[1].shape for stem, _ in _objects(data)]
    assert {height > width for height, width in sizes} == {True, False}
    assert {side % 2 for size in sizes for side in size} == {0, 1}
    assert len(set(sizes)) == COUNT


def test_equal_arguments_give_equal_files_and_a_longer_run_begins_alike(data: ExampleData, tmp_path: Path) -> None:
    again = example_data(tmp_path / "again", COUNT)
    for path in sorted(data.objects.rglob("*.*")) + sorted(data.folders.rglob("*.*")):
        root = again.objects.parent
        assert (root / path.relative_to(data.objects.parent)).read_bytes() == path.read_bytes(), path
    fewer, other = example_data(tmp_path / "fewer", 2), example_data(tmp_path / "other", 2, seed=1)
    image = Path("images", "0001.jpg")
    assert (fewer.objects / image).read_bytes() == (data.objects / image).read_bytes()
    assert (other.objects / image).read_bytes() != (data.objects / image).read_bytes()


def test_what_cant_be_written_is_refused(data: ExampleData, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="count must be at least 1, got 0"):
        example_data(tmp_path, 0)
    with pytest.raises(ArgumentError, match="folders is there already; give a folder without example data"):
        example_data(data.folders.parent, 1)


# Opening --------------------------------------------------------------------------------------------------------------


def test_a_pipeline_without_a_source_reads_the_folders(tmp_path: Path) -> None:
    @pipeline
    def train(sample: object) -> None: ...

    opened, text = open_data(train, None, tmp_path)
    assert isinstance(opened, ImageFolder)
    assert Path(opened.root) == tmp_path / "folders"
    assert (len(opened), text) == (32, "32 built-in example images")
    own, text = open_data(train, str(tmp_path / "folders"), tmp_path / "unused")
    assert own.samples == opened.samples
    assert text == str(tmp_path / "folders")
    assert not (tmp_path / "unused").exists()


def test_a_pipelines_own_source_opens_the_objects_or_what_is_given(tmp_path: Path) -> None:
    @pipeline
    def train(sample: object, *, size: int = 3) -> None: ...

    train.source(lambda root, size: [root] * size)
    opened, text = open_data(train(size=2), None, tmp_path)
    assert opened == [str(tmp_path / "objects")] * 2
    assert text == "2 built-in example images"
    assert open_data(train, "given", tmp_path) == (["given"] * 3, "given")


def test_what_cant_be_opened_is_told(tmp_path: Path) -> None:
    @pipeline
    def train(sample: object) -> None: ...

    with pytest.raises(
        ArgumentError, match=r"gone can't be opened as a folder with one sub-folder per class: .*; give"
    ):
        open_data(train, str(tmp_path / "gone"), tmp_path)
    train.source(lambda root: list(Path(root, "frames").iterdir()))
    sentence = "objects can't be opened as the source of train: .*No such file.*; the example data has images, labels"
    with pytest.raises(ArgumentError, match=sentence):
        open_data(train, None, tmp_path)


def test_our_own_sources_find_no_fault_in_it(data: ExampleData) -> None:
    images = str(data.objects / "images")
    yolo = YoloSource(images, num_classes=len(CLASSES))
    coco = CocoSource(images, str(data.objects / "annotations.json"))
    masks = MaskPairSource(images, str(data.objects / "masks"), num_classes=len(CLASSES) + 1)
    assert len(yolo) == len(coco) == len(masks) == COUNT
    for index in range(COUNT):
        mask = np.asarray(masks.fields([index])["mask"][0])
        boxes, labels = (np.asarray(yolo.fields([index])[name][0]) for name in ("boxes", "labels"))
        for (x, y), label in zip(boxes[:, :2] * mask.shape[::-1], labels, strict=True):
            assert mask[int(y), int(x)] == label + 1
        assert len(coco.fields([index])["boxes"][0]) == len(boxes)
