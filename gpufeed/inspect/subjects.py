"""What to look at: a transform or a pipeline by its name, or the transform of torchvision's weights."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, cast

from torchvision import models

from gpufeed.errors import ArgumentError
from gpufeed.pipelines import Pipeline, load_object, load_subject, split_reference
from gpufeed.pipelines.namespaces import transform_names

__all__ = ["subject_of", "transform_names", "transform_of_file", "transform_of_weights"]

_NAMES_SHOWN = 12  # a list of names that is longer than two lines of a terminal helps nobody
_EXAMPLE = "ResNet50_Weights.IMAGENET1K_V2"


def subject_of(reference: str, parameters: Sequence[str] = ()) -> object:
    """The pipeline or the transform that a reference names.

    Args:
        reference: as for `gpufeed.pipelines.load_subject`.
        parameters: of a pipeline, each ``NAME=VALUE``.

    Returns:
        A `gpufeed.pipelines.Pipeline` with these parameters, or a transform.

    Raises:
        ArgumentError: as for `gpufeed.pipelines.load_subject`; for what is neither; and for wrong parameters, or any of
            a transform.
    """
    value = load_subject(reference)
    if isinstance(value, Pipeline):
        return value.parse(parameters)
    _check_transform(reference, value)
    if parameters:
        raise ArgumentError(
            f"{reference} is no pipeline, and only pipelines have parameters; leave out -p {' -p '.join(parameters)}"
        )
    return value


def transform_of_file(reference: str) -> object:
    """Run the Python file in ``FILE.py:NAME`` and return the transform that it calls ``NAME``.

    Raises:
        ArgumentError: as for `gpufeed.pipelines.load_object`, with close names of transforms; for what is no transform
            at all; and for a ``FILE.py`` without a name, with the names in it.
    """
    if reference.endswith(".py"):
        raise ArgumentError(_without_name(reference))
    path, name = split_reference(reference)
    file = reference.rpartition(":")[0]
    namespace = cast("dict[str, object]", load_object(f"{file}:__dict__"))
    if name not in namespace:
        raise ArgumentError(f"{path} has no name {name!r}; {_named_instead(name, transform_names(namespace))}")
    _check_transform(reference, namespace[name])
    return namespace[name]


def _check_transform(reference: str, value: object) -> None:
    if isinstance(value, type) or not callable(value):
        kind = f"the class {value.__name__}" if isinstance(value, type) else f"of type {type(value).__name__}"
        raise ArgumentError(f"{reference} is {kind}, not a transform; name an object such as Compose([...])")


def _named_instead(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=3)
    if close:
        return f"did you mean {' or '.join(close)}?"
    if not names:
        return "it holds no transform under a name of its own"
    return f"it holds {_held(names)}"


def _held(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
    return f"the transform {shown}" if len(names) == 1 else f"the transforms {shown}"


def _without_name(file: str) -> str:
    names = transform_names(cast("dict[str, object]", load_object(f"{file}:__dict__")))
    if not names:
        return f"{file} holds no transform under a name of its own; give one a name and add it, as in {file}:NAME"
    return f"{file} holds {_held(names)}; name one, as in {file}:{names[0]}"


def transform_of_weights(name: str) -> object:
    """The transform that torchvision's pretrained weights were evaluated with; nothing is downloaded.

    Args:
        name: such as ``ResNet50_Weights.IMAGENET1K_V2``.

    Raises:
        ArgumentError: there are no weights of this name; the message has close ones.
    """
    known = _weights_names()
    if name not in known:
        raise ArgumentError(f"torchvision has no weights named {name!r}; {_instead(name, known)}")
    return cast("Any", models.get_weight(name)).transforms()


def _weights_names() -> list[str]:
    enums = {_enum_of(model) for model in models.list_models()}
    return sorted(f"{enum.__name__}.{member}" for enum in enums for member in enum.__members__)


def _enum_of(model: str) -> Any:
    return cast("Any", models).get_model_weights(model)


def _instead(name: str, known: list[str]) -> str:
    if name in models.list_models():
        return f"of the model {name} there are {_listed(_enum_of(name).__name__, known)}"
    if (enum := name.partition(".")[0]) in {one.partition(".")[0] for one in known}:
        return f"there are {_listed(enum, known)}"
    lower = {one.lower(): one for one in known}
    close = [lower[found] for found in difflib.get_close_matches(name.lower(), lower, n=3)]
    return f"did you mean {', '.join(close)}?" if close else f"names are such as {_EXAMPLE}"


def _listed(enum: str, known: list[str]) -> str:
    return ", ".join(one for one in known if one.startswith(f"{enum}."))
