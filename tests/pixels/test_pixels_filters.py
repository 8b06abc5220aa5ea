"""Blur, noise, compression, displacement and linear transformations, on every domain that takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from op_oracle import DOMAINS, SIZES_HW, as_tensor, check, check_whole, drawn, pixels
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode, v2

from gpufeed import reference
from gpufeed.plan import Elastic, EraseToNoise, GaussianBlur, GaussianNoise, Jpeg, LinearTransformation, Plan
from gpufeed.spec import ImageSpec
from gpufeed.tail.filters import displacement
from gpufeed.tail.program import run_op
from gpufeed.translation import translate

BOTH = pytest.mark.parametrize("module", [v1, v2], ids=["v1", "v2"])
KINDS = ("natural", "noise", "flat", "dark")
TENSORS = ("uint8", "float", "image_uint8", "image_float")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As in the product's pool; the convolutions of small images are slower on several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def check_all(transform: Any, domain: str, sizes: Any = SIZES_HW, channels: tuple[int, ...] = (3, 1)) -> None:
    for number, (height, width) in enumerate(sizes):
        image = pixels(KINDS[number % 4], height, width, number, channels[number % len(channels)])
        check(transform, image, domain, rows=2, epoch=number)
        check_whole(transform, image, domain, rows=2)


def larger_than(height: int, width: int) -> list[tuple[int, int]]:
    """The sizes with enough pixels, the last apart: torchvision takes its time; and the smallest of all."""
    return [(height, width), *(size for size in SIZES_HW[:-1] if size[0] >= height and size[1] >= width)]


BLURS: dict[str, dict[str, Any]] = {
    "one pixel": {"kernel_size": 1},
    "three": {"kernel_size": 3, "sigma": 0.7},
    "narrow": {"kernel_size": (3, 9), "sigma": (0.3, 1.5)},
    "flat": {"kernel_size": [7, 1], "sigma": (40.0, 50.0)},
    "tiny sigma": {"kernel_size": (1, 5), "sigma": 0.01},
    "usual": {"kernel_size": 23, "sigma": (0.1, 2.0)},
}


@BOTH
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("name", BLURS)
def test_blur(name: str, domain: str, module: Any) -> None:
    transform = module.GaussianBlur(**BLURS[name])
    width, height = transform.kernel_size
    check_all(transform, domain, larger_than(height // 2 + 1, width // 2 + 1))


@BOTH
@pytest.mark.parametrize("kind", KINDS)
def test_blur_of_pil_images_is_rarely_off(kind: str, module: Any) -> None:
    image = pixels(kind, 131, 127, 5)
    for sigma in (0.1, 0.5, 0.8, 1.3, 2.0, 9.0):
        check(module.GaussianBlur((23, 9), sigma), image, "pil", rows=1)


def test_a_fixed_sigma_is_torchvisions_own() -> None:
    image = PIL.Image.fromarray(pixels("noise", 31, 37, 0))
    for transform in (v1.GaussianBlur(5, 0.3), v2.GaussianBlur(5, 0.3)):
        plan = translate(transform).require()
        (value,) = drawn(plan, 31, 37, 1).values
        assert not plan.is_random
        assert value.tolist() == [float(np.float32(0.3))]
        assert np.array_equal(reference.run(transform, image, drawn(plan, 31, 37, 1), 0), transform(image))


@BOTH
@pytest.mark.parametrize("container", ["pil", "tensor"])
def test_an_image_too_small_to_mirror_is_refused(container: Any, module: Any) -> None:
    transform = module.GaussianBlur((5, 9))
    spec = ImageSpec(container)
    for size_hw in ((4, 99), (99, 2)):
        (sentence,) = translate(transform, input=spec.with_size(size_hw)).refusals
        assert "mirrors the borders of images of 5x3 pixels and more" in sentence
        assert f"{size_hw[0]}x{size_hw[1]}" in sentence
        refused = drawn(translate(transform, input=spec).require(), *size_hw, 2).refused
        assert set(refused) == {0, 1}
        assert f"this one has {size_hw[0]}x{size_hw[1]}" in refused[0]
        with pytest.raises(RuntimeError, match="Padding size should be less"):
            transform(torch.zeros(3, *size_hw))
    assert translate(transform, input=spec.with_size((5, 3))).plan is not None


NOISES: dict[str, dict[str, Any]] = {
    "usual": {},
    "bright": {"mean": 0.3, "sigma": 0.05},
    "dark": {"mean": -0.2, "sigma": 0.5},
    "wrapping": {"sigma": 0.7, "clip": False},
    "none": {"sigma": 0.0},
    "a shift": {"mean": 0.1, "sigma": 0, "clip": False},
}


@pytest.mark.parametrize("domain", TENSORS)
@pytest.mark.parametrize("name", NOISES)
def test_noise(name: str, domain: str) -> None:
    check_all(v2.GaussianNoise(**NOISES[name]), domain)


@pytest.mark.parametrize("domain", ["uint8", "float"])
def test_noise_differs_between_samples_and_epochs(domain: str) -> None:
    plan = translate(
        v2.GaussianNoise(), input=ImageSpec("tensor", "uint8" if domain == "uint8" else "float32")
    ).require()
    image = torch.full((2, 3, 9, 9), 0.5)
    images = (image * 255).to(torch.uint8) if domain == "uint8" else image
    results = [run_op(images, plan.ops[0], plan.input, drawn(plan, 9, 9, 2, epoch).values[0]) for epoch in (0, 1)]
    flat = torch.cat(results).flatten(1)
    assert len(flat.unique(dim=0)) == 4


def test_noise_is_refused_where_torchvision_draws_for_each_image_of_a_tuple() -> None:
    transform = v2.Compose([v2.FiveCrop(9), v2.ToImage(), v2.GaussianNoise()])
    (sentence,) = translate(transform).refusals
    assert "other noise to each of the 5 images" in sentence
    assert "put GaussianNoise before FiveCrop or TenCrop" in sentence
    check(v2.Compose([v2.ToImage(), v2.GaussianNoise(), v2.FiveCrop(9)]), pixels("natural", 31, 37, 1), "pil")


@pytest.mark.parametrize("domain", ["pil", "uint8", "image_uint8"])
@pytest.mark.parametrize("quality", [1, 40, 100, (1, 100), [85, 95]])
def test_jpeg(quality: Any, domain: str) -> None:
    check_all(v2.JPEG(quality), domain)
    check(v2.JPEG(quality), pixels("natural", 17, 11, 0, 1), domain, rows=2)


@pytest.mark.parametrize("domain", ["pil", "uint8"])
def test_jpeg_of_every_quality(domain: str) -> None:
    for quality in range(1, 101):
        check(v2.JPEG(quality), pixels("natural", 17, 11, quality), domain, rows=1)


def matrix(count: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    square = torch.randn(count, count, generator=generator, dtype=torch.float32) / count
    return square.to(dtype), torch.rand(count, generator=generator).to(dtype)


@BOTH
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("domain", TENSORS)
def test_linear_transformation(domain: str, dtype: torch.dtype, module: Any) -> None:
    if module is v1 and domain.startswith("image"):
        domain = domain.removeprefix("image_")  # v1 can't view what ToImage makes as a vector
    for number, (height, width) in enumerate(((1, 1), (7, 5), (1, 13))):
        for channels in (3, 1):
            transform = module.LinearTransformation(*matrix(channels * height * width, dtype, number))
            image = pixels(KINDS[number % 4], height, width, number, channels)
            check(transform, image, domain, rows=3)
            check_whole(transform, image, domain, rows=3)


def test_linear_transformation_refuses_other_sizes() -> None:
    transform = v2.LinearTransformation(*matrix(75))
    spec = ImageSpec("tensor")
    (sentence,) = translate(transform, input=spec.with_size((5, 6))).refusals
    assert "for images of 75 values, and these have 3 x 5 x 6" in sentence
    refused = drawn(translate(transform, input=spec).require(), 4, 6, 1).refused
    assert "for images of 75 values, and this one has 3 x 4 x 6 when it gets there" in refused[0]
    assert not drawn(translate(transform, input=spec).require(), 1, 25, 1).refused


ELASTICS: dict[str, dict[str, Any]] = {
    "usual": {"sigma": 1.2},
    "strong": {"alpha": 300.0, "sigma": 1.5, "fill": 200},
    "two": {"alpha": [90.0, 20.0], "sigma": [0.5, 1.5], "fill": (255, 0, 99)},
    "rough": {"alpha": 5.0, "sigma": 0.0},
    "across": {"alpha": [0.0, 40.0], "sigma": [1.0, 0.3]},
    "nearest": {"alpha": 80.0, "sigma": 1.0, "interpolation": InterpolationMode.NEAREST, "fill": 7},
    "bicubic": {"alpha": 30.0, "sigma": 1.0, "interpolation": InterpolationMode.BICUBIC},
}


@BOTH
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("name", ELASTICS)
def test_elastic(name: str, domain: str, module: Any) -> None:
    transform = module.ElasticTransform(**ELASTICS[name])
    fill = ELASTICS[name].get("fill", 0)
    op = translate(transform, input=ImageSpec("tensor")).require().ops[0]
    assert isinstance(op, Elastic)
    channels = (3,) if isinstance(fill, tuple) else (3, 1)
    check_all(transform, domain, larger_than(*op.smallest_hw)[:3], channels)


@pytest.mark.parametrize("domain", ["pil", "uint8", "image_float"])
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
def test_elastic_without_a_fill_is_not_blended(interpolation: str, domain: str) -> None:
    fill = {tv_tensors.Mask: 1}
    check_all(v2.ElasticTransform(80.0, 1.0, interpolation, fill=fill), domain, [(17, 11)], (3,))
    by_class = {PIL.Image.Image: 9, torch.Tensor: 99, tv_tensors.Image: 0.5}
    check_all(v2.ElasticTransform(80.0, 1.0, interpolation, fill=by_class), domain, [(17, 11)], (3,))


@BOTH
def test_the_displacement_is_torchvisions_in_size_and_smoothness(module: Any) -> None:
    transform = module.ElasticTransform([40.0, 90.0], [1.0, 2.0])
    plan = translate(transform).require()
    op = plan.ops[0]
    assert isinstance(op, Elastic)
    keys = drawn(plan, 60, 80, 40).values[0]
    ours = torch.stack([displacement(op, key, (60, 80), torch.device("cpu"))[0] for key in keys])
    torch.manual_seed(0)
    make: Callable[[], torch.Tensor] = (
        (lambda: transform.get_params(transform.alpha, transform.sigma, [60, 80]))
        if module is v1
        else (lambda: transform.make_params([torch.zeros(3, 60, 80)])["displacement"])
    )
    theirs = torch.stack([make()[0] for _ in keys])
    for axis in (0, 1):
        mine, other = ours[..., axis], theirs[..., axis]
        assert float(mine.std() / other.std()) == pytest.approx(1.0, abs=0.03)
        assert float((mine[:, :, 1:] * mine[:, :, :-1]).mean() / mine.var()) == pytest.approx(
            float((other[:, :, 1:] * other[:, :, :-1]).mean() / other.var()), abs=0.02
        )


@BOTH
def test_elastic_refuses_images_too_small_for_its_sigma(module: Any) -> None:
    transform = module.ElasticTransform(sigma=5.0)
    (sentence,) = translate(transform, input=ImageSpec().with_size((20, 99))).refusals
    assert "sigma (5.0, 5.0) mirrors the borders of images of 21x21 pixels and more, and these have 20x99" in sentence
    assert "this one has 99x20" in drawn(translate(transform).require(), 99, 20, 1).refused[0]
    with pytest.raises(RuntimeError, match="Padding size should be less"):
        transform(torch.zeros(3, 99, 20))
    check(transform, pixels("natural", 21, 23, 0), "uint8", rows=2)


OTHER_DTYPES: list[tuple[Any, torch.dtype]] = [
    *[
        (transform, dtype)
        for transform in (v2.GaussianBlur(3), v1.GaussianBlur(3))
        for dtype in (torch.int16, torch.int32)
    ],
    *[(v2.GaussianBlur(3), dtype) for dtype in (torch.float16, torch.float64)],
    *[(v2.GaussianNoise(), dtype) for dtype in (torch.float16, torch.float64)],
    *[(v1.ElasticTransform(9.0, 1.0), dtype) for dtype in (torch.float16, torch.float64, torch.int16)],
    *[(v2.ElasticTransform(9.0, 1.0), dtype) for dtype in (torch.float16, torch.float64, torch.int16)],
]


@pytest.mark.parametrize(("transform", "dtype"), OTHER_DTYPES)
def test_other_dtypes(transform: Any, dtype: torch.dtype) -> None:
    check(v2.Compose([v2.ToDtype(dtype, scale=True), transform]), pixels("natural", 17, 11, 3), "uint8")


@pytest.mark.parametrize("domain", ["pil", "image_uint8"])
def test_a_tuple_of_images_shares_what_is_drawn(domain: str) -> None:
    transform = v2.Compose([v2.FiveCrop(19), v2.GaussianBlur(5), v2.ElasticTransform(40.0, 1.0), v2.JPEG((20, 90))])
    check(transform, pixels("noise", 31, 37, 1), domain)
    check_whole(transform, pixels("noise", 31, 37, 1), domain)


def test_containers() -> None:
    inside = [v2.GaussianBlur(3), v2.JPEG((1, 99)), v2.ElasticTransform(9.0, 1.0)]
    for transform in (v2.RandomOrder(inside), v2.RandomChoice(inside), v2.RandomApply(inside, 0.5)):
        check_whole(transform, pixels("natural", 23, 19, 2), "pil", rows=6)
        check(transform, pixels("natural", 23, 19, 2), "uint8", rows=6)


def test_ops_print_and_compare() -> None:
    blur = GaussianBlur((3, 5), (0.1, 2.0))
    assert str(blur) == "GaussianBlur(kernel_size=(3, 5), sigma=(0.1, 2.0), api='v2')"
    spec = ImageSpec("tensor", "float32")
    (one,) = translate(v2.LinearTransformation(*matrix(12)), input=spec).require().ops
    (same,) = translate(v1.LinearTransformation(*matrix(12)), input=spec).require().ops
    (other,) = translate(v1.LinearTransformation(*matrix(12, seed=1)), input=spec).require().ops
    assert one == same != other
    assert len({one, same, other}) == 2
    assert "content" not in str(one)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: GaussianBlur((3, 4), (1.0, 1.0)), r"kernel_size must be odd and positive, got \(3, 4\)"),
        (lambda: GaussianBlur((3, 3), (0.0, 1.0)), r"sigma must be positive, got \(0.0, 1.0\)"),
        (lambda: GaussianBlur((3, 3), (2.0, 1.0)), r"sigma must be \(low, high\)"),
        (lambda: GaussianNoise(sigma=-1.0), "sigma must not be negative, got -1.0"),
        (lambda: Jpeg((0, 5)), r"quality must be \(low, high\) within \[1, 100\]"),
        (lambda: Elastic((1.0, 1.0), (0.0, 1.0)), "sigma must be positive in both directions or in none"),
        (lambda: Elastic((1.0, 1.0), (1.0, 1.0), "box"), "interpolation must be nearest, bilinear or bicubic"),
        (lambda: EraseToNoise((0.1, 0.2), (0.0, 1.0)), "ratio must be positive"),
    ],
)
def test_ops_validate_themselves(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


def test_the_matrix_is_kept_in_the_plan() -> None:
    square, mean = matrix(12)
    transform = v2.LinearTransformation(square, mean)
    plan = translate(transform, input=ImageSpec("tensor", "float32")).require()
    fingerprint = plan.fingerprint()
    square.zero_()
    assert plan.fingerprint() == fingerprint
    assert isinstance(plan, Plan)
    (op,) = plan.ops
    assert isinstance(op, LinearTransformation)
    assert bool(op.matrix.array().any())
    image = torch.rand(1, 3, 2, 2)
    again = translate(v2.LinearTransformation(square, mean), input=plan.input).require().ops[0]
    assert not bool(run_op(image, again, plan.input, None).any())
    assert torch.equal(run_op(image, op, plan.input, None)[0], as_tensor(reference.apply(op, image[0], None)))
