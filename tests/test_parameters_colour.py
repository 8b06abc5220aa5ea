"""What is drawn for changes of colour, against what torchvision draws."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch
from torchvision.transforms import v2

from gpufeed.draws import Draws, epoch_key
from gpufeed.parameters import draw_parameters
from gpufeed.plan import ChannelPermutation, ColorJitter, Op, Plan

COUNT = 6000
NAMES = ("brightness_factor", "contrast_factor", "saturation_factor", "hue_factor")


def drawn(*ops: Op, count: int = COUNT, epoch: int = 0) -> list[Any]:
    draws = Draws(epoch_key(1, epoch), np.arange(count), np.zeros(count, dtype=np.int64))
    return list(draw_parameters(Plan(ops), np.full((count, 2), 9), draws).values)


def torchvisions(transform: Any, count: int = COUNT) -> list[dict[str, Any]]:
    torch.manual_seed(0)
    image = torch.zeros(3, 4, 4)
    return [transform.make_params([image]) for _ in range(count)]


def quantiles(values: Any) -> np.ndarray:
    return np.quantile(np.asarray(values, dtype=np.float64), np.linspace(0.05, 0.95, 19))


def assert_all_equally_often(counts: Counter[Any], kinds: int) -> None:
    assert len(counts) == kinds
    expected = COUNT / kinds
    assert max(abs(count - expected) for count in counts.values()) < 5 * expected**0.5


def test_factors_are_torchvisions() -> None:
    (values,) = drawn(ColorJitter((0.2, 1.8), (0.5, 0.75), (0.0, 3.0), (-0.1, 0.4)))
    theirs = torchvisions(v2.ColorJitter((0.2, 1.8), (0.5, 0.75), (0.0, 3.0), (-0.1, 0.4)))
    assert values.shape == (COUNT, 8)
    assert values.dtype == np.float64
    ranges = ((0.2, 1.8), (0.5, 0.75), (0.0, 3.0), (-0.1, 0.4))
    for number, (name, (low, high)) in enumerate(zip(NAMES, ranges, strict=True)):
        factor = values[:, 4 + number]
        assert low <= factor.min() < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < factor.max() < high
        expected = quantiles([params[name] for params in theirs])
        assert np.abs(quantiles(factor) - expected).max() < 0.04 * (high - low)


def test_orders_are_torchvisions() -> None:
    (values,) = drawn(ColorJitter((0.2, 1.8)))
    assert_all_equally_often(Counter(map(tuple, values[:, :4].astype(int).tolist())), 24)
    theirs = Counter(tuple(params["fn_idx"].tolist()) for params in torchvisions(v2.ColorJitter(0.5)))
    assert_all_equally_often(theirs, 24)


def test_what_is_not_adjusted_has_no_factor() -> None:
    (values,) = drawn(ColorJitter(contrast=(2.0, 2.0)), count=5)
    assert np.isnan(values[:, [4, 6, 7]]).all()
    assert (values[:, 5] == 2.0).all()


def test_everything_is_independent() -> None:
    (values,) = drawn(ColorJitter((0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 0.5)))
    correlations = np.corrcoef(values[:, [0, 1, 2, 4, 5, 6, 7]].T)
    off = correlations[~np.eye(7, dtype=bool)].reshape(7, 6)
    off[:3, :2] = 0.0  # the places of one order depend on each other
    assert np.abs(off).max() < 0.06
    again = drawn(ColorJitter((0.0, 1.0)), epoch=1)[0]
    assert abs(np.corrcoef(values[:, 4], again[:, 4])[0, 1]) < 0.06


def test_two_ops_of_a_plan_draw_their_own() -> None:
    first, second = drawn(ColorJitter((0.0, 1.0)), ColorJitter((0.0, 1.0)))
    assert abs(np.corrcoef(first[:, 4], second[:, 4])[0, 1]) < 0.06


def test_distortion_is_torchvisions() -> None:
    ranges = ((0.875, 1.125), (0.5, 1.5), (0.5, 1.5), (-0.05, 0.05))
    (values,) = drawn(ColorJitter(*ranges, order="contrast first or last", p=0.3))
    theirs = torchvisions(v2.RandomPhotometricDistort(p=0.3))
    done = ~np.isnan(values[:, 4:])
    expected = np.array([[params[name] is not None for name in NAMES] for params in theirs])
    assert np.abs(done.mean(axis=0) - expected.mean(axis=0)).max() < 0.03
    assert np.abs(np.cov(done.T) - np.cov(expected.T)).max() < 0.03
    orders = Counter(map(tuple, values[:, :4].astype(int).tolist()))
    assert set(orders) == {(0, 1, 2, 3), (0, 2, 3, 1)}
    assert_all_equally_often(orders, 2)
    before = np.array([params["contrast_before"] for params in theirs])
    assert abs(before.mean() - orders[0, 1, 2, 3] / COUNT) < 0.03
    for number, (low, high) in enumerate(ranges):
        factor = values[done[:, number], 4 + number]
        assert low <= factor.min()
        assert factor.max() < high
        assert abs(factor.mean() - (low + high) / 2) < 0.03 * (high - low)


def test_permutations_are_torchvisions() -> None:
    (orders,) = drawn(ChannelPermutation())
    assert orders.shape == (COUNT, 3)
    assert orders.dtype == np.int64
    assert_all_equally_often(Counter(map(tuple, orders.tolist())), 6)
    theirs = torchvisions(v2.RandomChannelPermutation())
    assert_all_equally_often(Counter(tuple(params["permutation"].tolist()) for params in theirs), 6)
