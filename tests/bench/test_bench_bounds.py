"""The bounds do what they say, for whole epochs, and refuse what makes no sense."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms as tv
from torchvision.transforms import v2

from gpufeed.bench.contenders import BOUNDS
from gpufeed.bench.contenders import bounds as factories
from gpufeed.bench.contenders.bounds import crop_windows
from gpufeed.bench.epoch import check_epoch, run_epoch
from gpufeed.bench.images import choose, list_image_folder
from gpufeed.bench.workload import Workload
from gpufeed.errors import UnsupportedError

_BY_NAME = {bound.name: bound for bound in BOUNDS}


@pytest.fixture
def workload(photos: Path) -> Workload:
    """12 samples of 11 files in three batches."""
    files = list_image_folder(photos)
    paths, targets = choose(files, 12, seed=0)
    return Workload(files.root, files.classes, paths, targets, "train", batch_size=4, num_threads=2)


@pytest.mark.parametrize("name", _BY_NAME)
def test_each_iter_is_a_whole_epoch(name: str, workload: Workload) -> None:
    with _BY_NAME[name].load_factory()(workload) as epochs:
        for _ in range(3):
            epoch = run_epoch(epochs, workload, is_bound=True)
            check_epoch(epoch, workload, is_bound=True)
            assert (epoch.num_samples, epoch.num_batches, len(epoch.waits_s)) == (12, 3, 3)
            assert (epoch.dtype, epoch.device, epoch.shape) == ("", "cpu", ())


@pytest.mark.parametrize("name", ["cached", "synthetic"])
def test_what_is_on_the_device_has_the_loaders_form(name: str, workload: Workload) -> None:
    with _BY_NAME[name].load_factory()(workload) as epochs:
        batches = [(tuple(images.shape), images.dtype, targets.dtype) for images, targets in epochs]
        objects = {id(images) for images, _ in epochs}
        again = {id(images) for images, _ in epochs}
    assert batches == [((4, 3, 224, 224), torch.float32, torch.int64)] * 3
    assert objects == again
    assert len(objects) == (1 if name == "synthetic" else 3)


def test_few_batches_are_cached_and_come_again(workload: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factories, "_CACHED_BATCHES", {"cpu": 2})
    with factories.cached(workload) as epochs:
        first, second, third = (id(images) for images, _ in epochs)
    assert third == first != second


def test_storage_reads_every_file(workload: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(factories, "_read", lambda path: read.append(path) or 1)
    with factories.storage(workload) as epochs:
        assert list(epochs) == [4, 4, 4]
    assert sorted(read) == sorted(workload.paths)


def test_storage_says_which_file_is_gone(workload: Workload) -> None:
    gone = replace(workload, paths=(*workload.paths[:-1], "/gone.jpg"))
    with factories.storage(gone) as epochs, pytest.raises(FileNotFoundError, match=r"/gone\.jpg"):
        list(epochs)


def test_decoding_what_is_no_image_raises_and_names_nothing_else(workload: Workload, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"\xff\xd8\xff rubbish")
    with (
        factories.decode(replace(workload, paths=(*workload.paths[:-1], str(bad)))) as epochs,
        pytest.raises(RuntimeError),
    ):
        list(epochs)


def test_regions_are_decoded_at_the_windows(workload: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    windows = np.array([[index, 2, 5 + index, 7] for index in range(12)], dtype=np.int64)
    monkeypatch.setattr(factories, "crop_windows", lambda *_: windows)
    with factories.region_decode(workload) as epochs:
        assert list(epochs) == [4, 4, 4]
    graph = epochs._graph  # type: ignore[attr-defined]
    graph.feed_input("paths", epochs._paths[1].matrix)  # type: ignore[attr-defined]
    for name, values in (("start", windows[4:8, :2]), ("shape", windows[4:8, 2:])):
        graph.feed_input(name, values.astype(np.int32))
    graph.schedule_run()
    (images,) = graph.outputs()
    fed = [np.asarray(images[row]) for row in range(4)]
    for row, (pixels, path) in enumerate(zip(fed, workload.paths[4:8], strict=True)):
        top, left, height, width = windows[4 + row]
        expected = np.asarray(Image.open(path).convert("RGB"))[top : top + height, left : left + width]
        assert pixels.shape == expected.shape
        assert np.abs(pixels.astype(int) - expected.astype(int)).max() <= 2


@pytest.mark.parametrize(
    "first",
    [
        tv.RandomResizedCrop(32, scale=(0.2, 0.9)),
        v2.RandomResizedCrop(32, scale=(0.2, 0.9)),
        tv.RandomCrop(20),
        v2.RandomCrop((20, 31)),
        tv.CenterCrop(16),
        v2.CenterCrop(500),
    ],
    ids=str,
)
def test_windows_lie_inside_and_have_the_crops_size(first: object, workload: Workload) -> None:
    torch.manual_seed(0)
    windows = crop_windows(v2.Compose([v2.Compose([first]), v2.RandomHorizontalFlip()]), workload.paths)
    assert windows.shape == (12, 4)
    for (top, left, height, width), path in zip(windows.tolist(), workload.paths, strict=True):
        with Image.open(path) as image:
            assert 0 <= top <= top + height <= image.height
            assert 0 <= left <= left + width <= image.width
            if "Resized" in type(first).__name__:
                share = height * width / (image.height * image.width)
                assert 0.15 < share < 0.95
            else:
                wanted = first.size  # type: ignore[attr-defined]
                assert (height, width) == (min(wanted[0], image.height), min(wanted[1], image.width))


def test_windows_differ_from_image_to_image(workload: Workload) -> None:
    torch.manual_seed(0)
    windows = crop_windows(tv.RandomResizedCrop(32), [workload.paths[0]] * 20)
    assert len({tuple(window) for window in windows.tolist()}) > 10


@pytest.mark.parametrize("transform", [tv.Compose([tv.Resize(40), tv.CenterCrop(32)]), tv.ToTensor()])
def test_without_a_crop_there_are_no_regions(transform: object, workload: Workload) -> None:
    with pytest.raises(UnsupportedError, match=r"begins with (Resize|ToTensor), not with a crop"):
        _enter(factories.region_decode(replace(workload, transform=transform)))


@pytest.mark.parametrize("name", ["storage", "decode", "region-decode"])
def test_a_source_without_files_has_no_disk(name: str, workload: Workload) -> None:
    names = replace(workload, paths=tuple(f"shard.tar:{index}" for index in range(12)))
    with pytest.raises(UnsupportedError, match="the samples of this source aren't files"):
        _enter(_BY_NAME[name].load_factory()(names))


@pytest.mark.parametrize(("name", "why"), [("synthetic", "any structure"), ("region-decode", "is its own")])
def test_a_pipeline_has_neither_regions_nor_noise(name: str, why: str, workload: Workload) -> None:
    with pytest.raises(UnsupportedError, match=why):
        _enter(_BY_NAME[name].load_factory()(replace(workload, is_pipeline=True)))


def test_bounds_are_measured_seldom_and_only_the_devices_feed_a_step() -> None:
    assert all(bound.kind == "bound" and bound.leave_out_rank is not None for bound in BOUNDS)
    assert [index for index in range(8) if BOUNDS[0].runs_in(index)] == [0, 3, 6]
    assert [bound.name for bound in BOUNDS if bound.feeds_step] == ["cached", "synthetic"]


def _enter(context: object) -> Iterable[object]:
    with context as epochs:  # type: ignore[attr-defined]
        return epochs
