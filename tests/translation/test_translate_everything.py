"""Every public class of the installed torchvision is translated, or refused with its reason and the way out."""

from __future__ import annotations

import inspect
import warnings
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
import torchvision
from matrix import INPUTS, check_against_torchvision, edited
from torch import nn
from torchvision import transforms as v1
from torchvision.transforms import _presets, v2

from gpufeed import reference
from gpufeed.reference.running import LEAVES
from gpufeed.spec import ImageSpec
from gpufeed.translation import translate
from gpufeed.translation.branches import BRANCHING
from gpufeed.translation.compose import CONTAINERS
from gpufeed.translation.refusals import REFUSALS
from gpufeed.translation.registry import RULES

NO_TRANSFORMS = {v1.InterpolationMode, v1.AutoAugmentPolicy}
"""Public classes that aren't transforms: names of settings."""


def public_classes(module: ModuleType) -> set[type[Any]]:
    return {
        item
        for name, item in vars(module).items()
        if inspect.isclass(item) and not name.startswith("_") and item.__module__.startswith("torchvision.")
    }


PUBLIC = public_classes(v1) | public_classes(v2) | {getattr(_presets, name) for name in _presets.__all__}


def test_every_public_class_is_known() -> None:
    known = set(RULES) | set(CONTAINERS) | set(BRANCHING) | set(REFUSALS) | NO_TRANSFORMS
    assert sorted(map(str, PUBLIC - known)) == []  # a new one has to be translated, or refused with a reason
    ours_alone = known - PUBLIC - {nn.Identity, nn.Sequential}
    assert sorted(map(str, ours_alone)) == []  # one that torchvision dropped


def test_a_class_has_one_place() -> None:
    places = [set(RULES), set(CONTAINERS), set(BRANCHING), set(REFUSALS), NO_TRANSFORMS]
    assert sum(map(len, places)) == len(set().union(*places))


def test_the_walk_sees_what_torchvision_exports() -> None:
    assert {v1.ColorJitter, v2.ColorJitter, v2.GaussianNoise, v2.JPEG, _presets.ImageClassification} <= PUBLIC
    assert len(PUBLIC) > 100


REFUSED: list[Any] = [
    v1.Lambda(str),
    v2.Lambda(str),
    v1.ToPILImage(),
    v2.ToPILImage(),
    v1.AutoAugment(),
    v2.AutoAugment(),
    v1.RandAugment(),
    v2.RandAugment(),
    v1.TrivialAugmentWide(),
    v2.TrivialAugmentWide(),
    v1.AugMix(),
    v2.AugMix(),
    v2.CutMix(num_classes=3),
    v2.MixUp(num_classes=3),
    v2.RandomIoUCrop(),
    v2.SanitizeBoundingBoxes(),
    v2.SanitizeKeyPoints(),
    v2.Transform(),
    _presets.VideoClassification(crop_size=(3, 3), resize_size=(3,)),
    _presets.OpticalFlow(),
]


def test_every_refused_class_is_tried() -> None:
    assert {type(transform) for transform in REFUSED} == set(REFUSALS)


@pytest.mark.parametrize("transform", REFUSED, ids=lambda transform: f"{type(transform).__module__.split('.')[-1]}")
def test_a_refusal_is_a_sentence_with_place_reason_and_way_out(transform: Any) -> None:
    (sentence,) = translate(v2.Compose([v2.Identity(), transform])).refusals
    assert sentence.startswith("transforms[1] (torchvision.transforms.")
    reason, _, way_out = sentence.partition(": ")[2].partition("; ")
    assert len(reason) > 20
    assert len(way_out) >= len("remove it")
    assert not sentence.endswith(".")


@pytest.mark.parametrize("transform", [v2.RandomIoUCrop(), v2.SanitizeBoundingBoxes(), v2.SanitizeKeyPoints()])
def test_what_is_refused_for_its_boxes_fails_in_torchvision_too(transform: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        transform(PIL.Image.new("RGB", (5, 5)))


def test_every_class_that_draws_has_its_leaf_in_the_oracle() -> None:
    """Without one the oracle would call the object itself, which draws by torchvision's generator."""
    from translate_arguments import make

    for transform_class in RULES:
        transform = make(transform_class)
        for spec in (ImageSpec(), ImageSpec("tensor", "uint8"), ImageSpec("tensor", "float32")):
            plan = translate(transform, input=spec).plan
            if plan is not None and plan.is_random:
                assert transform_class in LEAVES, transform_class


# What passes an image on ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "transform",
    [
        v2.ClampBoundingBoxes(),
        v2.ClampKeyPoints(),
        v2.ConvertBoundingBoxFormat("XYWH"),
        v2.SetClampingMode("hard"),
        v2.UniformTemporalSubsample(3),
    ],
)
def test_what_is_about_boxes_passes_an_image_on(transform: Any) -> None:
    check_against_torchvision(transform)
    assert translate(transform).require().ops == ()


# Containers that draw ---------------------------------------------------------------------------------------------

FLIP = v2.RandomHorizontalFlip(1.0)
PAD = v2.Pad(3)
BRANCHES: list[Any] = [
    *[module.RandomApply([FLIP, PAD], p=p) for module in (v1, v2) for p in (0, 0.5, 1)],
    v1.RandomApply(nn.ModuleList([FLIP, PAD])),
    v2.RandomApply(nn.ModuleList([FLIP, PAD])),
    v1.RandomApply([], p=0.5),
    *[edited(module.RandomApply([FLIP]), p=p) for module in (v1, v2) for p in (2, -1.0)],
    *[edited(module.RandomApply([FLIP], p=1), transforms=[]) for module in (v1, v2)],
    *[module.RandomChoice([FLIP, PAD, v2.Identity()]) for module in (v1, v2)],
    *[module.RandomChoice([FLIP, PAD], p=p) for module in (v1, v2) for p in ([0.2, 0.8], [3, 1], [0, 1])],
    edited(v1.RandomChoice([FLIP, PAD], p=[0.5, 0.5]), p=[1.0]),
    edited(v2.RandomChoice([FLIP, PAD]), p=[0.0, 0.0]),
    edited(v2.RandomChoice([FLIP, PAD]), p=[-1.0, 2.0]),
    edited(v2.RandomChoice([FLIP, PAD]), p=None),
    edited(v2.RandomChoice([FLIP, PAD]), p=(3, 3)),
    edited(v2.RandomApply([FLIP]), p=Fraction(1, 2)),
    edited(v2.RandomVerticalFlip(), p=10**20),
    *[module.RandomOrder([FLIP, PAD, v2.RandomCrop(5)]) for module in (v1, v2)],
    v1.RandomOrder([]),
    v2.RandomOrder([v2.ToImage()]),
    v2.RandomOrder([v2.ToImage(), FLIP]),
    v2.RandomApply([v2.Grayscale(1)]),
    v2.RandomChoice([v2.RandomApply([FLIP]), v2.RandomOrder([v2.RandomVerticalFlip(), v2.Compose([PAD, PAD])])]),
    nn.Sequential(v2.RandomApply([nn.Sequential(FLIP, PAD)]), v2.RandomGrayscale()),
]


@pytest.mark.parametrize("transform", BRANCHES, ids=range(len(BRANCHES)))
def test_containers_are_what_torchvision_does(transform: Any) -> None:
    check_against_torchvision(transform)


def test_lists_whose_order_is_unknown_are_refused_in_containers_too() -> None:
    (sentence,) = translate(edited(v2.RandomApply([FLIP]), transforms={FLIP: 1})).refusals
    assert "transforms must be a list, a tuple or a torch.nn.ModuleList, got dict" in sentence


# Presets of weights -----------------------------------------------------------------------------------------------

PRESETS: list[Any] = [
    _presets.ImageClassification(crop_size=16),
    _presets.ImageClassification(crop_size=31, resize_size=24, interpolation=v1.InterpolationMode.BICUBIC),
    _presets.ImageClassification(crop_size=9, resize_size=37, antialias=False, mean=(0.5,), std=(0.25,)),
    _presets.SemanticSegmentation(resize_size=29),
    _presets.SemanticSegmentation(resize_size=None),
    _presets.ObjectDetection(),
    edited(_presets.ImageClassification(crop_size=16), std=[0.0, 1.0, 1.0]),
    edited(_presets.ImageClassification(crop_size=16), resize_size=[0]),
]


@pytest.mark.parametrize("preset", PRESETS, ids=range(len(PRESETS)))
def test_presets_are_what_torchvision_does(preset: Any) -> None:
    check_against_torchvision(preset)


def test_the_transforms_of_all_weights_are_translated_or_for_videos_and_pairs() -> None:
    kinds: dict[str, int] = {}
    for name in torchvision.models.list_models():
        for weights in torchvision.models.get_model_weights(name):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                preset = weights.transforms()
            kind = type(preset).__name__
            translated = translate(preset).plan is not None
            assert translated == (kind not in ("VideoClassification", "OpticalFlow")), weights
            kinds[kind] = kinds.get(kind, 0) + 1
    assert kinds["ImageClassification"] > 80


def test_a_preset_gives_the_pixels_of_its_own_code() -> None:
    preset = torchvision.models.ResNet50_Weights.IMAGENET1K_V2.transforms()
    image = PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 260, 3), dtype=np.uint8))
    plan = translate(preset).require()
    from gpufeed.draws import Draws, epoch_key
    from gpufeed.parameters import draw_parameters

    draws = Draws(epoch_key(0, 0), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
    parameters = draw_parameters(plan, np.array([[300, 260]]), draws)
    *_, (_, traced) = reference.trace(plan, image, parameters, 0)
    assert torch.equal(traced, preset(image))
    assert len(INPUTS) == 8


# Values that nothing below can hold -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transform", "phrase"),
    [
        (v2.Resize(10**20), "at most 2147483647 pixels"),
        (v2.RandomCrop(10**20), "at most 2147483647 pixels"),
        (edited(v2.Resize(9), size=10**400), "at most 2147483647 pixels"),
        (v2.RandomRotation((1e308, 1e308)), "within the range of float32"),
        (v2.RandomAffine(0, shear=(0, 1e308)), "within the range of float32"),
        (v2.RandomAffine(0, scale=(1e-300, 1e-300)), "scale must be at least"),
        (v2.RandomAffine(0, shear=(-90, -90)), "shear by exactly -90 degrees makes a line"),
        (v1.RandomAffine(0, shear=(0, 9, 270, 270)), "shear by exactly 270 degrees makes a line"),
        (v2.RandomResizedCrop(9, scale=(1e308, 1e308)), "within the range of float32"),
        (v2.RandomAdjustSharpness(1e39, 1.0), "finite in float32"),
        (edited(v2.ColorJitter(contrast=0.5), contrast="12"), "it is text"),
        (edited(v2.CenterCrop(9), size=b"ab"), "size must be a sequence of 1 or 2 whole numbers"),
    ],
)
def test_values_beyond_all_measure_are_refused_in_words(transform: Any, phrase: str) -> None:
    (sentence,) = translate(transform).refusals
    assert phrase in sentence


def test_a_plan_is_json_whatever_the_threshold() -> None:
    transform = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32), v2.RandomSolarize(float("-inf"), 1.0)])
    assert "threshold must be a finite number" in translate(transform).refusals[0]


@pytest.mark.parametrize("idle", [v1.Pad(0), v1.RandomGrayscale(0.0), v1.ConvertImageDtype(torch.uint8)])
def test_classes_of_the_first_generation_take_no_tuple_even_where_they_do_nothing(idle: Any) -> None:
    compose = v2.Compose([v2.ToImage(), v2.FiveCrop(8), idle])
    with pytest.raises((TypeError, AttributeError)):
        compose(PIL.Image.new("RGB", (9, 9)))
    assert "takes one" in translate(compose).refusals[0]
