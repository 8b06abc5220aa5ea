"""The Plans of the crops, pads and flips, and their canonical values."""

from __future__ import annotations

from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import v2

from gpufeed.errors import TranslationError
from gpufeed.plan import CenterCrop, Convert, Flip, Op, Pad, RandomAreaCrop, RandomCrop, Resize
from gpufeed.spec import ImageSpec
from gpufeed.translation import translate

TENSOR = ImageSpec("tensor", "uint8")
FLOAT = ImageSpec("tensor", "float32")
TV_IMAGE = ImageSpec("tv_image", "uint8")
BOTH = pytest.mark.parametrize("module", [v1, v2], ids=["v1", "v2"])


def ops(transform: Any, spec: ImageSpec = ImageSpec()) -> tuple[Op, ...]:  # noqa: B008 - it is frozen
    return translate(transform, input=spec).require().ops


def refusal(transform: Any, spec: ImageSpec = ImageSpec()) -> str:  # noqa: B008
    (sentence,) = translate(transform, input=spec).refusals
    return sentence


def edited(transform: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(transform, name, value)
    return transform


@BOTH
@pytest.mark.parametrize("size", [7, 7.9, [7], (7, 7), np.int64(7), (np.int64(7), 7)])
def test_center_crop_sizes(module: Any, size: Any) -> None:
    (op,) = ops(module.CenterCrop(size))
    assert op == CenterCrop((7, 7))
    assert isinstance(op, CenterCrop)
    assert {type(side) for side in op.size_hw} == {int}


@BOTH
@pytest.mark.parametrize("size", ["12", (1, 2, 3), None, (1.5, 2), (True, 2), float("inf"), {3, 4}])
def test_center_crop_refuses_other_sizes(module: Any, size: Any) -> None:
    assert "size must be a sequence of 1 or 2 whole numbers" in refusal(edited(module.CenterCrop(3), size=size))


@BOTH
def test_center_crop_of_nothing_is_refused(module: Any) -> None:
    assert "must be at least 1 pixel on each side, got (0, 0)" in refusal(module.CenterCrop(0))


@BOTH
def test_random_crop_alone(module: Any) -> None:
    assert ops(module.RandomCrop((5, 7))) == (RandomCrop((5, 7)),)


@BOTH
@pytest.mark.parametrize(
    ("padding", "ltrb"),
    [(4, (4, 4, 4, 4)), ([4], (4, 4, 4, 4)), ((3, 5), (3, 5, 3, 5)), ((1, 2, 3, 4), (1, 2, 3, 4)), (-2, (-2,) * 4)],
)
def test_random_crop_padding(module: Any, padding: Any, ltrb: tuple[int, int, int, int]) -> None:
    assert ops(module.RandomCrop(9, padding=padding)) == (Pad(ltrb), RandomCrop((9, 9)))
    assert ops(module.Pad(padding)) == (Pad(ltrb),)


@BOTH
@pytest.mark.parametrize("padding", [0, (0, 0), [0, 0, 0, 0]])
def test_padding_by_nothing_is_nothing(module: Any, padding: Any) -> None:
    assert ops(module.RandomCrop(9, padding=padding)) == (RandomCrop((9, 9)),)
    assert ops(module.Pad(padding)) == ()


@BOTH
@pytest.mark.parametrize("mode", ["constant", "edge"])
def test_growing_crops_pad_once_where_once_is_twice(module: Any, mode: Any) -> None:
    crop = module.RandomCrop((9, 11), padding=2, pad_if_needed=True, padding_mode=mode)
    assert ops(crop) == (Pad((2, 2, 2, 2), mode=mode, grow_to_hw=(9, 11)), RandomCrop((9, 11)))


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
def test_v1_mirrors_what_it_mirrored_and_v2_does_not(mode: Any) -> None:
    arguments: dict[str, Any] = {"padding": 2, "pad_if_needed": True, "padding_mode": mode}
    assert ops(v1.RandomCrop(9, **arguments)) == (
        Pad((2, 2, 2, 2), mode=mode),
        Pad(mode=mode, grow_to_hw=(9, 9)),
        RandomCrop((9, 9)),
    )
    assert ops(v2.RandomCrop(9, **arguments)) == (
        Pad((2, 2, 2, 2), mode=mode, grow_to_hw=(9, 9)),
        RandomCrop((9, 9)),
    )


def test_v1_cuts_off_before_it_grows_and_v2_adds_the_two() -> None:
    arguments: dict[str, Any] = {"padding": (-2, 1), "pad_if_needed": True}
    pad, grow = Pad((-2, 1, -2, 1)), Pad(grow_to_hw=(9, 9))
    assert ops(v1.RandomCrop(9, **arguments)) == (pad, grow, RandomCrop((9, 9)))
    assert ops(v2.RandomCrop(9, **arguments)) == (Pad((-2, 1, -2, 1), grow_to_hw=(9, 9)), RandomCrop((9, 9)))


@BOTH
@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_growing_without_padding_is_one_pad(module: Any, mode: Any) -> None:
    crop = module.RandomCrop(9, pad_if_needed=True, padding_mode=mode)
    assert ops(crop) == (Pad(mode=mode, grow_to_hw=(9, 9)), RandomCrop((9, 9)))


@BOTH
@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        (7, (7.0,)),
        (7.9, (7.0,)),
        (-7.9, (0.0,)),
        (300, (255.0,)),
        ((1, 2, 3), (1.0, 2.0, 3.0)),
        ([1.9, 2.9, 300.0], (1.0, 2.0, 255.0)),
        ((4, 4, 4), (4.0,)),
        ((4,), (4.0,)),
    ],
)
def test_fill_of_pil_images_is_cut_and_clipped(module: Any, fill: Any, expected: tuple[float, ...]) -> None:
    for transform in (module.Pad(1, fill=fill), module.RandomCrop(9, padding=1, fill=fill)):
        pad = ops(transform)[0]
        assert isinstance(pad, Pad)
        assert pad.fill == expected
        assert {type(value) for value in pad.fill} == {float}
        pixel = module.Pad(1, fill=fill)(PIL.Image.new("RGB", (1, 1))).getpixel((0, 0))
        assert pixel == tuple(pad.fill) * (3 // len(pad.fill))


def test_fill_that_is_not_used_is_not_kept() -> None:
    assert ops(v1.Pad(1, fill=9, padding_mode="edge")) == (Pad((1, 1, 1, 1), fill=(0.0,), mode="edge"),)


def test_fill_on_float_tensors_keeps_fractions() -> None:
    assert ops(v2.Pad(1, fill=0.5), FLOAT) == (Pad((1, 1, 1, 1), fill=(0.5,)),)
    assert ops(v1.Pad(1, fill=0.5), FLOAT) == (Pad((1, 1, 1, 1), fill=(0.5,)),)


def test_fill_by_class_of_the_image() -> None:
    fill = {PIL.Image.Image: 1, torch.Tensor: 2, tv_tensors.Image: (3, 4, 5), "others": 6}
    expected = {ImageSpec(): (1.0,), TENSOR: (2.0,), TV_IMAGE: (3.0, 4.0, 5.0)}
    for spec, values in expected.items():
        assert ops(v2.Pad(1, fill=dict(fill)), spec) == (Pad((1, 1, 1, 1), fill=values),)
        assert ops(v2.RandomCrop(5, padding=1, fill=dict(fill)), spec)[0] == Pad((1, 1, 1, 1), fill=values)


def test_fill_by_class_falls_back_to_others_and_then_to_zeros() -> None:
    assert ops(v2.Pad(1, fill={tv_tensors.Mask: 1, "others": 6})) == (Pad((1, 1, 1, 1), fill=(6.0,)),)
    assert ops(v2.Pad(1, fill={tv_tensors.Mask: 1})) == (Pad((1, 1, 1, 1), fill=(0.0,)),)


def test_v2_pads_with_its_private_fill() -> None:
    assert ops(edited(v2.Pad(1, fill=3), fill=9)) == (Pad((1, 1, 1, 1), fill=(3.0,)),)
    assert "_fill must be the dictionary" in refusal(edited(v2.Pad(1), _fill=3))


@pytest.mark.parametrize(
    ("transform", "spec", "phrase"),
    [
        (v1.Pad(1, fill=(1, 2)), ImageSpec(), "can't pad pil uint8 H x W x 3 with fill=(1, 2)"),
        (v1.Pad(1, fill=(1, 2, 3)), TENSOR, "Got inappropriate fill arg"),
        (v2.Pad(1, fill=(1, 2, 3), padding_mode="edge"), TENSOR, "not supported if fill is not scalar"),
        (v2.Pad(1, fill=-1), TENSOR, "value cannot be converted to type uint8_t"),
        (v2.Pad(1, fill=float("inf")), FLOAT, "fill must be finite, got inf"),
        (v1.Pad(1, fill=(1, 2)), ImageSpec(channels=1), "does not match the number of channels"),
    ],
)
def test_fills_that_torchvision_refuses(transform: Any, spec: ImageSpec, phrase: str) -> None:
    assert phrase in refusal(transform, spec)


@BOTH
def test_modes_and_paddings_that_torchvision_refuses(module: Any) -> None:
    wrap = edited(module.Pad(1), padding_mode="wrap")
    assert "padding_mode must be one of constant, edge, reflect, symmetric, got 'wrap'" in refusal(wrap)
    assert "padding must be a sequence of 1 or 2 or 4 whole numbers, got (1, 2, 3)" in refusal(
        edited(module.Pad(1), padding=(1, 2, 3))
    )
    assert "padding must be a whole number, or a list or tuple" in refusal(edited(module.Pad(1), padding=2.5))


def test_v2_random_crop_keeps_its_padding_in_torch_order() -> None:
    crop = v2.RandomCrop(9, padding=(1, 2, 3, 4))
    assert crop.padding == [1, 3, 2, 4]
    assert ops(crop)[0] == Pad((1, 2, 3, 4))
    assert "padding must be a sequence of 4 whole numbers, got [1]" in refusal(edited(crop, padding=[1]))


@BOTH
def test_random_crop_of_a_smaller_image_of_known_size(module: Any) -> None:
    small = ImageSpec(size_hw=(8, 20))
    assert "required crop size (9, 9) is larger than the image size (8, 20)" in refusal(module.RandomCrop(9), small)
    assert ops(module.RandomCrop(9, padding=1), small) == (Pad((1, 1, 1, 1)), RandomCrop((9, 9)))
    assert ops(module.RandomCrop(9, pad_if_needed=True), small)[0] == Pad(grow_to_hw=(9, 9))


@BOTH
@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
def test_tensors_of_known_size_are_mirrored_once_and_pil_images_for_ever(module: Any, mode: Any) -> None:
    most = 7 if mode == "reflect" else 8
    sized = {container: ImageSpec(container, size_hw=(8, 20)) for container in ("pil", "tensor")}
    assert ops(module.Pad((0, most), padding_mode=mode), sized["tensor"]) == (Pad((0, most, 0, most), mode=mode),)
    above = module.Pad((0, most + 1), padding_mode=mode)
    assert f"must be at most {most} at the top and bottom" in refusal(above, sized["tensor"])
    assert ops(above, sized["pil"]) == (Pad((0, most + 1, 0, most + 1), mode=mode),)
    with pytest.raises((RuntimeError, IndexError)):
        above(torch.zeros(3, 8, 20))


@BOTH
def test_random_resized_crop(module: Any) -> None:
    crop = module.RandomResizedCrop((9, 11), scale=[1, 2], ratio=(1, 2), interpolation=v1.InterpolationMode.BICUBIC)
    found = ops(crop)
    assert found == (RandomAreaCrop((1.0, 2.0), (1.0, 2.0)), Resize((9, 11), interpolation="bicubic"))
    assert isinstance(found[0], RandomAreaCrop)
    assert {type(value) for value in (*found[0].scale, *found[0].ratio)} == {float}


@BOTH
def test_random_resized_crop_edited_to_one_side_resizes_the_shorter_one(module: Any) -> None:
    for size in (9, [9]):
        assert ops(edited(module.RandomResizedCrop(9), size=size))[1] == Resize((9,))


@BOTH
@pytest.mark.parametrize(
    ("attributes", "phrase"),
    [
        ({"scale": (1.0, 0.5)}, "scale must be (lowest, highest), and torchvision can't draw from (1.0, 0.5)"),
        ({"scale": (0.1, 0.2, 0.3)}, "scale must be two finite numbers"),
        ({"scale": (-0.5, 1.0)}, "scale must not be negative"),
        ({"scale": 0.5}, "scale must be two finite numbers"),
        ({"size": (1, 2, 3)}, "size must be a sequence of 1 or 2 whole numbers"),
        ({"size": (0, 3)}, "size must be at least 1 pixel on each side"),
    ],
)
def test_random_resized_crop_refuses(module: Any, attributes: dict[str, Any], phrase: str) -> None:
    assert phrase in refusal(edited(module.RandomResizedCrop(9), **attributes))


@BOTH
@pytest.mark.parametrize("ratio", [(0.0, 1.0), (-1.0, 1.0)])
def test_ratios_without_a_logarithm_are_refused(module: Any, ratio: tuple[float, float]) -> None:
    assert "ratio must be positive" in refusal(module.RandomResizedCrop(9, ratio=ratio))


def test_v2_goes_on_drawing_from_the_ratio_of_its_construction() -> None:
    crop = edited(v2.RandomResizedCrop(9), ratio=(1.0, 1.0))
    assert "ratio was set to (1.0, 1.0) after construction" in refusal(crop)
    assert "make a new RandomResizedCrop" in refusal(crop)
    assert ops(edited(v1.RandomResizedCrop(9), ratio=(1.0, 1.0)))[0] == RandomAreaCrop((0.08, 1.0), (1.0, 1.0))
    assert "_log_ratio must be" in refusal(edited(v2.RandomResizedCrop(9), _log_ratio=None))


@BOTH
@pytest.mark.parametrize(("p", "expected"), [(0.25, 0.25), (1, 1.0), (1.5, 1.0), (np.float32(0.5), 0.5)])
def test_flips(module: Any, p: Any, expected: float) -> None:
    horizontal, vertical = edited(module.RandomHorizontalFlip(), p=p), edited(module.RandomVerticalFlip(), p=p)
    assert ops(horizontal) == (Flip("horizontal", expected),)
    assert ops(vertical) == (Flip("vertical", expected),)
    (flip,) = ops(horizontal)
    assert isinstance(flip, Flip)
    assert type(flip.p) is float


@BOTH
@pytest.mark.parametrize("p", [0, -0.5])
def test_flips_that_never_happen_are_nothing(module: Any, p: float) -> None:
    assert ops(edited(module.RandomHorizontalFlip(), p=p)) == ()


@BOTH
@pytest.mark.parametrize("p", [float("nan"), "often", None, torch.tensor(0.5)])
def test_flips_refuse_what_is_no_probability(module: Any, p: Any) -> None:
    assert "p must be a number in [0, 1]" in refusal(edited(module.RandomVerticalFlip(), p=p))


def test_v1_makes_a_plain_tensor_of_a_tv_image() -> None:
    assert ops(v1.CenterCrop(3), TV_IMAGE) == (CenterCrop((3, 3)), Convert("tensor"))
    assert ops(v1.RandomCrop(3), TV_IMAGE) == (RandomCrop((3, 3)), Convert("tensor"))
    assert ops(v1.RandomResizedCrop(3), TV_IMAGE)[1:] == (Convert("tensor"), Resize((3, 3), api="v1"))
    assert ops(v1.RandomHorizontalFlip(1.0), TV_IMAGE) == (Flip("horizontal", 1.0), Convert("tensor"))
    assert ops(v2.CenterCrop(3), TV_IMAGE) == (CenterCrop((3, 3)),)


def test_v1_flip_by_chance_of_a_tv_image_is_refused() -> None:
    sentence = refusal(v1.RandomHorizontalFlip(0.5), TV_IMAGE)
    assert "keeps a tv_tensors.Image where the draw decides against the flip" in sentence
    assert "use torchvision.transforms.v2.RandomHorizontalFlip, or put v2.ToPureTensor() before it" in sentence
    with pytest.raises(TranslationError, match="RandomHorizontalFlip"):
        translate(v1.Compose([v2.ToImage(), v1.RandomHorizontalFlip(0.5)])).require()
