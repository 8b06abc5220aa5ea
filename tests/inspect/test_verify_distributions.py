"""Draws as distributions: torchvision's own pass for every class, and what is drawn wrongly doesn't."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed import geometry
from gpufeed.inspect import distributions
from gpufeed.inspect.distributions import FALSE_ALARMS, compare_draws
from gpufeed.inspect.drawn_by_torchvision import THEIRS
from gpufeed.parameters import drawing
from gpufeed.parameters.batch import Drawn
from gpufeed.plan import ColorJitter, Flip, GaussianBlur, RandomAreaCrop, RandomCrop
from gpufeed.translation import translate

SIZES_HW = np.array([[61, 83], [120, 97], [333, 500], [64, 300]])
TO_IMAGE = v2.ToImage()
COLOURS = ((0.6, 1.4), (0.5, 1.5), (0.7, 1.1), (-0.1, 0.3))

EVERY_CLASS: dict[str, tuple[Any, set[str]]] = {
    "v1 area crop": (v1.RandomResizedCrop(32), {"area", "log ratio", "centre y", "centre x"}),
    "v2 area crop": (v2.RandomResizedCrop(32, (0.5, 2.0), (0.3, 4.0)), {"area", "log ratio", "centre y", "centre x"}),
    "v1 crop": (v1.RandomCrop(60, padding=(3, 4)), {"top", "left"}),
    "v2 crop": (v2.RandomCrop((70, 90), padding=(1, 2, 3, 4), pad_if_needed=True), {"top", "left"}),
    "v1 flip": (v1.RandomHorizontalFlip(0.3), {"rate"}),
    "v2 flip": (v2.RandomVerticalFlip(0.9), {"rate"}),
    "v1 grey": (v1.RandomGrayscale(0.01), {"rate"}),
    "v2 invert": (v2.RandomInvert(0.7), {"rate"}),
    "v1 jitter": (v1.ColorJitter(*COLOURS), {"brightness", "contrast", "saturation", "hue", "first"}),
    "v2 jitter": (v2.ColorJitter(0.4, hue=0.1), {"brightness", "hue", "first"}),
    "v2 permutation": (v2.RandomChannelPermutation(), {"permutation"}),
    "v1 blur": (v1.GaussianBlur(5, (0.1, 2.0)), {"sigma"}),
    "v2 blur": (v2.GaussianBlur(5, (0.1, 2.0)), {"sigma"}),
    "v2 jpeg": (v2.JPEG((5, 60)), {"quality"}),
    "v1 erasing": (v1.Compose([v1.PILToTensor(), v1.RandomErasing(0.4)]), {"rate", "area", "log ratio"}),
    "v2 erasing": (v2.Compose([TO_IMAGE, v2.RandomErasing(0.4, value=3)]), {"rate", "centre y", "centre x"}),
    "v1 rotation": (v1.RandomRotation((-5, 30)), {"angle"}),
    "v2 rotation": (v2.RandomRotation(20, expand=True), {"angle"}),
    "v1 affine": (v1.RandomAffine(10, (0.1, 0.3), None, (1, 5)), {"angle", "shift x", "shift y", "shear x"}),
    "v2 affine": (v2.RandomAffine(0, None, (0.8, 1.3), (1, 5, -3, 9)), {"scale", "shear x", "shear y"}),
    "v1 perspective": (v1.RandomPerspective(0.3), {"rate", "top left x", "bottom right y"}),
    "v2 perspective": (v2.RandomPerspective(0.6, 0.8), {"rate", "top right y", "bottom left x"}),
    "v2 resize": (v2.RandomResize(20, 60), {"shorter side"}),
    "v2 shortest": (v2.RandomShortestSize([20, 30, 77], 100), {"shorter side"}),
    "v2 scale": (v2.ScaleJitter((100, 200)), {"height", "width"}),
    "v2 zoom out": (v2.RandomZoomOut(), {"rate", "canvas", "left", "top"}),
    "v2 distort": (v2.RandomPhotometricDistort(p=0.3), {"hue rate", "hue", "contrast first rate", "rate"}),
}


def compared(transform: Any, seed: int = 0) -> dict[str, Any]:
    translation = translate(transform)
    if translation.plan is None:
        pytest.skip(f"not translated here: {translation.refusals}")
    checks, unknown = compare_draws(translation, SIZES_HW, seed)
    assert unknown == ()
    return {check.quantity: check for check in checks}


@pytest.mark.parametrize("name", EVERY_CLASS)
def test_every_class_draws_as_torchvision_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributions, "NUM_THEIRS", 3000)  # quicker
    transform, quantities = EVERY_CLASS[name]
    found = compared(transform)
    # of categories the name says which was farthest off
    assert quantities <= {quantity.partition(": ")[0] for quantity in found}
    assert all(check.holds for check in found.values()), found
    assert all(check.num_ours >= 100 for check in found.values())


def test_every_class_that_can_be_asked_is_asked() -> None:
    objects = [step for transform, _ in EVERY_CLASS.values() for step in _flat(transform)]
    assert {type(one) for one in objects} >= set(THEIRS)


def _flat(transform: Any) -> list[Any]:
    return list(transform.transforms) if isinstance(transform, (v1.Compose, v2.Compose)) else [transform]


def test_containers_are_held_to_their_own_attributes() -> None:
    inside = [v2.RandomHorizontalFlip(0.2), v2.RandomGrayscale(0.6), v2.RandomInvert(0.5)]
    transform = v2.Compose(
        [
            v2.RandomApply([v2.RandomResizedCrop(20)], p=0.3),
            v2.RandomChoice(inside, p=[0.5, 0.0, 0.25]),
            v2.RandomOrder(inside),
        ]
    )
    checks, unknown = _of(transform)
    assert unknown == ()
    by_place = {(check.place, check.quantity.partition(":")[0]): check for check in checks}
    assert by_place["transforms[0]", "rate"].theirs == 0.3
    assert by_place["transforms[1]", "choice"].theirs in (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert by_place["transforms[2]", "first"].theirs == pytest.approx(1 / 3)
    named = {check.quantity for check in checks}
    assert named & {"choice: 1.0", "choice: 1.2", "choice: number 0", "choice: number 1"}
    assert named & {"first: 2.0", "first: 2.1", "first: 2.2"}
    area = by_place["transforms[0].transforms[0]", "area"]
    assert 5500 < area.num_ours < 6500
    assert all(check.holds for check in checks)


def _of(transform: Any, seed: int = 3) -> Any:
    translation = translate(transform)
    translation.require()
    return compare_draws(translation, SIZES_HW, seed)


def test_what_cannot_be_compared_is_said() -> None:
    checks, unknown = _of(v2.Compose([v2.ToImage(), v2.GaussianNoise(), v2.RandomHorizontalFlip()]))
    assert [check.quantity for check in checks] == ["rate"]
    assert unknown == (
        "transforms[1] (torchvision.transforms.v2.GaussianNoise): what GaussianNoise draws isn't compared",
    )


def shifted(column: int | None, by: float, drawer: Any) -> Any:
    """A drawing function whose values, or one column of them, are off."""

    def broken(op: Any, spec: Any, sizes: Any, draws: Any) -> Drawn:
        drawn = drawer(op, spec, sizes, draws)
        values = np.array(drawn.values, dtype=np.float64)
        if column is None:
            values += by
        else:
            values[:, column] += by
        return Drawn(values, drawn.sizes_hw, drawn.refused)

    return broken


@pytest.mark.parametrize(
    ("op", "column", "by", "transform", "wrong"),
    [
        (ColorJitter, 4, 0.03, v2.ColorJitter(0.4, 0.4, 0.4, 0.1), {"brightness"}),
        (ColorJitter, 7, 0.01, v1.ColorJitter(0.4, 0.4, 0.4, 0.1), {"hue"}),
        (GaussianBlur, None, 0.1, v1.GaussianBlur(5, (0.1, 2.0)), {"sigma"}),
        (RandomCrop, 1, 3, v2.RandomCrop(50), {"left"}),
        (RandomAreaCrop, 0, 10, v1.RandomResizedCrop(32), {"centre y"}),
    ],
)
def test_shifted_values_are_found(
    monkeypatch: pytest.MonkeyPatch, op: type, column: int | None, by: float, transform: Any, wrong: set[str]
) -> None:
    monkeypatch.setitem(drawing.DRAWERS, op, shifted(column, by, drawing.DRAWERS[op]))  # type: ignore[arg-type]
    assert {name for name, check in compared(transform).items() if not check.holds} == wrong


def test_a_ratio_that_is_not_logarithmic_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def uniform(sizes: Any, scale: Any, ratio: Any, unit_pairs: Any) -> Any:
        first, second = unit_pairs([0, 1], np.arange(len(sizes)))
        area = sizes.prod(axis=1) * (scale[0] + (scale[1] - scale[0]) * first[0])
        aspect = ratio[0] + (ratio[1] - ratio[0]) * second[0]
        h, w = np.rint(np.sqrt(area / aspect)), np.rint(np.sqrt(area * aspect))
        h, w = np.minimum(h, sizes[:, 0]).astype(np.int64), np.minimum(w, sizes[:, 1]).astype(np.int64)
        top, left = geometry.below(first[1], sizes[:, 0] - h + 1), geometry.below(second[1], sizes[:, 1] - w + 1)
        return np.stack([top, left, h, w], axis=1)

    monkeypatch.setattr(geometry, "area_windows", uniform)
    found = compared(v2.RandomResizedCrop(32, ratio=(0.25, 4.0)))
    assert not found["log ratio"].holds


def test_a_wrong_probability_and_a_wrong_choice_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    flips = drawing.DRAWERS[Flip]

    def rarer(op: Flip, spec: Any, sizes: Any, draws: Any) -> Drawn:
        return flips(Flip(op.axis, op.p * 0.9), spec, sizes, draws)

    monkeypatch.setitem(drawing.DRAWERS, Flip, rarer)  # type: ignore[arg-type]
    assert not compared(v2.RandomHorizontalFlip(0.3))["rate"].holds
    monkeypatch.setattr(drawing, "_order", lambda op, draws: draws.integers(0, 0, 2)[:, None])
    transform = v2.RandomChoice([v2.RandomInvert(1.0), v2.RandomGrayscale(1.0)], p=[0.55, 0.45])
    checks, _ = _of(transform)
    assert [check.quantity.partition(":")[0] for check in checks if not check.holds] == ["choice"]


def test_nothing_global_moves_and_the_seed_decides() -> None:
    before = torch.get_rng_state()
    first, again, other = (_of(v2.ColorJitter(0.4), seed)[0] for seed in (1, 1, -2))
    assert first == again != other
    assert torch.equal(torch.get_rng_state(), before)


# Limits --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "p", "level"), [(50, 0.3, 0.01), (1000, 0.02, 0.05), (20, 0.5, 0.2)])
def test_chance_exceeds_the_limit_of_a_share_as_rarely_as_said(count: int, p: float, level: float) -> None:
    shares = np.random.default_rng(0).binomial(count, p, 50_000) / count
    low = distributions._rate_limit(count, p, False, level)
    high = distributions._rate_limit(count, p, True, level)
    alarms = ((shares > p + high) | (shares < p - low)).mean()
    assert alarms <= level
    assert alarms > 0 or level < 1e-3  # a limit that nothing exceeds would find nothing
    assert distributions._rate_limit(10, 0.0, True, level) == distributions._rate_limit(10, 1.0, False, level) == 0.0


def test_chance_exceeds_the_limit_of_a_distribution_as_rarely_as_said() -> None:
    rng, level, alarms = np.random.default_rng(1), 0.02, 0
    for _ in range(1000):
        pair = distributions._Pair("", "", "", rng.random(400), rng.random(200))
        alarms += not distributions._check(pair, level).holds
    assert 0 < alarms <= 1000 * level * 1.5
    exact = distributions._Pair("", "", "", rng.random(400), distributions.Range(0.0, 1.0))
    assert distributions._check(exact, level).holds
    wrong = distributions._Pair("", "", "", rng.random(400), distributions.Range(0.0, 1.4))
    assert not distributions._check(wrong, level).holds
    whole = distributions._Pair("", "", "", rng.integers(3, 8, 4000).astype(float), distributions.Range(3, 7, True))
    assert distributions._check(whole, level).holds


def test_the_distance_is_kolmogorov_and_smirnovs() -> None:
    assert distributions._distance(np.array([1.0, 2, 3, 4]), np.array([3.0, 4, 5, 6])) == 0.5
    assert distributions._distance(np.array([1.0, 1, 1]), np.array([1.0])) == 0.0
    assert distributions._distance(np.array([0.0]), np.array([1.0])) == 1.0


def test_all_limits_of_a_run_share_one_probability() -> None:
    (alone,) = _of(v2.RandomHorizontalFlip())[0]
    both = _of(v2.Compose([v2.RandomHorizontalFlip(), v2.RandomVerticalFlip()]))[0]
    assert both[0].limit > alone.limit
    assert alone.limit == pytest.approx(math.sqrt(math.log(2 / FALSE_ALARMS) / (2 * alone.num_ours)), rel=0.01)
