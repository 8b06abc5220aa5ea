"""Looking at a transform object: its name, its own attributes, its hooks."""

from __future__ import annotations

import functools
import importlib.metadata
import re
import textwrap
import types
from collections.abc import Mapping
from typing import Any, cast

import torchvision
from torch import nn

from gpufeed.errors import UnsupportedError

__all__ = [
    "FILE_MODULE",
    "check_attributes",
    "class_name",
    "is_function",
    "is_instance_to_call",
    "object_name",
    "short_repr",
]

_BOOKKEEPING = frozenset(vars(nn.Module()))
"""What every ``nn.Module`` carries; ``training`` is among it, which torchvision's transforms ignore."""

_CONTENT = ("_modules", "_parameters", "_buffers")
"""The parts of that bookkeeping in which an attribute may stand instead of in ``vars``."""

_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")

_PUBLIC_MODULES = (
    ("torchvision.transforms.v2.", "torchvision.transforms.v2."),
    ("torchvision.transforms.", "torchvision.transforms."),
    ("torch.nn.modules.", "torch.nn."),
)
"""Where the classes of private modules are imported from."""

_FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    functools.partial,
)

FILE_MODULE = re.compile(r"^gpufeed_file_(.+)_[0-9a-f]{8}$")
"""What a module is called that `gpufeed.pipelines.load_object` made of a file, with the file's name in it."""

_REPR_WIDTH = 160


def class_name(transform_class: type[object]) -> str:
    """The class with the module from which people import it."""
    for private, public in _PUBLIC_MODULES:
        if f"{transform_class.__module__}.".startswith(private):
            return public + transform_class.__qualname__
    return f"{_module_name(transform_class.__module__)}.{transform_class.__qualname__}"


def _module_name(name: str) -> str:
    """A module's name, of one that was named as a file the file's own."""
    return FILE_MODULE.sub(r"\1", name)


def object_name(transform: object) -> str:
    """What to call an object in a message: the function itself, or the class."""
    if isinstance(transform, functools.partial):
        return f"functools.partial of {object_name(cast(Any, transform).func)}"
    if isinstance(transform, _FUNCTIONS):
        function = cast(Any, transform)
        name, module = function.__qualname__, _module_name(function.__module__)
        return f"a lambda in {module}" if name.endswith("<lambda>") else f"{module}.{name}"
    if isinstance(transform, type):
        return f"the class {class_name(cast(type[object], transform))}"
    return class_name(type(transform))


def is_function(transform: object) -> bool:
    """Whether it is a function, and so can't be looked into."""
    return isinstance(transform, _FUNCTIONS)


def is_instance_to_call(transform: object) -> bool:
    """Whether it is an object with ``__call__``; a class isn't, for calling one makes an object, not an image."""
    return callable(transform) and not isinstance(transform, type)


def short_repr(transform: object) -> str:
    """``repr`` in one line; the class where an edited attribute makes torchvision's own ``__repr__`` fail, or where
    it would print a matrix of millions of numbers."""
    if hasattr(transform, "transformation_matrix"):
        return f"{type(transform).__qualname__}(...)"
    try:
        text = repr(transform)
    except (AttributeError, TypeError, ValueError):
        text = f"{type(transform).__qualname__}(...)"
    return textwrap.shorten(text, _REPR_WIDTH, placeholder=" ...")


def check_attributes(transform: object, reads: frozenset[str], carries_nothing: Mapping[str, str]) -> None:
    """Refuse hooks, and attributes that are neither read nor known to carry nothing, or that are missing.

    Args:
        transform: the object.
        reads: names that its rule reads.
        carries_nothing: names that never change a pixel.
    """
    held = vars(transform)
    names = set(held)
    if isinstance(transform, nn.Module):
        names -= _BOOKKEEPING
        names.update(*(held[part] for part in _CONTENT))
        for hooks in _HOOKS:
            if held[hooks]:
                kind = hooks.strip("_").replace("_", " ").removesuffix("s")
                raise UnsupportedError(
                    f"it has a {kind} registered, which may change the image and can't be read; remove the hook"
                )
    unknown = sorted(names - reads - carries_nothing.keys())
    if unknown:
        raise UnsupportedError(
            f"it has {_attributes(unknown)}, which {_gpufeed()} doesn't know on "
            f"{class_name(type(transform))} of torchvision {torchvision.__version__}; "
            "delete what was added to the object, or take versions of gpufeed and torchvision that fit"
        )
    missing = sorted(name for name in reads if not hasattr(transform, name))
    if missing:
        raise UnsupportedError(
            f"it lacks {_attributes(missing)}, which {class_name(type(transform))} of torchvision "
            f"{torchvision.__version__} sets; make a new one with this version"
        )


def _attributes(names: list[str]) -> str:
    return f"the attribute{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _gpufeed() -> str:
    try:
        return f"gpufeed {importlib.metadata.version('gpufeed')}"
    except importlib.metadata.PackageNotFoundError:  # run from a source tree
        return "this gpufeed"
