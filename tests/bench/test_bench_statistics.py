"""Median, spread and the paired ratio on constructed rounds."""

from __future__ import annotations

import pytest

from gpufeed.bench.statistics import median, paired_ratio, spread


def test_median_of_an_even_number_is_the_mean_of_the_middle_two() -> None:
    assert median([4.0, 1.0, 3.0, 100.0]) == 3.5


def test_spread_is_half_the_middle_half_and_ignores_one_slow_round() -> None:
    rates = [90.0, 95.0, 100.0, 105.0, 110.0]
    assert spread(rates) == pytest.approx(0.05)
    assert spread([1.0, *rates[1:]]) == pytest.approx(0.05)


def test_ratio_is_paired_by_round_not_a_ratio_of_medians() -> None:
    # The machine halves its clock in every other round: medians of the rates say nothing, the pairs say 2.
    baseline = {0: 100.0, 1: 50.0, 2: 100.0, 3: 50.0, 4: 100.0, 5: 50.0}
    ours = {index: 2 * rate for index, rate in baseline.items()}
    ratio = paired_ratio(ours, baseline, seed=0)
    assert ratio is not None
    assert (ratio.median, ratio.low, ratio.high, ratio.num_rounds) == (2.0, 2.0, 2.0, 6)


def test_too_few_rounds_have_no_interval() -> None:
    for count in range(1, 6):
        ratio = paired_ratio(dict.fromkeys(range(count), 300.0), dict.fromkeys(range(count), 100.0), seed=0)
        assert ratio is not None
        assert (ratio.median, ratio.low, ratio.high, ratio.num_rounds) == (3.0, None, None, count)


def test_interval_contains_the_median_and_widens_with_noise() -> None:
    baseline = dict.fromkeys(range(7), 100.0)
    quiet = paired_ratio({i: 150.0 + i for i in range(7)}, baseline, seed=0)
    noisy = paired_ratio({i: 150.0 + 20 * i for i in range(7)}, baseline, seed=0)
    assert quiet is not None
    assert noisy is not None
    for ratio in (quiet, noisy):
        assert ratio.low is not None
        assert ratio.high is not None
        assert ratio.low < ratio.median < ratio.high
    assert noisy.high - noisy.low > 10 * (quiet.high - quiet.low)  # type: ignore[operator]


def test_interval_holds_the_true_ratio_as_often_as_it_says() -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        ours = dict(enumerate(rng.normal(1.5, 0.1, size=9)))
        ratio = paired_ratio(ours, dict.fromkeys(range(9), 1.0), seed=1)
        assert ratio is not None
        covered += ratio.low <= 1.5 <= ratio.high  # type: ignore[operator]
    assert 180 <= covered <= 200  # 95 %, give or take what a bootstrap of nine rounds and 200 trials allow


def test_same_seed_gives_the_same_interval_and_another_seed_may_not() -> None:
    baseline = dict.fromkeys(range(7), 1.0)
    ours = {i: 1 + i**1.3 / 10 for i in range(7)}
    assert paired_ratio(ours, baseline, seed=3) == paired_ratio(ours, baseline, seed=3)


def test_only_rounds_that_both_finished_count() -> None:
    ratio = paired_ratio({0: 3.0, 1: 5.0}, {0: 1.0}, seed=0)
    assert ratio is not None
    assert (ratio.median, ratio.low, ratio.high, ratio.num_rounds) == (3.0, None, None, 1)
    assert paired_ratio({1: 5.0}, {0: 1.0}, seed=0) is None
