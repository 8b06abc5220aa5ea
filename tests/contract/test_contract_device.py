"""Where batches lie: resolved at the first ``iter()``, by rules that need no device to test."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from contract_harness import folder
from torchvision.transforms import v2

from gpufeed import ArgumentError, DataLoader, Decode, UnsupportedError, bounds
from gpufeed.devices import resolve_device
from gpufeed.plan import Op


def pretend(monkeypatch: pytest.MonkeyPatch, devices: int, current: int = 0, local_rank: str | None = None) -> None:
    """A machine with so many CUDA devices, and torchrun's variable."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: devices > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: current)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if local_rank is not None:
        monkeypatch.setenv("LOCAL_RANK", local_rank)


@pytest.mark.parametrize(
    ("device", "devices", "current", "local_rank", "resolved"),
    [
        ("auto", 0, 0, None, "cpu"),
        ("auto", 0, 0, "3", "cpu"),
        ("auto", 4, 0, None, "cuda:0"),
        ("auto", 4, 2, None, "cuda:2"),
        ("auto", 4, 0, "3", "cuda:3"),
        ("auto", 4, 2, "0", "cuda:0"),
        ("auto", 1, 0, "3", "cuda:0"),  # each rank was given a device of its own, by CUDA_VISIBLE_DEVICES
        ("auto", 4, 1, "", "cuda:1"),
        ("cpu", 4, 2, "3", "cpu"),
        ("cuda", 4, 2, None, "cuda:2"),
        ("cuda", 4, 2, "3", "cuda:2"),  # torch's meaning
        ("cuda:1", 4, 2, "3", "cuda:1"),
        (3, 4, 0, None, "cuda:3"),
        (torch.device("cuda", 1), 4, 0, None, "cuda:1"),
        (torch.device("cpu"), 4, 0, None, "cpu"),
    ],
)
def test_resolution(
    monkeypatch: pytest.MonkeyPatch, device: Any, devices: int, current: int, local_rank: str | None, resolved: str
) -> None:
    pretend(monkeypatch, devices, current, local_rank)
    assert resolve_device(device) == torch.device(resolved)


@pytest.mark.parametrize(
    ("device", "devices", "local_rank", "text"),
    [
        ("cuda", 0, None, "device='cuda' needs a CUDA device, and torch finds none; use device='auto' or 'cpu'"),
        ("cuda:1", 0, None, "device='cuda:1' needs a CUDA device"),
        ("cuda:4", 4, None, "device='cuda:4' means cuda:4, and there are 4: it must be below that"),
        ("auto", 2, "2", "device='auto' means cuda:2, and there are 2: it must be below that"),
    ],
)
def test_devices_that_are_not_there(
    monkeypatch: pytest.MonkeyPatch, device: str, devices: int, local_rank: str | None, text: str
) -> None:
    pretend(monkeypatch, devices, 0, local_rank)
    with pytest.raises(ArgumentError) as caught:
        resolve_device(device)
    assert text in str(caught.value)


def test_construction_touches_no_cuda(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def touched(*arguments: object, **keywords: object) -> Any:
        raise AssertionError("CUDA was touched")

    with monkeypatch.context() as patch:
        for name in ("is_available", "device_count", "current_device", "init", "_lazy_init", "Stream"):
            patch.setattr(torch.cuda, name, touched)
        loaders = [DataLoader(folder(root), device=device) for device in ("auto", "cuda", "cuda:1", 0, "cpu")]
        assert [loader.device for loader in loaders] == ["auto", "cuda", "cuda:1", 0, "cpu"]
        assert len(loaders[0]) == 16


def test_the_device_is_told_after_the_first_iter(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 0)
    loader = DataLoader(folder(root), batch_size=8)
    assert loader.device == "auto"
    iterator = iter(loader)
    assert loader.device == torch.device("cpu")
    assert {images.device for images, _ in iterator} == {torch.device("cpu")}
    assert vars(loader)["device"] == "auto"
    with pytest.raises(AttributeError):
        loader.device = "cuda"  # type: ignore[misc]


@pytest.mark.parametrize("arguments", [{"device": "cuda"}, {"device": "cpu", "decode": Decode("mixed")}])
def test_what_the_device_cannot_do_is_refused_at_iter(
    root: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]
) -> None:
    pretend(monkeypatch, 0)
    loader = DataLoader(folder(root), **arguments)
    with pytest.raises(ArgumentError, match=r"needs a CUDA device|loader's device is the CPU"):
        iter(loader)


# Threads -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "ranks", "threads"),
    [
        ({}, "1", 6),
        ({}, "4", 1),
        ({}, "2", 3),
        ({}, "nonsense", 6),
        ({"num_workers": 2}, "1", 2),
        ({"num_workers": 2, "num_threads": 3}, "2", 3),
        ({"num_threads": 1}, "1", 1),
    ],
)
def test_number_of_threads(
    root: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, int], ranks: str, threads: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)))
    monkeypatch.setattr("gpufeed.cpus._cgroup_quota", lambda root: None)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
    before = set(threading.enumerate())
    with DataLoader(folder(root), batch_size=8, **arguments) as loader:
        next(iter(loader))
        new = set(threading.enumerate()) - before
        assert len([each for each in new if each.name.startswith("gpufeed-tail_")]) == threads


def test_strict_is_asked_of_the_placement(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bicubic = v2.Compose([v2.Resize((9, 9), interpolation=v2.InterpolationMode.BICUBIC), v2.PILToTensor()])
    assert len(list(DataLoader(folder(root, 4, bicubic), strict=True))) == 4
    with pytest.raises(ArgumentError, match="strict must be True or False, got 1"):
        DataLoader(folder(root, 4), strict=1)
    loose = bounds.Row((Op,), bounds.Bound(3.0, reason="for a test"))
    monkeypatch.setattr(bounds, "TABLE", (loose,))
    assert len(list(DataLoader(folder(root, 4, bicubic)))) == 4
    with pytest.raises(UnsupportedError, match=r"within 1/255, which isn't promised on cpu for Resize.*at most 3/255"):
        iter(DataLoader(folder(root, 4, bicubic), strict=True))
