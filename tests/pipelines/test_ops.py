"""Masks and boxes that follow an image, and what `ops` refuses, on a source made here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from nvidia.dali import fn
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import v2

import gpufeed
from gpufeed import DataLoader, ops
from gpufeed.errors import PipelineError, SampleError
from gpufeed.sources.base import Paths


@dataclass(frozen=True)
class Marked:
    """Images whose mask and boxes are known: each value of the mask is a box's number."""

    files: tuple[str, ...]
    wrong_mask: int | None = None

    def __len__(self) -> int:
        return len(self.files)

    def read(self, indices: Sequence[int]) -> Paths:
        return Paths.of([self.files[index] for index in indices])

    def fields(self, indices: Sequence[int]) -> Mapping[str, Sequence[object]]:
        return {
            "target": [index % 3 for index in indices],
            "name": [f"file {index}" for index in indices],
            "boxes": [self.boxes(index) for index in indices],
            "labels": [np.arange(len(self.boxes(index))) + 1 for index in indices],
            "mask": [self.mask(index) for index in indices],
        }

    def name_of(self, index: int) -> str:
        return self.files[index]

    def fingerprint(self) -> str:
        return "0" * 64

    def size_hw(self, index: int) -> tuple[int, int]:
        with Image.open(self.files[index]) as image:
            return image.size[1], image.size[0]

    def boxes(self, index: int) -> np.ndarray:
        """Left, top, right, bottom in pixels; none for every fourth sample."""
        height, width = self.size_hw(index)
        if index % 4 == 3:
            return np.zeros((0, 4), dtype=np.float32)
        return np.array([[2, 3, width // 2, height // 2], [width // 2, 5, width, height - 7]], dtype=np.float32)

    def mask(self, index: int) -> np.ndarray:
        mask = np.zeros(self.size_hw(index), dtype=np.uint8)
        for number, (left, top, right, bottom) in enumerate(self.boxes(index).astype(int), start=1):
            mask[top:bottom, left:right] = number
        return mask[1:] if index == self.wrong_mask else mask


@pytest.fixture(scope="module")
def source(folder: Path) -> Marked:
    return Marked(tuple(map(str, sorted(folder.glob("*/*.jpg")))))


def samples(source: Marked, pipeline: Any, **options: Any) -> list[Any]:
    options = {"batch_size": 7, "device": "cpu", "seed": 5, "num_threads": 2} | options
    with DataLoader(source, pipeline=pipeline, collate_fn=list, **options) as loader:
        return [sample for batch in loader for sample in batch]


GEOMETRY = {
    "crop and flip": lambda sample: ops.apply(v2.RandomHorizontalFlip(), sample.random_resized_crop(40), sample),
    "centre": lambda sample: sample.center_crop((30, 44), resize=50),
    "whole": lambda sample: sample.decode(),
    "beyond": lambda sample: sample.center_crop(150),
    "both flips": lambda sample: ops.apply(
        v2.Compose([v2.RandomVerticalFlip(), v2.Resize((33, 57)), v2.RandomHorizontalFlip()]), sample.decode(), sample
    ),
}


@pytest.mark.parametrize("geometry", GEOMETRY.values(), ids=GEOMETRY.keys())
def test_boxes_are_around_what_the_mask_shows(source: Marked, geometry: Any) -> None:
    @gpufeed.pipeline
    def both(sample):
        image = geometry(sample)
        boxes, labels = ops.boxes_like(image, sample.boxes, sample.labels, min_size=2)
        return ops.masks_like(image, sample.mask), boxes, labels, image

    seen = 0
    for mask, boxes, labels, image in samples(source, both):
        assert mask.shape == image.shape[:2]
        assert mask.dtype == torch.uint8
        assert boxes.dtype == torch.float32
        assert len(boxes) == len(labels)
        for box, label in zip(boxes.tolist(), labels.tolist(), strict=True):
            rows, columns = torch.where(mask == label)
            found = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            assert max(abs(a - float(b)) for a, b in zip(box, found, strict=True)) <= 1.0
            seen += 1
        missing = set(mask.unique().tolist()) - {0} - set(labels.tolist())
        for label in missing:  # dropped: too small to be seen
            rows, columns = torch.where(mask == label)
            assert min(rows.max() - rows.min(), columns.max() - columns.min()) <= 2
    assert seen > 15


def test_a_mask_is_torchvisions_mask_bit_for_bit(source: Marked) -> None:
    @gpufeed.pipeline
    def center(sample):
        return ops.masks_like(sample.center_crop((30, 44), resize=50), sample.mask)

    transform = v2.Compose([v2.Resize(50), v2.CenterCrop((30, 44))])
    for index, mask in enumerate(samples(source, center)):
        assert torch.equal(mask, transform(tv_tensors.Mask(source.mask(index))).as_subclass(torch.Tensor))


def test_normalised_centre_boxes_stay_so(source: Marked) -> None:
    @dataclass(frozen=True)
    class Centred(Marked):
        def boxes(self, index: int) -> np.ndarray:
            height, width = self.size_hw(index)
            boxes = Marked.boxes(self, index)
            centres = np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], axis=1)
            return (centres / np.array([width, height] * 2)).astype(np.float32)

        def mask(self, index: int) -> np.ndarray:
            return np.zeros((1, 1), dtype=np.uint8)

    @gpufeed.pipeline
    def pixels(sample):
        image = sample.random_resized_crop((40, 60))
        return ops.boxes_like(image, sample.boxes)

    @gpufeed.pipeline
    def shares(sample):
        image = sample.random_resized_crop((40, 60))
        return ops.boxes_like(image, sample.boxes, format="cxcywh", normalized=True)

    for xyxy, cxcywh in zip(samples(source, pixels), samples(Centred(source.files), shares), strict=True):
        sides = torch.tensor([60.0, 40.0, 60.0, 40.0])
        centre, size = cxcywh[:, :2] * sides[:2], cxcywh[:, 2:] * sides[2:]
        assert torch.allclose(torch.cat([centre - size / 2, centre + size / 2], dim=1), xyxy, atol=1e-3)


def test_fields_come_as_torch_collates_them_or_as_a_list(source: Marked) -> None:
    @gpufeed.pipeline
    def fields(sample):
        return sample.target, sample.name, sample.boxes, sample.mask, ops.ragged(sample.target)

    with DataLoader(source, pipeline=fields, batch_size=5, device="cpu", seed=0) as loader:
        target, name, boxes, masks, listed = next(iter(loader))
    assert target.tolist() == [0, 1, 2, 0, 1]
    assert list(name) == [f"file {index}" for index in range(5)]
    assert isinstance(boxes, list)
    assert [len(one) for one in boxes] == [2, 2, 2, 0, 2]
    assert all(torch.equal(mask, torch.from_numpy(source.mask(index))) for index, mask in enumerate(masks))
    assert len(listed) == 5


def test_numeric_fields_are_nodes_for_operators(source: Marked) -> None:
    @gpufeed.pipeline
    def doubled(sample):
        return sample.target * 2 + 1, ops.pad(sample.boxes, fill=-1), fn.cast(sample.mask, dtype=fn_types.INT32)

    from nvidia.dali import types as fn_types

    with DataLoader(source, pipeline=doubled, batch_size=5, device="cpu", seed=0) as loader:
        odd, (boxes, lengths), masks = next(iter(loader))
    assert odd.tolist() == [1, 3, 5, 1, 3]
    assert lengths.tolist() == [2, 2, 2, 0, 2]
    assert boxes.shape == (5, 2, 4)
    assert (boxes[3] == -1).all()
    assert all(torch.equal(mask, torch.from_numpy(source.mask(i)).int()) for i, mask in enumerate(masks))


def test_a_mask_of_another_size_is_named(source: Marked) -> None:
    @gpufeed.pipeline
    def masks(sample):
        return ops.masks_like(sample.center_crop(20), sample.mask)

    with pytest.raises(SampleError, match=r"its mask must be \(H, W\) uint8 of the image's size") as caught:
        samples(Marked(source.files, wrong_mask=9), masks)
    assert caught.value.name == source.files[9]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda s: ops.boxes_like(fn.flip(s.decode()), s.boxes), "has met one; call it on the image before that"),
        (lambda s: ops.masks_like(s.decode(), s.others(1)[0].mask), "takes a field of the image's own sample"),
        (lambda s: ops.masks_like(s.decode(), s.uniform()), "takes a field of the image's own sample"),
        (lambda s: ops.boxes_like(s.decode(), s.boxes, format="xywh"), "format must be 'xyxy' or 'cxcywh', got 'xywh'"),
        (lambda s: ops.normalize(s.decode(), mean=(0, 0, 0), std=(1, 0, 1)), "std without 0"),
        (lambda s: ops.normalize(3), "takes a handle of the sample's"),
        (lambda s: ops.normalize(torch.zeros(3)), "is for the pipeline function, where images are handles"),
        (lambda s: ops.pad(s.boxes, length=0), "length must be an integer of at least 1"),
        (lambda s: ops.apply(v2.ColorJitter(0.4), s.decode(), s), "ColorJitter isn't among what DALI does"),
        (lambda s: ops.apply(v2.RandomCrop(9), fn.flip(s.decode()), s), "needs the image's size"),
        (lambda s: ops.apply(v2.ToImage(), fn.flip(s.decode()), s), "use ops.normalize or ops.to_chw"),
        (lambda s: ops.apply(v2.AutoAugment(), s.decode(), s), "AutoAugment"),
        (lambda s: ops.apply(v2.CenterCrop(9), s.decode(), None), "draws by a sample's key"),
        (lambda s: s.uniform(3, 1), "needs low <= high, got 3 and 1"),
        (lambda s: s.uniform(0, s.uniform()), "draws can't depend on nodes"),
        (lambda s: s.coin(1.5), r"a probability in \[0, 1\], got 1.5"),
        (lambda s: s.choice([]), "at least one value"),
        (lambda s: s.choice([1, 2], p=[1]), "a probability for each of 2 values"),
        (lambda s: s.others(0), "an integer of at least 1, got 0"),
        (lambda s: s.center_crop(0), "whole number of pixels"),
        (lambda s: s.random_resized_crop(20, interpolation="cubic"), "must be one of bilinear, bicubic, lanczos"),
        (lambda s: s.lables, r"did you mean sample.labels\?"),
        (lambda s: s, "returned the sample itself"),
        (lambda s: (s.target, 3), "returned 3, of type int, among its outputs"),
    ],
)
def test_what_is_refused_names_the_line(source: Marked, body: Any, message: str) -> None:
    @gpufeed.pipeline
    def wrong(sample):
        return body(sample)

    with pytest.raises(PipelineError, match=message) as caught:
        samples(source, wrong)
    assert caught.value.path == __file__
    assert caught.value.line > 0
