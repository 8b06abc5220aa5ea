"""The arithmetic of ``verify``: differences in fixed memory, scales, budgets, pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from gpufeed.errors import ArgumentError
from gpufeed.inspect.side_by_side import Picture, check_save_target, drawn, viewable, write_pictures
from gpufeed.inspect.verify.differences import Differences, full_scales, ring_and_rest, same_bits
from gpufeed.inspect.verify.results import OpCheck, Spread, Worst
from gpufeed.inspect.verify.whole import FLOAT_255, GAIN, MEETING, SLACK_VALUES, budget_of
from gpufeed.plan import Convert, Grayscale, Normalize, Plan, ToDtype, ToTensor
from gpufeed.spec import ImageSpec

BYTES = (255.0,)


def two_images(seed: int, count: int = 40_000) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    theirs = rng.integers(0, 256, (1, 1, count))
    off = rng.choice([0, 1, 2, 9], size=count, p=[0.9, 0.09, 0.0085, 0.0015])
    mine = np.clip(theirs + off * rng.choice([-1, 1], size=count), 0, 255)
    return torch.from_numpy(mine.astype(np.uint8)), torch.from_numpy(theirs.astype(np.uint8))


@pytest.mark.parametrize("kind", ["bytes", "floats"])
def test_a_spread_is_that_of_all_values_at_once(kind: str) -> None:
    found, all_off = Differences(usual_255=1.0), []
    for seed in range(3):
        mine, theirs = two_images(seed)
        off = (mine.double() - theirs.double()).abs().numpy().ravel()
        all_off.append(off)
        if kind == "floats":
            largest, mean = found.add(mine.float() / 255, theirs.float() / 255, (1.0,))
        else:
            largest, mean = found.add(mine, theirs, BYTES)
        assert (largest, mean) == (pytest.approx(off.max(), rel=1e-5), pytest.approx(off.mean(), rel=1e-5))
    wanted, spread = np.concatenate(all_off), found.spread()
    assert spread.num_values == wanted.size
    assert spread.largest_255 == pytest.approx(wanted.max(), rel=1e-5)
    assert spread.mean_255 == pytest.approx(wanted.mean(), rel=1e-5)
    assert spread.p999_255 == pytest.approx(np.quantile(wanted, 0.999, method="inverted_cdf"), abs=1 / 16)
    assert spread.share_above_1 == spread.share_beyond == (wanted > 1).mean()
    assert spread.share_unequal == (wanted > 0).mean()


def test_nothing_and_equal_images_have_no_differences() -> None:
    found = Differences()
    assert found.spread() == Spread(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    image = torch.full((3, 2, 2), float("nan"))
    assert found.add(image, image.clone(), (1.0,)) == (0.0, 0.0)
    assert found.add(torch.empty(3, 0, 5), torch.empty(3, 0, 5), (1.0,)) == (0.0, 0.0)
    assert found.spread() == Spread(12, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def test_what_is_no_number_on_one_side_only_is_the_full_range() -> None:
    nan, infinity = float("nan"), float("inf")
    mine = torch.tensor([nan, nan, infinity, infinity, 0.5]).view(1, 1, 5)
    theirs = torch.tensor([nan, 0.5, infinity, 0.5, 0.5]).view(1, 1, 5)
    found = Differences()
    assert found.add(mine, theirs, (1.0,)) == (255.0, pytest.approx(2 * 255 / 5))
    assert found.spread().share_unequal == 0.4
    assert not same_bits(mine, theirs)
    assert same_bits(mine, mine.clone())
    assert not same_bits(mine, mine.double())


def test_differences_of_normalized_values_count_in_intensity() -> None:
    std = (0.5, 0.25, 0.125)
    plan = Plan((ToTensor(), Normalize((0.5,), (2.0,)), Normalize((0.0, 0.0, 0.0), std), Grayscale(1)))
    assert full_scales(plan) == ((255.0,), (1.0,), (0.5,), (1.0, 2.0, 4.0), (7 / 3,))
    found = Differences()
    theirs = torch.zeros(3, 4, 4)
    mine = torch.tensor([1 / 255, 2 / 255, 4 / 255]).view(3, 1, 1).expand(3, 4, 4)
    assert found.add(mine, theirs, (1.0, 2.0, 4.0)) == (pytest.approx(1.0), pytest.approx(1.0))


def test_scales_follow_the_dtype() -> None:
    image = Convert("tv_image")
    plan = Plan((image, ToDtype("float32", False), Normalize((127.0,), (64.0,))))
    assert full_scales(plan) == ((255.0,), (255.0,), (255.0,), (255.0 / 64,))
    plan = Plan((image, ToDtype("float32", True), ToDtype("uint16", True)))
    assert full_scales(plan) == ((255.0,), (255.0,), (1.0,), (65535.0,))


@pytest.mark.parametrize("size_hw", [(1, 1), (1, 5), (2, 2), (3, 1), (2, 5), (3, 3), (7, 6)])
def test_the_ring_and_the_rest_are_the_whole_image(size_hw: tuple[int, int]) -> None:
    image = torch.arange(2 * size_hw[0] * size_hw[1]).view(2, *size_hw)
    ring, rest = ring_and_rest(image)
    values = sorted(int(value) for part in (*ring, rest) for value in part.flatten())
    assert values == list(range(image.numel()))
    assert rest.numel() == 2 * max(size_hw[0] - 2, 0) * max(size_hw[1] - 2, 0)


def passed_on(mean: float, p999: float, above: float, unequal: float) -> OpCheck:
    spread = Spread(1000, 9.0, mean, p999, above, unequal, 0.0)
    return OpCheck("0", "", "", "", "pil", False, "exact", "", 0.0, 0.0, 0.0, True, passed_on=spread)


def test_the_budget_is_the_sum_of_what_the_ops_pass_on() -> None:
    nothing = OpCheck("0", "", "", "", "pil", False, "exact", "", 0.0, 0.0, 0.0, True)
    assert budget_of([nothing], 1000).mean_255 == budget_of([nothing], 1000).p999_255 == FLOAT_255
    assert budget_of([nothing], 0).share_above_1 == 0.0
    budget = budget_of([passed_on(0.2, 1.0, 0.01, 0.1), nothing, passed_on(0.1, 2.0, 0.0, 0.3)], 1000)
    assert budget.mean_255 == pytest.approx(GAIN * 0.3)
    assert budget.p999_255 == pytest.approx(GAIN * 3.0 + 1.0)
    assert budget.share_above_1 == pytest.approx(GAIN * 0.01 + MEETING * 0.4 + SLACK_VALUES / 1000)


# Pictures ------------------------------------------------------------------------------------------------------------

NORMALIZED = Plan((ToTensor(), Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))))
WORST = Worst(0, "folder/img 1é.jpg", 3.0, 0.25)


def test_normalizing_is_undone_for_viewing() -> None:
    pixels = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 5, 7), dtype=np.uint8))
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in ((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)))
    normalized = (pixels / 255 - mean) / std
    assert np.allclose(viewable(normalized, NORMALIZED, 2), pixels.numpy(), atol=1e-4)
    assert np.allclose(viewable(pixels / 255, NORMALIZED, 1), pixels.numpy(), atol=1e-4)
    assert np.array_equal(viewable(pixels, NORMALIZED, 0), pixels.numpy())


def test_the_panels_hold_both_images_and_the_amplified_difference() -> None:
    theirs = torch.from_numpy(np.random.default_rng(0).integers(0, 200, (3, 224, 224), dtype=np.uint8))
    mine = theirs.clone()
    mine[:, 10, 20] += 3
    image = np.asarray(drawn(Picture("op 1 Resize", WORST, theirs, mine, 0, Plan(()))))
    assert image.shape == (224 + 56, 3 * 224 + 4 * 8, 3)
    left, right, difference = (image[48 : 48 + 224, 8 + k * 232 : 8 + k * 232 + 224] for k in range(3))
    assert np.array_equal(left, theirs.permute(1, 2, 0))
    assert np.array_equal(right, mine.permute(1, 2, 0))
    assert difference[10, 20].tolist() == [255, 255, 255]
    assert difference.sum() == 3 * 255
    assert (image[:40] != 250).any()  # the caption


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 300), (1, 17, 11), (3, 1500, 900), (5, 3, 20, 30), (3, 2000, 2)])
def test_pictures_of_any_shape_are_drawn(shape: tuple[int, ...]) -> None:
    theirs = torch.from_numpy(np.random.default_rng(0).integers(0, 250, shape, dtype=np.uint8))
    mine = theirs.clone()
    mine.view(-1)[-1] += 5
    picture = drawn(Picture("whole", WORST, theirs, mine, 0, Plan(())))
    assert max(picture.width, picture.height) < 1700
    pixels = np.asarray(picture)
    assert (pixels[48:] == 255).any(), "the one difference is lost"


def test_pictures_of_unequal_or_strange_values_are_drawn() -> None:
    drawn(Picture("whole", WORST, torch.zeros(3, 5, 5), torch.zeros(3, 6, 5), 0, Plan(())))
    strange = torch.linspace(-9.0, 20.0, 300).view(3, 10, 10)
    image = np.asarray(drawn(Picture("whole", WORST, strange, strange, 0, Plan((), ImageSpec("tensor", "float32")))))
    assert image[60:].min() == 0
    assert image[60:].max() == 255
    drawn(Picture("whole", WORST, torch.full((3, 4, 4), float("nan")), torch.zeros(3, 4, 4), 0, Plan(())))


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    image = torch.zeros(3, 30, 40, dtype=torch.uint8)
    folder = tmp_path / "new"
    (written,) = write_pictures(folder, [Picture("op 3.0.1 A/B", WORST, image, image, 0, Plan(()))])
    assert [path.name for path in folder.iterdir()] == [Path(written).name] == ["1-op-3.0.1-A-B-img-1é.png"]
    with Image.open(written) as opened:
        assert opened.format == "PNG"
    with pytest.raises(ArgumentError, match=r"new isn't empty, and --save overwrites nothing"):
        check_save_target(folder)
    with pytest.raises(ArgumentError, match="is a file; give --save the name of a folder"):
        check_save_target(Path(written))
    with pytest.raises(ArgumentError, match=r"there is no folder .*gone to make x in; make it first"):
        check_save_target(tmp_path / "gone" / "x")
    (tmp_path / "empty").mkdir()
    check_save_target(tmp_path / "empty")
