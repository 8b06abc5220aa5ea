"""What is drawn for blur, noise, JPEG, elastic transforms and erasing, against torchvision's own draws."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed.draws import Draws, epoch_key
from gpufeed.parameters import BatchParameters, draw_parameters
from gpufeed.plan import Elastic, Erase, EraseToNoise, GaussianBlur, GaussianNoise, Jpeg, Op, Plan
from gpufeed.spec import ImageSpec
from gpufeed.translation import translate

ROWS = 4000
TENSOR = ImageSpec("tensor")


def parameters(
    op: Op, size_hw: tuple[int, int] = (40, 60), rows: int = ROWS, spec: ImageSpec = TENSOR
) -> BatchParameters:
    draws = Draws(epoch_key(5, 0), np.arange(rows), np.zeros(rows, dtype=np.int64))
    return draw_parameters(Plan((op,), spec), np.full((rows, 2), size_hw, dtype=np.int64), draws)


def values(op: Op, size_hw: tuple[int, int] = (40, 60), rows: int = ROWS) -> np.ndarray:
    drawn = parameters(op, size_hw, rows).values[0]
    assert isinstance(drawn, np.ndarray)
    return drawn


def same_distribution(ours: np.ndarray, theirs: np.ndarray) -> None:
    """Kolmogorov and Smirnov's statistic, at one chance in a million."""
    both = np.concatenate([ours, theirs])
    shares = [np.searchsorted(np.sort(one), both, side="right") / len(one) for one in (ours, theirs)]
    limit = np.sqrt(-np.log(1e-6 / 2) / 2 * (1 / len(ours) + 1 / len(theirs)))
    assert np.abs(shares[0] - shares[1]).max() < limit


def test_sigma() -> None:
    drawn = values(GaussianBlur((5, 5), (0.1, 2.0)))
    assert drawn.shape == (ROWS,)
    assert drawn.min() >= np.float32(0.1)
    assert drawn.max() <= 2.0
    assert np.array_equal(drawn, drawn.astype(np.float32))
    torch.manual_seed(0)
    same_distribution(drawn, np.array([v1.GaussianBlur.get_params(0.1, 2.0) for _ in range(ROWS)]))
    assert set(values(GaussianBlur((5, 5), (0.3, 0.3))).tolist()) == {float(np.float32(0.3))}


@pytest.mark.parametrize("quality", [(1, 100), (50, 53), (7, 7)])
def test_quality(quality: tuple[int, int]) -> None:
    drawn = values(Jpeg(quality))
    assert drawn.dtype == np.int64
    assert (drawn.min(), drawn.max()) == quality
    counts = np.bincount(drawn)[quality[0] :]
    expected = ROWS / len(counts)
    assert (np.abs(counts - expected) <= 5 * np.sqrt(expected)).all()
    torch.manual_seed(0)
    transform = v2.JPEG(quality)
    same_distribution(drawn, np.array([transform.make_params([])["quality"] for _ in range(ROWS)]))


def test_a_side_too_long_for_jpeg_is_refused() -> None:
    assert not parameters(Jpeg((5, 5)), (65_500, 1), 2).refused
    refused = parameters(Jpeg((5, 5)), (3, 65_501), 2).refused
    assert set(refused) == {0, 1}
    assert "at most 65500 pixels on a side, and the image has 3x65501" in refused[0]


@pytest.mark.parametrize("op", [GaussianNoise(), Elastic((9.0, 9.0), (0.5, 0.5))])
def test_noise_keys_are_each_samples_own(op: Op) -> None:
    keys = values(op)
    assert keys.shape == (ROWS, 2)
    assert keys.min() >= 0
    assert keys.max() < 2**32
    assert len(np.unique(keys, axis=0)) == ROWS
    draws = Draws(epoch_key(5, 0), np.array([17]), np.array([0]))
    alone = draw_parameters(Plan((op,), TENSOR), np.array([[40, 60]]), draws).values[0]
    assert isinstance(alone, np.ndarray)
    assert np.array_equal(alone[0], keys[17])


def torchvisions_windows(module: Any, size_hw: tuple[int, int], **arguments: Any) -> np.ndarray:
    """(ROWS, 4) windows; no pixels where nothing is erased."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transform = module.RandomErasing(1.0, **arguments)
    image = torch.zeros(1, *size_hw)
    torch.manual_seed(0)
    windows = np.zeros((ROWS, 4), dtype=np.int64)
    for window in windows:
        if module is v1:
            *found, content = transform.get_params(image, transform.scale, transform.ratio, [0.0])
            erased = content is not image
        else:
            params = transform.make_params([image])
            found, erased = [params[name] for name in "ijhw"], params["v"] is not None
        if erased:
            window[:] = found
    return windows


@pytest.mark.parametrize("module", [v1, v2], ids=["v1", "v2"])
@pytest.mark.parametrize(
    ("size_hw", "scale", "ratio"),
    [
        ((40, 60), (0.02, 0.33), (0.3, 3.3)),
        ((224, 224), (0.1, 0.1), (2.0, 2.0)),
        ((9, 31), (0.3, 1.0), (0.2, 5.0)),
        ((1, 7), (0.0, 0.3), (0.3, 3.3)),
        ((3, 3), (0.02, 0.6), (0.3, 3.3)),
    ],
)
def test_erased_windows(
    size_hw: tuple[int, int], scale: tuple[float, float], ratio: tuple[float, float], module: Any
) -> None:
    ours = values(Erase(scale, ratio), size_hw)
    theirs = torchvisions_windows(module, size_hw, scale=scale, ratio=ratio)
    assert ours.shape == (ROWS, 4)
    assert (ours >= 0).all()
    assert (ours[:, :2] + ours[:, 2:] <= size_hw).all()
    assert (ours[:, 2:] < size_hw).all()
    for column in range(4):
        same_distribution(ours[:, column], theirs[:, column])
    same_distribution(ours[:, 2] * ours[:, 3], theirs[:, 2] * theirs[:, 3])
    same_distribution(ours[:, 2] / np.maximum(ours[:, 3], 1), theirs[:, 2] / np.maximum(theirs[:, 3], 1))


def test_windows_reach_both_ends_of_the_image() -> None:
    windows = values(Erase((0.1, 0.1), (1.0, 1.0)), (20, 20))
    free = 20 - windows[0, 2:]
    for axis in (0, 1):
        assert set(windows[:, axis].tolist()) == set(range(int(free[axis]) + 1))
    assert abs(np.corrcoef(windows[:, 0], windows[:, 1])[0, 1]) < 5 / np.sqrt(ROWS)


def test_nothing_is_erased_where_no_window_fits() -> None:
    assert not values(Erase((0.9, 1.0), (20.0, 30.0)), (20, 20)).any()
    assert not values(EraseToNoise((0.1, 0.2), (0.3, 3.3)), (1, 1))[:, 2:4].any()


def test_noise_has_the_windows_of_a_fixed_value_and_keys_of_its_own() -> None:
    arguments = ((0.02, 0.33), (0.3, 3.3))
    noisy = values(EraseToNoise(*arguments))
    assert noisy.shape == (ROWS, 6)
    assert np.array_equal(noisy[:, :4], values(Erase(*arguments)))
    assert len(np.unique(noisy[:, 4:], axis=0)) == ROWS


def test_erasing_happens_with_its_probability() -> None:
    plan = translate(v2.RandomErasing(0.3), input=TENSOR).require()
    draws = Draws(epoch_key(5, 0), np.arange(ROWS), np.zeros(ROWS, dtype=np.int64))
    branches: Any = draw_parameters(plan, np.full((ROWS, 2), 20), draws).values[0]
    assert abs((branches.order[:, 0] == 0).mean() - 0.3) < 5 * np.sqrt(0.21 / ROWS)
