"""The transform to measure with: two built-in ones, or a user's own by reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from gpufeed.errors import ArgumentError
from gpufeed.pipelines import load_object, split_reference

__all__ = ["BUILT_IN", "IMAGENET_MEAN", "IMAGENET_STD", "check_reference", "load_transform"]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
"""Of ImageNet's pixels in [0, 1], per channel, as in torchvision's reference training."""

BUILT_IN = {
    "train": "RandomResizedCrop(224), RandomHorizontalFlip, ToTensor, Normalize",
    "eval": "Resize(256), CenterCrop(224), ToTensor, Normalize",
}
"""The short names that stand for ImageNet's two usual transforms."""


def check_reference(reference: str) -> None:
    """Refuse what can't be a transform's reference, without importing torch or running a file.

    Raises:
        ArgumentError: it is neither a built-in name nor ``FILE.py:NAME`` of a file that is there.
    """
    if reference in BUILT_IN:
        return
    if ":" not in reference:
        names = ", ".join(BUILT_IN)
        raise ArgumentError(f"the transform must be one of {names}, or FILE.py:NAME, got {reference!r}")
    split_reference(reference)


def load_transform(transform: object) -> Callable[[Any], Any]:
    """The transform as an object.

    Args:
        transform: ``"train"``, ``"eval"``, ``"FILE.py:NAME"``, or a callable, which is returned as it is.

    Raises:
        ArgumentError: the reference is wrong, its file fails, or what it names can't be called.
    """
    if not isinstance(transform, str):
        return _callable(transform, "the transform")
    check_reference(transform)
    if transform in BUILT_IN:
        return _built_in(transform)
    return _callable(load_object(transform), transform)


def _callable(value: object, what: str) -> Callable[[Any], Any]:
    if isinstance(value, type) or not callable(value):
        kind = f"the class {value.__name__}" if isinstance(value, type) else f"of type {type(value).__name__}"
        raise ArgumentError(f"{what} is {kind}, not a transform; name an object such as Compose([...])")
    return cast(Callable[[Any], Any], value)


def _built_in(name: str) -> Callable[[Any], Any]:
    from torchvision import transforms as tv

    geometry: dict[str, list[Any]] = {
        "train": [tv.RandomResizedCrop(224), tv.RandomHorizontalFlip()],
        "eval": [tv.Resize(256), tv.CenterCrop(224)],
    }
    return tv.Compose([*geometry[name], tv.ToTensor(), tv.Normalize(IMAGENET_MEAN, IMAGENET_STD)])
