"""The verdict on comparisons constructed so that the right one is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from constructed import BATCH, comparison, result

from gpufeed.bench.results import Comparison
from gpufeed.bench.time_parts import time_parts
from gpufeed.bench.verdict import verdict

_MS = 1e-3
_THREADS = 2


def _of_parts(
    *,
    read: float = 0.05 * _MS,
    decode: float = 0.5 * _MS,
    other: float = 0.1 * _MS,
    transforms: dict[str, float] | None = None,
    ours: float | None = 2.0,
    num_threads: int = _THREADS,
    usable_cpus: int = _THREADS,
) -> Comparison:
    """A baseline whose every thread needs the parts' sum for an image, and gpufeed ``ours`` times as fast."""
    transforms = transforms or {"Resize(256)": 0.1 * _MS, "Normalize()": 0.05 * _MS}
    busy = min(num_threads, usable_cpus)
    rate = 1 / (read / num_threads + (decode + other + sum(transforms.values())) / busy)
    contenders = [
        result("torch-tuned", rate),
        result("torch-tuned again", 1.004 * rate, kind="copy"),
        result("storage", num_threads / read, kind="bound", every=3),
        result("decode", 1 / (read / num_threads + 0.8 * decode / busy), kind="bound", every=3),
        result("synthetic", 1e6, kind="bound", every=3),
    ]
    if ours is not None:
        contenders.append(result("gpufeed", ours * rate))
    costs = {"read": read, "decode": decode, **transforms}
    return comparison(*contenders, costs=costs, num_threads=num_threads, usable_cpus=usable_cpus)


_BLUR = {"Resize(256)": 0.2 * _MS, "GaussianBlur(9)": 3 * _MS, "Normalize()": 0.1 * _MS}


@pytest.mark.parametrize(
    ("found", "kind", "phrases"),
    [
        (_of_parts(), "decode-bound", ["decoding takes 62 %", "gpufeed is 2.00 times"]),
        (_of_parts(decode=5 * _MS, ours=1.4), "decode-bound", ["decoding takes 94 %", "1.40 times"]),
        (_of_parts(decode=5 * _MS, ours=None), "decode-bound", ["gpufeed wasn't measured", "1.31 times as fast"]),
        (_of_parts(decode=5 * _MS, ours=0.8), "decode-bound", ["gpufeed is slower", "0.80 times"]),
        (_of_parts(read=8 * _MS), "storage-bound", ["reading takes 91 %"]),
        (_of_parts(read=8 * _MS, ours=1.0), "storage-bound", ["makes no difference that shows"]),
        (_of_parts(transforms=_BLUR), "transform-bound", ["GaussianBlur(9) alone 76 %", "2.00 times"]),
        (_of_parts(transforms=_BLUR, ours=1.0), "transform-bound", ["makes no difference that shows"]),
        (_of_parts(other=3 * _MS, ours=3.0), "loader-overhead-bound", ["81 % of torch-tuned's time"]),
        (_of_parts(ours=1.003), "no-difference", ["No difference shown", "effects up to 2 %"]),
        # 16 workers on 2 CPUs: what 16 threads could do by the costs of one, these two can't.
        (_of_parts(num_threads=16), "decode-bound", ["decoding takes"]),
        # What two threads of one core lose to each other isn't the loader's overhead.
        (_of_parts(other=0.5 * _MS), "decode-bound", ["decoding takes 42 %"]),
    ],
)
def test_a_loader_alone_is_held_back_by_its_largest_part(found: Comparison, kind: str, phrases: list[str]) -> None:
    got = verdict(found)
    assert got.kind == kind
    for phrase in phrases:
        assert phrase in got.headline


def _with_step(baseline: float, ours: float, *, step_s: float, seen: tuple[float, float] | None = None) -> Comparison:
    """Loaders of these rates alone, and in a loop the lower of loader and step, or what was ``seen``."""
    step_rate = BATCH / step_s
    loops = seen or (min(baseline, step_rate), min(ours, step_rate))
    return comparison(
        result("torch-tuned", baseline, step_s=step_s, with_step=loops[0]),
        result("gpufeed", ours, step_s=step_s, with_step=loops[1]),
        result("storage", 50_000, kind="bound"),
        result("decode", 2.2 * baseline, kind="bound"),
        costs={"read": 0.02 * _MS, "decode": 1.5 / baseline, "Normalize()": 0.2 / baseline},
        step_s=step_s,
    )


def test_a_loop_that_hardly_waits_is_step_bound() -> None:
    got = verdict(_with_step(2000, 4000, step_s=0.0625, seen=(0.97 * 1024, 1010)))
    assert got.kind == "step-bound"
    assert got.headline == ("Step-bound: torch-tuned already delivers 97 % of what the step takes; gpufeed can't help.")
    assert got.figures["step_images_per_s"] == 1024
    assert got.figures["baseline_wait_share"] == pytest.approx(0.03, abs=0.005)


def test_a_loop_that_waits_is_judged_by_the_loader_and_its_gain_by_the_rates() -> None:
    got = verdict(_with_step(500, 1500, step_s=0.0625))
    assert got.kind == "decode-bound"
    most = 1 / (1 - got.figures["baseline_wait_share"])
    assert got.figures["expected_gain"] == pytest.approx(min(most, 1024 / 500), rel=0.001)
    assert got.figures["ratio"] == pytest.approx(1024 / 500, rel=0.02)
    assert got.figures["loader_ratio"] == pytest.approx(3, rel=0.02)
    text = " ".join(got.sentences)
    assert "min(loader, step) lets one expect 1.95" in text
    assert "no loader could make it more than 1.95 times" in text
    assert "the step is what holds it back now" in text
    assert "With torch-tuned the loop waits 49 % of the time" in text  # each epoch's slow start apart


def test_a_step_bound_loop_that_gpufeed_makes_faster_all_the_same_says_so() -> None:
    # On a CPU the step shares the cores with the loader: torch's workers slow it down to two thirds.
    measured = comparison(
        result("torch-tuned", 2000, step_s=1 / 10, with_step=640),
        result("gpufeed", 4000, step_s=1 / 14, with_step=896),
        step_s=BATCH / 1024,
    )
    got = verdict(measured)
    assert got.kind == "step-bound"
    assert "gpufeed still makes the loop 1.40 times" in got.headline
    assert "The step takes 1.60 times as long beside torch-tuned as alone" in " ".join(got.sentences)


def test_the_first_half_of_an_epoch_does_not_make_a_loop_step_bound() -> None:
    # Batches that were ready hide in the beginning that the loader is slower than the step.
    found = _with_step(500, 1500, step_s=0.0625)
    contenders = []
    for each in found.contenders:
        entries = tuple(
            replace(entry, epoch=replace(entry.epoch, waits_s=(*[0.0] * 10, *[0.06] * 10)))
            if entry.mode == "step" and each.name == "torch-tuned"
            else entry
            for entry in each.measurements
        )
        contenders.append(replace(each, measurements=entries))
    got = verdict(replace(found, contenders=tuple(contenders)))
    assert got.figures["baseline_wait_share"] == pytest.approx(0.06 / (0.06 + 0.0625))
    assert got.kind == "decode-bound"


def test_with_a_step_of_which_no_epoch_was_measured_the_rates_decide() -> None:
    found = comparison(result("torch-tuned", 2000), result("gpufeed", 3000), step_s=0.0625)
    assert verdict(found).kind == "step-bound"
    assert "delivers 100 %" in verdict(found).headline


@pytest.mark.parametrize("num_rounds", [1, 5])
def test_too_few_rounds_leave_it_undecided(num_rounds: int) -> None:
    got = verdict(comparison(result("torch-tuned", 500, num_rounds=num_rounds), result("gpufeed", 900)))
    assert got.kind == "undecided"
    assert f"{num_rounds} round" in got.headline
    assert "--budget" in got.sentences[0]


def test_without_bounds_and_costs_the_ratio_stays_and_the_cause_is_not_made_up() -> None:
    got = verdict(comparison(result("torch-tuned", 500), result("gpufeed", 1000)))
    assert got.kind == "undecided"
    assert got.headline.startswith("gpufeed is 2.00 times")
    assert "Why isn't known" in got.sentences[0]
    assert "decode_share" not in got.figures


def test_with_bounds_alone_only_what_takes_half_the_time_is_named() -> None:
    def with_decode(rate: float) -> str:
        bounds = (result("storage", 50_000, kind="bound"), result("decode", rate, kind="bound"))
        return verdict(comparison(result("torch-tuned", 500), result("gpufeed", 900), *bounds)).kind

    assert with_decode(800) == "decode-bound"
    assert with_decode(2000) == "undecided"


def test_a_slow_disk_is_not_counted_again_as_decoding() -> None:
    # The decoding bound reads too: where both are equally fast, all is reading.
    bounds = (result("storage", 400, kind="bound", noise=0), result("decode", 400, kind="bound", noise=0))
    parts = time_parts(comparison(result("torch-tuned", 400, noise=0), *bounds))
    assert parts is not None
    assert (parts.read, parts.decode, parts.other) == (pytest.approx(1), pytest.approx(0), pytest.approx(0))


def test_parts_add_up_to_one_even_where_reading_overlaps_with_decoding() -> None:
    costs = {"read": 1 * _MS, "decode": 2 * _MS, "Resize()": 1 * _MS}
    parts = time_parts(comparison(result("torch-tuned", 700), costs=costs))
    assert parts is not None
    assert parts.transforms is not None
    assert parts.read + parts.decode + parts.transforms + parts.other == pytest.approx(1)
    assert parts.decode == pytest.approx(0.5)


def test_a_loss_to_another_contender_is_told() -> None:
    contenders = (result("torch-tuned", 500), result("torch-tensor", 1300), result("gpufeed", 1000))
    assert (
        "The fastest here is torch-tensor with 1,300 images/s, 1.30 times"
        in verdict(comparison(*contenders)).sentences[-1]
    )
    assert "fastest" not in " ".join(verdict(comparison(contenders[0], contenders[2])).sentences)


def test_what_holds_gpufeed_back_is_the_bound_that_it_is_near_to() -> None:
    def last(region: float) -> str:
        bounds = (result("decode", 700, kind="bound"), result("region-decode", region, kind="bound"))
        return verdict(comparison(result("torch-tuned", 500), result("gpufeed", 1000), *bounds)).sentences[-1]

    assert "reaches 91 % of what decoding the region that is needed allows (1,100 images/s): that is what" in last(1100)
    assert "reaches 40 % of what decoding the region" in last(2500)
    assert "the rest goes to transforms" in last(2500)
    assert "delivers 2.0 times what decoding the region" in last(500)  # from a cache, say: nothing is made up


def test_what_takes_nearly_as_long_is_in_the_headline_too() -> None:
    near, far = (_of_parts(transforms={"Resize(256)": cost * _MS}) for cost in (0.45, 0.1))
    assert "decoding takes 45 % of torch-tuned's time per image, transforms 41 %; " in verdict(near).headline
    assert ", transforms " not in verdict(far).headline
