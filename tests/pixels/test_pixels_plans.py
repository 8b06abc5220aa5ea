"""Whole plans against torchvision, with the same draws, per domain, at odd sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from oracle import BICUBIC, BILINEAR, EXACT, FLOAT, Bound, assert_pixels, expected, load
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode as Mode
from torchvision.transforms import v2

from gpufeed import SampleError

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
STD_255 = torch.tensor(STD).view(3, 1, 1) * 255
TO_FLOAT = v2.ToDtype(torch.float32, scale=True)

EXACT_BYTES: dict[str, Any] = {
    "bytes": v2.Compose([v2.PILToTensor()]),
    "v1 center crop": v1.Compose([v1.CenterCrop(40), v1.PILToTensor()]),
    "v2 center crop, odd": v2.Compose([v2.CenterCrop((41, 28)), v2.PILToTensor()]),
    "tensor center crop": v2.Compose([v2.ToImage(), v2.CenterCrop((41, 28))]),
    "random crop padded": v1.Compose([v1.RandomCrop(32, padding=4, pad_if_needed=True), v1.PILToTensor()]),
    "random crop filled": v2.Compose([v2.RandomCrop((33, 21), (1, 2, 3, 4), True, (10, 20, 30)), v2.PILToTensor()]),
    "random crop edge": v1.Compose([v1.RandomCrop(50, 3, True, padding_mode="edge"), v1.PILToTensor()]),
    "random crop on tensor": v2.Compose([v2.ToImage(), v2.RandomCrop(32, padding=4, pad_if_needed=True, fill=7)]),
    "pad constant": v2.Compose([v2.Pad((1, 2, 3, 4), fill=(9, 8, 7)), v2.PILToTensor()]),
    "pad edge": v2.Compose([v2.Pad(5, padding_mode="edge"), v2.PILToTensor()]),
    "pad reflect beyond": v2.Compose([v2.Pad(23, padding_mode="reflect"), v2.PILToTensor()]),
    "pad symmetric beyond": v2.Compose([v2.Pad(29, padding_mode="symmetric"), v2.PILToTensor()]),
    "pad tensor edge": v2.Compose([v2.ToImage(), v2.Pad((3, 5), padding_mode="edge")]),
    "flips": v2.Compose([v2.RandomHorizontalFlip(0.5), v2.RandomVerticalFlip(0.5), v2.PILToTensor()]),
    "flips on tensor": v1.Compose([v1.PILToTensor(), v1.RandomHorizontalFlip(1.0), v1.RandomVerticalFlip(0.3)]),
    "grey 1": v1.Compose([v1.Grayscale(), v1.PILToTensor()]),
    "grey 3": v2.Compose([v2.Grayscale(3), v2.PILToTensor()]),
    "grey v1 tensor": v1.Compose([v1.PILToTensor(), v1.Grayscale(3)]),
    "grey v2 tensor": v2.Compose([v2.ToImage(), v2.Grayscale(1)]),
    "random grey": v2.Compose([v2.RandomGrayscale(0.5), v2.PILToTensor()]),
    "random grey v1 tensor": v1.Compose([v1.PILToTensor(), v1.RandomGrayscale(0.5)]),
    "windows of windows": v2.Compose([v2.CenterCrop(90), v2.RandomCrop(61), v2.CenterCrop((70, 31)), v2.PILToTensor()]),
    "crop after flip": v2.Compose([v2.RandomHorizontalFlip(), v2.CenterCrop((50, 40)), v2.PILToTensor()]),
    "nearest": v2.Compose([v2.Resize((37, 53), Mode.NEAREST), v2.PILToTensor()]),
    "nearest-exact shorter": v2.Compose([v2.Resize(45, Mode.NEAREST_EXACT, max_size=201), v2.PILToTensor()]),
    "box": v2.Compose([v2.Resize((37, 53), Mode.BOX), v2.PILToTensor()]),
    "hamming": v1.Compose([v1.Resize((37, 53), Mode.HAMMING), v1.PILToTensor()]),
    "lanczos": v2.Compose([v2.Resize((37, 53), Mode.LANCZOS), v2.PILToTensor()]),
    "grey lanczos": v2.Compose([v2.Grayscale(), v2.Resize((37, 53), Mode.LANCZOS), v2.PILToTensor()]),
    "uint8 bilinear": v2.Compose([v2.ToImage(), v2.Resize((37, 53))]),
    "uint8 bilinear v1": v1.Compose([v1.PILToTensor(), v1.Resize((37, 53))]),
    "uint8 bilinear aliased": v2.Compose([v2.ToImage(), v2.Resize((37, 53), antialias=False)]),
    "uint8 bicubic": v2.Compose([v2.ToImage(), v2.Resize((37, 53), Mode.BICUBIC)]),
    "uint8 bicubic v1": v1.Compose([v1.PILToTensor(), v1.Resize((37, 53), Mode.BICUBIC)]),
    "uint8 nearest": v2.Compose([v2.ToImage(), v2.Resize((37, 53), Mode.NEAREST)]),
    "uint8 nearest-exact": v2.Compose([v2.ToImage(), v2.Resize((37, 53), Mode.NEAREST_EXACT)]),
    "uint8 random area": v2.Compose([v2.ToImage(), v2.RandomResizedCrop((48, 32)), v2.RandomHorizontalFlip()]),
    "int16": v2.Compose([v2.ToImage(), v2.ToDtype(torch.int16, scale=True)]),
    "to float and back": v2.Compose([v2.ToImage(), TO_FLOAT, v2.ToDtype(torch.uint8, scale=True), v2.ToPureTensor()]),
}
EXACT_FLOATS: dict[str, Any] = {
    "ToTensor": v1.Compose([v1.ToTensor()]),
    "cifar": v1.Compose(
        [v1.RandomCrop(32, 4, True), v1.RandomHorizontalFlip(), v1.ToTensor(), v1.Normalize(MEAN, STD)]
    ),
    "v2 scale": v2.Compose([v2.ToImage(), TO_FLOAT, v2.Normalize(MEAN, STD)]),
    "v2 crop": v2.Compose(
        [v2.ToImage(), v2.CenterCrop(30), TO_FLOAT, v2.Normalize(MEAN, STD), v2.RandomHorizontalFlip()]
    ),
    "convert v1": v1.Compose([v1.PILToTensor(), v1.CenterCrop(30), v1.ConvertImageDtype(torch.float32)]),
    "convert v2": v2.Compose([v2.PILToTensor(), v2.CenterCrop(30), v2.ConvertImageDtype(torch.float32)]),
    "half": v2.Compose([v2.ToImage(), v2.CenterCrop(30), v2.ToDtype(torch.float16, scale=True)]),
    "unscaled": v2.Compose(
        [v2.ToImage(), v2.CenterCrop(30), v2.ToDtype(torch.float32), v2.Normalize((127.0,), (64.0,))]
    ),
    "grey": v2.Compose([v2.Grayscale(), v2.CenterCrop(30), v2.ToImage(), TO_FLOAT, v2.Normalize((0.4,), (0.3,))]),
    "resize in float": v2.Compose([v2.ToImage(), TO_FLOAT, v2.Resize((37, 53)), v2.Normalize(MEAN, STD)]),
    "resize in float v1": v1.Compose([v1.ToTensor(), v1.Resize((37, 53)), v1.Normalize(MEAN, STD)]),
    "bicubic in float": v2.Compose([v2.ToImage(), TO_FLOAT, v2.Resize(40, Mode.BICUBIC, max_size=300)]),
    "grey in float": v2.Compose([v2.ToImage(), TO_FLOAT, v2.RandomGrayscale(0.5)]),
    "pad in float": v2.Compose([v2.ToImage(), TO_FLOAT, v2.Pad(3, fill=0.5)]),
    "double": v2.Compose([v2.ToImage(), v2.CenterCrop(9), v2.ToDtype(torch.float64, scale=True)]),
}


@pytest.mark.parametrize("name", EXACT_BYTES)
def test_bytes_are_equal(plain_files: list[Path], name: str) -> None:
    assert_pixels(load(plain_files, EXACT_BYTES[name]), expected(plain_files, EXACT_BYTES[name]), EXACT, scale=1)


@pytest.mark.parametrize("name", EXACT_FLOATS)
def test_floats_are_equal_within_a_millionth(plain_files: list[Path], name: str) -> None:
    assert_pixels(load(plain_files, EXACT_FLOATS[name]), expected(plain_files, EXACT_FLOATS[name]), FLOAT)


RESAMPLED: dict[str, tuple[Any, Bound]] = {
    "imagenet train": (
        v1.Compose([v1.RandomResizedCrop(97), v1.RandomHorizontalFlip(), v1.ToTensor(), v1.Normalize(MEAN, STD)]),
        BILINEAR,
    ),
    "imagenet eval": (
        v2.Compose([v2.Resize(120), v2.CenterCrop(101), v2.ToImage(), TO_FLOAT, v2.Normalize(MEAN, STD)]),
        BILINEAR,
    ),
    "enlarged": (v2.Compose([v2.Resize((150, 171)), v2.ToImage(), TO_FLOAT, v2.Normalize(MEAN, STD)]), BILINEAR),
    "bicubic": (
        v2.Compose([v2.RandomResizedCrop((64, 48), interpolation=3), v2.ToImage(), TO_FLOAT, v2.Normalize(MEAN, STD)]),
        BICUBIC,
    ),
}


@pytest.mark.parametrize("name", RESAMPLED)
def test_resampling_stays_within_its_bound(plain_files: list[Path], name: str) -> None:
    transform, bound = RESAMPLED[name]
    for epoch in range(2):
        assert_pixels(
            load(plain_files, transform, epoch), expected(plain_files, transform, epoch), bound, scale=STD_255
        )


@pytest.mark.parametrize("name", ["imagenet train", "imagenet eval"])
def test_pixels_do_not_depend_on_threads_or_batch_size(plain_files: list[Path], name: str) -> None:
    transform = RESAMPLED[name][0]
    wanted = load(plain_files, transform, batch_size=1, num_threads=1)
    for arguments in ({"batch_size": 3, "num_threads": 4}, {"batch_size": 64, "num_threads": 2}, {"shuffle": True}):
        assert all(map(torch.equal, load(plain_files, transform, **arguments), wanted))


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
def test_mirrored_padding_of_tensors_is_torchvisions_or_refused_with_the_sample(
    plain_files: list[Path], mode: str
) -> None:
    transform = v2.Compose([v2.ToImage(), v2.Pad((11, 5, 16, 3), padding_mode=mode)])
    tall = [path for path in plain_files if path.name.startswith("02")]  # 11 x 17
    assert_pixels(load(tall, transform), expected(tall, transform), EXACT, scale=1)
    tiny = [path for path in plain_files if path.name.startswith("01")]  # 17 x 11
    with pytest.raises(SampleError, match="more than a tensor of 17x11 has to mirror"):
        load(tiny, transform)
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        expected(tiny, transform)


def test_a_crop_larger_than_an_image_names_the_sample(plain_files: list[Path]) -> None:
    transform = v2.Compose([v2.RandomCrop(100), v2.PILToTensor()])
    with pytest.raises(SampleError, match=r"required crop size \(100, 100\) is larger than the image \(1x1"):
        load(plain_files, transform)
