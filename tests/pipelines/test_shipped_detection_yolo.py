"""`gpufeed:detection_yolo` against its Dataset, which draws the same numbers, and against what its images show."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path
from typing import Any

import pytest
import torch
from shipped_harness import MAX_LINES, epoch_order, share_within
from shipped_objects import EMPTY, NUM_IMAGES, OVER_EDGE, assert_fits_the_gpu, colour_of, write_objects

from gpufeed import DataLoader
from gpufeed.inspect.example_data import CLASSES
from gpufeed.pipelines import Pipeline, load_pipeline
from gpufeed.sources import YoloSource

SEED, SIZE = 7, 160
train, evaluate = (load_pipeline(f"gpufeed:detection_yolo:{name}") for name in ("train", "evaluate"))


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_objects(tmp_path_factory.mktemp("yolo"))


def samples_of(objects: Path, pipeline: Pipeline, epochs: int = 1, **arguments: Any) -> list[list[Any]]:
    """Of each epoch the samples: image, boxes and labels."""
    arguments = {"batch_size": 4, "seed": SEED, "num_threads": 2, **arguments}
    found: list[list[Any]] = []
    with DataLoader(objects, pipeline=pipeline, device="cpu", **arguments) as loader:
        for _ in range(epochs):
            batches = [zip(images, known["boxes"], known["labels"], strict=True) for images, known in loader]
            found.append([sample for batch in batches for sample in batch])
    return found


@pytest.mark.parametrize(
    "pipeline",
    [
        train(size=SIZE),
        train(size=161, scale=(0.2, 0.6)),  # images that leave room at the rim
        train(size=96, scale=(1.0, 3.0), hsv=(0.0, 0.0, 0.0)),
        evaluate(size=SIZE),
        evaluate(size=421),  # odd, and larger than any image
    ],
    ids=str,
)
def test_three_shuffled_epochs_are_the_datasets(objects: Path, pipeline: Pipeline) -> None:
    dataset = pipeline.make_torch_dataset(pipeline.make_source(str(objects)))
    dataset.seed = SEED
    for epoch, samples in enumerate(samples_of(objects, pipeline, 3, shuffle=True)):
        dataset.epoch = epoch
        theirs = [dataset[index] for index in epoch_order(NUM_IMAGES, SEED, epoch)]
        images = (torch.stack(list(images)) for images in ((one[0] for one in samples), (one[0] for one in theirs)))
        assert share_within(*images, pipeline.bound, normalized=False) >= pipeline.bound.share
        for (_, boxes, labels), (_, known) in zip(samples, theirs, strict=True):
            assert (boxes.dtype, labels.dtype) == (torch.float32, torch.int64)
            assert torch.equal(labels, known["labels"])
            assert boxes.shape == known["boxes"].shape
            assert ((boxes - known["boxes"]).abs() * dataset.size <= 0.05).all()  # pixels


@pytest.mark.parametrize("pipeline", [train(size=SIZE, hsv=(0.0, 0.0, 0.0)), evaluate(size=SIZE)], ids=str)
def test_boxes_are_around_what_they_name(objects: Path, pipeline: Pipeline) -> None:
    """Without a reference: a rectangle of the example data is of its class's colour, but for its rim."""
    seen = 0
    for image, boxes, labels in samples_of(objects, pipeline)[0]:
        assert ((boxes[:, :2] - boxes[:, 2:] / 2 > -1e-4) & (boxes[:, :2] + boxes[:, 2:] / 2 < 1 + 1e-4)).all()
        for (x, y, w, h), label in zip((boxes * SIZE).tolist(), labels.tolist(), strict=True):
            # the box that was added over the edge shows the ground, and is wider than its part in the image
            if CLASSES[label].round or min(w, h) < 8 or label == 1:
                continue
            inside = image[:, round(y - h / 2) + 2 : round(y + h / 2) - 2, round(x - w / 2) + 2 : round(x + w / 2) - 2]
            assert (inside.flatten(1).mean(dim=1) - colour_of(label)).abs().max() < 0.06
            seen += 1
    assert seen >= 5


def test_a_letterboxed_image_lies_in_the_middle_of_grey(objects: Path) -> None:
    source = YoloSource(objects / "images")
    for index, (image, boxes, labels) in enumerate(samples_of(objects, evaluate(size=SIZE))[0]):
        grey = ((image * 255 - 114).abs() < 1e-3).all(dim=0)
        columns, rows = grey.all(dim=0), grey.all(dim=1)
        bars = columns if columns.any() else rows  # of a landscape the rows
        before, after = int((~bars).int().argmax()), int((~bars.flip(0)).int().argmax())
        assert bars.sum() == before + after > 0
        assert 0 <= after - before <= 1
        known = source.fields([index])
        assert labels.tolist() == known["labels"][0].tolist()
        if index == EMPTY:
            assert boxes.shape == (0, 4)
        elif index == OVER_EDGE:
            right = float(boxes[-1, 0] + boxes[-1, 2] / 2) * SIZE
            assert right == pytest.approx(SIZE - after if columns.any() else SIZE, abs=1e-3)


def test_mosaics_hold_what_their_sample_draws_whatever_the_batch(objects: Path) -> None:
    pipeline = train(size=64)
    (first,), (again,) = (
        samples_of(objects, pipeline, batch_size=size, num_threads=threads) for size, threads in ((1, 1), (4, 2))
    )
    for one, other in zip(first, again, strict=True):
        assert all(map(torch.equal, one, other))
    assert len({len(labels) for _, _, labels in first}) > 1


@pytest.mark.parametrize("pipeline", [train, evaluate], ids=str)
def test_it_fits_the_gpu(objects: Path, pipeline: Pipeline) -> None:
    assert_fits_the_gpu(pipeline, objects)


def test_it_can_be_read_as_a_whole() -> None:
    """Lines of code: with the Dataset that does the same, it is longer than the others."""
    assert _lines_of_code(Path(train.path).read_text(encoding="utf-8")) < MAX_LINES


def _lines_of_code(text: str) -> int:
    """Without blank lines, comments and docstrings."""
    documented = [node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Module, ast.FunctionDef))]
    docstrings = [node.body[0] for node in documented if ast.get_docstring(node) is not None]
    words = {number for one in docstrings for number in range(one.lineno, (one.end_lineno or one.lineno) + 1)}
    blank = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = [one for one in tokenize.generate_tokens(io.StringIO(text).readline) if one.type not in blank]
    return len({number for one in tokens for number in range(one.start[0], one.end[0] + 1)} - words)
