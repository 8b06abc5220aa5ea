"""Boxes that are taken for what they aren't, and samples without any."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufeed.bench.progress import Silent
from gpufeed.inspect.check.checking import Request, check
from gpufeed.inspect.check.results import Check
from gpufeed.inspect.example_data import example_data
from gpufeed.pipelines import load_pipeline

MODULE = """
import gpufeed
from gpufeed import ops
from gpufeed.sources import YoloSource

@gpufeed.pipeline
def train(sample):
    image = sample.center_crop(64)
    boxes, labels = ops.boxes_like(image, sample.boxes, sample.labels{arguments})
    return ops.to_chw(image), boxes, labels

@train.source
def source(root):
    return YoloSource(root + "/images")
"""


def checked(tmp_path: Path, arguments: str, *, without_boxes: bool = False) -> Check:
    objects = example_data(tmp_path / "data", 8).objects
    if without_boxes:
        sorted((objects / "labels").glob("*.txt"))[3].write_text("")
    module = tmp_path / "boxes.py"
    module.write_text(MODULE.replace("{arguments}", arguments))
    pipeline = load_pipeline(str(module))
    return check(Request("boxes.py:train", pipeline, str(objects), 4, 2), tmp_path, Silent())


def test_shares_that_are_taken_for_pixels_are_a_fault(tmp_path: Path) -> None:
    faults = checked(tmp_path, "").faults
    assert any("lie in [0, 1], as shares of the image do" in fault.text for fault in faults)


@pytest.mark.parametrize("without_boxes", [False, True])
def test_samples_without_boxes_are_fine(tmp_path: Path, without_boxes: bool) -> None:
    found = checked(tmp_path, ", format='cxcywh', normalized=True", without_boxes=without_boxes)
    assert found.faults == ()
    assert found.num_samples == 8
