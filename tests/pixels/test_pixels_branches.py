"""Containers and tuples of crops, on every domain."""

from __future__ import annotations

from typing import Any

import pytest
from op_oracle import DOMAINS, SIZES_HW, check, check_whole, pixels
from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed.translation import translate

CONTAINERS: dict[str, Any] = {
    "apply": v2.RandomApply([v2.RandomHorizontalFlip(1.0), v2.Grayscale(3)], p=0.5),
    "apply always": v2.RandomApply([v2.RandomVerticalFlip(0.5)], p=1.0),
    "choice": v2.RandomChoice([v2.Grayscale(3), v2.Identity(), v2.Pad(2, fill=9)], p=[0.5, 0.2, 0.3]),
    "order": v2.RandomOrder([v2.Pad((1, 2), fill=200), v2.RandomGrayscale(0.5), v2.RandomCrop(1)]),
    "nested": v2.RandomApply(
        [v2.RandomChoice([v2.RandomOrder([v2.RandomHorizontalFlip(), v2.Pad(1)]), v2.Resize((5, 7))])], p=0.8
    ),
    "to one size": v2.Compose(
        [v2.Resize((23, 19)), v2.RandomApply([v2.RandomResizedCrop((23, 19)), v2.RandomVerticalFlip(1.0)], p=0.6)]
    ),
}


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("name", CONTAINERS)
def test_containers(name: str, domain: str) -> None:
    for number, (height, width) in enumerate(SIZES_HW):
        image = pixels(("natural", "noise")[number % 2], height, width, number)
        check(CONTAINERS[name], image, domain, rows=6)
        check_whole(CONTAINERS[name], image, domain, rows=6)


@pytest.mark.parametrize("domain", ["pil", "uint8", "float"])
@pytest.mark.parametrize("kind", [v1.RandomApply, v1.RandomChoice, v1.RandomOrder])
def test_containers_of_the_first_generation(kind: Any, domain: str) -> None:
    transform = kind([v1.RandomHorizontalFlip(1.0), v1.Grayscale(3), v1.Pad(1)])
    for number, (height, width) in enumerate(SIZES_HW):
        check(transform, pixels("noise", height, width, number), domain, rows=6)
        check_whole(transform, pixels("noise", height, width, number), domain, rows=6)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize(
    "transform",
    [
        v2.FiveCrop(7),
        v2.FiveCrop((6, 9)),
        v2.TenCrop(7),
        v2.TenCrop((9, 6), vertical_flip=True),
    ],
)
def test_tuples_of_crops(transform: Any, domain: str) -> None:
    for height, width in ((9, 9), (17, 11), (61, 83)):
        check(transform, pixels("natural", height, width, height), domain)
        check_whole(transform, pixels("natural", height, width, height), domain)


@pytest.mark.parametrize("domain", ["pil", "image_uint8", "image_float"])
def test_what_follows_a_tuple_of_crops_is_drawn_once_for_all(domain: str) -> None:
    transform = v2.Compose(
        [
            v2.FiveCrop(16),
            v2.ToImage(),
            v2.RandomApply([v2.RandomHorizontalFlip(0.5), v2.RandomCrop((9, 10))], p=0.7),
            v2.RandomGrayscale(0.5),
            v2.Resize((9, 10)),
        ]
    )
    check(transform, pixels("noise", 31, 37, 1), domain, rows=8)
    check_whole(transform, pixels("noise", 31, 37, 1), domain, rows=8)


def test_a_container_that_makes_two_kinds_of_image_is_refused() -> None:
    (sentence,) = translate(v2.RandomApply([v2.Grayscale(1)])).refusals
    assert "pil uint8 H x W x 3 for some samples and pil uint8 H x W x 1 for others" in sentence


def test_what_is_refused_inside_is_named_with_its_place() -> None:
    def own(image: Any) -> Any:
        return image

    inside = v2.RandomChoice([v2.Compose([v2.Identity(), v2.Lambda(own)]), v1.RandomApply([v1.Lambda(own)])])
    first, second = translate(v2.Compose([v2.Identity(), inside])).refusals
    assert first.startswith("transforms[1].transforms[0].transforms[1] (torchvision.transforms.v2.Lambda): ")
    assert second.startswith("transforms[1].transforms[1].transforms[0] (torchvision.transforms.Lambda): ")


def test_a_container_in_itself_ends() -> None:
    apply = v2.RandomApply([v2.Identity()])
    apply.transforms.append(apply)
    (sentence,) = translate(apply).refusals
    assert "it contains itself" in sentence
