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

__all__ = ["CONTAINERS", "ROOT", "Leaf", "leaves"]

ROOT = "transform"
"""The place of a transform that isn't inside another."""

CONTAINERS = (v1.Compose, v2.Compose, nn.Sequential)
"""The classes that are walked; torchvision documents ``Sequential`` as a Compose that can be scripted."""

_LISTS = (list, tuple, nn.ModuleList, nn.Sequential)
"""What may hold a Compose's transforms: classes whose iteration is known to be their order, each time."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A transform that contains no others, or a container that can't be walked.

    Attributes:
        place: where it is, such as ``transforms[2].transforms[0]``; `ROOT` at the top.
        transform: the object.
        refusal: why the container can't be walked, with the way out; ``None`` for a leaf.
    """

    place: str
    transform: object
    refusal: str | None = None


def leaves(transform: object) -> Iterator[Leaf]:
    """Every leaf of ``transform`` in the order in which torchvision calls them.

    A container with a reason against it, such as a hook, comes as a refused leaf of its own, and its content after it.
    """
    yield from _walk(transform, "", ())


def _walk(transform: object, place: str, inside: tuple[int, ...]) -> Iterator[Leaf]:
    if type(transform) not in CONTAINERS:
        yield Leaf(place or ROOT, transform)
        return
    if id(transform) in inside:
        yield Leaf(place, transform, "it contains itself, so that it would never end; take it out of itself")
        return
    try:
        content = _content(transform)
    except UnsupportedError as error:
        yield Leaf(place or ROOT, transform, str(error))
        content = _children(transform)
    prefix = place if isinstance(transform, nn.Sequential) else f"{place}.transforms" if place else "transforms"
    for number, child in enumerate(content):
        yield from _walk(child, f"{prefix}[{number}]", (*inside, id(transform)))


def _content(transform: object) -> list[object]:
    if isinstance(transform, nn.Sequential):
        check_attributes(transform, frozenset(vars(transform)["_modules"]), {})
        return _children(transform)
    check_attributes(transform, frozenset({"transforms"}), {})
    held = cast(Any, transform).transforms
    if type(held) not in _LISTS:
        raise UnsupportedError(
            f"transforms must be a list, a tuple or a torch.nn.ModuleList, got {type(held).__name__}, whose order "
            "and length may differ from one call to the next; make it a list"
        )
    content = _children(transform)
    if not content and isinstance(transform, v2.Compose):
        raise UnsupportedError(
            "transforms must not be empty in v2, which fails at the first image; put v2.Identity() in it"
        )
    return content


def _children(transform: object) -> list[object]:
    held: object = transform if isinstance(transform, nn.Sequential) else getattr(transform, "transforms", ())
    return list(cast(Any, held)) if type(held) in _LISTS else []
