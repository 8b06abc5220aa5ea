"""Which bound limits whom."""

from __future__ import annotations

import pytest
from constructed import BATCH, comparison, result

from gpufeed.bench.limits import Limit, limit_of
from gpufeed.bench.results import Comparison, Mode


def _bounds(**rates: float) -> list[object]:
    return [result(name.replace("_", "-"), rate, kind="bound", noise=0, every=3) for name, rate in rates.items()]


def _limit(found: Comparison, name: str, mode: Mode = "loader") -> Limit:
    (one,) = (each for each in found.contenders if each.name == name)
    limit = limit_of(found, one, mode)
    assert limit is not None
    return limit


@pytest.mark.parametrize(
    ("name", "bound", "rate"),
    [
        ("torch-tuned", "decode", 1000),  # whole images, as its transforms need them
        ("spdl", "decode", 1000),
        ("gpufeed", "region-decode", 4000),  # which the bound of whole images doesn't hold
        ("my-loader", "region-decode", 4000),  # what it decodes isn't known
    ],
)
def test_the_lowest_bound_that_applies_is_named(name: str, bound: str, rate: float) -> None:
    bounds = _bounds(storage=9000, decode=1000, region_decode=4000, cached=50_000, synthetic=90_000)
    found = comparison(result(name, 800, noise=0), *bounds)  # type: ignore[arg-type]
    limit = _limit(found, name)
    assert (limit.bound, limit.images_per_s) == (bound, rate)
    assert limit.share == pytest.approx(800 / rate)


def test_a_slow_disk_bounds_everybody() -> None:
    bounds = _bounds(storage=900, decode=1000, region_decode=4000)
    found = comparison(result("torch-tuned", 800), result("gpufeed", 880), *bounds)  # type: ignore[arg-type]
    assert _limit(found, "torch-tuned").bound == _limit(found, "gpufeed").bound == "storage"


def test_where_no_region_is_decoded_whole_images_bound_gpufeed_too() -> None:
    found = comparison(result("gpufeed", 900), *_bounds(decode=1000))  # type: ignore[arg-type]
    assert _limit(found, "gpufeed").bound == "decode"


def test_with_a_step_the_step_is_a_bound_and_what_was_measured_with_it_stands_for_itself() -> None:
    cached = result("synthetic", 90_000, kind="bound", step_s=0.1, with_step=600, noise=0)
    ours = result("gpufeed", 900, step_s=0.1, with_step=570, noise=0)
    found = comparison(ours, *_bounds(decode=1000), cached, step_s=0.1)  # type: ignore[arg-type]
    assert _limit(found, "gpufeed").bound == "decode"
    assert _limit(found, "gpufeed", "step") == Limit("synthetic", 600, pytest.approx(0.95))
    without = comparison(ours, *_bounds(decode=1000), step_s=0.1)  # type: ignore[arg-type]
    assert _limit(without, "gpufeed", "step") == Limit("step", BATCH / 0.1, pytest.approx(570 / 640))


def test_without_bounds_or_rounds_there_is_no_limit() -> None:
    ours = result("gpufeed", 900)
    assert limit_of(comparison(ours), ours) is None
    assert limit_of(comparison(ours, *_bounds(decode=1000)), ours, "step") is None  # type: ignore[arg-type]
