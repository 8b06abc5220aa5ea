"""The twin on tensors does what the transform does on PIL images."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from PIL import Image
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode, v2

from gpufeed.bench.contenders.tensor_twin import tensor_decoder, tensor_twin
from gpufeed.errors import UnsupportedError

_NORMALIZE = ((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


def _v2_to_tensor() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # v2.ToTensor is deprecated, and people use it
        return v2.ToTensor()


@pytest.mark.parametrize(
    "transform",
    [
        pytest.param(v1.Compose([v1.ToTensor(), v1.Normalize(*_NORMALIZE)]), id="v1"),
        pytest.param(v1.Compose([v1.CenterCrop(16), v1.Compose([v1.PILToTensor()])]), id="v1 nested, uint8"),
        pytest.param(
            v1.Compose([v1.Pad((1, 2, 3, 4), 7), v1.PILToTensor(), v1.ConvertImageDtype(torch.float64)]), id="v1 dtype"
        ),
        pytest.param(
            v2.Compose([v2.ToImage(), v2.CenterCrop((9, 11)), v2.ToDtype(torch.float32, scale=True)]), id="v2"
        ),
        pytest.param(v2.Compose([v2.PILToTensor(), v2.ToPureTensor()]), id="v2 uint8"),
        pytest.param(_v2_to_tensor(), id="v2.ToTensor scales"),
        pytest.param(v1.Compose([v1.RandomHorizontalFlip(1.0), v1.RandomApply([v1.ToTensor()], 1.0)]), id="draws"),
    ],
)
def test_without_resampling_the_twin_is_exact(transform: Callable[[Any], torch.Tensor], photos: Path) -> None:
    path = next(photos.glob("*/*.jpg"))
    with Image.open(path) as image:
        image.load()
        expected = transform(image)
        pixels = v2.functional.pil_to_tensor(image)
    got = tensor_twin(transform)(pixels)
    assert type(got) is torch.Tensor
    assert got.dtype == expected.dtype
    torch.testing.assert_close(got, torch.as_tensor(expected), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (
            v1.RandomResizedCrop((31, 33), (0.2, 0.9), (0.5, 2.0), InterpolationMode.BICUBIC),
            v2.RandomResizedCrop((31, 33), (0.2, 0.9), (0.5, 2.0), InterpolationMode.BICUBIC),
        ),
        (v1.RandomCrop(32, padding=4, fill=9), v2.RandomCrop(32, padding=4, fill=9)),
        (v1.ColorJitter(0.4, hue=0.1), v2.ColorJitter(0.4, hue=0.1)),
        (v1.RandomErasing(0.3, value=2), v2.RandomErasing(0.3, value=2)),
        (v1.RandomRotation(7, expand=True), v2.RandomRotation(7, expand=True)),
        (v1.Resize(17, max_size=19), v2.Resize(17, max_size=19)),
    ],
)
def test_arguments_are_carried_over(transform: Any, expected: v2.Transform) -> None:
    twin = tensor_twin(transform)
    assert type(twin) is type(expected)
    for name in inspect.signature(type(expected)).parameters:
        got, wanted = (getattr(value, name) for value in (twin, expected))
        if name == "interpolation":
            got, wanted = InterpolationMode(got), InterpolationMode(wanted)
        assert got == wanted, name


def test_a_resize_is_the_antialiased_one_on_tensors(photos: Path) -> None:
    transform = v1.Compose([v1.Resize(17), v1.ToTensor()])
    with Image.open(next(photos.glob("*/*.jpg"))) as image:
        image.load()
        expected = transform(image)
        got = tensor_twin(transform)(v2.functional.pil_to_tensor(image))
    assert got.shape == expected.shape
    assert (got - expected).abs().max() <= 2 / 255 + 1e-6  # torch's kernel and Pillow's differ by rounding


@pytest.mark.parametrize(
    ("transform", "problem"),
    [
        (v1.Lambda(lambda image: image), "transforms.Lambda has no twin"),
        (v1.Compose([v1.ToTensor(), v1.ToPILImage()]), "transforms.ToPILImage has no twin"),
        (lambda image: image, "function is not torchvision's own"),
    ],
)
def test_what_has_no_twin_is_refused_by_name(transform: Any, problem: str) -> None:
    with pytest.raises(UnsupportedError, match=problem):
        tensor_twin(transform)


def test_the_decoder_gives_rgb_also_for_grey_images(tmp_path: Path) -> None:
    path = tmp_path / "grey.png"
    Image.new("L", (11, 7), 50).save(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchvision's decoder is deprecated for torchcodec's
        pixels = tensor_decoder()(str(path))
    assert pixels.dtype == torch.uint8
    assert pixels.shape == (3, 7, 11)
    assert (pixels == 50).all()


def test_where_torchvision_has_no_decoder_its_successor_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    successor = ModuleType("torchcodec.decoders")
    successor.decode_image = lambda path, mode: torch.zeros(3, 1, 1)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision.io", ModuleType("torchvision.io"))
    monkeypatch.setitem(sys.modules, "torchcodec", ModuleType("torchcodec"))
    monkeypatch.setitem(sys.modules, "torchcodec.decoders", successor)
    assert tensor_decoder()("x").shape == (3, 1, 1)
    monkeypatch.setitem(sys.modules, "torchcodec.decoders", ModuleType("torchcodec.decoders"))
    with pytest.raises(UnsupportedError, match="`pip install torchcodec` brings one"):
        tensor_decoder()
