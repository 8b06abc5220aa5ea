"""Median, spread and the paired ratio on constructed rounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from constructed import comparison, epoch, result

from gpufeed.bench.results import Measurement
from gpufeed.bench.statistics import (
    LEAST_EFFECT,
    Ratio,
    difference_of,
    drift_of,
    median,
    noise_of,
    paired_ratio,
    spread,
    steady_wait_share,
    summarize,
    unpaired_ratio,
    waits_of,
)


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


@pytest.mark.parametrize("num_rounds", [7, 9])
def test_interval_holds_the_true_ratio_as_often_as_it_says(num_rounds: int) -> None:
    # The bootstrap alone does so in 88 of 100 cases with 7 rounds.
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        ours = dict(enumerate(rng.normal(1.5, 0.1, size=num_rounds)))
        ratio = paired_ratio(ours, dict.fromkeys(range(num_rounds), 1.0), seed=1)
        assert ratio is not None
        covered += ratio.low <= 1.5 <= ratio.high  # type: ignore[operator]
    assert covered >= 186  # 95 % of 200, less what 200 trials vary by (two standard deviations are 3)


def test_unpaired_interval_holds_the_true_ratio_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        ratio = unpaired_ratio(rng.normal(3, 0.2, size=7).tolist(), rng.normal(2, 0.2, size=9).tolist(), seed=1)
        assert ratio is not None
        covered += ratio.low <= 1.5 <= ratio.high  # type: ignore[operator]
    assert 186 <= covered < 200


def test_unpaired_ratio_of_too_few_rounds_has_no_interval() -> None:
    assert unpaired_ratio([3.0] * 5, [2.0] * 7, seed=0) == Ratio(1.5, None, None, 5)
    assert unpaired_ratio([], [2.0], seed=0) is None


def test_same_seed_gives_the_same_interval_and_another_seed_may_not() -> None:
    baseline = dict.fromkeys(range(7), 1.0)
    ours = {i: 1 + i**1.3 / 10 for i in range(7)}
    assert paired_ratio(ours, baseline, seed=3) == paired_ratio(ours, baseline, seed=3)


def test_only_rounds_that_both_finished_count() -> None:
    ratio = paired_ratio({0: 3.0, 1: 5.0}, {0: 1.0}, seed=0)
    assert ratio is not None
    assert (ratio.median, ratio.low, ratio.high, ratio.num_rounds) == (3.0, None, None, 1)
    assert paired_ratio({1: 5.0}, {0: 1.0}, seed=0) is None


@pytest.mark.parametrize(
    ("ratio", "noise", "shown"),
    [
        (Ratio(1.10, 1.05, 1.15, 7), 0.02, "faster"),
        (Ratio(0.90, 0.85, 0.95, 7), 0.02, "slower"),
        (Ratio(1.10, 0.99, 1.15, 7), 0.02, "none"),  # the interval holds 1
        (Ratio(1.10, 1.05, 1.15, 7), 0.12, "none"),  # the noise is larger
        (Ratio(0.95, 0.94, 0.96, 7), 0.06, "none"),
        (Ratio(0.95, 0.94, 0.96, 7), 0.05, "slower"),  # 1 / 0.95 is 5.3 % away
        (Ratio(2.00, None, None, 5), 0.02, "too few rounds"),
    ],
)
def test_a_difference_needs_an_interval_without_1_and_an_effect_above_the_noise(
    ratio: Ratio, noise: float, shown: str
) -> None:
    assert difference_of(ratio, noise) == shown


def test_noise_is_how_far_the_copy_s_interval_reaches_from_1() -> None:
    base = [100.0] * 7
    steady = comparison(
        result("torch-tuned", base), result("again", [100.1, 99.9, 100, 100, 100, 100.2, 99.8], kind="copy")
    )
    noise = noise_of(steady)
    assert noise is not None
    assert (noise.name, noise.difference, noise.relative) == ("again", "none", LEAST_EFFECT)

    wild = noise_of(
        comparison(result("torch-tuned", base), result("again", [80, 99, 100, 100, 101, 102, 108], kind="copy"))
    )
    assert wild is not None
    assert (wild.difference, wild.relative) == ("none", pytest.approx(0.25))  # 1 / 0.80
    assert noise_of(comparison(result("torch-tuned", base))) is None


def test_a_copy_that_is_always_slower_is_told_and_not_hidden_in_its_own_noise() -> None:
    found = comparison(
        result("torch-tuned", [100.0] * 7),
        result("again", [90.0, 91, 90, 89, 90, 90, 90], kind="copy"),
        result("gpufeed", [108.0, 109, 108, 107, 108, 108, 108]),
    )
    noise = noise_of(found)
    assert noise is not None
    assert noise.difference == "slower"
    rows = {row.name: row for row in summarize(found)}
    assert rows["again"].difference == "slower"
    assert rows["gpufeed"].difference == "none"  # two equal ones differ by more
    assert rows["torch-tuned"].difference is None


def test_where_the_copy_ran_without_the_step_its_noise_holds_with_it_too() -> None:
    found = comparison(
        result("torch-tuned", [100.0] * 7, step_s=0.1, with_step=90.0),
        result("again", [90.0] * 7, kind="copy"),
        result("gpufeed", [150.0] * 7, step_s=0.1, with_step=97.0),
        step_s=0.1,
    )
    assert {row.name: row.difference for row in summarize(found, "step")} == {"torch-tuned": None, "gpufeed": "none"}


def test_equal_contenders_show_no_difference_in_19_of_20_comparisons() -> None:
    rng = np.random.default_rng(0)
    none = 0
    for _ in range(100):
        clock = rng.normal(1, 0.1, size=7)  # the machine's, shared within a round
        rates = [(500 * clock * rng.normal(1, 0.03, size=7)).tolist() for _ in range(2)]
        noise = noise_of(comparison(result("torch-tuned", rates[0]), result("again", rates[1], kind="copy")))
        none += noise is not None and noise.difference == "none"
    assert none >= 95


@pytest.mark.parametrize(
    ("rates", "relative"),
    [
        ([100, 103, 106, 109, 112, 115, 118], 0.18),
        ([100, 97, 94, 93, 88, 85, 82], -0.18),
        ([100, 100.5, 101, 101.5, 102, 102.5, 103], None),  # a trend, but of 3 %
        ([100, 118, 82, 109, 94, 112, 100], None),  # a spread, but no trend
        ([100, 103, 106, 109, 112], None),  # too few rounds to tell
        ([100] * 7, None),
    ],
)
def test_a_drift_is_a_trend_of_5_percent(rates: list[float], relative: float | None) -> None:
    drift = drift_of(comparison(result("torch-tuned", rates), result("gpufeed", [50, 60, 70, 80, 90, 100, 110])))
    assert (drift is None) == (relative is None)
    if drift is not None:
        assert drift.name == "torch-tuned"
        assert drift.relative == pytest.approx(relative, abs=0.01)
        assert drift.first_images_per_s == pytest.approx(100, rel=0.01)


def test_chance_alone_rarely_looks_like_a_drift() -> None:
    rng = np.random.default_rng(0)
    found = sum(
        drift_of(comparison(result("torch-tuned", rng.normal(100, 8, 9).tolist()))) is not None for _ in range(200)
    )
    assert 1 <= found <= 20  # 5 % of 200, and what they vary by


def test_waits_are_of_all_batches_of_all_rounds() -> None:
    first = replace(epoch(100), waits_s=tuple(0.001 * number for number in range(1, 51)))
    second = replace(epoch(100), waits_s=tuple(0.001 * number for number in range(51, 102)))
    waits = waits_of([Measurement(0, 0, first), Measurement(1, 0, second)])
    assert waits is not None
    assert (waits.p50_s, waits.p95_s, waits.p99_s) == pytest.approx((0.051, 0.096, 0.1))
    assert (waits.max_s, waits.num_batches) == (0.101, 101)
    assert waits_of([Measurement(0, 0, replace(first, waits_s=()))]) is None


def test_the_steady_wait_share_is_that_of_the_second_half() -> None:
    found = result("torch-tuned", 1000, step_s=0.03, with_step=1000)
    slow_start = tuple(
        replace(entry, epoch=replace(entry.epoch, waits_s=(9.0, *[0.0] * 9, *[0.01] * 10), step_s=20 * 0.03))
        for entry in found.in_mode("step")
    )
    assert steady_wait_share(replace(found, measurements=slow_start)) == pytest.approx(0.25)
    assert steady_wait_share(result("torch-tuned", 1000)) is None


def test_a_row_has_cores_and_waits_of_its_own_mode() -> None:
    found = comparison(result("torch-tuned", 640, noise=0, step_s=0.1, with_step=320, num_rounds=6), step_s=0.1)
    (alone,), (fed,) = summarize(found), summarize(found, "step")
    assert (alone.images_per_s, fed.images_per_s) == (640, 320)
    assert alone.cpu_cores == pytest.approx(2)
    assert (alone.wait_share, fed.wait_share) == (pytest.approx(1), pytest.approx(0.5))
    assert alone.num_rounds == fed.num_rounds == 6
