"""A few images whose labels are known exactly, for trying out pipelines without data at hand.

Every image shows some shapes in plain colours on a textured ground. The class of a shape is its colour and form; its
box, its mask and its line in every label file are of exactly the pixels that were drawn, before JPEG blurs their rim.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from gpufeed.bench.synthetic import power_law_noise
from gpufeed.errors import ArgumentError
from gpufeed.pipelines import Pipeline

__all__ = ["CLASSES", "ExampleClass", "ExampleData", "example_data", "open_data"]


@dataclass(frozen=True, slots=True)
class ExampleClass:
    """What a shape of the example data can be.

    Attributes:
        name: also that of its class folder.
        colour: RGB, 0 to 255.
        round: an ellipse, else a rectangle.
        category_id: in the COCO file, where ids have gaps, as COCO's own have.
    """

    name: str
    colour: tuple[int, int, int]
    round: bool
    category_id: int


CLASSES = (
    ExampleClass("blue_disc", (40, 90, 230), True, 1),
    ExampleClass("green_box", (30, 170, 60), False, 3),
    ExampleClass("orange_box", (240, 130, 20), False, 4),
    ExampleClass("violet_disc", (160, 50, 190), True, 7),
)
"""A class's place is its number in ImageFolder and YOLO's labels; in a mask it is one more, since 0 is the ground."""

_LONGER_SIDES = (241, 400)  # pixels, the upper bound excluded: quick to make, and larger than a crop of 224
_ASPECTS = (0.62, 0.95)  # the shorter side to the longer
_NUM_SHAPES = (2, 5)  # tried per image, the upper bound excluded
_SHAPE_SIDES = (0.18, 0.5)  # of the image's sides
_GROUND_STD, _NOISE_STD = 26.0, 5.0  # of 255
_QUALITY = 92  # of JPEG

_Pixels = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class ExampleData:
    """The example data on disk.

    Attributes:
        folders: JPEGs in a folder per class, for ``ImageFolder``; an image is in that of its first shape.
        objects: the same images as ``images/*.jpg`` with ``labels/*.txt`` (YOLO: class and normalised centre box),
            ``masks/*.png`` (palette; 0 is the ground) and ``annotations.json`` (COCO).
    """

    folders: Path
    objects: Path


@dataclass(frozen=True, slots=True)
class _Shape:
    """One shape; it covers the pixels [left, right) by [top, bottom), an ellipse those inside of it."""

    label: int
    left: int
    top: int
    right: int
    bottom: int

    def covered(self) -> NDArray[np.bool_]:
        """(height, width) of its box: which pixels it covers."""
        height, width = self.bottom - self.top, self.right - self.left
        if not CLASSES[self.label].round:
            return np.ones((height, width), dtype=bool)
        y = (np.arange(height) + 0.5) / height * 2 - 1
        x = (np.arange(width) + 0.5) / width * 2 - 1
        return y[:, None] ** 2 + x[None, :] ** 2 <= 1

    def apart_from(self, other: _Shape) -> bool:
        """Whether the boxes share no pixel."""
        beside = self.right <= other.left or other.right <= self.left
        return beside or self.bottom <= other.top or other.bottom <= self.top


def example_data(root: Path, count: int = 32, seed: int = 0) -> ExampleData:
    """Write the example data; equal arguments give equal files.

    Args:
        root: a folder; it is made where it is missing.
        count: number of images. Image ``i`` is the same whatever their number.
        seed: fixes everything that is drawn at random.

    Raises:
        ArgumentError: ``count`` is below 1, or ``root`` already holds ``folders`` or ``objects``.
    """
    if count < 1:
        raise ArgumentError(f"count must be at least 1, got {count}")
    data = ExampleData(root / "folders", root / "objects")
    for folder in (data.folders, data.objects):
        if folder.exists():
            raise ArgumentError(f"{folder} is there already; give a folder without example data in it")
        folder.mkdir(parents=True)
    for name in ("images", "labels", "masks"):
        (data.objects / name).mkdir()
    drawn = [_write(data, index, seed) for index in range(count)]
    (data.objects / "annotations.json").write_text(json.dumps(_coco(drawn), indent=1) + "\n", encoding="utf-8")
    return data


def open_data(pipeline: Pipeline, data: str | None, folder: Path) -> tuple[Any, str]:
    """What a pipeline reads: the data at a path, or example data.

    Args:
        pipeline: opens the data by its own ``source``, or as an ``ImageFolder`` where it has none.
        data: a path; ``None`` for the example data: ``objects`` for a pipeline with its own source, else ``folders``.
        folder: where example data is written; it must hold none yet.

    Returns:
        A source or Dataset, and what it is in words.

    Raises:
        ArgumentError: the data can't be opened as the pipeline does it.
    """
    if data is not None:
        return _opened(pipeline, str(Path(data).expanduser()), "give a path to data of this kind"), data
    written = example_data(folder)
    if pipeline.has("source"):
        found = "images, labels (YOLO), masks and annotations.json (COCO)"
        source = _opened(pipeline, str(written.objects), f"the example data has {found}; give DATA for anything else")
    else:
        source = _opened(pipeline, str(written.folders), "give DATA")
    return source, f"{len(source)} built-in example images"


def _opened(pipeline: Pipeline, root: str, next_step: str) -> Any:
    kind = f"the source of {pipeline.name}" if pipeline.has("source") else "a folder with one sub-folder per class"
    try:
        return pipeline.make_source(root)
    except OSError as error:
        raise ArgumentError(f"{root} can't be opened as {kind}: {error}; {next_step}") from error


# One image ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Drawn:
    """An image that was written: its stem, its size in pixels and its shapes."""

    stem: str
    height: int
    width: int
    shapes: tuple[_Shape, ...]


def _write(data: ExampleData, index: int, seed: int) -> _Drawn:
    rng = np.random.default_rng([seed, index])
    height, width = _size_hw(rng, index)
    shapes = _shapes(rng, index, height, width)
    drawn = _Drawn(f"{index:04d}", height, width, shapes)
    jpeg = data.objects / "images" / f"{drawn.stem}.jpg"
    Image.fromarray(_picture(rng, drawn)).save(jpeg, "JPEG", quality=_QUALITY)
    in_class = data.folders / CLASSES[shapes[0].label].name
    in_class.mkdir(exist_ok=True)
    (in_class / jpeg.name).write_bytes(jpeg.read_bytes())
    mask = Image.fromarray(_mask(drawn))
    mask.putpalette([0, 0, 0, *(value for known in CLASSES for value in known.colour)])
    mask.save(data.objects / "masks" / f"{drawn.stem}.png")
    lines = "".join(f"{_yolo(shape, drawn)}\n" for shape in shapes)
    (data.objects / "labels" / f"{drawn.stem}.txt").write_text(lines, encoding="utf-8")
    return drawn


def _size_hw(rng: np.random.Generator, index: int) -> tuple[int, int]:
    """Landscape and portrait in turn; odd sides are as likely as even ones."""
    longer = int(rng.integers(*_LONGER_SIDES))
    shorter = int(longer * rng.uniform(*_ASPECTS))
    return (shorter, longer) if index % 2 == 0 else (longer, shorter)


def _shapes(rng: np.random.Generator, index: int, height: int, width: int) -> tuple[_Shape, ...]:
    """Shapes that hide nothing of each other; the first one's class goes round with the index, so that all occur."""
    num_shapes = int(rng.integers(*_NUM_SHAPES))
    found: list[_Shape] = []
    for number in range(4 * num_shapes):
        label = int(rng.integers(len(CLASSES))) if number else index % len(CLASSES)
        h, w = (int(side * rng.uniform(*_SHAPE_SIDES)) for side in (height, width))
        top, left = int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1))
        shape = _Shape(label, left, top, left + w, top + h)
        if all(map(shape.apart_from, found)):
            found.append(shape)
        if len(found) == num_shapes:
            break
    return tuple(found)


def _picture(rng: np.random.Generator, drawn: _Drawn) -> _Pixels:
    """(H, W, 3) RGB."""
    size = (drawn.height, drawn.width)
    ground = rng.uniform(90, 190) + rng.normal(0, 12, size=3) + _GROUND_STD * power_law_noise(rng, size, 1.2)[..., None]
    for shape in drawn.shapes:
        there = ground[shape.top : shape.bottom, shape.left : shape.right]
        there[shape.covered()] = CLASSES[shape.label].colour
    ground += _NOISE_STD * rng.standard_normal(size)[..., None]
    return np.clip(ground, 0, 255).astype(np.uint8)


def _mask(drawn: _Drawn) -> _Pixels:
    """(H, W): 0, or the shape's class plus 1."""
    mask = np.zeros((drawn.height, drawn.width), dtype=np.uint8)
    for shape in drawn.shapes:
        there = mask[shape.top : shape.bottom, shape.left : shape.right]
        there[shape.covered()] = shape.label + 1
    return mask


# Labels ---------------------------------------------------------------------------------------------------------------


def _yolo(shape: _Shape, drawn: _Drawn) -> str:
    """A line of a label file: class, then centre, width and height as shares of the image's."""
    x, y = (shape.left + shape.right) / 2 / drawn.width, (shape.top + shape.bottom) / 2 / drawn.height
    w, h = (shape.right - shape.left) / drawn.width, (shape.bottom - shape.top) / drawn.height
    return f"{shape.label} {x:.8f} {y:.8f} {w:.8f} {h:.8f}"


def _coco(drawn: Sequence[_Drawn]) -> dict[str, Any]:
    """The document of COCO's instances: boxes are left, top, width and height in pixels."""
    shapes = [(image_id, shape) for image_id, one in enumerate(drawn, start=1) for shape in one.shapes]
    return {
        "images": [
            {"id": image_id, "file_name": f"{one.stem}.jpg", "width": one.width, "height": one.height}
            for image_id, one in enumerate(drawn, start=1)
        ],
        "categories": [{"id": known.category_id, "name": known.name} for known in CLASSES],
        "annotations": [
            {
                "id": annotation_id,
                "image_id": image_id,
                "category_id": CLASSES[shape.label].category_id,
                "bbox": [shape.left, shape.top, shape.right - shape.left, shape.bottom - shape.top],
                "area": int(shape.covered().sum()),
                "iscrowd": 0,
            }
            for annotation_id, (image_id, shape) in enumerate(shapes, start=1)
        ],
    }
