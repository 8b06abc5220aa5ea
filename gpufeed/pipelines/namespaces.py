"""What a Python file holds under names of its own: pipelines and torchvision transforms. Neither torch nor DALI."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any, cast

from gpufeed.pipelines.definition import Pipeline

__all__ = ["guess", "is_transform", "kind_of", "listed", "pipeline_names", "transform_names"]

_NAMES_SHOWN = 12  # a list of names that is longer than two lines of a terminal helps nobody
_SEQUENTIAL = ("torch.nn.modules.container", "Sequential")


def pipeline_names(namespace: Mapping[str, object]) -> list[str]:
    """The public names that hold pipelines, in their order; one that has two names by its first.

    Those imported from elsewhere count only where the file defines none itself.
    """
    found = {name: value for name, value in namespace.items() if not name.startswith("_")}
    pipelines = {name: value for name, value in found.items() if isinstance(value, Pipeline)}
    module = namespace.get("__name__")
    own = {name: value for name, value in pipelines.items() if value.function.__module__ == module}
    first_names: dict[int, str] = {}
    for name, value in (own or pipelines).items():
        first_names.setdefault(id(value), name)
    return list(first_names.values())


def transform_names(namespace: Mapping[str, object]) -> list[str]:
    """The public names that hold transforms of torchvision's, or objects of subclasses of theirs, in their order."""
    return [name for name, value in namespace.items() if not name.startswith("_") and is_transform(value)]


def is_transform(value: object) -> bool:
    """Whether it is an object of one of torchvision's transforms or of a subclass, or an nn.Sequential of these."""
    bases = type(value).__mro__
    # By name: torch is not imported just to find that nothing of it is there.
    if any((base.__module__, base.__name__) == _SEQUENTIAL for base in bases):
        held = list(cast("Any", value))
        return bool(held) and all(map(is_transform, held))
    own = any(base.__module__.startswith("torchvision.transforms") for base in bases)
    return own and callable(value) and not isinstance(value, type)


def kind_of(value: object) -> str:
    """What an object is, as part of a sentence: ``a torchvision transform (Compose)``, ``the class Mine``."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if is_transform(value):
        return f"a torchvision transform ({type(value).__name__})"
    if isinstance(value, FunctionType):
        return "a plain function"
    return f"of type {type(value).__name__}"


def listed(names: Sequence[str], noun: str) -> str:
    """``the pipeline train`` or ``the pipelines train, evaluate``, cut where there are many; not for no names."""
    shown = ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
    return f"the {noun}{'s' if len(names) > 1 else ''} {shown}"


def guess(name: str, names: Iterable[str]) -> str:
    """``did you mean train?`` where there is a near name, else nothing."""
    near = difflib.get_close_matches(name, list(names), n=1)
    return f"did you mean {near[0]}?" if near else ""
