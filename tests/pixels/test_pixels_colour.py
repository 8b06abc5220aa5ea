"""Colour: jitter, tables of values, equalizing and sharpness, on every domain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from op_oracle import DOMAINS, SIZES_HW, as_input, as_tensor, check, check_whole, pixels
from torchvision import transforms as v1
from torchvision.transforms import functional as functional_v1
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as functional_v2

from gpufeed import reference
from gpufeed.plan import (
    AdjustSharpness,
    Autocontrast,
    ChannelPermutation,
    ColorJitter,
    Equalize,
    Invert,
    Op,
    Posterize,
    Solarize,
)
from gpufeed.spec import ImageSpec
from gpufeed.tail.program import run_op


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As in torch's workers and in our pool; images this small are slower in several."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)


def photographs(channels: int = 3) -> Iterator[np.ndarray]:
    for number, (height, width) in enumerate(SIZES_HW):
        yield pixels(("natural", "noise")[number % 2], height, width, number, channels)
    for kind in ("natural", "flat", "dark"):
        yield pixels(kind, 17, 11, 5, channels)


def through(transform: Any, domain: str, channels: int = 3, rows: int = 3) -> None:
    """A transform op by op and as a whole; on a ``tv_tensors.Image``, whose pixels are a tensor's, two images do."""
    for epoch, image in enumerate(photographs(channels)):
        if not domain.startswith("image") or epoch in (1, 4):
            check(transform, image, domain, rows, epoch)
    check_whole(transform, pixels("natural", 17, 11, 3, channels), domain, rows)


def on_pillow(op: Op, image: np.ndarray, value: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Ours and torchvision's on one PIL image, both (H, W, C)."""
    given = as_input(image, "pil")
    theirs = as_tensor(reference.apply(op, given, value))
    rows = None if value is None else np.asarray(value)[None]
    (mine,) = run_op(as_tensor(given)[None], op, ImageSpec(channels=image.shape[2]), rows)
    return mine.permute(1, 2, 0).numpy(), theirs.permute(1, 2, 0).numpy()


def assert_pillow(op: Op, image: np.ndarray, value: Any = None) -> None:
    mine, theirs = on_pillow(op, image, value)
    assert np.array_equal(mine, theirs), f"{op} {value}: {int((mine != theirs).sum())} values differ"


# Every class, attribute and domain ------------------------------------------------------------------------------------

JITTERS: dict[str, tuple[Any, ...]] = {
    "brightness": (0.9,),
    "brightness, a range": ((1.5, 3.0),),
    "contrast": (0, 0.9),
    "contrast, a range": (0, (2.0, 5.0)),
    "saturation": (0, 0, 0.9),
    "saturation, a range": (0, 0, (3.0, 9.0)),
    "hue": (0, 0, 0, 0.5),
    "hue, a range": (0, 0, 0, (-0.31, -0.3)),
    "hue, unmoved": (0, 0, 0, (0.0, 1e-9)),
    "to nothing": ((0, 0), (0, 0), (0, 0)),
    "all": (0.8, 0.8, 0.8, 0.2),
}


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("module", [v1, v2])
@pytest.mark.parametrize("name", JITTERS)
def test_jitter(name: str, module: Any, domain: str) -> None:
    transform = module.ColorJitter(*JITTERS[name])
    through(transform, domain)
    if name == "all":
        for epoch in range(6):
            check(transform, pixels("natural", 31, 29, epoch), domain, 4, epoch)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("module", [v1, v2])
def test_jitter_of_grey(module: Any, domain: str) -> None:
    through(module.ColorJitter(0.8, 0.8, 0.8, 0.2), domain, channels=1)
    through(module.ColorJitter(0, 0, 0.8, 0.2), domain, channels=1)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("channels", [3, 1])
@pytest.mark.parametrize(
    "transform",
    [
        v2.RandomPhotometricDistort(),
        v2.RandomPhotometricDistort((0.3, 2.0), (0.1, 3.0), (0.0, 4.0), (-0.5, 0.5), p=0.8),
        v2.RandomPhotometricDistort(p=1.0),
        v2.RandomPhotometricDistort(p=0.0),
    ],
)
def test_photometric_distortion(transform: Any, channels: int, domain: str) -> None:
    through(transform, domain, channels, rows=4)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("channels", [3, 1])
def test_channels(channels: int, domain: str) -> None:
    through(v2.RandomChannelPermutation(), domain, channels, rows=4)
    through(v2.RGB(), domain, channels)
    through(v2.Compose([v2.RGB(), v2.ColorJitter(0, 0, 0, 0.4)]), domain, channels)


def takes(transform: Any, domain: str) -> bool:
    """Whether torchvision does it on this domain, whatever it draws, and returns one class."""
    generation_1 = type(transform).__module__ == "torchvision.transforms.transforms"
    name = type(transform).__name__
    if generation_1 and domain.startswith("image") and (transform.p < 1.0 or name == "RandomAdjustSharpness"):
        return False
    if generation_1 and domain.endswith("float") and name in ("RandomPosterize", "RandomEqualize"):
        return False
    return not (name == "RandomSolarize" and domain.endswith("float") and transform.threshold > 1.0)


CHANCES: list[tuple[str, tuple[Any, ...]]] = [
    ("RandomInvert", ()),
    ("RandomInvert", (1.0,)),
    *[("RandomPosterize", (bits, p)) for bits, p in ((1, 1.0), (2, 0.5), (3, 0.7), (7, 1.0), (8, 1.0))],
    *[
        ("RandomSolarize", (threshold, p))
        for threshold, p in ((0, 1.0), (0.25, 0.6), (0.5, 1.0), (1, 1.0), (127.5, 1.0), (128, 0.6), (255, 1.0))
    ],
    ("RandomSolarize", (-1.5, 1.0)),
    *[("RandomAdjustSharpness", (factor, 1.0)) for factor in (0, 0.3, 1, 1.0001, 2.0, 7.7)],
    ("RandomAdjustSharpness", (1.7, 0.6)),
    ("RandomAutocontrast", (1.0,)),
    ("RandomAutocontrast", (0.4,)),
    ("RandomEqualize", (1.0,)),
    ("RandomEqualize", (0.4,)),
]


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("module", [v1, v2])
@pytest.mark.parametrize(("name", "arguments"), CHANCES)
def test_chances(name: str, arguments: tuple[Any, ...], module: Any, domain: str) -> None:
    transform = getattr(module, name)(*arguments)
    if takes(transform, domain):
        through(transform, domain)
        check(transform, pixels("natural", 17, 11, 7, channels=1), domain)


def test_posterizing_to_no_bits() -> None:
    for domain in ("uint8", "image_uint8", "float"):
        through(v2.RandomPosterize(0, p=1.0), domain)
    through(v1.RandomPosterize(8, p=1.0), "uint8")


def test_other_integers() -> None:
    """v2's kernels take signed integers of all widths."""
    tensor = torch.from_numpy(pixels("natural", 23, 31, 2)).permute(2, 0, 1).to(torch.int16) * 128
    transform = v2.Compose(
        [
            v2.ColorJitter(0.5, 0.5, 0.5),
            v2.RandomInvert(1.0),
            v2.RandomSolarize(20_000, p=1.0),
            v2.RandomPosterize(5, p=1.0),
            v2.RandomAutocontrast(1.0),
            v2.RandomAdjustSharpness(2.0, p=1.0),
            v2.RandomEqualize(1.0),
        ]
    )
    from op_oracle import drawn

    from gpufeed.parameters import rows_of
    from gpufeed.translation import translate

    plan = translate(transform, input=reference.spec_of(tensor)).require()
    parameters = drawn(plan, 23, 31, 3)
    specs = list(plan.specs())
    for row in range(3):
        before = tensor
        for position, (op, after) in enumerate(reference.trace(plan, tensor, parameters, row)):
            value = rows_of(parameters.values[position], slice(row, row + 1))
            assert torch.equal(run_op(before[None], op, specs[position], value)[0], after), op
            before = after


# What needs no ``api``: the generations agree -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.float32, torch.float64])
def test_the_generations_agree_bit_for_bit(dtype: torch.dtype) -> None:
    scale = 1 / 255 if dtype.is_floating_point else 1
    for channels in (3, 1):
        for image in photographs(channels):
            tensor = torch.from_numpy(image).permute(2, 0, 1).to(dtype) * scale
            tensor = tensor.to(dtype)
            if not dtype.is_floating_point and dtype != torch.uint8:
                tensor -= 99  # both signs
            assert torch.equal(functional_v1.invert(tensor), functional_v2.invert(tensor))
            for threshold in (0, 0.3, 1) if dtype.is_floating_point else (0, 77, 90.5):
                ours, theirs = (f.solarize(tensor, threshold) for f in (functional_v1, functional_v2))
                assert torch.equal(ours, theirs)
            if dtype == torch.uint8:
                assert torch.equal(functional_v1.equalize(tensor), functional_v2.equalize(tensor))
                for bits in range(1, 9):
                    assert torch.equal(functional_v1.posterize(tensor, bits), functional_v2.posterize(tensor, bits))


# Pillow's arithmetic, densely -----------------------------------------------------------------------------------------

LEVELS = np.arange(256, dtype=np.uint8).reshape(16, 16, 1)
COLOURED_LEVELS = np.concatenate([LEVELS, LEVELS[::-1], LEVELS.reshape(16, 16, 1).transpose(1, 0, 2)], axis=2)


def factors(**values: float) -> np.ndarray:
    """A row of `ColorJitter`'s parameters, in torchvision's own order."""
    names = ("brightness", "contrast", "saturation", "hue")
    return np.array([0, 1, 2, 3, *(values.get(name, np.nan) for name in names)], dtype=np.float64)


@pytest.mark.parametrize("image", [LEVELS, COLOURED_LEVELS], ids=["grey", "coloured"])
def test_all_levels(image: np.ndarray) -> None:
    assert_pillow(Invert(), image)
    for bits in range(1, 9):
        assert_pillow(Posterize(bits), image)
    for threshold in (*range(-1, 258), 0.1, 99.999, 254.5, 255.001, -1e300, 1e300, float("inf"), -float("inf")):
        assert_pillow(Solarize(threshold), image)
    for factor in (0.0, 1.0, *np.linspace(0.0, 3.0, 31), 40.0, 1e9, -0.5, -3.0):
        assert_pillow(AdjustSharpness(float(factor)), image)
    jitter = ColorJitter((0.0, 1.0), (0.0, 1.0), (0.0, 1.0))
    for factor in (0.0, 1.0, *np.linspace(0.0, 3.0, 101), 40.0, 1e9, -0.5, -3.0):
        for name in ("brightness", "contrast", "saturation"):
            assert_pillow(jitter, image, factors(**{name: float(factor)}))


def test_sharpness_of_the_smallest_images_with_an_inside() -> None:
    for height in range(1, 5):
        for width in range(1, 5):
            assert_pillow(AdjustSharpness(2.5), pixels("noise", height, width, height))


def test_the_pivot_of_contrast_is_rounded_half_up() -> None:
    for pair in ((10, 11), (0, 1), (254, 255), (7, 10)):
        for image in (np.array(pair, dtype=np.uint8).reshape(1, 2, 1), np.full((1, 2, 3), 9, dtype=np.uint8)):
            for factor in (0.0, 0.4, 1.9):
                assert_pillow(ColorJitter(contrast=(0.0, 2.0)), image, factors(contrast=factor))


def test_autocontrast_between_many_pairs_of_extremes() -> None:
    for lowest in range(0, 256, 5):
        for highest in range(lowest, 256, 3):
            ramp = np.linspace(lowest, highest, 48).astype(np.uint8).reshape(6, 8, 1)
            assert_pillow(Autocontrast(), ramp)


def test_equalize_where_the_step_is_small() -> None:
    """Between no step at all, which changes nothing, and the first ones; and where Pillow's table passes 255."""
    for count in (254, 255, 256, 509, 510, 511, 765, 1021):
        for top in (1, 2, 255):
            values = np.zeros(count + top, dtype=np.uint8)
            values[:count] = np.arange(count) % 200
            values[count:] = 201
            assert_pillow(Equalize(), values.reshape(1, -1, 1))
    assert_pillow(Equalize(), np.full((40, 40, 3), 7, dtype=np.uint8))


def test_all_orders_of_channels_and_of_adjustments() -> None:
    import itertools

    image = pixels("natural", 19, 23, 8)
    for order in itertools.permutations(range(3)):
        assert_pillow(ChannelPermutation(), image, np.array(order))
    results = set()
    jitter = ColorJitter((0.0, 3.0), (0.0, 3.0), (0.0, 3.0), (-0.5, 0.5))
    for order in itertools.permutations(range(4)):
        value = np.array([*order, 1.7, 1.9, 2.3, 0.13])
        assert_pillow(jitter, image, value)
        results.add(on_pillow(jitter, image, value)[0].tobytes())
    assert len(results) > 12  # the order matters


def test_some_colours_at_every_shift_of_hue() -> None:
    """All 256 shifts that Pillow's 8 bits tell apart."""
    image = np.concatenate([pixels("noise", 64, 64, 1), pixels("natural", 64, 64, 2)])
    jitter = ColorJitter(hue=(-0.5, 0.5))
    for shift in np.linspace(-0.5, 0.5, 259):
        assert_pillow(jitter, image, factors(hue=float(shift)))


def all_colours() -> Iterator[np.ndarray]:
    """All 2**24 colours, as (256, 256, 3) images with one blue each."""
    image = np.empty((256, 256, 3), dtype=np.uint8)
    image[..., 0], image[..., 1] = np.meshgrid(np.arange(256), np.arange(256))
    for blue in range(256):
        image[..., 2] = blue
        yield image


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, -0.5, 0.5, 0.1, -0.23, 1 / 3, 0.004])
def test_hue_of_all_colours(shift: float) -> None:
    jitter = ColorJitter(hue=(-0.5, 0.5))
    for image in all_colours():
        assert_pillow(jitter, image, factors(hue=shift))


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.0, 0.2, 0.51, 0.999, 1.3, 1.8, 4.0])
def test_saturation_of_all_colours(factor: float) -> None:
    jitter = ColorJitter(saturation=(0.0, 4.0))
    for image in all_colours():
        assert_pillow(jitter, image, factors(saturation=factor))


@pytest.mark.slow
def test_autocontrast_between_all_pairs_of_extremes() -> None:
    for lowest in range(256):
        for highest in range(lowest, 256):
            assert_pillow(Autocontrast(), np.linspace(lowest, highest, 48).astype(np.uint8).reshape(6, 8, 1))


@pytest.mark.slow
def test_grey_of_all_colours() -> None:
    from gpufeed.plan import Grayscale

    for image in all_colours():
        mine = run_op(as_tensor(PIL.Image.fromarray(image))[None], Grayscale(1), ImageSpec(), None)[0, 0].numpy()
        assert np.array_equal(mine, np.asarray(PIL.Image.fromarray(image).convert("L")))


def test_a_mean_over_a_large_image_is_exact() -> None:
    """Where a sum in float32 would be off by more than the pivot allows."""
    image = np.full((2100, 2003, 1), 254, dtype=np.uint8)
    image[::2] = 253  # the mean is 253.5
    assert_pillow(ColorJitter(contrast=(0.0, 2.0)), image, factors(contrast=0.0))
    image[0, 0] = 252
    assert_pillow(ColorJitter(contrast=(0.0, 2.0)), image, factors(contrast=0.0))
