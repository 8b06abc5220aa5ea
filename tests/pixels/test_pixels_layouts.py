"""What depends on how an image lies in memory: torchvision's objects themselves against the whole loader.

The transforms have no freedom, so that nothing of gpufeed's oracle is needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from oracle import dataset_of, load
from PIL import Image
from pixel_files import noise
from torchvision import transforms as v1
from torchvision.transforms import v2

FLOAT = v2.ToDtype(torch.float32, scale=True)
SIZES_HW = ((61, 83), (32, 32), (97, 3), (40, 300))

TRANSFORMS: dict[str, Any] = {
    "planes to one column": v2.Compose([v1.ToTensor(), v2.Resize((49, 1))]),
    "rows to one column": v2.Compose([v2.ToImage(), FLOAT, v2.Resize((49, 1))]),
    "bicubic to one column": v2.Compose([v1.ToTensor(), v2.Resize((21, 1), interpolation=3)]),
    "planes, ragged": v2.Compose([v1.ToTensor(), v2.Resize(8, max_size=50)]),
    "contrast of rows": v2.Compose([v2.ToImage(), FLOAT, v2.ColorJitter(contrast=(0.25, 0.25))]),
    "contrast of planes": v2.Compose([v1.ToTensor(), v2.ColorJitter(contrast=(0.25, 0.25))]),
    "contrast behind a resize": v2.Compose([v1.ToTensor(), v2.Resize((37, 41)), v2.ColorJitter(contrast=(0.6, 0.6))]),
    "contrast of a crop": v2.Compose(
        [v2.ToImage(), FLOAT, v2.CenterCrop((29, 3)), v2.ColorJitter(contrast=(0.3, 0.3))]
    ),
    "saturation of bytes": v2.Compose([v2.ToImage(), v2.ColorJitter(saturation=(1.3, 1.3))]),
    "jitter of bytes, v1": v1.Compose([v1.PILToTensor(), v1.ColorJitter(saturation=(1.3, 1.3))]),
    "pil to one pixel": v2.Compose([v2.RandomInvert(1.0), v2.Resize((1, 1)), v2.PILToTensor()]),
    "pil to one pixel, twice": v2.Compose([v2.Resize(8), v2.Resize(1), v2.PILToTensor()]),
    "blur of rows": v2.Compose([v2.ToImage(), FLOAT, v2.GaussianBlur(3, (0.7, 0.7))]),
    "sharpness of planes": v2.Compose([v1.ToTensor(), v2.RandomAdjustSharpness(1.7, 1.0)]),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("layouts") / "class"
    folder.mkdir()
    paths = [folder / f"{number}.png" for number in range(len(SIZES_HW) * 3)]
    for number, path in enumerate(paths):
        Image.fromarray(noise(*SIZES_HW[number % len(SIZES_HW)], number)).save(path)
    return paths


@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_loader_gives_what_the_transform_gives(files: list[Path], name: str) -> None:
    transform = TRANSFORMS[name]
    dataset = dataset_of(files, transform)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        wanted = [torch.as_tensor(dataset[number][0]) for number in range(len(files))]
    finally:
        torch.set_num_threads(threads)
    most = 2 if name.startswith("pil") else 0  # bilinear of PIL images has its bound
    for found, theirs in zip(load(files, transform), wanted, strict=True):
        assert found.shape == theirs.shape
        assert float((found.double() - theirs.double()).abs().max()) <= most
