"""``RandomErasing``, on every domain that takes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from op_oracle import DOMAINS, SIZES_HW, check, check_whole, drawn, pixels
from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed import reference
from gpufeed.plan import Erase, EraseToNoise
from gpufeed.spec import ImageSpec
from gpufeed.tail.program import run_op
from gpufeed.translation import translate

TENSORS = ("uint8", "float", "image_uint8", "image_float")
KINDS = ("natural", "noise", "flat", "dark")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As in the product's pool; the convolutions of small images are slower on several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


VALUES: dict[str, dict[str, Any]] = {
    "black": {},
    "a number": {"value": 0.7},
    "a whole number": {"value": 130},
    "a wrapping number": {"value": 300},
    "a negative number": {"value": -3.7},
    "one in a list": {"value": [9]},
    "by channel": {"value": (255, 0.5, 77)},
    "noise": {"value": "random"},
    "sometimes": {"p": 0.5, "value": 1},
    "noise sometimes": {"p": 0.5, "value": "random"},
    "large": {"scale": (0.7, 1.0), "ratio": (0.9, 1.1)},
    "thin": {"scale": (0.05, 0.1), "ratio": (20.0, 30.0), "value": "random"},
    "in place": {"value": 4, "inplace": True},
    "never": {"p": 0.0},
}


@pytest.mark.parametrize(
    ("module", "domain"), [*((v2, domain) for domain in DOMAINS), *((v1, domain) for domain in TENSORS)]
)
@pytest.mark.parametrize("name", VALUES)
def test_erasing(name: str, module: Any, domain: str) -> None:
    transform = module.RandomErasing(**({"p": 1.0} | VALUES[name]))
    for number, (height, width) in enumerate(SIZES_HW[:-1]):
        channels = 3 if name == "by channel" or (number + (module is v1)) % 2 else 1
        image = pixels(KINDS[number % 4], height, width, number, channels)
        check(transform, image, domain, rows=3, epoch=number)
        check_whole(transform, image, domain, rows=3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int16, torch.int32])
@pytest.mark.parametrize("value", [-3.7, 0.3, "random"])
def test_other_dtypes(value: Any, dtype: torch.dtype) -> None:
    for module in (v1, v2):
        transform = v2.Compose([v2.ToDtype(dtype, scale=True), module.RandomErasing(1.0, value=value)])
        check(transform, pixels("natural", 17, 11, 3), "uint8")


@pytest.mark.parametrize("value", [5, "random"])
@pytest.mark.parametrize("domain", ["pil", "image_uint8", "image_float"])
def test_a_tuple_of_images_shares_window_and_noise(domain: str, value: Any) -> None:
    transform = v2.Compose([v2.FiveCrop(19), v2.RandomErasing(0.7, value=value)])
    for image in (pixels("noise", 31, 37, 1), pixels("flat", 31, 37, 1)):
        check(transform, image, domain, rows=6)
        check_whole(transform, image, domain, rows=6)


def test_one_window_is_erased_and_the_rest_is_kept() -> None:
    transform = v2.RandomErasing(1.0, value=200)
    plan = translate(transform, input=ImageSpec("tensor")).require()
    windows = drawn(plan, 40, 50, 30).values[0]
    erased = run_op(torch.full((30, 3, 40, 50), 7, dtype=torch.uint8), plan.ops[0], plan.input, windows)
    for image, (top, left, height, width) in zip(erased, windows.tolist(), strict=True):
        assert bool((image[:, top : top + height, left : left + width] == 200).all())
        assert int((image == 200).sum()) == 3 * height * width > 0


def test_noise_differs_between_samples_and_channels() -> None:
    plan = translate(v2.RandomErasing(1.0, value="random"), input=ImageSpec("tensor", "float32")).require()
    assert isinstance(plan.ops[0], EraseToNoise)
    values = drawn(plan, 40, 50, 2).values[0]
    values[:, :4] = (3, 4, 20, 30)
    erased = run_op(torch.zeros(2, 3, 40, 50), plan.ops[0], plan.input, values)[:, :, 3:23, 4:34].reshape(6, -1)
    assert len(erased.unique(dim=0)) == 6
    assert abs(float(erased.mean())) < 0.1
    assert abs(float(erased.std()) - 1) < 0.1


def test_containers() -> None:
    inside = v2.RandomOrder([v2.RandomErasing(0.5), v2.RandomHorizontalFlip(), v2.RandomErasing(0.8, value="random")])
    check(inside, pixels("natural", 23, 19, 2), "uint8", rows=8)
    check_whole(inside, pixels("natural", 23, 19, 2), "pil", rows=8)


def test_the_oracle_leaves_its_input_and_torchs_generator_alone() -> None:
    for module in (v1, v2):
        transform = module.RandomErasing(1.0, value=9, inplace=True)
        image = torch.zeros(3, 20, 20)
        parameters = drawn(translate(transform, input=reference.spec_of(image)).require(), 20, 20, 1)
        torch.manual_seed(3)
        before = torch.get_rng_state()
        assert bool(torch.as_tensor(reference.run(transform, image, parameters, 0)).any())
        assert torch.equal(torch.get_rng_state(), before)
        assert not bool(image.any())
        assert transform.inplace


def test_what_ops_know_of_values() -> None:
    erase = Erase((0.1, 0.2), (0.3, 3.0), (2.0,))
    assert erase.out_spec(ImageSpec("tensor", "float32", value_range=(0.0, 1.0))).value_range == (0.0, 2.0)
    assert erase.out_spec(ImageSpec()).value_range == (0.0, 255.0)
    assert EraseToNoise((0.1, 0.2), (0.3, 3.0)).out_spec(ImageSpec("tensor", "float32")).value_range is None
    with pytest.raises(ValueError, match=r"scale must be \(low, high\)"):
        Erase((-0.1, 0.2), (0.3, 3.0))
