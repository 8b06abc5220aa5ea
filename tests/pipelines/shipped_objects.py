"""The example data's objects, with what real data has besides: images without any, crowds, and boxes over the edge."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from gpufeed.inspect.example_data import CLASSES, example_data
from gpufeed.pipelines import Pipeline
from gpufeed.recording import record

NUM_IMAGES = 10
EMPTY, CROWD, OVER_EDGE, OUTSIDE, UNKNOWN = 2, 3, 4, 5, 6
"""Images, by index, that differ from the example data's."""


def write_objects(root: Path) -> Path:
    """Images, labels, masks and annotations.

    Image ``EMPTY`` has no objects, one of ``CROWD``'s is a crowd, ``OVER_EDGE`` has a box that reaches over its right
    edge, ``OUTSIDE`` one wholly beyond it (COCO only), and the middle of ``UNKNOWN``'s mask belongs to no class.
    """
    objects = example_data(root, NUM_IMAGES).objects
    labels = objects / "labels"
    (labels / f"{EMPTY:04d}.txt").write_text("", encoding="utf-8")
    with (labels / f"{OVER_EDGE:04d}.txt").open("a", encoding="utf-8") as file:
        file.write("1 0.95 0.5 0.2 0.3\n")
    document = json.loads((objects / "annotations.json").read_text(encoding="utf-8"))
    kept = [one for one in document["annotations"] if one["image_id"] != EMPTY + 1]
    next(one for one in kept if one["image_id"] == CROWD + 1)["iscrowd"] = 1
    for number, (index, left) in enumerate(((OVER_EDGE, 0.9), (OUTSIDE, 1.1)), start=1000):
        width = document["images"][index]["width"]
        box = {"bbox": [left * width, 10.0, 0.5 * width, 40.0], "area": 20.0 * width, "iscrowd": 0}
        kept.append({"id": number, "image_id": index + 1, "category_id": 4, **box})
    document["annotations"] = kept
    (objects / "annotations.json").write_text(json.dumps(document), encoding="utf-8")
    path = objects / "masks" / f"{UNKNOWN:04d}.png"
    with Image.open(path) as image:
        mask = np.array(image)
    height, width = mask.shape
    mask[height // 2 - 20 : height // 2 + 20, width // 2 - 20 : width // 2 + 20] = 255
    Image.fromarray(mask).save(path)
    return objects


def assert_fits_the_gpu(pipeline: Pipeline, objects: Path) -> None:
    """Recording refuses operators without a GPU version, and edges from the GPU to the host."""
    fields = pipeline.make_source(str(objects)).fields([0])
    recorded = record(pipeline, "cuda", example={name: values[0] for name, values in fields.items()})
    assert recorded.graph is not None
    assert recorded.native_draws == ()


def colour_of(label: int) -> torch.Tensor:
    """(3,) in [0, 1]."""
    return torch.tensor(CLASSES[label].colour) / 255
