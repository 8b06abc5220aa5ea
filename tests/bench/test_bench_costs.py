"""What the parts of loading an image cost: which parts, in which order, and that the dearest is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torchvision import transforms as tv
from torchvision.transforms import v2

from gpufeed.bench import costs
from gpufeed.bench.costs import leaves, measure_costs
from gpufeed.bench.images import list_image_folder
from gpufeed.bench.workload import Workload
from gpufeed.errors import UnsupportedError


@pytest.fixture
def workload(photos: Path) -> Workload:
    """All of the photos, with ImageNet's training transform."""
    files = list_image_folder(photos)
    return Workload(files.root, files.classes, files.paths, files.targets, "train", batch_size=4, num_threads=2)


def test_read_decode_and_the_leaves_in_their_order(workload: Workload) -> None:
    found = measure_costs(workload, num_images=5)
    assert [cost.part.partition("(")[0] for cost in found] == [
        "read",
        "decode",
        "RandomResizedCrop",
        "RandomHorizontalFlip",
        "ToTensor",
        "Normalize",
    ]
    assert all(cost.s_per_image > 0 for cost in found)
    assert "\n" not in "".join(cost.part for cost in found)


def test_the_dearest_transform_costs_most(workload: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(costs.time, "perf_counter", lambda: now[0])

    class Slow:
        def __init__(self, seconds: float, every: int) -> None:
            self.seconds, self.every, self.calls = seconds, every, 0

        def __call__(self, image: object) -> object:
            self.calls += 1
            now[0] += self.seconds if self.calls % self.every == 0 else 0.0
            return image

        def __repr__(self) -> str:
            return f"Slow({self.seconds}, every={self.every})"

    transform = tv.Compose([Slow(0.25, 1), tv.Compose([Slow(1.0, 2), tv.ToTensor()])])
    found = {
        cost.part: cost.s_per_image for cost in measure_costs(replace(workload, transform=transform), num_images=40)
    }
    assert found["Slow(0.25, every=1)"] == pytest.approx(0.25)
    assert found["Slow(1.0, every=2)"] == pytest.approx(0.5, abs=0.03)  # half of the images: half of the cost


def test_torch_has_one_thread_meanwhile(workload: Workload) -> None:
    seen: set[int] = set()

    def look(image: object) -> object:
        seen.add(torch.get_num_threads())
        return image

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        measure_costs(replace(workload, transform=look), num_images=2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == {1}


def test_leaves_of_nested_containers() -> None:
    crop, flip, both = v2.CenterCrop(3), v2.RandomHorizontalFlip(), v2.RandomApply([v2.Grayscale()])
    nested = v2.Compose([crop, nn.Sequential(flip, nn.Sequential(both))])
    assert leaves(nested) == [crop, flip, both]
    assert leaves(crop) == [crop]


def test_what_is_no_file_has_no_costs(workload: Workload) -> None:
    names = tuple(f"shard.tar:{index}" for index in range(len(workload)))
    with pytest.raises(UnsupportedError, match="the samples of this source aren't files"):
        measure_costs(replace(workload, paths=names))


def test_the_slowest_and_fastest_few_do_not_count() -> None:
    values = np.array([1.0] * 38 + [1000.0, 0.0])
    assert costs._trimmed_mean(values) == 1.0
