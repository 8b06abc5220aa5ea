"""Rotations, affine maps, perspectives and drawn sizes, on every domain, against torchvision."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from op_oracle import DOMAINS, SIZES_HW, as_input, check, check_whole, drawn, pixels
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms.v2 import functional

from gpufeed import reference
from gpufeed.bounds import bound_of
from gpufeed.errors import ArgumentError
from gpufeed.plan import Affine, Perspective, Rotate
from gpufeed.spec import ImageSpec
from gpufeed.tail.program import run_op
from gpufeed.translation import translate

NEAREST, BILINEAR, BICUBIC = InterpolationMode.NEAREST, InterpolationMode.BILINEAR, InterpolationMode.BICUBIC
KINDS = ("natural", "noise", "flat", "dark")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As in torch's workers and in our pool; and many threads for tiny images take ten times as long."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


def warps(module: Any, mode: InterpolationMode) -> dict[str, Any]:
    """Every attribute with every kind of value."""
    return {
        "rotation": module.RandomRotation(75, interpolation=mode),
        "rotation, one way": module.RandomRotation((400, 700), interpolation=mode, fill=7),
        "rotation, expanded": module.RandomRotation(180, interpolation=mode, expand=True, fill=200),
        "rotation about a point": module.RandomRotation((-90.0, 30.0), interpolation=mode, center=(3, 8.5)),
        "rotation about a point, expanded": module.RandomRotation(60, mode, expand=True, center=[0, 0], fill=(3,)),
        "affine, turned": module.RandomAffine(180, interpolation=mode, fill=3),
        "affine, shifted": module.RandomAffine(0, translate=(0.4, 0.3), interpolation=mode, fill=250),
        "affine, scaled": module.RandomAffine(0, scale=(0.3, 2.5), interpolation=mode),
        "affine, sheared along x": module.RandomAffine(0, shear=40, interpolation=mode, center=(5, 2.25)),
        "affine, all": module.RandomAffine(
            (-30, 50), (0.1, 0.2), (0.7, 1.6), (-10, 20, -30, 5), interpolation=mode, fill=90
        ),
        "perspective": module.RandomPerspective(0.4, p=1.0, interpolation=mode),
        "perspective, by chance": module.RandomPerspective(0.9, p=0.6, interpolation=mode, fill=50),
        "no perspective": module.RandomPerspective(p=0.0, interpolation=mode),
    }


def takes(domain: str, module: Any, transform: Any) -> bool:
    """v1 makes another class of some samples of a ``tv_tensors.Image``, and a perspective of some is refused there."""
    by_chance = isinstance(transform, v1.RandomPerspective) and 0.0 < transform.p < 1.0
    return not (module is v1 and domain.startswith("image") and by_chance)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("mode", [NEAREST, BILINEAR, BICUBIC])
@pytest.mark.parametrize("module", [v1, v2])
def test_warps(module: Any, mode: InterpolationMode, domain: str) -> None:
    if mode is BICUBIC and domain != "pil":
        assert not translate(warps(module, mode)["rotation"], input=ImageSpec("tensor")).plan
        return
    for number, (name, transform) in enumerate(warps(module, mode).items()):
        if not takes(domain, module, transform):
            continue
        for place, (height, width) in enumerate(SIZES_HW[:-1]):
            if min(height, width) < 2 and "perspective" in name:
                continue
            kind = KINDS[(number + place) % 4]
            image = pixels(kind, height, width, number, channels=3 if (number + place) % 3 else 1)
            if image.shape[2] == 1 and name == "affine, all":
                image = image.repeat(3, axis=2)
            check(transform, image, domain, rows=2, epoch=number)
        check_whole(transform, pixels("noise", 31, 37, number), domain, rows=3)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("fill", [None, 0, 3, 7.9, (1, 120, 255), [9], {"others": 4}, {PIL.Image.Image: 5}, -3, 300])
def test_fills(fill: Any, domain: str) -> None:
    for mode in (NEAREST, BILINEAR):
        for transform in (
            v2.RandomRotation(80, mode, fill=fill),
            v2.RandomAffine(20, (0.3, 0.3), interpolation=mode, fill=fill),
            v2.RandomPerspective(0.6, 1.0, mode, fill=fill),
        ):
            check(transform, pixels("natural", 23, 29, 1), domain, rows=2)


@pytest.mark.parametrize("module", [v1, v2])
@pytest.mark.parametrize("fill", [0.5, (0.25, 0.5, 1.0), 1])
def test_fills_of_floats(fill: Any, module: Any) -> None:
    for transform in (module.RandomRotation(80, BILINEAR, fill=fill), module.RandomPerspective(0.6, 1.0, fill=fill)):
        check(transform, pixels("natural", 23, 29, 1), "float", rows=2)


@pytest.mark.parametrize("domain", ["pil", "uint8"])
@pytest.mark.parametrize("expand", [False, True])
@pytest.mark.parametrize("mode", [NEAREST, BILINEAR, BICUBIC])
def test_right_angles(mode: InterpolationMode, expand: bool, domain: str) -> None:
    """Where Pillow and torchvision turn without a matrix, and where they don't."""
    for angle, center, module in itertools.product((0, 90, 180, 270, -90, 360, 45), (None, (4, 7)), (v1, v2)):
        if mode is BICUBIC and domain != "pil":
            continue
        for height, width in ((13, 13), (12, 17), (1, 6)):
            image = pixels("noise", height, width, angle % 360)
            check(module.RandomRotation((angle, angle), mode, expand=expand, center=center), image, domain, rows=1)
            check(module.RandomAffine((angle, angle), interpolation=mode, center=center), image, domain, rows=1)


def sample(op: Any, image: np.ndarray, value: list[float]) -> torch.Tensor:
    given = torch.from_numpy(image).permute(2, 0, 1)[None]
    return run_op(given, op, ImageSpec(channels=image.shape[2]), np.array([value]))[0].permute(1, 2, 0)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_affine_maps_are_pillows_bit_for_bit(mode: Any) -> None:
    """Denser than what is drawn: whole steps, halves, tiny and huge scales, for which Pillow steps in another way."""
    generator = np.random.default_rng(7)
    for number in range(250):
        height, width = generator.integers(1, 70, 2).tolist()
        image = pixels(KINDS[number % 4], height, width, number)
        angle = float(generator.choice([0, 90, -180, 45, generator.uniform(-180, 180)]))
        shift = generator.integers(-20, 20, 2).tolist()
        scale = float(generator.choice([1.0, 2.0, 0.5, generator.uniform(0.1, 4), 0.0007]))
        shear = [float(generator.choice([0.0, generator.uniform(-60, 60)])) for _ in range(2)]
        center = None if number % 3 else generator.uniform(-5, 60, 2).tolist()
        op = Affine(
            (0, 0), interpolation=mode, center=None if center is None else tuple(center), fill=(number % 256.0,)
        )
        mine = sample(op, image, [angle, *shift, scale, *shear])
        theirs = functional.affine(
            PIL.Image.fromarray(image), angle, shift, scale, shear, mode, fill=number % 256, center=center
        )
        assert np.array_equal(mine.numpy(), np.asarray(theirs)), (number, angle, shift, scale, shear, center)


def test_coordinates_too_large_for_fixed_point_are_pillows() -> None:
    """In 16.16 bits 65567 would be 31 again, and so inside the image: here at (80, 80) and (40, 40)."""
    image = pixels("noise", 90, 90, 3) | 1
    for angle, steps in ((0.001, 814.5), (-0.001, 1619.0)):
        mine = sample(Affine((0, 0), center=(0.0, 0.0)), image, [angle, 0, 0, 1 / steps, 0, 0])
        theirs = functional.affine(
            PIL.Image.fromarray(image), angle, [0, 0], 1 / steps, [0.0, 0.0], "nearest", fill=0, center=[0.0, 0.0]
        )
        assert np.array_equal(mine.numpy(), np.asarray(theirs))


def test_scales_are_steps_summed_up_as_pillows() -> None:
    """Many of these end on whole coordinates, where a sum of steps and a product differ."""
    image = pixels("noise", 90, 90, 4)
    for percent in range(5, 100):
        mine = sample(Affine((0, 0), center=(0.0, 0.0)), image, [0, 0, 0, percent / 100, 0, 0])
        theirs = functional.affine(
            PIL.Image.fromarray(image), 0.0, [0, 0], percent / 100, [0.0, 0.0], "nearest", fill=0, center=[0.0, 0.0]
        )
        assert np.array_equal(mine.numpy(), np.asarray(theirs)), percent


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_large_images_are_pillows_bit_for_bit(mode: Any) -> None:
    generator = np.random.default_rng(8)
    corners = [[0, 0], [642, 0], [642, 486], [0, 486]]
    for number in range(25):
        image = pixels(KINDS[number % 2], 487, 643, number)
        pillow = PIL.Image.fromarray(image)
        angle, expand = float(generator.uniform(-180, 180)), bool(number % 2)
        mine = sample(Rotate((0, 0), mode, expand, fill=(9.0,)), image, [angle])
        assert np.array_equal(mine.numpy(), np.asarray(functional.rotate(pillow, angle, mode, expand, fill=9)))
        ends = np.array(corners) + generator.integers(-90, 90, (4, 2))
        mine = sample(Perspective(0.5, mode, (9.0,)), image, ends.reshape(-1).tolist())
        assert np.array_equal(mine.numpy(), np.asarray(functional.perspective(pillow, corners, ends.tolist(), mode, 9)))


def test_warps_of_pil_images_are_exact() -> None:
    for op in (Rotate((0, 0)), Affine((0, 0)), Perspective()):
        assert bound_of(op, ImageSpec(), "cpu").kind == "exact"


def test_a_perspective_of_a_line_of_pixels_is_refused() -> None:
    """torchvision fails there: its equations have no solution."""
    plan = translate(v2.RandomPerspective(p=1.0)).require()
    for height, width in ((1, 1), (1, 9), (9, 1)):
        with pytest.raises(RuntimeError, match="full rank"):
            v2.RandomPerspective(p=1.0)(PIL.Image.new("RGB", (width, height)))
        refused = drawn(plan, height, width, 2).refused
        assert sorted(refused) == [0, 1]
        assert "torchvision has no perspective" in refused[0]


def test_a_tiny_or_strongly_distorted_image_always_has_a_perspective() -> None:
    """Three corners on a line are drawn again: torchvision fails on some of them."""
    for distortion_scale, size in ((0.5, 2), (1.0, 3), (0.5, 4), (1.0, 5)):
        transform = v2.RandomPerspective(distortion_scale, p=1.0)
        check(transform, pixels("noise", size, size, 1), "pil", rows=60)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("fill", [0, 130, (1, 2, 3), {PIL.Image.Image: 4, "others": 1}])
def test_zooming_out(fill: Any, domain: str) -> None:
    for number, (height, width) in enumerate(SIZES_HW[:-1]):
        for transform in (v2.RandomZoomOut(fill, p=0.6), v2.RandomZoomOut(fill, (1.0, 1.6), p=1.0)):
            check(transform, pixels("noise", height, width, number), domain, rows=3, epoch=number)
        check_whole(v2.RandomZoomOut(fill), pixels("noise", height, width, number), domain, rows=2)


SIZED: dict[str, Any] = {
    "resize": v2.RandomResize(5, 40),
    "resize, nearest": v2.RandomResize(5, 40, InterpolationMode.NEAREST),
    "resize, not antialiased": v2.RandomResize(5, 40, antialias=False),
    "jitter": v2.ScaleJitter((40, 60)),
    "jitter, bicubic": v2.ScaleJitter((40, 60), (0.5, 0.9), BICUBIC),
    "jitter, nearest": v2.ScaleJitter((33, 20), (0.5, 3.0), "nearest", antialias=None),
    "shortest": v2.RandomShortestSize(24),
    "shortest of several": v2.RandomShortestSize([13, 24, 31], max_size=50),
    "shortest, bicubic": v2.RandomShortestSize((13, 24), max_size=33, interpolation=BICUBIC, antialias=False),
}


@pytest.mark.filterwarnings("ignore:Anti-alias option is always applied:UserWarning")
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("name", SIZED)
def test_drawn_sizes(name: str, domain: str) -> None:
    for number, (height, width) in enumerate(((17, 11), (61, 83), (40, 40), (23, 60))):
        for kind in ("natural", "flat"):
            check(SIZED[name], pixels(kind, height, width, number), domain, rows=3, epoch=number)
        check_whole(SIZED[name], pixels("natural", height, width, number), domain, rows=2)


@pytest.mark.parametrize("domain", ["pil", "image_uint8"])
def test_they_hold_within_a_pipeline(domain: str) -> None:
    transform = v2.Compose(
        [
            v2.ScaleJitter((40, 60), (0.8, 1.2)),
            v2.RandomRotation(30, BILINEAR, expand=True),
            v2.RandomChoice([v2.RandomZoomOut(3, (1.0, 1.5)), v2.RandomAffine(10, (0.1, 0.1)), v2.RandomPerspective()]),
            v2.RandomShortestSize([20, 24]),
            v2.Resize((19, 23)),
            v2.RandomPerspective(0.3, p=0.5, fill=7),
            v2.RandomAffine(9, shear=4, interpolation=BILINEAR),
        ]
    )
    for kind in KINDS:
        check_whole(transform, pixels(kind, 37, 53, 1), domain, rows=6)


def test_the_oracle_needs_the_draws() -> None:
    image = as_input(pixels("noise", 9, 9, 1), "pil")
    for op in (Rotate((0, 0)), Affine((0, 0)), Perspective()):
        with pytest.raises(ArgumentError, match="needs its parameters"):
            reference.apply(op, image, None)
