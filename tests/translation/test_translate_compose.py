"""Nesting, places, and the sentences of what is refused."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed.errors import GpufeedError, TranslationError, UnsupportedError
from gpufeed.plan import CenterCrop, Convert, Plan, Resize
from gpufeed.spec import ImageSpec
from gpufeed.translation import translate

CROP = CenterCrop((3, 3))


class CustomCrop(v2.CenterCrop):
    """A subclass that changes nothing, which can't be seen from outside."""


class CustomCompose(v1.Compose):
    pass


class Custom:
    def __call__(self, image: Any) -> Any:
        return image


class CustomTransform(v2.Transform):
    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return inpt


class Shuffled(Sequence[Any]):
    """A sequence that torchvision takes, in another order each time."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: Any) -> Any:
        return [v1.CenterCrop(3)][index]


def identity(image: Any) -> Any:
    return image


def places(transform: Any) -> list[str]:
    return [step.place for step in translate(transform).steps]


def refusal(transform: Any) -> str:
    (sentence,) = translate(transform).refusals
    return sentence


def test_nesting_is_flat_in_the_plan_and_shown_in_the_places() -> None:
    inner = v2.Compose([v2.CenterCrop(3), v2.Compose([v2.CenterCrop(3)])])
    transform = v1.Compose([v1.CenterCrop(3), inner, nn.Sequential(v2.CenterCrop(3), nn.Sequential(inner))])
    translation = translate(transform)
    assert translation.require() == Plan((CROP,) * 6)
    assert places(transform) == [
        "transforms[0]",
        "transforms[1].transforms[0]",
        "transforms[1].transforms[1].transforms[0]",
        "transforms[2][0]",
        "transforms[2][1][0].transforms[0]",
        "transforms[2][1][0].transforms[1].transforms[0]",
    ]


def test_places_without_a_compose() -> None:
    assert places(v2.CenterCrop(3)) == ["transform"]
    assert places(nn.Sequential(v2.CenterCrop(3), v2.CenterCrop(4))) == ["[0]", "[1]"]


@pytest.mark.parametrize("container", [list, tuple, nn.ModuleList, lambda content: nn.Sequential(*content)])
def test_what_may_hold_the_transforms_of_a_compose(container: Any) -> None:
    assert translate(v1.Compose(container([v1.CenterCrop(3)]))).require() == Plan((CROP,))


def test_modules_of_a_sequential_may_have_names_and_come_twice() -> None:
    crop = v2.CenterCrop(3)
    sequential = nn.Sequential()
    sequential.add_module("first", crop)
    sequential.add_module("second", crop)
    assert translate(sequential).require() == Plan((CROP, CROP))


@pytest.mark.parametrize("transform", [None, v1.Compose([]), nn.Sequential(), v2.Identity(), nn.Identity()])
def test_nothing_is_the_empty_plan(transform: Any) -> None:
    spec = ImageSpec("tv_image", "float32", 1, (3, 4))
    assert translate(transform, input=spec).require() == Plan((), spec)


def test_empty_v2_compose_fails_at_the_first_image() -> None:
    compose = v2.Compose([v2.Identity()])
    compose.transforms = []
    assert "transforms must not be empty in v2" in refusal(compose)
    with pytest.raises(UnboundLocalError):
        compose(torch.zeros(3, 4, 4))


def test_training_mode_is_ignored() -> None:
    transform = v2.Compose([v2.RandomHorizontalFlip(), v2.Normalize((0.5,), (0.5,))])
    spec = ImageSpec("tensor", "float32")
    assert translate(transform.train(), input=spec) == translate(transform.eval(), input=spec)


def test_the_same_object_after_an_edit_is_another_plan() -> None:
    crop = v2.CenterCrop(3)
    first = translate(crop).require()
    crop.size = (4, 5)
    assert (first, translate(crop).require()) == (Plan((CROP,)), Plan((CenterCrop((4, 5)),)))


def test_the_transform_is_not_changed() -> None:
    fill = {"others": 3}
    transform = v2.Compose([v2.Pad(1, fill=fill), v2.RandomResizedCrop(5)])
    before = [{**vars(leaf)} for leaf in transform.transforms]
    translate(transform).require()
    assert [{**vars(leaf)} for leaf in transform.transforms] == before


def forward_hook(module: Any, inputs: Any, output: Any) -> None:
    del module, inputs, output


def test_refused_containers_are_named_and_their_content_is_still_read() -> None:
    inner = v2.Compose([v2.CenterCrop(3)])
    inner.register_forward_hook(forward_hook)
    translation = translate(v1.Compose([inner, v1.CenterCrop(3)]))
    assert [(step.place, step.refusal is None) for step in translation.steps] == [
        ("transforms[0]", False),
        ("transforms[0].transforms[0]", True),
        ("transforms[1]", True),
    ]
    assert (
        "transforms[0] (torchvision.transforms.v2.Compose): it has a forward hook registered" in translation.refusals[0]
    )


@pytest.mark.parametrize("content", [Shuffled(), iter([v1.CenterCrop(3)]), {0: v1.CenterCrop(3)}.values()])
def test_compose_of_what_may_change_between_calls(content: Any) -> None:
    sentence = refusal(v1.Compose(content))
    assert f"transforms must be a list, a tuple or a torch.nn.ModuleList, got {type(content).__name__}" in sentence
    assert sentence.endswith("make it a list")
    assert len(list(content)) == 1  # an iterator wasn't used up


def test_compose_that_contains_itself() -> None:
    compose = v1.Compose([v1.CenterCrop(3)])
    compose.transforms.append(compose)
    translation = translate(compose)
    assert [step.place for step in translation.steps] == ["transforms[0]", "transforms[1]"]
    assert "it contains itself" in translation.refusals[0]


WAY_OUT = (
    "apply it to each image in a collate_fn (it gets the samples after the other transforms, one by one), "
    "or keep torch's DataLoader for this dataset"
)


@pytest.mark.parametrize(
    ("transform", "name", "phrase"),
    [
        (identity, f"{__name__}.identity", "a function can't be looked into; if it makes a transform, call"),
        (lambda image: image, f"a lambda in {__name__}", "a function can't be looked into"),
        (functools.partial(identity), f"functools.partial of {__name__}.identity", "a function can't be looked into"),
        (len, "builtins.len", "a function can't be looked into"),
        (v1.Lambda(identity), "torchvision.transforms.Lambda", "a function can't be looked into"),
        (v2.Lambda(identity), "torchvision.transforms.v2.Lambda", "a function can't be looked into"),
        (CustomCrop(3), f"{__name__}.CustomCrop", "a subclass of torchvision.transforms.v2.CenterCrop may override"),
        (CustomCompose([]), f"{__name__}.CustomCompose", "a subclass of torchvision.transforms.Compose may override"),
        (Custom(), f"{__name__}.Custom", "the class isn't torchvision's, so what it does isn't known"),
        (CustomTransform(), f"{__name__}.CustomTransform", "the class isn't torchvision's"),
        (nn.ReLU(), "torch.nn.ReLU", "the class isn't torchvision's"),
    ],
)
def test_what_can_not_be_read_is_named_with_the_way_out(transform: Any, name: str, phrase: str) -> None:
    sentence = refusal(v1.Compose([v1.CenterCrop(3), transform]))
    assert sentence.startswith(f"transforms[1] ({name}): {phrase}")
    assert sentence.endswith(WAY_OUT)


@pytest.mark.parametrize(
    ("transform", "name", "reason"),
    [
        (3, "builtins.int", "it is no transform"),
        (None, "builtins.NoneType", "it is no transform"),
        ([v1.CenterCrop(3)], "builtins.list", "it is a list; put its transforms into a Compose"),
        (
            v1.CenterCrop,
            "the class torchvision.transforms.CenterCrop",
            "it is a class, not an object of it; write Cent",
        ),
    ],
)
def test_what_is_no_transform(transform: Any, name: str, reason: str) -> None:
    sentence = refusal(v1.Compose([transform]))
    assert sentence.startswith(f"transforms[0] ({name}): {reason}")


def test_every_refusal_is_listed() -> None:
    translation = translate(v1.Compose([v1.CenterCrop(3), v1.Resize(0), v1.Compose([identity]), v1.Resize(4)]))
    assert translation.plan is None
    with pytest.raises(TranslationError) as raised:
        translation.require()
    assert isinstance(raised.value, UnsupportedError | GpufeedError)
    assert isinstance(raised.value, TypeError)
    lines = str(raised.value).splitlines()
    assert lines[0] == "gpufeed can't do 2 of these transforms exactly:"
    assert lines[1].startswith("- transforms[1] (torchvision.transforms.Resize): size must be at least 1 pixel")
    assert lines[2].startswith(f"- transforms[2].transforms[0] ({__name__}.identity): a function")
    assert len(lines) == 3
    assert translation.refusals == tuple(line.removeprefix("- ").removesuffix(".") for line in lines[1:])
    assert "refused: 2 of 4 transforms" in str(translation)
    assert "    refused: a function can't be looked into" in str(translation)


def test_a_single_refusal_is_one_sentence() -> None:
    with pytest.raises(
        TranslationError, match=r"^gpufeed can't do this transform exactly: transform \(builtins.int\): it"
    ):
        translate(3).require()


def test_what_follows_a_refused_transform_is_not_blamed_for_it() -> None:
    compose = v1.Compose([v1.ToTensor(), v1.ToTensor(), v1.Normalize((0.5,) * 3, (0.5,) * 3), v1.Resize(4)])
    assert [step.refusal is None for step in translate(compose).steps] == [True, False, True, True]
    compose = v1.Compose([identity, v1.Normalize((0.5,) * 3, (0.5,) * 3)])  # it may have made a tensor
    assert [step.refusal is None for step in translate(compose).steps] == [False, True]


def test_what_follows_a_refused_transform_is_blamed_for_itself() -> None:
    compose = v1.Compose([identity, v1.ToTensor(), v1.ToTensor(), v1.Resize(0), v1.Normalize((0.5, 0.5), (1.0, 1.0))])
    assert [step.refusal is None for step in translate(compose).steps] == [False, True, False, False, False]


def test_a_repr_that_fails_is_replaced() -> None:
    resize = v1.Resize(4)
    resize.interpolation = "bilinear"  # v1's __repr__ asks it for its value
    with pytest.raises(AttributeError):
        repr(resize)
    (step,) = translate(resize).steps
    assert step.text == "Resize(...)"


def test_leaves_keep_their_object_and_order() -> None:
    def steps() -> Iterator[Any]:
        yield from translate(compose).steps

    compose = v2.Compose([v2.ToImage(), v2.Resize((4, 5)), v2.ToPureTensor()])
    assert [step.transform for step in steps()] == list(compose.transforms)
    assert [step.ops for step in steps()] == [(Convert("tv_image"),), (Resize((4, 5)),), (Convert("tensor"),)]
