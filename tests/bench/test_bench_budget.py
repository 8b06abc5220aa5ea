"""Round sizes and who is left out, from constructed paces."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpufeed.bench.budget import (
    MIN_ROUNDS,
    Pace,
    RoundPlan,
    fewest_samples,
    next_to_leave_out,
    plan_rounds,
    rotation,
)
from gpufeed.bench.contenders import BOUNDS, CONTENDERS, asked, copy_of
from gpufeed.errors import BenchmarkError

# Of two quiet cores, in seconds per image.
_S_PER_SAMPLE = {"torch-default": 0.0037, "torch-tuned": 0.00185, "torch-tensor": 0.0015, "gpufeed": 0.00087}
_PACES = [Pace(CONTENDERS[name], s_per_sample, start_s=0.2) for name, s_per_sample in _S_PER_SAMPLE.items()]


def _plan(seconds_left: float, batch_size: int = 64, num_threads: int = 2, read_s: float = 0.0) -> RoundPlan:
    return plan_rounds(
        _PACES,
        batch_size=batch_size,
        num_threads=num_threads,
        seconds_left=seconds_left,
        budget_s=seconds_left + 12,
        read_s=read_s,
    )


def _cost_s(plan: RoundPlan) -> float:
    per_round_s = plan.num_samples * sum(_S_PER_SAMPLE[name] for name in plan.names)
    return (1 + MIN_ROUNDS) * per_round_s + 0.2 * len(plan.names)


def test_the_default_budget_keeps_everyone_and_seven_rounds_and_a_warm_up_fit() -> None:
    plan = _plan(75)
    assert plan.names == tuple(_S_PER_SAMPLE)
    assert plan.left_out == ()
    assert 0.7 * 75 < _cost_s(plan) <= 75


def test_a_longer_budget_makes_longer_rounds_up_to_enough() -> None:
    sizes = [_plan(seconds).num_samples for seconds in (60, 90, 180, 3600, 7200)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2]
    assert sizes[3] == sizes[4]


def test_a_short_budget_leaves_out_default_first_and_then_tensor() -> None:
    one = _plan(31)
    two = _plan(18)
    assert [left.name for left in one.left_out] == ["torch-default"]
    assert [left.name for left in two.left_out] == ["torch-default", "torch-tensor"]
    assert two.names == ("torch-tuned", "gpufeed")
    assert "budget of 30 s" in two.left_out[0].reason
    for plan, seconds in ((one, 31), (two, 18)):
        assert _cost_s(plan) <= seconds


def test_too_short_a_budget_says_which_would_do() -> None:
    with pytest.raises(BenchmarkError, match=r"budget of 15 s is too short here.*give --budget (\d+)") as caught:
        _plan(3)
    suggested = int(str(caught.value).rsplit(maxsplit=1)[-1])
    assert _plan(suggested - 12).num_samples > 0


@pytest.mark.parametrize("num_threads", [1, 2, 3, 16])
@pytest.mark.parametrize("batch_size", [1, 64, 97])
def test_epochs_are_whole_batches_the_same_for_each_worker_and_more_than_are_in_flight(
    num_threads: int, batch_size: int
) -> None:
    num_samples = _plan(3600, batch_size, num_threads).num_samples
    assert num_samples % (batch_size * num_threads) == 0
    in_flight = CONTENDERS["torch-tuned"].batches_in_flight(num_threads)
    assert num_samples >= 2 * in_flight * batch_size


def test_reading_from_a_slow_disk_counts() -> None:
    assert _plan(75, read_s=0.02).num_samples < _plan(75).num_samples


def test_a_single_contender_is_never_left_out() -> None:
    with pytest.raises(BenchmarkError, match="too short"):
        plan_rounds(_PACES[:1], batch_size=64, num_threads=2, seconds_left=1, budget_s=10, read_s=0)


def test_order_rotates_so_that_everyone_has_every_place() -> None:
    names = ["a", "b", "c"]
    rounds = [rotation(names, index) for index in range(3)]
    assert rounds == [("a", "b", "c"), ("b", "c", "a"), ("c", "a", "b")]
    assert rotation(names, 3) == rounds[0]


def test_a_slower_machine_costs_an_optional_contender_only_beyond_the_tolerance() -> None:
    contenders = [CONTENDERS[name] for name in ("torch-default", "torch-tuned")]
    round_s = {"torch-default": 2.0, "torch-tuned": 1.0}
    for seconds_left, expected in ((30.0, None), (12.0, None), (7.0, "torch-default")):
        late = next_to_leave_out(contenders, round_s, rounds_done=2, seconds_left=seconds_left, budget_s=60.0)
        assert (late.name if late else None) == expected
    assert next_to_leave_out(contenders[1:], round_s, rounds_done=0, seconds_left=-9.0, budget_s=60.0) is None
    assert next_to_leave_out(contenders, round_s, rounds_done=MIN_ROUNDS, seconds_left=0.0, budget_s=60.0) is None


# The default set ------------------------------------------------------------------------------------------------------

_BOUND_S = {"storage": 0.0001, "decode": 0.0013, "region-decode": 0.0008, "cached": 1e-6, "synthetic": 1e-6}
_DEFAULT_SET = [
    *_PACES,
    Pace(copy_of(CONTENDERS["torch-tuned"]), _S_PER_SAMPLE["torch-tuned"], start_s=0.2),
    *(Pace(bound, _BOUND_S[bound.name], start_s=0.1) for bound in BOUNDS),
]


def _plan_all(seconds_left: float, step_s_per_sample: float = 0.0) -> RoundPlan:
    paces = [
        replace(pace, step_s_per_sample=pace.s_per_sample + step_s_per_sample)
        if step_s_per_sample and pace.contender.feeds_step
        else pace
        for pace in _DEFAULT_SET
    ]
    return plan_rounds(paces, batch_size=64, num_threads=2, seconds_left=seconds_left, budget_s=90, read_s=0.0)


def test_the_default_set_fits_with_its_copy_and_bounds() -> None:
    plan = _plan_all(68)
    assert plan.left_out == ()
    assert plan.num_samples >= 512
    assert plan.step_samples == 0


def test_the_copy_goes_first_and_the_bounds_stay_longest() -> None:
    seconds = [60, 45, 27, 20]
    left_out = [[left.name for left in _plan_all(left).left_out] for left in seconds]
    assert left_out[0] == []
    assert left_out[1] == ["torch-tuned again"]
    assert left_out[2] == ["torch-tuned again", "torch-default"]
    assert left_out[3] == ["torch-tuned again", "torch-default", "torch-tensor"]


def test_with_a_step_its_epochs_fit_too_and_are_no_longer() -> None:
    plan = _plan_all(240, step_s_per_sample=0.0004)
    assert plan.left_out == ()
    assert fewest_samples([pace.contender for pace in _DEFAULT_SET], 64, 2) <= plan.step_samples <= plan.num_samples
    cost_s = sum(
        pace.num_epochs * pace.s_per_sample * plan.num_samples
        + pace.num_epochs * (pace.s_per_sample + 0.0004) * plan.step_samples * pace.contender.feeds_step
        for pace in _DEFAULT_SET
    )
    assert cost_s <= 240


@pytest.mark.parametrize("step_s", [1e-5, 0.0004, 0.003])
@pytest.mark.parametrize("seconds_left", [100, 180, 400, 3000])
def test_no_epoch_is_shorter_than_what_shows_a_throughput(step_s: float, seconds_left: float) -> None:
    plan = _plan_all(seconds_left, step_s)
    fewest = fewest_samples([CONTENDERS[name] for name in plan.names if name in CONTENDERS], 64, 2)
    assert min(plan.num_samples, plan.step_samples) >= fewest


def test_a_step_that_is_too_slow_says_which_budget_would_do() -> None:
    with pytest.raises(BenchmarkError, match=r"with and without the step don't fit; give --budget (\d+)") as caught:
        _plan_all(70, step_s_per_sample=0.1)
    suggested = int(str(caught.value).rsplit(maxsplit=1)[-1])
    assert _plan_all(suggested - 20, step_s_per_sample=0.1).step_samples > 0


def test_no_more_samples_than_make_sense() -> None:
    options = {"batch_size": 64, "num_threads": 2, "seconds_left": 3600, "budget_s": 3600, "read_s": 0.0}
    assert plan_rounds(_PACES, **options, most_samples=1000).num_samples == 896
    assert plan_rounds(_PACES, **options).num_samples > 1000


def test_a_bound_is_reckoned_with_the_rounds_in_which_it_runs() -> None:
    bound = Pace(BOUNDS[1], 0.001, start_s=0.0)
    assert bound.num_epochs == 4  # a warm-up and rounds 1, 4 and 7
    contenders = [CONTENDERS["torch-tuned"], BOUNDS[1]]
    round_s = {"torch-tuned": 1.0, "decode": 3.0}
    for seconds_left, expected in ((16.1, None), (15.9, "decode")):
        late = next_to_leave_out(contenders, round_s, rounds_done=0, seconds_left=seconds_left, budget_s=0.0)
        assert (late.name if late else None) == expected
    late = next_to_leave_out(contenders, round_s, rounds_done=4, seconds_left=6.1, budget_s=0.0)
    assert late is None  # three of the one and one of the other


def test_bounds_alone_are_not_what_stays() -> None:
    contenders = [CONTENDERS["torch-default"], *BOUNDS]
    round_s = dict.fromkeys([contender.name for contender in contenders], 9.0)
    late = next_to_leave_out(contenders, round_s, rounds_done=0, seconds_left=1.0, budget_s=1.0)
    assert late is not None
    assert late.kind == "bound"


def test_who_was_asked_for_by_name_is_not_left_out_for_lack_of_time() -> None:
    paces = [replace(pace, contender=asked(pace.contender)) for pace in _PACES]
    with pytest.raises(BenchmarkError, match="is too short here"):
        plan_rounds(paces, batch_size=64, num_threads=2, seconds_left=18, budget_s=30, read_s=0.0)
    contenders = [pace.contender for pace in paces]
    round_s = dict.fromkeys((contender.name for contender in contenders), 5.0)
    assert next_to_leave_out(contenders, round_s, rounds_done=2, seconds_left=1.0, budget_s=60.0) is None
