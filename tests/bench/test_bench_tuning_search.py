"""The search on machines that are formulas: near the best in less time, memory kept to, failures survived."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tuning_surface import Rate, Surface, torch_rate

from gpufeed.bench.tuning.curves import curves_of, knee_sentence
from gpufeed.bench.tuning.results import Tuned
from gpufeed.bench.tuning.search import Search, Visit, cheapest_unbeaten, cheapest_within, noise_of, survivors
from gpufeed.bench.tuning.space import Setting, Space, cost, describe, gpufeed_space, levels, torch_space
from gpufeed.config import GpufeedSettings, TorchSettings
from gpufeed.errors import BenchmarkError

SEEDS = range(60)


def _found(space: Space, surface: Surface, max_memory_bytes: int | None = None) -> Tuned:
    search = Search(space, surface, max_memory_bytes)
    search.run()
    return search.result()


def _grid_s(space: Space, rate: Rate) -> float:
    """Every cell as often as a setting that reaches a later rung: a warm-up and three epochs."""
    surface = Surface(rate)
    return sum(4 * surface.num_samples(setting) / rate(setting) for setting in space.grid())


def _contended(setting: Setting) -> float:
    """A throttled disk: two readers keep it busy, and each further one costs seeks."""
    assert isinstance(setting, TorchSettings)
    readers = max(1, setting.num_workers)
    return 120.0 * min(readers, 2) / (1 + 0.12 * max(0, readers - 2))


def _ours(setting: Setting) -> float:
    assert isinstance(setting, GpufeedSettings)
    return 150 * (setting.num_threads**-4 + 7**-4) ** -0.25 * (1 - 0.06 / setting.prefetch_factor)


@pytest.mark.parametrize(
    ("space", "rate"),
    [
        (torch_space(8, on_cuda=False), torch_rate(3)),
        (torch_space(8, on_cuda=False), torch_rate(8, decline=0.05)),
        (torch_space(8, on_cuda=True), torch_rate(14, decline=0.1)),
        (torch_space(64, on_cuda=False), torch_rate(40)),
        (torch_space(8, on_cuda=False), _contended),
        (gpufeed_space(8, on_cuda=False), _ours),
    ],
    ids=["early knee", "knee at the CPUs", "late knee", "many CPUs", "throttled disk", "gpufeed"],
)
def test_it_ends_near_the_best_cell_in_a_third_of_the_grids_time(space: Space, rate: Rate) -> None:
    best = max(map(rate, space.grid()))
    shares: list[float] = []
    times_s: list[float] = []
    for seed in SEEDS:
        surface = Surface(rate, seed)
        chosen = _found(space, surface).best
        assert chosen is not None
        shares.append(rate(chosen) / best)
        times_s.append(surface.now_s)
    assert sum(share >= 0.95 for share in shares) >= 0.9 * len(SEEDS)
    assert min(shares) > 0.85
    assert sum(times_s) / len(times_s) <= _grid_s(space, rate) / 3


def test_on_a_restless_machine_little_is_given_away() -> None:
    """Spells of a few seconds hit one setting and not the next: what is ahead by little is no reason to take more."""
    rate = torch_rate(2, decline=0.08)
    best = max(map(rate, torch_space(2, on_cuda=False).grid()))
    found = [_found(torch_space(2, on_cuda=False), Surface(rate, seed, spell=0.08)).best for seed in SEEDS]
    shares = [rate(chosen) / best for chosen in found if chosen is not None]
    assert len(shares) == len(SEEDS)
    assert min(shares) >= 0.9
    assert sum(share >= 0.95 for share in shares) >= 0.8 * len(SEEDS)


def test_without_noise_the_knee_is_found_and_not_what_is_dearer() -> None:
    surface = Surface(_contended, noise=0, hiccup=0)
    assert _found(torch_space(8, on_cuda=False), surface).best == TorchSettings(2, 2, persistent_workers=True)


@pytest.mark.parametrize("seed", range(10))
def test_on_a_throttled_disk_the_knee_is_chosen_and_the_decline_past_it_is_shown(seed: int) -> None:
    tuned = _found(torch_space(2, on_cuda=False), Surface(_contended, seed, noise=0.02, hiccup=0))
    assert isinstance(tuned.best, TorchSettings)
    assert tuned.best.num_workers in (2, 3)
    throughput = next(curve for curve in curves_of(tuned) if curve.quantity == "throughput")
    rates = {point.at: point.value for point in throughput.points}
    assert list(rates) == [0, 1, 2, 3, 4, 6, 8]
    assert rates[8] < rates[6] < rates[4] < max(rates[2], rates[3])
    sentence = knee_sentence(tuned)
    assert f"the knee is at num_workers {min(2, tuned.best.num_workers)}" in sentence
    assert any(f"num_workers 8 is {share}% slower" in sentence for share in range(36, 50))


def test_it_searches_downward_to_no_workers() -> None:
    best = _found(torch_space(4, on_cuda=False), Surface(lambda setting: 100.0, noise=0, hiccup=0)).best
    assert best == TorchSettings()


def test_a_dearer_setting_within_the_noise_is_not_chosen() -> None:
    rates: dict[Setting, float] = {TorchSettings(count, 2): rate for count, rate in ((2, 99.2), (4, 100), (8, 99.9))}
    assert cheapest_within(rates, 0.01) == TorchSettings(2, 2)
    assert cheapest_within(rates, 0.001) == TorchSettings(4, 2)


def test_of_few_epochs_a_dearer_one_is_chosen_only_if_chance_cant_explain_it() -> None:
    rates: dict[Setting, tuple[float, ...]] = {GpufeedSettings(2, 2): (1084,), GpufeedSettings(2, 8): (1135,)}
    assert cheapest_unbeaten(rates, 0.03) == GpufeedSettings(2, 2)
    assert cheapest_unbeaten(rates, 0.01) == GpufeedSettings(2, 8)
    often = {setting: 16 * epochs for setting, epochs in rates.items()}
    assert cheapest_unbeaten(often, 0.03) == GpufeedSettings(2, 8)
    rates[GpufeedSettings(1, 2)] = (900,)
    assert cheapest_unbeaten(rates, 0.5) == GpufeedSettings(2, 2), "a sixth less is never noise"


def _deeper(gain: float) -> Rate:
    """Two threads are the best, and each further batch under way gains a little."""

    def rate(setting: Setting) -> float:
        assert isinstance(setting, GpufeedSettings)
        return {1: 600.0, 2: 1100.0}.get(setting.num_threads, 1000.0) * (1 + gain * setting.prefetch_factor)

    return rate


def test_what_is_known_to_be_faster_is_taken() -> None:
    best = _found(gpufeed_space(2, on_cuda=False), Surface(_deeper(0.005), noise=0, hiccup=0)).best
    assert best == GpufeedSettings(2, 8), "3 % more"


def test_when_the_time_ends_early_the_cheaper_setting_within_the_noise_stays() -> None:
    """2, 4 and 8 batches under way are alike; each was seen, and there was no time to see all again."""
    space, rate = gpufeed_space(2, on_cuda=False), _deeper(0.001)
    whole = Surface(rate, noise=0, hiccup=0)
    _found(space, whole)
    first_of_8 = next(place for place, (setting, _) in enumerate(whole.visits) if setting.prefetch_factor == 8)
    until = Surface(rate, noise=0, hiccup=0)
    for setting, num_epochs in whole.visits[: first_of_8 + 1]:
        until.visit(setting, num_epochs)
    seen = cheapest = 0
    for seed in SEEDS:
        cut = _found(space, Surface(rate, noise=0.02, hiccup=0, seed=seed, budget_s=1.02 * until.now_s))
        seen += cut.trial(GpufeedSettings(2, 8)) is not None and not cut.finished
        cheapest += cut.best == GpufeedSettings(2, 2)
    assert seen >= 0.5 * len(SEEDS)
    assert cheapest >= 0.85 * len(SEEDS)


def test_a_slow_first_visit_doesnt_throw_out_the_best() -> None:
    """A machine's slow seconds meet the first visit of all to the best setting, and no other."""

    class Disturbed(Surface):
        def visit(self, setting: Setting, num_epochs: int) -> Visit:
            visit = super().visit(setting, num_epochs)
            slow = 0.68 if len(self.visits) == 1 else 1.0
            return Visit(tuple(rate * slow for rate in visit.images_per_s), visit.peak_memory_bytes)

    best = _found(torch_space(2, on_cuda=False), Disturbed(_contended, noise=0, hiccup=0)).best
    assert isinstance(best, TorchSettings)
    assert best.num_workers == 2


def test_a_lucky_epoch_of_two_dearer_settings_doesnt_throw_out_the_known_one() -> None:
    """The first epoch of a deeper queue is lucky; seen again, it is no faster."""
    lucky = {TorchSettings(2, depth, persistent_workers=True): 1.08 for depth in (4, 8)}

    class Lucky(Surface):
        def visit(self, setting: Setting, num_epochs: int) -> Visit:
            visit = super().visit(setting, num_epochs)
            luck = lucky.pop(setting, 1.0)
            return Visit(tuple(rate * luck for rate in visit.images_per_s), visit.peak_memory_bytes)

    best = _found(torch_space(2, on_cuda=False), Lucky(_contended, noise=0, hiccup=0)).best
    assert best == TorchSettings(2, 2, persistent_workers=True)


def test_in_a_short_budget_settings_between_others_are_left_out() -> None:
    space = torch_space(2, on_cuda=False)
    for budget_s, tried in ((1000.0, {0, 1, 2, 3, 4, 6, 8}), (120.0, {0, 1, 2, 4, 8})):
        tuned = _found(space, Surface(torch_rate(2), budget_s=budget_s, noise=0, hiccup=0))
        assert {setting.num_workers for setting in tuned.main if isinstance(setting, TorchSettings)} == tried


def test_survivors_are_near_the_best_and_no_slower_than_a_cheaper_one() -> None:
    rates = {1: 50.0, 2: 95.0, 3: 94.0, 4: 100.0, 8: 99.0}
    kept = survivors({TorchSettings(count, 2): rate for count, rate in rates.items()}, most=3)
    assert [setting.num_workers for setting in kept if isinstance(setting, TorchSettings)] == [2, 4, 8]
    assert survivors({}, 3) == []


def test_settings_above_the_memory_are_never_chosen() -> None:
    def memory(setting: Setting) -> int:
        return 100 + 50 * setting.batches_in_flight

    space = torch_space(8, on_cuda=False, least_depth=1, start_depth=1)
    tuned = _found(space, Surface(torch_rate(8), noise=0, hiccup=0, memory=memory), 400)
    assert tuned.best == TorchSettings(6, 1, persistent_workers=True)
    assert {setting.batches_in_flight for setting in tuned.over_memory} >= {8, 12}
    assert all(setting.batches_in_flight > 6 for setting in tuned.over_memory)


def test_nothing_is_chosen_where_all_are_above_the_memory() -> None:
    tuned = _found(torch_space(2, on_cuda=False), Surface(torch_rate(2), memory=lambda _: 10), 9)
    assert tuned.best is None
    assert set(tuned.over_memory) == {trial.setting for trial in tuned.trials}


def test_a_setting_that_fails_is_told_and_left() -> None:
    def failing(setting: Setting) -> str:
        return "no memory" if setting.batches_in_flight > 12 else ""

    surface = Surface(torch_rate(16), failing=failing)
    tuned = _found(torch_space(4, on_cuda=False), surface)
    assert tuned.best is not None
    assert tuned.best.batches_in_flight <= 12
    assert {trial.failure for trial in tuned.trials} == {"", "no memory"}
    failed = [setting for setting, _ in surface.visits if failing(setting)]
    assert len(failed) == len(set(failed)), "a failed setting isn't visited again"


def test_where_the_ordinary_setting_fails_everything_does() -> None:
    with pytest.raises(BenchmarkError, match="no memory"):
        _found(torch_space(4, on_cuda=False), Surface(torch_rate(4), failing=lambda _: "no memory"))


@pytest.mark.parametrize("budget_s", [1.0, 8.0, 20.0, 60.0])
def test_it_keeps_to_its_time(budget_s: float) -> None:
    surface = Surface(torch_rate(2), budget_s=budget_s, hiccup=0)
    tuned = _found(torch_space(2, on_cuda=False), surface)
    assert tuned.best is not None
    first_s = 2 * surface.num_samples(tuned.start) / 150  # the first visit's length isn't known before
    assert surface.now_s <= max(first_s, 1.15 * budget_s)
    assert not tuned.finished


def test_ctrl_c_keeps_the_best_so_far() -> None:
    def interrupting(after: int) -> Callable[[Setting], str]:
        count = 0

        def failing(_: Setting) -> str:
            nonlocal count
            count += 1
            if count > after:
                raise KeyboardInterrupt
            return ""

        return failing

    search = Search(torch_space(2, on_cuda=False), Surface(torch_rate(2), noise=0, hiccup=0, failing=interrupting(3)))
    with pytest.raises(KeyboardInterrupt):
        search.run()
    tuned = search.result()
    assert len(tuned.trials) == 3
    assert tuned.best is not None
    assert not tuned.finished
    done = Search(torch_space(2, on_cuda=False), Surface(torch_rate(2), failing=interrupting(0)))
    with pytest.raises(KeyboardInterrupt):
        done.run()
    assert done.result().best is None


def test_levels_reach_four_times_the_cpus() -> None:
    assert levels(2) == (0, 1, 2, 3, 4, 6, 8)
    assert levels(1, least=1) == (1, 2, 3, 4)
    assert levels(6)[-3:] == (12, 16, 24)
    assert all(6 in levels(count) or count == 1 for count in (2, 6))
    assert levels(64)[-1] == 256


def test_the_grid_has_no_cell_twice_and_none_that_torch_refuses() -> None:
    grid = torch_space(2, on_cuda=True).grid()
    assert len(set(grid)) == len(grid) == 2 + 6 * 3 * 2 * 2
    assert list(grid) == sorted(grid, key=cost)
    ours = gpufeed_space(2, on_cuda=True, least_depth=1).grid()
    assert len(ours) == 6 * 4 * (4 + 1)
    assert len({describe(setting) for setting in ours}) == len(ours)


def test_noise_is_of_repeats_only() -> None:
    assert noise_of([(100.0,), (50.0,)]) is None
    noise = noise_of([(98.0, 100.0, 102.0), (50.0,)])
    assert noise == pytest.approx(0.025, abs=0.002)
