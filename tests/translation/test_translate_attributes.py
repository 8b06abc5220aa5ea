"""No attribute of a torchvision class goes unread: a new one fails a test instead of changing pixels."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torchvision
from torch import nn
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode, v2
from translate_arguments import make

from gpufeed.spec import ImageSpec
from gpufeed.translation import Translation, translate
from gpufeed.translation.registry import RULES

BOOKKEEPING = frozenset(vars(nn.Module()))

OTHER_VALUES: dict[str, Any] = {
    "size": (22, 23),
    "interpolation": InterpolationMode.NEAREST,
    "max_size": 50,
    "antialias": False,
    "padding": [1, 2, 3, 4],
    "pad_if_needed": True,
    "padding_mode": "reflect",
    "fill": 7,
    "_fill": {"others": 7},
    "scale": (0.5, 0.75),
    "ratio": (0.9, 1.1),
    "_log_ratio": torch.zeros(2),
    "p": 0.75,
    "num_output_channels": 3,
    "vertical_flip": True,
    "crop_size": [17],
    "resize_size": [18],
    "dtype": torch.float64,
    "mean": [0.25],
    "std": [0.5],
    "degrees": [-10.0, 20.0],
    "expand": True,
    "center": (3, 4),
    "translate": (0.1, 0.2),
    "shear": [-5.0, 5.0],
    "distortion_scale": 0.3,
    "side_range": (1.5, 2.0),
    "target_size": (33, 44),
    "scale_range": (0.5, 1.5),
    "min_size": [11, 12],
    "brightness": (0.5, 0.75),
    "contrast": (0.25, 0.75),
    "saturation": (0.25, 0.5),
    "hue": (0.125, 0.25),
    "bits": 5,
    "threshold": 0.25,
    "sharpness_factor": 3.0,
    "kernel_size": (5, 7),
    "sigma": (0.5, 0.75),
    "alpha": (5.0, 6.0),
    "clip": False,
    "quality": (10, 20),
    "transformation_matrix": torch.ones(12, 12),
    "mean_vector": torch.ones(12),
    "value": [0.5],
}
"""Another value for each attribute that is read."""

IDLE_VALUES: dict[str, Any] = {
    "inplace": True,
    "fill": 9,
    "clamping_mode": "soft",
    "format": "CXCYWH",
    "num_samples": 7,
}
"""Another value for each attribute that carries nothing."""

SPECIAL_VALUES: dict[tuple[str, str], Any] = {
    ("RandomRotation", "interpolation"): InterpolationMode.BILINEAR,
    ("RandomAffine", "interpolation"): InterpolationMode.BILINEAR,
    ("RandomResize", "min_size"): 11,
    ("ToDtype", "scale"): True,
    ("GaussianNoise", "mean"): 0.25,
    ("GaussianNoise", "sigma"): 0.25,
}


def own_attributes(transform: Any) -> set[str]:
    return set(vars(transform)) - (BOOKKEEPING if isinstance(transform, nn.Module) else set())


def spec_for(transform_class: type[Any]) -> ImageSpec:
    """An input on which every attribute of the class can matter: v1's conversions want PIL images, the rest floats."""
    if transform_class in (v1.ToTensor, v1.PILToTensor, v2.UniformTemporalSubsample):
        return ImageSpec()
    of_bytes = ("ToDtype", "ConvertImageDtype", "RandomPosterize", "RandomEqualize", "JPEG")
    return ImageSpec("tensor", "uint8" if transform_class.__name__ in of_bytes else "float32")


def translated(transform: Any) -> Translation:
    return translate(transform, input=spec_for(type(transform)))


CLASSES = pytest.mark.parametrize(
    "transform_class", RULES, ids=[f"{name.__module__.split('.')[-2]}.{name.__name__}" for name in RULES]
)
READ = [(transform_class, name) for transform_class, rule in RULES.items() for name in sorted(rule.reads)]
IDLE = [(transform_class, name) for transform_class, rule in RULES.items() for name in sorted(rule.carries_nothing)]


def ids(pairs: list[tuple[type[Any], str]]) -> list[str]:
    return [f"{item.__module__.split('.')[-2]}.{item.__name__}.{name}" for item, name in pairs]


def test_every_class_of_the_contract_has_a_rule() -> None:
    both = [
        *(
            "Resize",
            "CenterCrop",
            "RandomCrop",
            "RandomResizedCrop",
            "RandomHorizontalFlip",
            "RandomVerticalFlip",
            "Pad",
        ),
        *("Grayscale", "RandomGrayscale", "ToTensor", "PILToTensor", "ConvertImageDtype", "Normalize"),
    ]
    expected = {getattr(module, name) for module in (v1, v2) for name in both}
    expected |= {v2.ToImage, v2.ToPureTensor, v2.ToDtype, v2.Identity, nn.Identity}
    assert expected <= set(RULES)


@CLASSES
def test_its_attributes_are_known_and_no_others(transform_class: type[Any]) -> None:
    rule = RULES[transform_class]
    assert own_attributes(make(transform_class)) == rule.reads | rule.carries_nothing.keys()
    assert not rule.reads & rule.carries_nothing.keys()
    assert all(rule.carries_nothing.values())  # each with its reason


@CLASSES
def test_a_new_attribute_is_refused(transform_class: type[Any]) -> None:
    transform = make(transform_class)
    assert translated(transform).refusals == ()
    transform.gamma = None
    (sentence,) = translated(transform).refusals
    assert "it has the attribute gamma, which " in sentence
    assert "doesn't know" in sentence
    assert f"of torchvision {torchvision.__version__}" in sentence
    assert "delete what was added" in sentence


@CLASSES
def test_a_new_method_on_the_object_is_refused(transform_class: type[Any]) -> None:
    transform = make(transform_class)
    transform.forward = transform.transform = lambda *_: None
    (sentence,) = translated(transform).refusals
    assert "it has the attributes forward, transform, which" in sentence


@CLASSES
def test_a_missing_attribute_is_refused(transform_class: type[Any]) -> None:
    for name in RULES[transform_class].reads:
        transform = make(transform_class)
        delattr(transform, name)  # as an object pickled by an older torchvision
        (sentence,) = translated(transform).refusals
        assert f"it lacks the attribute {name}, which" in sentence


@CLASSES
@pytest.mark.parametrize(
    "register",
    [
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
    ],
)
def test_hooks_are_refused(transform_class: type[Any], register: str) -> None:
    transform = make(transform_class)
    if not isinstance(transform, nn.Module):
        assert transform_class in (v1.ToTensor, v1.PILToTensor)  # they can't have one
        return
    handle = getattr(transform, register)(lambda *_: None)
    (sentence,) = translated(transform).refusals
    kind = register.removeprefix("register_").replace("full_", "").replace("_", " ")
    assert f"it has a {kind} registered" in sentence
    assert sentence.endswith("remove the hook")
    handle.remove()
    assert translated(transform).refusals == ()


@pytest.mark.parametrize("part", [nn.Identity(), nn.Parameter(torch.zeros(1)), "buffer"])
def test_what_is_registered_on_a_module_counts_as_an_attribute(part: Any) -> None:
    crop = v2.CenterCrop(3)
    if part == "buffer":
        crop.register_buffer("extra", torch.zeros(1))
    else:
        crop.extra = part
    assert "it has the attribute extra, which" in translate(crop).refusals[0]


def test_registered_means_are_read() -> None:
    transform = v1.Normalize(nn.Parameter(torch.tensor([0.5])), [0.5])
    assert translated(transform).plan == translated(v1.Normalize([0.5], [0.5])).plan


def test_compiled_transforms_are_refused() -> None:
    crop = v2.CenterCrop(3)
    crop._compiled_call_impl = torch.nn.functional.relu  # what Module.compile() sets, without its seconds
    assert "it has the attribute _compiled_call_impl, which" in translate(crop).refusals[0]


@pytest.mark.parametrize("container", [v1.Compose([v1.CenterCrop(3)]), v2.Compose([v2.CenterCrop(3)]), nn.Sequential()])
def test_containers_too(container: Any) -> None:
    container = copy.copy(container)
    container.gamma = None
    assert "it has the attribute gamma, which" in translate(container).refusals[0]


@pytest.mark.parametrize(("transform_class", "name"), READ, ids=ids(READ))
def test_what_is_read_matters(transform_class: type[Any], name: str) -> None:
    transform = make(transform_class)
    before = translated(transform).require()
    value = SPECIAL_VALUES.get((transform_class.__name__, name), OTHER_VALUES.get(name))
    assert value is not None
    setattr(transform, name, value)
    assert translated(transform).plan != before


@pytest.mark.parametrize(("transform_class", "name"), IDLE, ids=ids(IDLE))
def test_what_carries_nothing_does_not_matter(transform_class: type[Any], name: str) -> None:
    transform = make(transform_class)
    before = translated(transform).require()
    setattr(transform, name, IDLE_VALUES[name])
    assert translated(transform).require() == before
    image: Any = tv_tensors.Image(torch.rand(3, 20, 20))  # a plain tensor is a video to UniformTemporalSubsample
    torch.manual_seed(0)
    expected = make(transform_class)(image.clone())
    torch.manual_seed(0)
    assert torch.equal(transform(image.clone()), expected)
