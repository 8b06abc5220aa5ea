"""The resize kernels against Pillow itself, over many sizes, held to the bounds that `gpufeed.placement` declares."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from pixel_files import natural, noise

from gpufeed.plan import Resize
from gpufeed.spec import ImageSpec
from gpufeed.tail.resize import resize, resize_into

PAIRS = [
    ((487, 643), (224, 224)),
    ((300, 360), (256, 307)),
    ((97, 61), (224, 131)),
    ((640, 480), (37, 301)),
    ((211, 307), (210, 306)),
]
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def edges(height: int, width: int, seed: int) -> np.ndarray:
    """Black and white: where a filter overshoots most."""
    return (noise(height, width, seed) > 127).astype(np.uint8) * 255


def as_tensor(pixels: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(pixels).permute(2, 0, 1)[None]


def by_pillow(pixels: np.ndarray, size_hw: tuple[int, int], resample: Image.Resampling) -> torch.Tensor:
    return as_tensor(np.array(Image.fromarray(pixels).resize((size_hw[1], size_hw[0]), resample)))


def difference(pixels: np.ndarray, size_hw: tuple[int, int], name: str) -> torch.Tensor:
    op = Resize(size_hw, interpolation=name)  # type: ignore[arg-type]
    mine = resize(as_tensor(pixels), op, ImageSpec(), size_hw)
    return (mine.int() - by_pillow(pixels, size_hw, FILTERS[name]).int()).abs()


@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("make", [natural, noise])
def test_bilinear_is_within_2_everywhere(make: object, source: tuple[int, int], target: tuple[int, int]) -> None:
    off = difference(make(*source, 1), target, "bilinear")  # type: ignore[operator]
    assert off.max() <= 2
    assert off.float().mean() <= 0.3
    assert (off > 1).float().mean() <= 1e-3


@pytest.mark.parametrize(
    ("source", "target"), [*PAIRS, ((399, 31), (17, 30)), ((200, 211), (40, 150)), ((9, 300), (8, 7))]
)
@pytest.mark.parametrize("make", [natural, noise, edges])
def test_bicubic_is_within_2_and_nearly_always_within_1(
    make: object, source: tuple[int, int], target: tuple[int, int]
) -> None:
    off = difference(make(*source, 2), target, "bicubic")  # type: ignore[operator]
    assert off.max() <= 2
    assert (off > 1).sum() <= 1e-4 * off.numel() + 1


def test_nearest_is_pillows_at_every_ratio() -> None:
    rng = np.random.default_rng(0)
    for source in range(1, 48):
        pixels = rng.integers(0, 256, (source, 48 - source, 3), dtype=np.uint8)
        for target in (1, 2, 3, 7, 29, 48, 97, 131):
            op = Resize((target, target), interpolation="nearest")
            wanted = by_pillow(pixels, (target, target), Image.Resampling.NEAREST)
            assert torch.equal(resize(as_tensor(pixels), op, ImageSpec(), (target, target)), wanted), (source, target)


@pytest.mark.parametrize("name", ["bilinear", "bicubic", "lanczos", "nearest"])
def test_writing_into_the_batch_gives_the_same_bytes(name: str) -> None:
    op = Resize((31, 43), interpolation=name)  # type: ignore[arg-type]
    image = as_tensor(natural(83, 61, 3))
    out = torch.zeros((3, 31, 43, 3), dtype=torch.uint8).permute(0, 3, 1, 2)
    resize_into(out[1:2], image, op, ImageSpec())
    assert torch.equal(out[1:2], resize(image, op, ImageSpec(), (31, 43)))
    assert not out[0].any()
    assert not out[2].any()
