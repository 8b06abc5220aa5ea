"""The Plans of what changes container, dtype, values and colour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import v2

from gpufeed.plan import Convert, Grayscale, Normalize, Op, RandomGrayscale, ToDtype, ToTensor
from gpufeed.spec import ImageSpec
from gpufeed.translation import translate

PIL_IMAGE = ImageSpec()
GREY_PIL = ImageSpec(channels=1)
UINT8 = ImageSpec("tensor", "uint8")
FLOAT = ImageSpec("tensor", "float32")
GREY_UINT8 = ImageSpec("tensor", "uint8", 1)
GREY_FLOAT = ImageSpec("tensor", "float32", 1)
TV_UINT8 = ImageSpec("tv_image", "uint8")
TV_FLOAT = ImageSpec("tv_image", "float32")
BOTH = pytest.mark.parametrize("module", [v1, v2], ids=["v1", "v2"])


def ops(transform: Any, spec: ImageSpec = PIL_IMAGE) -> tuple[Op, ...]:
    return translate(transform, input=spec).require().ops


def refusal(transform: Any, spec: ImageSpec = PIL_IMAGE) -> str:
    (sentence,) = translate(transform, input=spec).refusals
    return sentence


def edited(transform: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(transform, name, value)
    return transform


@pytest.fixture
def v2_to_tensor() -> Any:
    with pytest.warns(UserWarning, match=r"`ToTensor\(\)` is deprecated"):
        return v2.ToTensor()


@pytest.fixture
def double_by_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def test_to_tensor(v2_to_tensor: Any) -> None:
    assert ops(v1.ToTensor()) == ops(v2_to_tensor) == (ToTensor(),)


def test_to_tensor_of_a_tensor(v2_to_tensor: Any) -> None:
    assert ops(v2_to_tensor, UINT8) == ops(v2_to_tensor, TV_UINT8) == ()
    assert "ToTensor takes a PIL image, and this is a tensor already; leave it out" in refusal(v1.ToTensor(), UINT8)


@pytest.mark.usefixtures("double_by_default")
def test_to_tensor_follows_the_default_dtype() -> None:
    assert "torch's default dtype, which is torch.float64 now" in refusal(v1.ToTensor())
    assert ops(v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]))  # the way out


def test_pil_to_tensor() -> None:
    assert ops(v1.PILToTensor()) == ops(v2.PILToTensor()) == (Convert("tensor"),)
    assert ops(v2.PILToTensor(), UINT8) == ()
    assert "PILToTensor takes a PIL image" in refusal(v1.PILToTensor(), UINT8)


def test_to_image_and_to_pure_tensor() -> None:
    assert [ops(v2.ToImage(), spec) for spec in (PIL_IMAGE, UINT8, TV_UINT8)] == [
        (Convert("tv_image"),),
        (Convert("tv_image"),),
        (),
    ]
    assert [ops(v2.ToPureTensor(), spec) for spec in (PIL_IMAGE, UINT8, TV_UINT8)] == [(), (), (Convert("tensor"),)]


@pytest.mark.parametrize("identity", [nn.Identity(), v2.Identity(), nn.Identity(5, some="argument")])
def test_identities_are_nothing(identity: Any) -> None:
    assert [ops(identity, spec) for spec in (PIL_IMAGE, UINT8, TV_FLOAT)] == [(), (), ()]


def test_to_dtype() -> None:
    assert ops(v2.ToDtype(torch.float32, scale=True), UINT8) == (ToDtype("float32", True, "v2"),)
    assert ops(v2.ToDtype(torch.float32), UINT8) == (ToDtype("float32", False, "v2"),)
    assert ops(v2.ToDtype(torch.uint8, scale=True), UINT8) == ()


@pytest.mark.parametrize("dtype", [torch.float32, {torch.Tensor: torch.float32}])
def test_to_dtype_passes_pil_images_on(dtype: Any) -> None:
    assert ops(v2.ToDtype(dtype, scale=True)) == ()


def test_to_dtype_by_class_of_the_image() -> None:
    by_class = {tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64, "others": None}
    assert ops(v2.ToDtype(by_class, scale=True), TV_UINT8) == (ToDtype("float32", True, "v2"),)
    assert ops(v2.ToDtype(by_class, scale=True), UINT8) == ()
    assert ops(v2.ToDtype({"others": torch.int16}), UINT8) == (ToDtype("int16", False, "v2"),)
    assert ops(v2.ToDtype({tv_tensors.Image: None, "others": torch.int16}), TV_UINT8) == ()
    sentence = refusal(v2.ToDtype({tv_tensors.Image: torch.float32}), UINT8)
    assert 'dtype has no entry for torch.Tensor and none for "others"' in sentence


@pytest.mark.parametrize(
    ("transform", "spec", "phrase"),
    [
        (v2.ToDtype(torch.int64, scale=True), FLOAT, "float32 can't be scaled to int64 safely"),
        (v1.ConvertImageDtype(torch.int32), FLOAT, "float32 can't be scaled to int32 safely"),
        (v2.ToDtype(torch.bool), UINT8, "dtype must be one of uint8"),
        (edited(v2.ToDtype(torch.uint8), dtype=None), FLOAT, "dtype must be a torch.dtype, got None"),
        (edited(v2.ConvertImageDtype(), dtype="float32"), UINT8, "dtype must be a torch.dtype, got 'float32'"),
        (v1.ConvertImageDtype(torch.float32), PIL_IMAGE, "ConvertImageDtype takes a tensor, and this is a PIL image"),
    ],
)
def test_dtypes_that_are_refused(transform: Any, spec: ImageSpec, phrase: str) -> None:
    assert phrase in refusal(transform, spec)


@BOTH
def test_convert_image_dtype(module: Any) -> None:
    api = "v1" if module is v1 else "v2"
    assert ops(module.ConvertImageDtype(torch.float32), UINT8) == (ToDtype("float32", True, api),)
    assert ops(module.ConvertImageDtype(torch.float32), FLOAT) == ()


def test_convert_image_dtype_of_other_containers() -> None:
    assert ops(v2.ConvertImageDtype(torch.float32)) == ()  # a PIL image passes
    assert ops(v1.ConvertImageDtype(torch.float32), TV_UINT8) == (ToDtype("float32", True, "v1"), Convert("tensor"))
    assert ops(v1.ConvertImageDtype(torch.float64), TV_FLOAT) == (ToDtype("float64", True, "v1"),)


@BOTH
@pytest.mark.parametrize(
    ("mean", "std"),
    [
        ((1, 2, 3), [4, 5, 6]),
        (torch.tensor([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])),
        ([torch.tensor(1.0), np.float64(2), 3], (4.0, 5.0, np.int64(6))),
    ],
)
def test_normalize(module: Any, mean: Any, std: Any) -> None:
    (op,) = ops(module.Normalize(mean, std), FLOAT)
    assert op == Normalize((1.0, 2.0, 3.0), (4.0, 5.0, 6.0))
    assert isinstance(op, Normalize)
    assert {type(value) for value in (*op.mean, *op.std)} == {float}


@BOTH
def test_normalize_by_one_value(module: Any) -> None:
    assert ops(module.Normalize((0.5,), (0.25,)), FLOAT) == (Normalize((0.5,), (0.25,)),)
    assert ops(edited(module.Normalize((1,), (1,)), mean=0.5, std=0.25), FLOAT) == (Normalize((0.5,), (0.25,)),)


@BOTH
def test_normalize_in_place_is_the_same(module: Any) -> None:
    arguments = ((0.5,) * 3, (0.25,) * 3)
    assert ops(module.Normalize(*arguments, inplace=True), FLOAT) == ops(module.Normalize(*arguments), FLOAT)


@BOTH
@pytest.mark.parametrize(
    ("mean", "std", "spec", "phrase"),
    [
        ((0.5,) * 3, (1.0,) * 3, PIL_IMAGE, "Normalize does not support PIL images; put ToTensor()"),
        ((0.5,) * 3, (1.0,) * 3, UINT8, "Normalize needs a float tensor, got uint8"),
        ((0.5, 0.5), (1.0,), FLOAT, "mean must have 1 or 3 values, got 2"),
        ((0.5,), (1.0, 1.0), FLOAT, "std must have 1 or 3 values, got 2"),
        ((0.5,) * 3, (1.0,) * 3, GREY_FLOAT, "put Grayscale(num_output_channels=3) before Normalize"),
        ((0.5,), (1.0, 0.0, 1.0), FLOAT, "std must not be 0 in float32"),
        ((0.5,), (1e-60,), FLOAT, "std must not be 0 in float32"),
        ((float("nan"),), (1.0,), FLOAT, "mean must be one finite number, or one per channel"),
        ((), (1.0,), FLOAT, "mean must be one finite number, or one per channel"),
        (np.full((3, 1, 1), 0.5), (1.0,), FLOAT, "give mean as a list with one number per channel"),
        (["a", "b", "c"], (1.0,), FLOAT, "mean must be numbers"),
    ],
)
def test_normalize_refuses(module: Any, mean: Any, std: Any, spec: ImageSpec, phrase: str) -> None:
    assert phrase in refusal(edited(module.Normalize((1,), (1,)), mean=mean, std=std), spec)


@BOTH
def test_grayscale(module: Any) -> None:
    api = "v1" if module is v1 else "v2"
    assert ops(module.Grayscale()) == (Grayscale(1, "v2"),)
    assert ops(module.Grayscale(3), UINT8) == (Grayscale(3, api),)
    for wrong in (2, "1", None):
        assert "num_output_channels must be 1 or 3" in refusal(edited(module.Grayscale(), num_output_channels=wrong))


@BOTH
def test_grayscale_of_grey_is_nothing(module: Any) -> None:
    assert [ops(module.Grayscale(), spec) for spec in (GREY_PIL, GREY_UINT8, GREY_FLOAT)] == [(), (), ()]
    assert ops(module.Grayscale(3), GREY_PIL) == (Grayscale(3, "v2"),)


def test_v1_leaves_a_grey_tensor_at_one_channel() -> None:
    assert ops(v1.Grayscale(3), GREY_UINT8) == ()
    assert tuple(v1.Grayscale(3)(torch.zeros(1, 2, 2)).shape) == (1, 2, 2)
    assert ops(v2.Grayscale(3), GREY_UINT8) == (Grayscale(3, "v2"),)


@BOTH
def test_random_grayscale(module: Any) -> None:
    api = "v1" if module is v1 else "v2"
    assert ops(module.RandomGrayscale()) == (RandomGrayscale(0.1, "v2"),)
    assert ops(module.RandomGrayscale(1), UINT8) == (RandomGrayscale(1.0, api),)
    assert ops(module.RandomGrayscale(0)) == ()
    assert ops(module.RandomGrayscale(), GREY_PIL) == ops(module.RandomGrayscale(), GREY_UINT8) == ()
    assert "p must be a number" in refusal(edited(module.RandomGrayscale(), p="often"))


def test_v1_colours_of_a_tv_image() -> None:
    assert ops(v1.Grayscale(3), TV_UINT8) == (Grayscale(3, "v1"), Convert("tensor"))
    assert ops(v1.Normalize((0.5,), (0.5,)), TV_FLOAT) == (Normalize((0.5,), (0.5,)), Convert("tensor"))
    assert "keeps a tv_tensors.Image where the draw decides against it" in refusal(v1.RandomGrayscale(), TV_UINT8)
