"""The Plans of ``Resize``."""

from __future__ import annotations

from typing import Any

import numpy as np
import PIL.Image
import pytest
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode, v2

from gpufeed.plan import Resize
from gpufeed.spec import ImageSpec
from gpufeed.translation import translate

PIL_IMAGE = ImageSpec()
TENSOR = ImageSpec("tensor", "uint8")
TV_IMAGE = ImageSpec("tv_image", "uint8")
BOTH = pytest.mark.parametrize("module", [v1, v2], ids=["v1", "v2"])


def op(transform: Any, spec: ImageSpec = PIL_IMAGE) -> Resize:
    (found,) = translate(transform, input=spec).require().ops
    assert isinstance(found, Resize)
    return found


def refusal(transform: Any, spec: ImageSpec = PIL_IMAGE) -> str:
    (sentence,) = translate(transform, input=spec).refusals
    return sentence


def edited(transform: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(transform, name, value)
    return transform


@BOTH
@pytest.mark.parametrize(
    ("size", "expected"), [(9, (9,)), ([9], (9,)), ((9, 11), (9, 11)), ([np.int64(9), 11], (9, 11))]
)
def test_sizes(module: Any, size: Any, expected: tuple[int, ...]) -> None:
    found = op(module.Resize(size))
    assert found == Resize(expected)
    assert found.size is not None
    assert {type(side) for side in found.size} == {int}


@BOTH
def test_max_size(module: Any) -> None:
    assert op(module.Resize(9, max_size=20)) == Resize((9,), max_size=20)


def test_longer_side() -> None:
    assert op(v2.Resize(None, max_size=20)) == Resize(None, max_size=20)
    assert "size must not be None in torchvision.transforms" in refusal(edited(v1.Resize(9), size=None, max_size=20))
    assert "max_size must be a whole number when size is None" in refusal(edited(v2.Resize(9), size=None))


@BOTH
@pytest.mark.parametrize(
    ("attributes", "phrase"),
    [
        ({"size": 0}, "must be at least 1 pixel on each side, got (0,)"),
        ({"size": (9, -1)}, "must be at least 1 pixel on each side, got (9, -1)"),
        ({"size": (9, 1.5)}, "size must be a sequence of 1 or 2 whole numbers, got (9, 1.5)"),
        ({"size": "90"}, "size must be a sequence of 1 or 2 whole numbers, got '90'"),
        ({"size": 9.5}, "size must be a whole number or a sequence"),
        ({"size": True}, "size must be a whole number or a sequence"),
        ({"max_size": 9}, "max_size must be above the shorter side 9, got 9"),
        ({"max_size": 20.5}, "max_size must be a sequence of 1 whole numbers, got (20.5,)"),
        ({"max_size": 0}, "max_size must be at least 1 pixel, got 0"),
        ({"size": (9, 11), "max_size": 20}, "max_size can only be given with a size of one value"),
        ({"interpolation": 6}, "interpolation must be an InterpolationMode or Pillow's code for one (0 to 5), got 6"),
        ({"interpolation": None}, "interpolation must be an InterpolationMode"),
        ({"antialias": "yes"}, "antialias must be True, False or None, got 'yes'"),
    ],
)
def test_values_that_torchvision_refuses(module: Any, attributes: dict[str, Any], phrase: str) -> None:
    assert phrase in refusal(edited(module.Resize(9), **attributes))


@BOTH
@pytest.mark.parametrize("mode", InterpolationMode)
def test_interpolations_of_pil_images(module: Any, mode: InterpolationMode) -> None:
    expected = "nearest" if mode is InterpolationMode.NEAREST_EXACT else mode.value
    assert op(module.Resize(9, interpolation=mode)) == Resize((9,), interpolation=expected)


@BOTH
@pytest.mark.parametrize("name", ["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"])
def test_codes_of_pillow(module: Any, name: str) -> None:
    code = PIL.Image.Resampling[name.upper()]
    for number in (code, int(code)):
        assert op(module.Resize(9, interpolation=number)).interpolation == name


@pytest.mark.parametrize("mode", InterpolationMode)
def test_names_are_for_v2(mode: InterpolationMode) -> None:
    assert op(v2.Resize(9, interpolation=mode.value)) == op(v2.Resize(9, interpolation=mode))
    sentence = refusal(edited(v1.Resize(9), interpolation=mode.value))
    assert "which only torchvision.transforms.v2 takes" in sentence


def test_unknown_name() -> None:
    assert "interpolation must be one of 'nearest', 'nearest-exact', 'bilinear'" in refusal(
        v2.Resize(9, interpolation="cubic")
    )


@BOTH
def test_generation_matters_to_tensors_only(module: Any) -> None:
    api = "v1" if module is v1 else "v2"
    assert op(module.Resize(9), TENSOR) == Resize((9,), api=api)
    assert op(module.Resize(9)) == Resize((9,), api="v2")


@BOTH
@pytest.mark.parametrize(("antialias", "expected"), [(True, True), (False, False), (None, False)])
def test_antialias_of_tensors(module: Any, antialias: bool | None, expected: bool) -> None:
    for mode in (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC):
        assert op(module.Resize(9, interpolation=mode, antialias=antialias), TENSOR).antialias is expected


@BOTH
@pytest.mark.parametrize("antialias", [True, False, None])
def test_antialias_is_ignored_elsewhere(module: Any, antialias: bool | None) -> None:
    assert op(module.Resize(9, antialias=antialias)) == op(module.Resize(9))
    nearest = InterpolationMode.NEAREST_EXACT
    assert op(module.Resize(9, interpolation=nearest, antialias=antialias), TENSOR) == op(
        module.Resize(9, interpolation=nearest), TENSOR
    )


@BOTH
@pytest.mark.parametrize("mode", [InterpolationMode.BOX, InterpolationMode.HAMMING])
def test_interpolations_that_tensors_lack(module: Any, mode: InterpolationMode) -> None:
    assert f"interpolation '{mode.value}' works on PIL images only" in refusal(
        module.Resize(9, interpolation=mode), TENSOR
    )


def test_lanczos_of_tensors() -> None:
    lanczos = InterpolationMode.LANCZOS
    assert op(v2.Resize(9, interpolation=lanczos), TENSOR) == Resize((9,), interpolation="lanczos")
    phrase = "interpolation 'lanczos' on tensors needs torchvision.transforms.v2 and antialias"
    assert phrase in refusal(v1.Resize(9, interpolation=lanczos), TENSOR)
    assert phrase in refusal(v2.Resize(9, interpolation=lanczos, antialias=False), TENSOR)


def test_v1_of_a_tv_image_depends_on_its_size() -> None:
    sentence = refusal(v1.Resize((9, 11)), TV_IMAGE)
    assert "keeps a tv_tensors.Image where the image has the wanted size already" in sentence
    assert op(v2.Resize((9, 11)), TV_IMAGE) == Resize((9, 11))
