"""What a pipeline returns: nested tuples, lists and dicts, taken apart into leaves and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

__all__ = ["leaf_paths", "leaves_of", "map_leaves", "shape_of"]


def _is_named_tuple(value: object) -> bool:
    return isinstance(value, tuple) and hasattr(cast(object, value), "_fields")


def map_leaves(value: object, function: Callable[[Any], object], *, lists: bool = True) -> Any:
    """The same structure with ``function`` of every leaf.

    Args:
        value: tuples (named ones too), lists and dicts are walked.
        function: leaf to leaf.
        lists: ``False`` where a list is a leaf: an entry for each sample.
    """
    if isinstance(value, Mapping):
        mapping = cast("Mapping[object, object]", value)
        return {key: map_leaves(item, function, lists=lists) for key, item in mapping.items()}
    if isinstance(value, tuple):
        items = [map_leaves(item, function, lists=lists) for item in cast("tuple[object, ...]", value)]
        made: Any = type(cast(object, value))
        return made(*items) if _is_named_tuple(cast(object, value)) else tuple(items)
    if lists and isinstance(value, list):
        return [map_leaves(item, function) for item in cast("list[object]", value)]
    return function(value)


def leaves_of(value: object) -> list[Any]:
    """The leaves, in the order in which `map_leaves` meets them."""
    found: list[Any] = []
    map_leaves(value, found.append)
    return found


def leaf_paths(value: object, name: str = "") -> list[str]:
    """What names each leaf: ``[0]``, ``['boxes']``, ``[1][0]`` and so on; ``output`` for a structure that is a leaf."""
    return list(_paths(value, "")) if not _is_leaf(value) else [name or "output"]


def _is_leaf(value: object) -> bool:
    return not isinstance(value, (Mapping, tuple, list))


def _paths(value: object, prefix: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            yield from _paths(item, f"{prefix}[{key!r}]")
    elif isinstance(value, (tuple, list)):
        for number, item in enumerate(cast("Sequence[object]", value)):
            yield from _paths(item, f"{prefix}[{number}]")
    else:
        yield prefix


def shape_of(value: object) -> str:
    """The structure in one line, leaves as ``*``; equal for equal structures."""
    return repr(map_leaves(value, lambda leaf: _STAR))


class _Star:
    def __repr__(self) -> str:
        return "*"


_STAR = _Star()
