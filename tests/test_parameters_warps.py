"""What is drawn for warps, zooms and sizes: ranges, end points, independence, and torchvision's own distribution."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from numpy.typing import NDArray
from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed.draws import Draws, epoch_key
from gpufeed.parameters import draw_parameters
from gpufeed.plan import (
    Affine,
    Op,
    Perspective,
    Plan,
    RandomResize,
    RandomShortestSize,
    Rotate,
    ScaleJitter,
    ZoomOut,
)
from gpufeed.spec import ImageSpec

OURS, THEIRS = 20_000, 3_000
HEIGHT, WIDTH = 61, 83


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Many threads for tiny images take a hundred times as long on a busy machine."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


def draw(op: Op, rows: int = OURS, size_hw: tuple[int, int] = (HEIGHT, WIDTH), spec: ImageSpec | None = None) -> Any:
    sizes = np.full((rows, 2), size_hw, dtype=np.int64)
    draws = Draws(epoch_key(5, 1), np.arange(rows), np.zeros(rows, dtype=np.int64))
    return draw_parameters(Plan((op,), spec or ImageSpec()), sizes, draws)


def theirs(transform: Any, flat: Any) -> NDArray[np.float64]:
    """A few thousand of torchvision's draws, each flattened to numbers."""
    image = torch.zeros(3, HEIGHT, WIDTH)
    torch.manual_seed(3)
    return np.array([flat(transform.make_params([image])) for _ in range(THEIRS)], dtype=np.float64)


def assert_same_distribution(ours: NDArray[Any], own: NDArray[np.float64]) -> None:
    """Column by column: mean, spread and quantiles within what so many draws scatter, and the correlations too."""
    assert ours.shape[1] == own.shape[1]
    for mine, its in zip(ours.T.astype(np.float64), own.T, strict=True):
        scatter = its.std() / np.sqrt(THEIRS)
        assert abs(mine.mean() - its.mean()) <= 5 * scatter + 1e-6
        assert abs(mine.std() - its.std()) <= 5 * scatter + 1e-6
        share = np.linspace(0.05, 0.95, 10)
        reach = 0.06 * (its.max() - its.min()) + (1.0 if np.array_equal(its, its.round()) else 0.0) + 1e-6
        assert np.abs(np.quantile(mine, share) - np.quantile(its, share)).max() <= reach
        assert mine.min() >= its.min() - reach
        assert mine.max() <= its.max() + reach
    varied = own.std(axis=0) > 0
    if varied.sum() > 1:
        mine, its = np.corrcoef(ours[:, varied].T.astype(np.float64)), np.corrcoef(own[:, varied].T)
        assert np.abs(mine - its).max() <= 5 / np.sqrt(THEIRS)


def test_angles() -> None:
    own = theirs(v2.RandomRotation((-20, 70)), lambda params: [params["angle"]])
    angles = draw(Rotate((-20, 70))).values[0]
    assert angles.shape == (OURS, 1)
    assert angles.dtype == np.float64
    assert angles.min() >= -20.0
    assert angles.max() <= 70.0
    assert np.array_equal(angles, angles.astype(np.float32))
    assert_same_distribution(angles, own)


def test_an_angle_that_does_not_vary_is_torchvisions_float32() -> None:
    angle = v2.RandomRotation((30.1, 30.1)).make_params([])["angle"]
    assert draw(Rotate((30.1, 30.1)), rows=3).values[0].tolist() == [[angle]] * 3


def test_affine_maps() -> None:
    op = Affine((-30, 50), (0.25, 0.125), (0.5, 2.0), (-10, 20, 5, 9))
    transform = v2.RandomAffine((-30, 50), (0.25, 0.125), (0.5, 2.0), (-10, 20, 5, 9))
    own = theirs(transform, lambda params: [params["angle"], *params["translate"], params["scale"], *params["shear"]])
    values = draw(op).values[0]
    assert_same_distribution(values, own)
    assert np.array_equal(values[:, 1:3], values[:, 1:3].round())
    assert np.abs(values[:, 1]).max() == 21  # a quarter of 83, rounded
    assert np.abs(values[:, 2]).max() == 8  # an eighth of 61, rounded


def test_an_affine_map_that_does_nothing_is_exactly_that() -> None:
    assert np.unique(draw(Affine((0, 0))).values[0], axis=0).tolist() == [[0.0, 0.0, 0.0, 1.0, 0.0, 0.0]]


@pytest.mark.parametrize("distortion_scale", [0.0, 0.35, 0.5, 1.0])
def test_corners(distortion_scale: float) -> None:
    def own_corners(transform: Any) -> NDArray[np.float64]:
        torch.manual_seed(3)
        points = [v1.RandomPerspective.get_params(WIDTH, HEIGHT, transform.distortion_scale)[1] for _ in range(THEIRS)]
        return np.array(points, dtype=np.float64).reshape(THEIRS, 8)

    parameters = draw(Perspective(distortion_scale))
    corners = parameters.values[0]
    assert corners.dtype == np.int64
    assert not parameters.refused
    assert_same_distribution(corners, own_corners(v2.RandomPerspective(distortion_scale)))
    reach_w, reach_h = int(distortion_scale * (WIDTH // 2)), int(distortion_scale * (HEIGHT // 2))
    first, last = corners.min(axis=0).tolist(), corners.max(axis=0).tolist()
    assert first == [0, 0, WIDTH - 1 - reach_w, 0, WIDTH - 1 - reach_w, HEIGHT - 1 - reach_h, 0, HEIGHT - 1 - reach_h]
    assert last == [reach_w, reach_h, WIDTH - 1, reach_h, WIDTH - 1, HEIGHT - 1, reach_w, HEIGHT - 1]


def test_zooms() -> None:
    own = theirs(v2.RandomZoomOut(side_range=(1.25, 3.0)), lambda params: params["padding"])
    parameters = draw(ZoomOut((1.25, 3.0)))
    pads, sizes = parameters.values[0], parameters.sizes_hw[-1]
    assert_same_distribution(pads, own)
    assert np.array_equal(sizes[:, 0], HEIGHT + pads[:, 1] + pads[:, 3])
    assert np.array_equal(sizes[:, 1], WIDTH + pads[:, 0] + pads[:, 2])
    assert pads.min() >= 0


def test_zooms_are_torchvisions_to_the_pixel() -> None:
    """With the same draws: it multiplies in float32."""
    from gpufeed.geometry import zoom_out_paddings

    generator = torch.Generator().manual_seed(1)
    for _ in range(2000):
        size = torch.randint(1, 1000, (2,), generator=generator)
        ratio, place = torch.rand(1, generator=generator), torch.rand(2, generator=generator)
        h, w = size.tolist()
        scale = 1.1 + ratio * (3.7 - 1.1)
        canvas_w, canvas_h = int(w * scale), int(h * scale)
        left, top = int((canvas_w - w) * place[0]), int((canvas_h - h) * place[1])
        units = np.array([[ratio.item(), place[0].item(), place[1].item()]])
        expected = [left, top, canvas_w - left - w, canvas_h - top - h]
        assert zoom_out_paddings(np.array([[h, w]]), (1.1, 3.7), units)[0].tolist() == expected


SIZES = [
    (RandomResize(20, 31), v2.RandomResize(20, 31)),
    (ScaleJitter((90, 70), (0.5, 2.0)), v2.ScaleJitter((90, 70), (0.5, 2.0))),
    (RandomShortestSize((20, 33, 47)), v2.RandomShortestSize([20, 33, 47])),
    (RandomShortestSize((20, 33, 47), 50), v2.RandomShortestSize([20, 33, 47], max_size=50)),
]


@pytest.mark.parametrize(("op", "transform"), SIZES)
def test_sizes(op: Op, transform: Any) -> None:
    def size(params: Any) -> list[int]:
        drawn = list(params["size"])
        return drawn if len(drawn) == 2 else [drawn[0], int(drawn[0] * WIDTH / HEIGHT)]

    own, parameters = theirs(transform, size), draw(op)
    assert_same_distribution(parameters.values[0], own)
    assert np.array_equal(parameters.values[0], parameters.sizes_hw[-1])
    if not isinstance(op, ScaleJitter):  # few of them: each is equally likely
        mine, count = np.unique(parameters.values[0], axis=0, return_counts=True)
        assert mine.tolist() == np.unique(own, axis=0).tolist()
        assert count.min() > 0.9 * OURS / len(mine)


def test_jittered_sizes_are_torchvisions_to_the_pixel() -> None:
    from gpufeed.geometry import jittered_sizes

    generator = torch.Generator().manual_seed(2)
    for _ in range(2000):
        h, w = torch.randint(1, 1000, (2,), generator=generator).tolist()
        unit = torch.rand(1, generator=generator)
        ratio = min(500 / h, 333 / w) * (0.1 + unit * (2.3 - 0.1))
        mine = jittered_sizes(np.array([[h, w]]), (333, 500), (0.1, 2.3), np.array([unit.item()]))
        assert mine[0].tolist() == [int(h * ratio), int(w * ratio)]


def test_jittered_sizes_are_cut_off_in_float32() -> None:
    """0.29 times 100 is 29 there, and below it in float64."""
    image = torch.zeros(3, 100, 100)
    for percent in range(1, 200):
        op = ScaleJitter((100, 100), (percent / 100, percent / 100))
        own = v2.ScaleJitter(op.target_size, op.scale_range).make_params([image])["size"]
        assert tuple(draw(op, 1, (100, 100)).values[0][0]) == own


def test_a_size_without_pixels_is_refused() -> None:
    refused = draw(RandomShortestSize((5,), 10), rows=2, size_hw=(1, 100)).refused
    assert "would make an image of 0x10 pixels" in refused[0]


@pytest.mark.parametrize("container", ["pil", "tensor"])
def test_numbers_are_independent_of_each_other_and_of_the_batch(container: Any) -> None:
    op = Affine((-30, 50), (0.25, 0.125), (0.5, 2.0), (-10, 20, 5, 9))
    spec = ImageSpec(container)
    whole = draw(op, rows=200, spec=spec).values[0]
    assert np.array_equal(whole[:7], draw(op, rows=7, spec=spec).values[0])
    assert np.abs(np.corrcoef(draw(op).values[0].T) - np.eye(6)).max() < 0.04


@pytest.mark.parametrize("api", ["v1", "v2"])
def test_sizes_of_expanded_tensors_are_torchvisions(api: Any) -> None:
    """It computes them in float32."""
    from torchvision.transforms import functional as functional_v1
    from torchvision.transforms.v2 import functional as functional_v2

    from gpufeed.matrices import tensor_rotated_sizes

    rotate = (functional_v1 if api == "v1" else functional_v2).rotate
    generator = np.random.default_rng(4)
    for number in range(1500):
        h, w = generator.integers(1, 60, 2).tolist()
        angle = float(np.float32((number % 33) * 22.5 - 360 if number % 2 else generator.uniform(-400, 400)))
        center = None if number % 3 else (float(generator.uniform(-9, 60)), 4.0)
        where = None if center is None else list(center)
        own = tuple(rotate(torch.zeros(1, h, w), angle, expand=True, center=where).shape[1:])
        sizes = np.array([[h, w]])
        assert tuple(tensor_rotated_sizes(np.array([angle]), sizes, center, api)[0]) == own, (angle, h, w, center)


def test_sizes_of_expanded_images_are_pillows() -> None:
    """They grow by a pixel for the slightest turn, where tensors don't."""
    generator = np.random.default_rng(6)
    tensors_differ = 0
    for number in range(600):
        h, w = generator.integers(1, 60, 2).tolist()
        turns = (generator.uniform(-400, 400), (number % 33) * 22.5 - 360, generator.uniform(-1e-4, 1e-4))
        angle = float(np.float32(turns[number % 3]))
        center = None if number % 5 else (float(generator.uniform(-9, 60)), 4.0)
        own = PIL.Image.new("L", (w, h)).rotate(angle, expand=True, center=center).size[::-1]
        op, tensor = Rotate((angle, angle), expand=True, center=center), ImageSpec("tensor")
        assert tuple(draw(op, 1, (h, w)).sizes_hw[-1][0]) == own, (angle, h, w, center)
        tensors_differ += tuple(draw(op, 1, (h, w), tensor).sizes_hw[-1][0]) != own
    assert tensors_differ > 50


def test_what_torchvision_rejects_is_rejected() -> None:
    for make, message in (
        (lambda: Rotate((5, 2)), "degrees"),
        (lambda: Rotate((0, 1), center=(float("nan"), 0)), "center must be finite"),
        (lambda: Affine((0, 0), (-0.1, 0)), "translate must not be negative"),
        (lambda: Affine((0, 0), scale=(0.0, 1.0)), "scale must be at least 1e-30"),
        (lambda: Affine((0, 0), shear=(1, 0, 0, 0)), "shear"),
        (lambda: Perspective(-0.5), "distortion_scale"),
        (lambda: RandomResize(5, 5), "max_size must be above min_size"),
        (lambda: ScaleJitter((0, 5)), "target_size must be positive"),
        (lambda: RandomShortestSize(()), "min_sizes"),
        (lambda: ZoomOut((0.0, 2)), "side_range"),
        (lambda: ZoomOut((1.0, float("inf"))), "side_range"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
