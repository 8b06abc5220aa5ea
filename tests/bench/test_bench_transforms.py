"""Transforms by reference."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torchvision import transforms as v1

from gpufeed.bench.protocol import Probe
from gpufeed.bench.serve import probe
from gpufeed.bench.transforms import check_reference, load_transform
from gpufeed.errors import ArgumentError


def test_the_built_in_names_are_imagenets_usual_transforms() -> None:
    train, evaluation = load_transform("train"), load_transform("eval")
    assert isinstance(train, v1.Compose)
    assert isinstance(evaluation, v1.Compose)
    names = [[type(step).__name__ for step in transform.transforms] for transform in (train, evaluation)]
    assert names == [
        ["RandomResizedCrop", "RandomHorizontalFlip", "ToTensor", "Normalize"],
        ["Resize", "CenterCrop", "ToTensor", "Normalize"],
    ]
    assert train.transforms[0].size == (224, 224)
    assert (evaluation.transforms[0].size, evaluation.transforms[1].size) == (256, (224, 224))


def test_an_object_is_itself() -> None:
    transform = v1.ToTensor()
    assert load_transform(transform) is transform


def test_other_names_are_refused_with_the_choices() -> None:
    with pytest.raises(ArgumentError, match=r"must be one of train, eval, or FILE\.py:NAME, got 'test'"):
        check_reference("test")


@pytest.mark.parametrize(("value", "kind"), [(3, "of type int"), (v1.ToTensor, "the class ToTensor")])
def test_what_is_no_transform_is_refused(value: object, kind: str) -> None:
    with pytest.raises(ArgumentError, match=f"is {kind}, not a transform"):
        load_transform(value)


@pytest.fixture
def image(photos: Path) -> str:
    """One photograph."""
    return str(photos / "ant" / "0.jpg")


def test_probing_tells_dtype_and_device(image: str) -> None:
    probed = probe(Probe(v1.Compose([v1.PILToTensor()]), image, "cpu"))
    assert (probed.dtype, probed.device, probed.device_name) == ("uint8", "cpu", "")
    assert "PILToTensor" in probed.transform_text


@pytest.mark.parametrize("device", ["cuda", "cuda:7"])
def test_a_device_that_is_not_there_is_told(device: str, image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(
        ArgumentError, match=f"there is no device {device}: torch finds 0 CUDA devices; use --device cpu"
    ):
        probe(Probe("train", image, device))


def test_auto_is_the_cpu_without_cuda(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert probe(Probe("train", image, "auto")).device == "cpu"


def test_a_transform_that_fails_or_gives_no_tensor_is_told(image: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def fails(image):\n    return image.no_such_thing\n\ndef keeps(image):\n    return image\n")
    with pytest.raises(ArgumentError, match=r"mine\.py:fails fails on .*0\.jpg: AttributeError: .*no_such_thing"):
        probe(Probe(f"{file}:fails", image, "cpu"))
    with pytest.raises(ArgumentError, match=r"mine\.py:keeps must end in a tensor, got Image; add ToTensor\(\)"):
        probe(Probe(f"{file}:keeps", image, "cpu"))
