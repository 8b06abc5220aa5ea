"""The pipeline of detection.py, on a few images that are made here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from gpufeed import DataLoader, ops
from gpufeed.pipelines import load_pipeline

train = load_pipeline(f"{Path(__file__).with_name('detection.py')}:train")
SIZE = 96


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Six grey images of odd sizes, each with one red box; the last one has none."""
    (tmp_path / "images").mkdir()
    (tmp_path / "labels").mkdir()
    for number in range(6):
        height, width = 101 + 10 * number, 180 - 12 * number
        pixels = np.full((height, width, 3), 128, dtype=np.uint8)
        x1, y1, x2, y2 = 20 + number, 30, 70, 60 + 5 * number
        line = f"{number} {(x1 + x2) / 2 / width} {(y1 + y2) / 2 / height} {(x2 - x1) / width} {(y2 - y1) / height}\n"
        if number < 5:
            pixels[y1:y2, x1:x2] = (255, 0, 0)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{number}.png")
        (tmp_path / "labels" / f"{number}.txt").write_text(line if number < 5 else "")
    return str(tmp_path)


def test_boxes_are_around_what_is_red(folder: str) -> None:
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (ops.IMAGENET_MEAN, ops.IMAGENET_STD))
    loader = DataLoader(folder, pipeline=train(size=SIZE), batch_size=6, seed=0)
    seen = 0
    for _ in range(3):  # epochs: other crops each time
        images, objects = next(iter(loader))
        for number, image in enumerate(images * std + mean):
            boxes, labels = objects["boxes"][number], objects["labels"][number]
            assert labels.tolist() == [number] * len(boxes)
            red = (image[0] > 0.75) & (image[1] < 0.25)
            if len(boxes) == 0:
                assert red.float().mean() < 0.03
                continue
            assert boxes.shape == (1, 4)
            centre, size = boxes[0, :2] * SIZE, boxes[0, 2:] * SIZE
            box = torch.cat([centre - size / 2, centre + size / 2])  # left, top, right, bottom, in pixels
            assert box.min() >= -1e-4
            assert box.max() <= SIZE + 1e-4
            rows, columns = torch.where(red)
            found = torch.stack([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
            assert (box - found).abs().max() <= 2  # the rim of what is red is blurred by the resize
            seen += 1
    assert seen >= 6


def test_the_torch_dataset_gives_the_same_structure(folder: str) -> None:
    dataset = train(size=SIZE).make_torch_dataset(train.make_source(folder))
    for number in range(6):
        image, objects = dataset[number]
        assert image.shape == (3, SIZE, SIZE)
        assert objects["boxes"].shape == (len(objects["labels"]), 4)
        assert ((objects["boxes"] >= -1e-4) & (objects["boxes"] <= 1 + 1e-4)).all()
        assert set(objects["labels"].tolist()) <= ({number} if number < 5 else set())
