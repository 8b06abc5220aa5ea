"""Sizes and windows against torchvision's own arithmetic, at odd and extreme sizes."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
import torchvision.transforms.functional as functional_v1
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision import transforms as v1
from torchvision.transforms import transforms as classes_v1
from torchvision.transforms import v2
from torchvision.transforms.v2 import _geometry as classes_v2
from torchvision.transforms.v2.functional import _geometry as functional_v2

from gpufeed.draws import Draws, epoch_key
from gpufeed.geometry import center_windows, paddings, random_windows, resized_sizes
from gpufeed.parameters import draw_parameters
from gpufeed.plan import Plan, RandomAreaCrop, RandomCrop

SIDES = (1, 2, 3, 7, 16, 17, 223, 224, 225, 256, 257, 500, 643, 1021, 4096)
SIZES = np.array([(height, width) for height in SIDES for width in SIDES], dtype=np.int64)
SMALL_SIDES = (1, 2, 3, 5, 8, 13, 20)
SMALL = np.array([(height, width) for height in SMALL_SIDES for width in SMALL_SIDES], dtype=np.int64)

side = st.integers(1, 10**6)


# Resize -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "max_size"),
    [
        *[((short,), None) for short in (1, 2, 31, 224, 256, 257, 3000)],
        *[((short,), limit) for short, limit in ((1, 2), (31, 32), (224, 225), (224, 300), (256, 1333), (800, 1333))],
        *[(None, limit) for limit in (1, 7, 224, 1333)],
        *[(pair, None) for pair in ((1, 1), (224, 224), (31, 600))],
    ],
)
def test_resized_sizes(size: tuple[int, ...] | None, max_size: int | None) -> None:
    found = resized_sizes(SIZES, size, max_size)
    for image, ours in zip(SIZES.tolist(), found.tolist(), strict=True):
        given_size = None if size is None else list(size)
        assert ours == functional_v2._compute_resized_output_size(tuple(image), given_size, max_size)
        if size is not None:
            assert ours == functional_v1._compute_resized_output_size(tuple(image), list(size), max_size)


@settings(deadline=None)  # shared machines pause
@given(height=side, width=side, short=st.integers(1, 10**5), extra=st.none() | st.integers(1, 10**5))
def test_resized_sizes_of_any_image(height: int, width: int, short: int, extra: int | None) -> None:
    max_size = None if extra is None else short + extra
    expected = functional_v1._compute_resized_output_size((height, width), [short], max_size)
    assert resized_sizes(np.array([[height, width]]), (short,), max_size).tolist() == [expected]


@settings(deadline=None)  # shared machines pause
@given(height=side, width=side, long=st.integers(1, 10**5))
def test_resized_longer_sides_of_any_image(height: int, width: int, long: int) -> None:
    expected = functional_v2._compute_resized_output_size((height, width), None, long)
    assert resized_sizes(np.array([[height, width]]), None, long).tolist() == [expected]


@pytest.mark.parametrize(("height", "width"), [(1, 500), (500, 1), (1, 1), (3, 997)])
@pytest.mark.parametrize("size", [(1,), (5,), (2, 3), None])
def test_resized_sizes_are_those_of_real_images(height: int, width: int, size: tuple[int, ...] | None) -> None:
    max_size = 9 if size is None else None
    image = PIL.Image.new("RGB", (width, height))
    ((new_height, new_width),) = resized_sizes(np.array([[height, width]]), size, max_size).tolist()
    resize = v2.Resize(None if size is None else list(size), max_size=max_size)
    if min(new_height, new_width) < 1:  # too extreme an aspect ratio
        with pytest.raises(ValueError, match="height and width must be > 0"):
            resize(image)
    else:
        assert resize(image).size == (new_width, new_height)


# CenterCrop ---------------------------------------------------------------------------------------


def index_image(height: int, width: int) -> torch.Tensor:
    """A (1, H, W) int32 tensor in which every pixel has its own number, from 1 on: 0 is padding."""
    return torch.arange(1, height * width + 1, dtype=torch.int32).reshape(1, height, width)


def taken(image: np.ndarray, window: list[int]) -> np.ndarray:
    """The window of an image, with zeros outside it."""
    top, left, height, width = window
    rows, columns = np.arange(top, top + height), np.arange(left, left + width)
    inside = ((rows >= 0) & (rows < image.shape[0]))[:, None] & ((columns >= 0) & (columns < image.shape[1]))[None]
    return np.where(inside, image[rows.clip(0, image.shape[0] - 1)][:, columns.clip(0, image.shape[1] - 1)], 0)


@pytest.mark.parametrize("crop", [(1, 1), (2, 2), (7, 4), (8, 13), (9, 30), (31, 6), (21, 20), (64, 63)])
def test_center_windows(crop: tuple[int, int]) -> None:
    windows = center_windows(SMALL, crop)
    for (height, width), window in zip(SMALL.tolist(), windows.tolist(), strict=True):
        image = index_image(height, width)
        ours = taken(image[0].numpy(), window)
        pil = PIL.Image.fromarray(image[0].numpy())
        assert pil.mode == "I"
        for center_crop in (functional_v1.center_crop, functional_v2.center_crop):
            assert np.array_equal(ours, center_crop(image, list(crop))[0].numpy())
            assert np.array_equal(ours, np.asarray(center_crop(pil, list(crop))))


@settings(deadline=None)  # shared machines pause
@given(height=st.integers(1, 60), width=st.integers(1, 60), crop_h=st.integers(1, 60), crop_w=st.integers(1, 60))
def test_center_windows_of_any_image(height: int, width: int, crop_h: int, crop_w: int) -> None:
    image = index_image(height, width)
    (window,) = center_windows(np.array([[height, width]]), (crop_h, crop_w)).tolist()
    assert np.array_equal(
        taken(image[0].numpy(), window), functional_v1.center_crop(image, [crop_h, crop_w])[0].numpy()
    )


# RandomCrop: padding and windows ------------------------------------------------------------------


PADDINGS = [None, (0, 0, 0, 0), (2, 2, 2, 2), (1, 2, 3, 4), (5, 0, 0, 7), (-1, 2, 0, -1)]


def padded_by_v1(crop: v1.RandomCrop, image: torch.Tensor) -> torch.Tensor:
    """The padded image of which v1's ``forward`` asks for a window."""
    seen: list[torch.Tensor] = []

    def get_params(padded: torch.Tensor, output_size: Any) -> tuple[int, int, int, int]:
        del output_size
        seen.append(padded)
        return 0, 0, 1, 1

    spy = copy.copy(crop)
    spy.get_params = get_params
    spy(image)
    return seen[0]


def padded_by_us(image: torch.Tensor, ltrb: list[int]) -> torch.Tensor:
    left, top, right, bottom = ltrb
    window = [-top, -left, image.shape[1] + top + bottom, image.shape[2] + left + right]
    return torch.from_numpy(taken(image[0].numpy(), window))


@pytest.mark.parametrize("grow", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("size", [(1, 1), (9, 14), (30, 4)])
def test_paddings(size: tuple[int, int], padding: tuple[int, ...] | None, grow: bool) -> None:
    crop_v1 = v1.RandomCrop(size, padding=padding, pad_if_needed=grow)
    crop_v2 = v2.RandomCrop(size, padding=padding, pad_if_needed=grow)
    ltrb = (0, 0, 0, 0) if padding is None else padding
    sizes = SMALL[(SMALL > 1).all(axis=1)] if min(ltrb) < 0 else SMALL  # something must be left of the image
    pads = paddings(sizes, ltrb, size if grow else None)
    for (height, width), ours in zip(sizes.tolist(), pads.tolist(), strict=True):
        image = index_image(height, width)
        padded_size = (height + ours[1] + ours[3], width + ours[0] + ours[2])
        if padded_size[0] < size[0] or padded_size[1] < size[1]:
            for crop in (crop_v1, crop_v2):
                with pytest.raises(ValueError, match="equired crop size"):
                    crop(image)
            continue
        assert crop_v2.make_params([image])["padding"] == ours
        if min(ltrb) >= 0:  # v1 cuts off before it grows: two pads there
            assert torch.equal(padded_by_us(image, ours), padded_by_v1(crop_v1, image)[0])


def test_paddings_in_two_steps_are_v1() -> None:
    size, ltrb = (9, 14), (-1, 2, 0, -1)
    crop = v1.RandomCrop(size, padding=ltrb, pad_if_needed=True)
    for height, width in [(2, 2), (5, 3), (8, 20), (13, 13)]:
        image = index_image(height, width)
        (first,) = paddings(np.array([[height, width]]), ltrb, None).tolist()
        cut = padded_by_us(image, first)[None]
        (second,) = paddings(np.array([cut.shape[1:]]), (0, 0, 0, 0), size).tolist()
        assert torch.equal(padded_by_us(cut, second), padded_by_v1(crop, image)[0])


UNITS = np.concatenate([np.arange(4096) / 4096, [np.nextafter(1.0, 0.0), 1 - 2.0**-53]])


@pytest.mark.parametrize(("length", "crop"), [(1, 1), (2, 1), (7, 4), (64, 1), (224, 224), (40, 32), (4096, 1)])
def test_random_windows_reach_every_place_alike(length: int, crop: int) -> None:
    sizes = np.full((len(UNITS), 2), length)
    windows = random_windows(sizes, (crop, crop), UNITS, UNITS[::-1].copy())
    places = length - crop + 1
    for start in (windows[:, 0], windows[::-1, 1]):
        counts = np.bincount(start[:4096], minlength=places)
        assert len(counts) == places
        assert counts.max() - counts.min() <= 1
        assert counts.min() >= 1
        assert start[-2:].tolist() == [places - 1] * 2  # the highest draw is not beyond
    assert (windows[:, 2:] == crop).all()


def test_random_windows_of_smaller_images_are_marked() -> None:
    sizes = np.array([[5, 9], [9, 5], [9, 9], [1, 1]])
    half = np.full(4, 0.5)
    windows = random_windows(sizes, (9, 9), half, half)
    assert (windows[:, :2] >= 0).all(axis=1).tolist() == [False, False, True, False]


def test_random_windows_have_torchvisions_range() -> None:
    draws = Draws(epoch_key(4, 0), np.arange(4000), np.zeros(4000, dtype=np.int64))
    windows = draw_parameters(Plan((RandomCrop((5, 4)),)), np.full((4000, 2), [13, 11]), draws).values[0]
    assert windows is not None
    torch.manual_seed(0)
    image = torch.zeros(1, 13, 11)
    theirs = np.array([v1.RandomCrop.get_params(image, (5, 4)) for _ in range(4000)])
    for column in range(4):
        assert set(windows[:, column].tolist()) == set(theirs[:, column].tolist())


# RandomResizedCrop --------------------------------------------------------------------------------


class ScriptedTorch:
    """The ``torch`` of a torchvision module, whose random calls return the draws of one sample.

    Attempt ``k`` of torchvision draws area and ratio by ``uniform_``, and after a hit row and column by ``randint``:
    draws ``2 k`` and ``2 k + 1`` of the sample.
    """

    def __init__(self, draws: Draws) -> None:
        self.draws = draws
        self.uniforms = 0
        self.randints = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def unit(self, number: int, part: int) -> float:
        return float(self.draws.unit_pairs((number,))[part][0, 0])

    def empty(self, count: int) -> ScriptedTorch:
        assert count == 1
        return self

    def uniform_(self, low: Any, high: Any) -> torch.Tensor:
        attempt, part = divmod(self.uniforms, 2)
        self.uniforms += 1
        unit = self.unit(2 * attempt, part)
        return torch.tensor([float(low) + (float(high) - float(low)) * unit], dtype=torch.float64)

    def randint(self, low: int, high: int, size: tuple[int]) -> torch.Tensor:
        assert (low, size) == (0, (1,))
        unit = self.unit(self.uniforms - 1, self.randints)  # after 2 (k + 1) uniforms: draw 2 k + 1
        self.randints += 1
        return torch.tensor([math.floor(unit * high)])

    @property
    def fell_back(self) -> bool:
        return self.randints == 0


def their_window(
    monkeypatch: pytest.MonkeyPatch, module: Any, draws: Draws, size: list[int], scale: Any, ratio: Any
) -> tuple[tuple[int, ...], bool]:
    """torchvision's window for a sample, and whether it fell back to the central one."""
    image = torch.zeros(1, 1, 1).expand(1, *size)
    crop = v2.RandomResizedCrop(1, scale=scale, ratio=ratio)
    scripted = ScriptedTorch(draws)
    with monkeypatch.context() as patch:
        patch.setattr(module, "torch", scripted)
        if module is classes_v1:
            window = v1.RandomResizedCrop.get_params(image, list(scale), list(ratio))
        else:
            params = crop.make_params([image])
            window = (params["top"], params["left"], params["height"], params["width"])
    return window, scripted.fell_back


@pytest.mark.parametrize("module", [classes_v1, classes_v2], ids=["v1", "v2"])
@pytest.mark.parametrize(
    ("scale", "ratio"),
    [
        ((0.08, 1.0), (3 / 4, 4 / 3)),
        ((0.5, 2.0), (0.2, 5.0)),
        ((0.9, 1.0), (1.0, 1.0)),
        ((0.0, 1e-6), (1.0, 2.0)),
        ((1.0, 1.0), (4.0, 5.0)),
    ],
)
def test_area_windows(monkeypatch: pytest.MonkeyPatch, module: Any, scale: Any, ratio: Any) -> None:
    sizes = SIZES
    index = np.arange(len(sizes)) + 17
    draws = Draws(epoch_key(3, 1), index, np.zeros(len(sizes), dtype=np.int64))
    parameters = draw_parameters(Plan((RandomAreaCrop(scale, ratio),)), sizes, draws)
    windows = parameters.values[0]
    assert windows is not None
    fallbacks = 0
    for row, size in enumerate(sizes.tolist()):
        own = draws.take([row])
        window, fell_back = their_window(monkeypatch, module, own, size, scale, ratio)
        assert tuple(windows[row]) == window, f"image {size}, {'fallback' if fell_back else 'hit'}"
        fallbacks += fell_back
        assert (window[2] < 1 or window[3] < 1) == (row in parameters.refused)
    assert 0 < fallbacks < len(sizes)  # both branches were compared


def test_area_windows_lie_inside_the_image() -> None:
    sizes = np.repeat(SIZES, 20, axis=0)
    draws = Draws(epoch_key(5, 0), np.arange(len(sizes)), np.zeros(len(sizes), dtype=np.int64))
    windows = draw_parameters(Plan((RandomAreaCrop((0.01, 1.5), (0.1, 9.0)),)), sizes, draws).values[0]
    assert windows is not None
    assert (windows[:, :2] >= 0).all()
    assert (windows[:, :2] + windows[:, 2:] <= sizes).all()


def test_area_windows_are_distributed_as_torchvisions() -> None:
    count = 4000
    draws = Draws(epoch_key(6, 0), np.arange(count), np.zeros(count, dtype=np.int64))
    ours = draw_parameters(Plan((RandomAreaCrop((0.08, 1.0), (3 / 4, 4 / 3)),)), np.full((count, 2), [90, 120]), draws)
    windows = ours.values[0]
    assert windows is not None
    torch.manual_seed(1)
    image = torch.zeros(1, 1, 1).expand(1, 90, 120)
    theirs = np.array([v1.RandomResizedCrop.get_params(image, [0.08, 1.0], [3 / 4, 4 / 3]) for _ in range(count)])
    for column in range(4):
        a, b = np.sort(windows[:, column]), np.sort(theirs[:, column])
        grid = np.arange(0, 121)
        distance = np.abs(np.searchsorted(a, grid, "right") - np.searchsorted(b, grid, "right")).max() / count
        assert distance < 1.95 * math.sqrt(2 / count)  # Kolmogorov-Smirnov, significance 0.001; both samples are fixed
