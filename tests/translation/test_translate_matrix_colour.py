"""Classes that change colours, with every kind of attribute value, against torchvision itself (`matrix`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from matrix import build, check_against_torchvision, edited
from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed.plan import ChannelPermutation, ColorJitter, Grayscale, RandomApply
from gpufeed.spec import ImageSpec
from gpufeed.translation import translate


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Images this small are slower in several."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)


def cases() -> list[tuple[str, Any]]:
    both: list[tuple[str, dict[str, Any]]] = [
        ("ColorJitter", {}),
        *[
            ("ColorJitter", {name: value})
            for name in ("brightness", "contrast", "saturation")
            for value in (0, 0.5, 1, 2.5, (0.5, 1.5), [1, 1], (1.2, 1.2), (0, 3))
        ],
        *[("ColorJitter", {"hue": value}) for value in (0, 0.5, 0.1, (-0.5, 0.5), [0.2, 0.2], (0, 0), (-0.3, -0.1))],
        ("ColorJitter", {"brightness": 0.8, "contrast": 0.8, "saturation": 0.8, "hue": 0.2}),
        *[(name, {"p": p}) for name in ("RandomInvert", "RandomAutocontrast", "RandomEqualize") for p in (0, 1, 1.0)],
        ("RandomInvert", {"p": 0.5}),
        ("RandomAutocontrast", {"p": 0.5}),
        *[("RandomPosterize", {"bits": bits, "p": p}) for bits in (0, 1, 4, 8, True) for p in (0, 1)],
        *[("RandomSolarize", {"threshold": value, "p": p}) for value in (0, 0.5, 1, 1.0, 128, 255, -2) for p in (0, 1)],
        *[("RandomSolarize", {"threshold": value, "p": 1}) for value in (127.5, 256, 1e300, np.float32(0.25), True)],
        ("RandomSolarize", {"threshold": 0.3}),
        *[("RandomSolarize", {"threshold": value, "p": 1}) for value in (-2.0, 300.0, float("inf"), 10**40)],
        *[("RandomAdjustSharpness", {"sharpness_factor": value, "p": p}) for value in (0, 0.5, 1, 2.5) for p in (0, 1)],
        *[("RandomAdjustSharpness", {"sharpness_factor": value, "p": 1}) for value in (-1, np.float32(0.3), True)],
        ("RandomAdjustSharpness", {"sharpness_factor": 2}),
    ]
    found = [build(module, name, **arguments) for module in (v1, v2) for name, arguments in both]
    found += [
        build(v2, "RGB"),
        build(v2, "RandomPosterize", bits=3),  # v1 fails on floats, if it is drawn
        build(v2, "RandomEqualize", p=0.5),
        build(v2, "RandomChannelPermutation"),
        build(v2, "RandomPhotometricDistort"),
        *[build(v2, "RandomPhotometricDistort", p=p) for p in (0, 1, 1.0, 0.9)],
        build(v2, "RandomPhotometricDistort", brightness=(1, 1), contrast=[0.5, 0.5], saturation=(0, 9), hue=(0, 0.5)),
        build(v2, "RandomPhotometricDistort", brightness=None, p=1),
        build(v2, "RandomPhotometricDistort", contrast=0.5, p=1),
        build(v2, "RandomPhotometricDistort", contrast=None, p=0),
        build(v2, "RandomPhotometricDistort", saturation=(1.5, 0.5), p=1),
        build(v2, "RandomPhotometricDistort", hue=(0.6, 0.7), p=1),
        build(v2, "RandomPhotometricDistort", brightness=(-2.0, -1.0), p=1),
        build(v2, "RandomPhotometricDistort", brightness=(1.0, 1.5, "more"), p=1),
    ]
    for module, generation in ((v1, "v1"), (v2, "v2")):
        jitter = module.ColorJitter
        found += [
            (f"{generation} {name}", transform)
            for name, transform in (
                ("brightness edited to a list", edited(jitter(), brightness=[0.5, 1.5])),
                ("brightness edited to a tensor", edited(jitter(), brightness=torch.tensor([0.5, 1.5]))),
                ("brightness edited to a number", edited(jitter(), brightness=0.5)),
                ("brightness edited to three", edited(jitter(), brightness=(0.5, 1.5, 9))),
                ("brightness edited to one", edited(jitter(), brightness=(0.5,))),
                ("contrast edited to words", edited(jitter(), contrast=("low", "high"))),
                ("contrast edited to a dictionary", edited(jitter(), contrast={"low": 1})),
                ("contrast edited below 0", edited(jitter(), contrast=(-1.5, -1.0))),
                ("contrast edited to the wrong order", edited(jitter(), contrast=(1.5, 1.0))),
                ("contrast edited without an end", edited(jitter(), contrast=(0.0, float("inf")))),
                ("contrast edited to no number", edited(jitter(), contrast=(float("nan"), 1.0))),
                ("saturation edited below 0", edited(jitter(), saturation=(-1.5, -1.0))),
                ("saturation edited to nothing", edited(jitter(saturation=0.5), saturation=None)),
                ("hue edited beyond half", edited(jitter(), hue=(0.6, 0.7))),
                ("hue edited below half", edited(jitter(), hue=(-0.7, -0.6))),
                ("RandomInvert edited to 2", edited(module.RandomInvert(), p=2)),
                ("RandomEqualize edited to -1", edited(module.RandomEqualize(), p=-1.0)),
                ("RandomPosterize edited to 9", edited(module.RandomPosterize(4, p=1), bits=9)),
                ("RandomPosterize edited to -1", edited(module.RandomPosterize(4, p=1), bits=-1)),
                ("RandomPosterize edited to 9, never", edited(module.RandomPosterize(4, p=0), bits=9)),
                ("RandomPosterize edited to 4.0", edited(module.RandomPosterize(4, p=1), bits=4.0)),
                ("RandomPosterize edited to a word", edited(module.RandomPosterize(4, p=1), bits="four")),
                ("RandomSolarize edited to a word", edited(module.RandomSolarize(4, p=1), threshold="half")),
                ("RandomSolarize edited to nothing", edited(module.RandomSolarize(4, p=1), threshold=None)),
                (
                    "RandomAdjustSharpness edited to a word",
                    edited(module.RandomAdjustSharpness(4, p=1), sharpness_factor="much"),
                ),
                (
                    "RandomAdjustSharpness edited to nothing",
                    edited(module.RandomAdjustSharpness(4, p=1), sharpness_factor=None),
                ),
            )
        ]
    found += [
        ("v2 RandomPhotometricDistort edited to 2", edited(v2.RandomPhotometricDistort(), p=2)),
        (
            "grey first",
            v2.Compose([v2.Grayscale(1), v2.ColorJitter(0.5, 0.5, 0.5, 0.5), v2.RGB(), v2.RandomEqualize(1)]),
        ),
    ]
    return found


CASES = cases()


def test_cases_have_their_own_names() -> None:
    assert len({name for name, _ in CASES}) == len(CASES)


@pytest.mark.parametrize("transform", [transform for _, transform in CASES], ids=[name for name, _ in CASES])
def test_translation_is_what_torchvision_does(transform: Any) -> None:
    check_against_torchvision(transform)


def test_a_sure_op_stands_alone_and_one_by_chance_in_a_branch() -> None:
    (sure,) = translate(v2.RandomEqualize(1.0)).require().ops
    (chance,) = translate(v2.RandomEqualize(0.3)).require().ops
    assert chance == RandomApply((sure,), 0.3)
    assert translate(v2.RandomEqualize(0.0)).require().ops == ()


def test_ranges_and_probabilities_are_kept() -> None:
    (jitter,) = translate(v2.ColorJitter(0.5, (0.25, 2.0), 1, 0.25)).require().ops
    assert jitter == ColorJitter((0.5, 1.5), (0.25, 2.0), (0.0, 2.0), (-0.25, 0.25))
    distort = v2.RandomPhotometricDistort((0.5, 1.0), (0.25, 2.0), (0.0, 3.0), (-0.25, 0.5), p=0.125)
    assert translate(distort).require().ops == (
        ColorJitter((0.5, 1.0), (0.25, 2.0), (0.0, 3.0), (-0.25, 0.5), "contrast first or last", 0.125),
        RandomApply((ChannelPermutation(),), 0.125),
    )


def test_grey_has_neither_saturation_nor_hue() -> None:
    grey = ImageSpec(channels=1)
    assert translate(v2.ColorJitter(0, 0, 0.5, 0.5), input=grey).require().ops == ()
    (jitter,) = translate(v1.ColorJitter(0.5, 0, 0.5, 0.5), input=grey).require().ops
    assert jitter == ColorJitter(brightness=(0.5, 1.5))
    assert translate(v2.RGB(), input=grey).require().ops == (Grayscale(3),)


def test_asking_torchvision_draws_nothing() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    translate(v2.Compose([v2.ColorJitter(0.5, 0.5, 0.5, 0.5), v2.RandomPhotometricDistort(), v2.RandomEqualize(0.5)]))
    assert torch.equal(torch.rand(4), expected)


@pytest.mark.parametrize(
    ("transform", "spec", "phrase"),
    [
        (
            v2.RandomPosterize(0, p=1),
            ImageSpec(),
            "torchvision can't posterize pil uint8 H x W x 3 with 0: bits must be",
        ),
        (v1.RandomEqualize(1), ImageSpec("tensor", "float32"), "torchvision can't equalize tensor float32"),
        (v2.RandomSolarize(128, p=1), ImageSpec("tensor", "float32"), "with 128: Threshold should be less"),
        (
            edited(v1.ColorJitter(), hue=0.1),
            ImageSpec(),
            "torchvision draws hue from (lowest, highest) and can't from 0.1: 'float' object",
        ),
        (
            v2.RandomPhotometricDistort(brightness=(-0.5, 1.0)),
            ImageSpec("tensor"),
            "brightness_factor (-0.5) is not non-negative",
        ),
    ],
)
def test_refusals_say_what_torchvision_says(transform: Any, spec: ImageSpec, phrase: str) -> None:
    (sentence,) = translate(transform, input=spec).refusals
    assert phrase in sentence
    assert "; " in sentence
