"""Blur, noise, JPEG, linear transformations, elastic ones and erasing, with every kind of attribute value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import PIL.Image
import pytest
import torch
from matrix import build, check_against_torchvision, edited
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode, v2

from gpufeed.spec import ImageSpec
from gpufeed.translation import translate

pytestmark = [
    pytest.mark.filterwarnings("ignore:The image decoding and encoding capabilities:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Argument interpolation should be of type:UserWarning"),
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Convolutions of small images are slower on several threads, and much slower where others compute too."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def linear(module: Any, count: int, **attributes: Any) -> Any:
    """A transform of images of 5 x 5 pixels, or others."""
    return v2.Compose(
        [
            v2.Resize((5, 5)),
            edited(module.LinearTransformation(torch.rand(count, count), torch.rand(count)), **attributes),
        ]
    )


def cases() -> list[tuple[str, Any]]:
    both: list[tuple[str, dict[str, Any]]] = [
        *[("GaussianBlur", {"kernel_size": size}) for size in (1, 5, [3], (3, 7), 3.0)],
        *[("GaussianBlur", {"kernel_size": 3, "sigma": sigma}) for sigma in (1, 0.4, (0.1, 2.0), [2, 2])],
        *[("GaussianBlur", {"kernel_size": size, "sigma": 9.0}) for size in ((107, 3), (3, 73), (105, 3), (3, 75))],
        *[
            ("ElasticTransform", {"sigma": sigma})
            for sigma in (1.0, [0.5, 1.0], 0.0, [0.0, 0.0], [0.0, 1.0], [1.0, 0.0])
        ],
        *[("ElasticTransform", {"sigma": sigma}) for sigma in (-1.0, [-1.0, 0.0], [5.0, 1.0])],
        *[("ElasticTransform", {"alpha": alpha, "sigma": 1.0}) for alpha in (0.0, 90.0, [9.0, -40.0])],
        *[("ElasticTransform", {"sigma": 0.5, "interpolation": mode}) for mode in InterpolationMode],
        *[("ElasticTransform", {"sigma": 0.5, "interpolation": code}) for code in (0, 2, 3, 4)],
        *[
            ("ElasticTransform", {"alpha": 90.0, "sigma": 0.5, "fill": fill})
            for fill in (7, 0.5, True, (7, 8, 9), [7], (1, 2), -3, 300)
        ],
        *[("RandomErasing", {"p": 1, "value": value}) for value in (0, 7.5, True, (1, 2, 3), [9.0], (1, 2), -3, 300)],
        *[("RandomErasing", {"p": 1, "value": value}) for value in ("random", (1, 2.5, 3), ())],
        *[("RandomErasing", {"p": 1, "scale": scale}) for scale in ([0.5, 0.5], (0.0, 1.0), (0, 0))],
        *[("RandomErasing", {"p": 1, "ratio": ratio}) for ratio in ([1, 2], (0.5, 0.5), (1e-3, 1e3))],
        ("RandomErasing", {"p": 0}),
        ("RandomErasing", {"p": 1, "inplace": True}),
    ]
    found = [build(module, name, **arguments) for module in (v1, v2) for name, arguments in both]
    found += [
        *[build(v2, "GaussianNoise", **arguments) for arguments in ({}, {"mean": 0.5}, {"sigma": 0}, {"sigma": -0.1})],
        *[build(v2, "GaussianNoise", mean=-1, sigma=2.0, clip=clip) for clip in (True, False, None)],
        *[build(v2, "JPEG", quality=quality) for quality in (1, 50, 100, (1, 100), [7, 7])],
        build(v2, "RandomErasing", p=0.5),
        build(v2, "RandomErasing", p=0.5, value="random"),
        *[build(v2, "ElasticTransform", sigma=0.5, interpolation=mode.value) for mode in InterpolationMode],
        *[build(v2, "ElasticTransform", alpha=alpha, sigma=[1]) for alpha in (9, [9], (9, 8.5))],
        *[
            build(v2, "ElasticTransform", alpha=90.0, sigma=0.5, fill=fill)
            for fill in (
                None,
                {PIL.Image.Image: 1, torch.Tensor: 2.5, tv_tensors.Image: (3, 4, 5)},
                {tv_tensors.Mask: 1, "others": 6},
                {tv_tensors.Mask: 1},
            )
        ],
    ]
    for module, generation in ((v1, "v1"), (v2, "v2")):
        found += [
            (f"{generation} {name}", transform)
            for name, transform in (
                ("LinearTransformation", linear(module, 75)),
                ("LinearTransformation of grey", linear(module, 25)),
                ("LinearTransformation of none", linear(module, 7)),
                ("LinearTransformation in double", linear(module, 75, mean_vector=torch.rand(75).double())),
                (
                    "LinearTransformation by doubles",
                    linear(module, 75, transformation_matrix=torch.rand(75, 75).double()),
                ),
                ("LinearTransformation in half", linear(module, 75, mean_vector=torch.rand(75).half())),
                ("LinearTransformation edited to words", linear(module, 75, mean_vector="mean")),
                ("LinearTransformation edited to two", linear(module, 75, mean_vector=torch.rand(2))),
                ("LinearTransformation edited to a line", linear(module, 75, transformation_matrix=torch.rand(75))),
                ("GaussianBlur edited to a number", edited(module.GaussianBlur(3), kernel_size=5)),
                ("GaussianBlur edited to an even number", edited(module.GaussianBlur(3), kernel_size=(4, 3))),
                ("GaussianBlur edited to a fraction", edited(module.GaussianBlur(3), kernel_size=(3.0, 3))),
                ("GaussianBlur edited to three", edited(module.GaussianBlur(3), kernel_size=(3, 3, 3))),
                ("GaussianBlur edited to nothing", edited(module.GaussianBlur(3), kernel_size=(-1, 3))),
                ("GaussianBlur edited to a number sigma", edited(module.GaussianBlur(3), sigma=2.0)),
                ("GaussianBlur edited to sigma 0", edited(module.GaussianBlur(3), sigma=(0.0, 0.0))),
                ("GaussianBlur edited to a reversed sigma", edited(module.GaussianBlur(3), sigma=(2.0, 1.0))),
                ("ElasticTransform edited to a number", edited(module.ElasticTransform(9.0, 0.5), alpha=9.0)),
                ("ElasticTransform edited to a tuple", edited(module.ElasticTransform(9.0, 0.5), alpha=(9, 8))),
                ("ElasticTransform edited to a number sigma", edited(module.ElasticTransform(9.0, 0.5), sigma=0.5)),
                ("ElasticTransform edited to words", edited(module.ElasticTransform(9.0, 0.5), alpha=("a", "b"))),
                (
                    "ElasticTransform edited to a name",
                    edited(module.ElasticTransform(9.0, 0.5), interpolation="nearest"),
                ),
                (
                    "ElasticTransform edited to a wrong name",
                    edited(module.ElasticTransform(9.0, 0.5), interpolation="up"),
                ),
                ("RandomErasing edited to 2", edited(module.RandomErasing(), p=2)),
                ("RandomErasing edited to -1", edited(module.RandomErasing(), p=-1.0)),
                ("RandomErasing edited to a large scale", edited(module.RandomErasing(1.0), scale=(1.0, 2.0))),
                ("RandomErasing edited to a reversed scale", edited(module.RandomErasing(1.0), scale=(0.5, 0.1))),
                ("RandomErasing edited to a number scale", edited(module.RandomErasing(1.0), scale=0.5)),
                ("RandomErasing edited to nothing", edited(module.RandomErasing(1.0), value=b"")),
                ("RandomErasing edited to words", edited(module.RandomErasing(1.0), value=("a", "b", "c"))),
            )
        ]
    found += [
        ("v1 GaussianBlur edited to a range", edited(v1.GaussianBlur(3), kernel_size=range(3, 6, 2))),
        ("v1 RandomErasing edited to text", edited(v1.RandomErasing(1.0), value="any")),
        ("v1 RandomErasing edited to numbers as text", edited(v1.RandomErasing(1.0), value=("1", "2.5", "3"))),
        ("v1 RandomErasing edited to ratio", edited(v1.RandomErasing(1.0), ratio=(2.0, 3.0))),
        ("v1 RandomErasing edited to ratio 0", edited(v1.RandomErasing(1.0), ratio=(0.0, 3.0))),
        ("v1 RandomErasing edited to a negative ratio", edited(v1.RandomErasing(1.0), ratio=(-1.0, 3.0))),
        ("v1 ElasticTransform edited to no fill", edited(v1.ElasticTransform(90.0, 0.5), fill=None)),
        ("v1 ElasticTransform edited to a number fill", edited(v1.ElasticTransform(90.0, 0.5), fill=9)),
        ("v1 ElasticTransform edited to a word fill", edited(v1.ElasticTransform(90.0, 0.5), fill="9x")),
        ("v2 ElasticTransform edited fill", edited(v2.ElasticTransform(90.0, 0.5), fill=200)),
        ("v2 ElasticTransform edited _fill", edited(v2.ElasticTransform(90.0, 0.5), _fill={"others": 200})),
        ("v2 RandomErasing edited to a number", edited(v2.RandomErasing(1.0), value=3)),
        ("v2 RandomErasing edited to noise", edited(v2.RandomErasing(1.0), value=None)),
        ("v2 RandomErasing edited to text", edited(v2.RandomErasing(1.0), value="random")),
        ("v2 RandomErasing edited to whole numbers", edited(v2.RandomErasing(1.0), value=(1, 2, 300))),
        ("v2 GaussianNoise edited to words", edited(v2.GaussianNoise(), sigma="much")),
        ("v2 GaussianNoise edited to a word mean", edited(v2.GaussianNoise(), mean="half")),
        ("v2 JPEG edited to fractions", edited(v2.JPEG(50), quality=(1.5, 7.5))),
        ("v2 JPEG edited to a number", edited(v2.JPEG(50), quality=50)),
        ("v2 JPEG edited to reversed", edited(v2.JPEG(50), quality=(60, 50))),
        (
            "Compose",
            v2.Compose(
                [
                    *(v2.JPEG(60), v2.GaussianBlur(3), v2.ToImage(), v2.GaussianNoise(), v2.ElasticTransform(9.0, 0.5)),
                    *(v2.ToDtype(torch.float32, scale=True), v2.RandomErasing(0.5, value="random"), v2.GaussianNoise()),
                ]
            ),
        ),
    ]
    return found


CASES = cases()


def test_cases_have_their_own_names() -> None:
    assert len({name for name, _ in CASES}) == len(CASES)


@pytest.mark.parametrize("transform", [transform for _, transform in CASES], ids=[name for name, _ in CASES])
def test_translation_is_what_torchvision_does(transform: Any) -> None:
    check_against_torchvision(transform)


@pytest.mark.parametrize("generation", ["v1", "v2"])
def test_a_ratio_that_torchvision_would_not_draw_from_is_refused(generation: str) -> None:
    changed = edited((v1 if generation == "v1" else v2).RandomErasing(1.0), ratio=(2.0, 3.0))
    refusals = translate(changed, input=ImageSpec("tensor")).refusals
    if generation == "v1":  # it takes the logarithms anew each time
        assert not refusals
        return
    assert "torchvision would go on drawing from the old one" in refusals[0]
    assert "make a new RandomErasing" in refusals[0]


@pytest.mark.parametrize(
    ("transform", "spec", "phrase"),
    [
        (v1.RandomErasing(), ImageSpec(), "RandomErasing does not support PIL images; put ToTensor() before"),
        (v2.GaussianNoise(), ImageSpec(), "GaussianNoise does not support PIL images; put ToImage() before"),
        (v2.GaussianNoise(), ImageSpec("tensor", "int16"), "takes uint8 or float tensors, got int16"),
        (v2.JPEG(5), ImageSpec("tensor", "float32"), "JPEG takes uint8 images, got float32"),
        (edited(v2.JPEG(5), quality=(0, 5)), ImageSpec(), "quality must be (low, high) within [1, 100]"),
        (v2.RandomErasing(value=float("nan")), ImageSpec(), "value must be finite numbers that float32 holds, got nan"),
        (v1.RandomErasing(value=1e300), ImageSpec("tensor"), "value must be finite numbers that float32 holds"),
        (v2.GaussianNoise(mean=float("inf")), ImageSpec("tensor"), "mean must be a finite number, got inf"),
        (
            v2.LinearTransformation(torch.eye(3, dtype=torch.int64), torch.zeros(3, dtype=torch.int64)),
            ImageSpec("tensor"),
            "transformation_matrix must be a tensor of float16, float32 or float64, got torch.int64",
        ),
    ],
)
def test_refusals_name_the_cause(transform: Any, spec: ImageSpec, phrase: str) -> None:
    (sentence,) = translate(transform, input=spec).refusals
    assert phrase in sentence
