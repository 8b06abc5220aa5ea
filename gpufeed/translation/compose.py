"""What is nested: ``Compose`` of both generations and ``torch.nn.Sequential``, walked down to the leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from torch import nn
from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed.errors import UnsupportedError
from gpufeed.translation.inspection import check_attributes

__all__ = ["CONTAINERS", "LISTS", "ROOT", "Leaf", "held_transforms", "leaves", "place_inside"]

ROOT = "transform"
"""The place of a transform that isn't inside another."""

CONTAINERS = (v1.Compose, v2.Compose, nn.Sequential)
"""The classes that are walked; torchvision documents ``Sequential`` as a Compose that can be scripted."""

LISTS = (list, tuple, nn.ModuleList, nn.Sequential)
"""What may hold a Compose's transforms: classes whose iteration is known to be their order, each time."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A transform that contains no others, or a container that can't be walked.

    Attributes:
        place: where it is, such as ``transforms[2].transforms[0]``; `ROOT` at the top.
        transform: the object.
        refusal: why the container can't be walked, with the way out; ``None`` for a leaf.
        inside: the identities of the containers around it, outermost first.
    """

    place: str
    transform: object
    refusal: str | None = None
    inside: tuple[int, ...] = ()


def leaves(transform: object, place: str = "", inside: tuple[int, ...] = ()) -> Iterator[Leaf]:
    """Every leaf of ``transform`` in the order in which torchvision calls them.

    A container with a reason against it, such as a hook, comes as a refused leaf of its own, and its content after it.
    One that draws, such as ``RandomApply``, is a leaf.

    Args:
        transform: any.
        place: where it is, where it isn't the outermost.
        inside: as in `Leaf`.
    """
    yield from _walk(transform, place, inside)


def place_inside(place: str, number: int) -> str:
    """Where the transform of this number in a container's ``transforms`` is."""
    return f"transforms[{number}]" if place in ("", ROOT) else f"{place}.transforms[{number}]"


def _walk(transform: object, place: str, inside: tuple[int, ...]) -> Iterator[Leaf]:
    if id(transform) in inside:
        yield Leaf(place, transform, "it contains itself, so that it would never end; take it out of itself")
        return
    if type(transform) not in CONTAINERS:
        yield Leaf(place or ROOT, transform, None, inside)
        return
    try:
        content = _content(transform)
    except UnsupportedError as error:
        yield Leaf(place or ROOT, transform, str(error))
        content = _children(transform)
    for number, child in enumerate(content):
        at = f"{place}[{number}]" if isinstance(transform, nn.Sequential) else place_inside(place, number)
        yield from _walk(child, at, (*inside, id(transform)))


def _content(transform: object) -> list[object]:
    if isinstance(transform, nn.Sequential):
        check_attributes(transform, frozenset(vars(transform)["_modules"]), {})
        return _children(transform)
    check_attributes(transform, frozenset({"transforms"}), {})
    return held_transforms(transform, "in v2" if isinstance(transform, v2.Compose) else None)


def held_transforms(transform: object, not_empty: str | None) -> list[object]:
    """What a container holds in ``transforms``.

    Args:
        transform: the container.
        not_empty: where torchvision fails at the first image if it holds nothing; ``None`` where it doesn't fail.

    Raises:
        UnsupportedError: for something whose order isn't known, or that mustn't be empty.
    """
    held = cast(Any, transform).transforms
    if type(held) not in LISTS:
        raise UnsupportedError(
            f"transforms must be a list, a tuple or a torch.nn.ModuleList, got {type(held).__name__}, whose order "
            "and length may differ from one call to the next; make it a list"
        )
    content = _children(transform)
    if not content and not_empty is not None:
        raise UnsupportedError(
            f"transforms must not be empty {not_empty}, which fails at the first image; put v2.Identity() in it"
        )
    return content


def _children(transform: object) -> list[object]:
    held: object = transform if isinstance(transform, nn.Sequential) else getattr(transform, "transforms", ())
    return list(cast(Any, held)) if type(held) in LISTS else []
