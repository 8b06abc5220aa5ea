"""The transform to measure with: two built-in ones, or a user's own by reference; or a pipeline."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any, cast

from gpufeed.errors import ArgumentError
from gpufeed.pipelines import Pipeline, is_pipeline_reference, load_subject, split_reference

__all__ = ["BUILT_IN", "IMAGENET_MEAN", "IMAGENET_STD", "check_reference", "load_transform", "subject_of"]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
"""Of ImageNet's pixels in [0, 1], per channel, as in torchvision's reference training."""

BUILT_IN = {
    "train": "RandomResizedCrop(224), RandomHorizontalFlip, ToTensor, Normalize",
    "eval": "Resize(256), CenterCrop(224), ToTensor, Normalize",
}
"""The short names that stand for ImageNet's two usual transforms."""


def check_reference(reference: str) -> None:
    """Refuse what can't be a transform's or a pipeline's reference, without importing torch or running a file.

    Raises:
        ArgumentError: it is neither a built-in name, ``FILE.py`` or ``FILE.py:NAME`` of a file that is there, nor the
            name of a shipped or installed pipeline; with a close name of the built-in ones.
    """
    if reference in BUILT_IN:
        return
    if reference.endswith(".py"):
        split_reference(f"{reference}:NAME")  # for the file alone
    elif is_pipeline_reference(reference) and not reference.rpartition(":")[0].endswith(".py"):
        return
    elif ":" not in reference:
        close = difflib.get_close_matches(reference, BUILT_IN, n=1)
        instead = f"; did you mean {close[0]}?" if close else ""
        names = ", ".join(BUILT_IN)
        raise ArgumentError(
            f"the transform must be one of {names}, or FILE.py:NAME, got {reference!r}{instead}; a pipeline is named "
            "as FILE.py:NAME or gpufeed:MODULE:NAME"
        )
    else:
        split_reference(reference)


def load_transform(transform: object) -> Callable[[Any], Any]:
    """The transform as an object.

    Args:
        transform: ``"train"``, ``"eval"``, ``"FILE.py:NAME"``, ``"FILE.py"`` with one transform, or a callable, which
            is returned as it is.

    Raises:
        ArgumentError: the reference is wrong, its file fails, or what it names is no transform.
    """
    subject = subject_of(transform)
    if isinstance(subject, Pipeline):
        raise ArgumentError(f"{transform} is a pipeline, not a transform")
    return subject


def subject_of(transform: object, parameters: Sequence[str] = ()) -> Callable[[Any], Any] | Pipeline:
    """The transform, or the pipeline, as an object.

    Args:
        transform: as for `load_transform`, or a pipeline or its name.
        parameters: of a pipeline, each ``NAME=VALUE``.

    Raises:
        ArgumentError: as for `load_transform`; for parameters that the pipeline doesn't have or take, and for any of a
            transform.
    """
    subject = transform
    if isinstance(transform, str):
        check_reference(transform)
        subject = _built_in(transform) if transform in BUILT_IN else load_subject(transform)
    what = transform if isinstance(transform, str) else "the transform"
    if isinstance(subject, Pipeline):
        return subject.parse(parameters)
    if parameters:
        raise ArgumentError(
            f"{what} is no pipeline, and only pipelines have parameters; leave out -p {' -p '.join(parameters)}"
        )
    return _callable(subject, what)


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
