"""Batches of a pipeline taken apart: outputs by name, sample by sample, described and compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch

from gpufeed.inspect.check.results import CheckedOutput
from gpufeed.recording.structure import leaf_paths, map_leaves

__all__ = ["Batch", "described", "differing", "first_image", "form_changes", "rows_of", "taken_apart"]

_LETTERS = "NMKLPQRS"
"""What sides are called that vary from sample to sample."""

Row = Mapping[str, Any]
"""One sample's outputs by name."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """A batch that a loader yielded.

    Attributes:
        outputs: by name: a tensor (B, ...), a list with an entry per sample, or what else a tail returned.
        count: B.
    """

    outputs: Mapping[str, Any]
    count: int

    def rows(self) -> Iterator[Row]:
        """Its samples."""
        for row in range(self.count):
            yield {name: _row_of(leaf, row) for name, leaf in self.outputs.items()}


def taken_apart(batch: object, structure: object, count: int) -> Batch:
    """The outputs of a batch by their names.

    Args:
        batch: what the loader yielded.
        structure: what the pipeline's function returned, where nothing came after it: a list in it is a structure and
            not an entry per sample; ``None`` else.
        count: samples in the batch.
    """
    leaves: list[Any] = []
    if structure is None:
        numbered = map_leaves(batch, lambda leaf: leaves.append(leaf), lists=False)
        pairs = zip(leaf_paths(numbered), leaves, strict=True)
        return Batch(dict(pair for name, leaf in pairs for pair in _by_entry(name, leaf)), count)
    _walk(batch, structure, leaves.append)
    return Batch(dict(zip(leaf_paths(structure), leaves, strict=True)), count)


def _by_entry(name: str, leaf: Any) -> Iterator[tuple[str, Any]]:
    """A leaf by its name; a list with a dict for each sample as a list for each of its keys."""
    entries = cast("list[Any]", leaf) if isinstance(leaf, list) else []
    if not entries or not all(isinstance(one, Mapping) and one.keys() == entries[0].keys() for one in entries):
        yield name, leaf
        return
    for key in entries[0]:
        yield from _by_entry(f"{name}[{key!r}]", [one[key] for one in entries])


def _walk(value: Any, structure: Any, take: Callable[[Any], None]) -> None:
    if isinstance(structure, Mapping):
        for key, inner in cast("Mapping[Any, Any]", structure).items():
            _walk(value[key], inner, take)
    elif isinstance(structure, (tuple, list)):
        for number, inner in enumerate(cast("Sequence[Any]", structure)):
            _walk(value[number], inner, take)
    else:
        take(value)


def _row_of(leaf: Any, row: int) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf[row] if leaf.ndim else leaf
    return cast("list[Any]", leaf)[row] if isinstance(leaf, list) else leaf


def rows_of(batches: Sequence[Batch], count: int) -> list[Row]:
    """The first ``count`` samples of some batches."""
    return [row for batch in batches for row in batch.rows()][:count]


# What outputs are -----------------------------------------------------------------------------------------------------


def described(name: str, batches: Sequence[Batch], *, by_batch: bool) -> CheckedOutput:
    """An output over all batches."""
    leaves = [batch.outputs[name] for batch in batches]
    tensors = [one for leaf in leaves for one in _tensors(leaf)]
    if not tensors:
        kind = type(_first(leaves[0])).__name__
        shape = f"list of {batches[0].count}" if isinstance(leaves[0], list) else ""
        return CheckedOutput(name, shape, kind, None, None, "", by_batch=by_batch)
    low, high, not_finite = _range(tensors)
    return CheckedOutput(
        name,
        _shape(leaves),
        " or ".join(sorted({str(one.dtype).removeprefix("torch.") for one in tensors})),
        low,
        high,
        " and ".join(sorted({str(one.device) for one in tensors})),
        not_finite,
        by_batch,
    )


def _first(leaf: Any) -> object:
    entries = cast("list[object]", leaf) if isinstance(leaf, list) else [leaf]
    return entries[0] if entries else None


def _tensors(leaf: Any) -> list[torch.Tensor]:
    held = cast("list[Any]", leaf) if isinstance(leaf, list) else [leaf]
    return [one for one in held if isinstance(one, torch.Tensor)]


def _range(tensors: Sequence[torch.Tensor]) -> tuple[float | None, float | None, bool]:
    """The smallest and the largest finite value, and whether there are others."""
    lows: list[float] = []
    highs: list[float] = []
    not_finite = False
    for one in tensors:
        values = one.detach().to(torch.float64).flatten() if not one.is_complex() else one.abs().flatten()
        finite = values[torch.isfinite(values)]
        not_finite |= len(finite) < len(values)
        if len(finite):
            lows.append(float(finite.min()))
            highs.append(float(finite.max()))
    return min(lows, default=None), max(highs, default=None), not_finite


def _shape(leaves: Sequence[Any]) -> str:
    """``(8, 3, 224, 224)``, ``(8, 5 to 9)`` where a side differs from batch to batch, ``list of (N, 4)``."""
    if any(isinstance(leaf, list) for leaf in leaves):
        # a batch of equal shapes may have come as one tensor
        each = [one for leaf in leaves for one in (leaf if isinstance(leaf, torch.Tensor) else _tensors(leaf))]
        return f"list of {_sides([tuple(one.shape) for one in each], _letter)}"
    shapes = [tuple(leaf.shape) for leaf in leaves]
    whole = [shape for shape in shapes if shape[:1] == shapes[0][:1]]  # the last batch may be a short one
    return _sides(whole, lambda sides, number: f"{min(sides)} to {max(sides)}")


def _letter(sides: Sequence[int], number: int) -> str:
    del sides
    return _LETTERS[number % len(_LETTERS)]


def _sides(shapes: Sequence[tuple[int, ...]], varying: Callable[[Sequence[int], int], str]) -> str:
    if len({len(shape) for shape in shapes}) > 1:
        return "tensors of differing dimensions"
    texts: list[str] = []
    num_varying = 0
    for sides in zip(*shapes, strict=True):
        if len(set(sides)) == 1:
            texts.append(str(sides[0]))
        else:
            texts.append(varying(sides, num_varying))
            num_varying += 1
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def form_changes(name: str, batches: Sequence[Batch], always_list: bool) -> bool:
    """Whether an output comes as a tensor in one batch and as a list of tensors in another, or would.

    Args:
        name: the output's.
        batches: all that were seen.
        always_list: whether it is known that each of its batches is a list, also one of equal shapes.
    """
    if always_list:
        return False
    lists = [isinstance(batch.outputs[name], list) for batch in batches if name in batch.outputs]
    return any(lists) and not all(lists)


def first_image(row: Row) -> tuple[str, torch.Tensor] | None:
    """The name and the pixels of a sample's first image: three dimensions, one of them the channels."""
    for name, leaf in row.items():
        if isinstance(leaf, torch.Tensor) and leaf.ndim == 3 and {leaf.shape[0], leaf.shape[-1]} & {1, 3}:
            return name, leaf
    return None


# Comparing ------------------------------------------------------------------------------------------------------------


def differing(ones: Sequence[Row], others: Sequence[Row]) -> tuple[str, ...]:
    """The names of outputs that are not the same bit for bit in all samples; padding may differ in length."""
    names = dict.fromkeys(name for row in (*ones, *others) for name in row)
    if len(ones) != len(others):
        return tuple(names)
    return tuple(
        name for name in names if not all(_same(one, other, name) for one, other in zip(ones, others, strict=True))
    )


def _same(one: Row, other: Row, name: str) -> bool:
    if name not in one or name not in other:
        return False
    first, second = one[name], other[name]
    if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
        return _same_values(first, second)
    if first.dtype != second.dtype:
        return False
    if first.shape == second.shape:
        return _same_bits(first, second)
    lengths = _lengths(one) & _lengths(other)
    return any(_same_but_for_padding(first, second, length) for length in lengths)


def _same_values(first: Any, second: Any) -> bool:
    if type(first) is not type(second):
        return False
    if isinstance(first, float) and math.isnan(first):
        return math.isnan(second)
    return bool(first == second)


def _same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    return torch.equal(_bytes(first), _bytes(second))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Its memory: NaN is then like NaN, and 0 unlike -0."""
    flat = tensor.detach().cpu().reshape(-1)
    return flat.clone().view(torch.uint8) if flat.numel() else torch.empty(0, dtype=torch.uint8)


def _lengths(row: Row) -> set[int]:
    """The whole numbers among a sample's outputs, any of which may be a length."""
    return {
        int(leaf)
        for leaf in row.values()
        if isinstance(leaf, torch.Tensor) and leaf.ndim == 0 and not leaf.is_floating_point() and not leaf.is_complex()
    }


def _same_but_for_padding(first: torch.Tensor, second: torch.Tensor, length: int) -> bool:
    """Whether two padded outputs hold the same ``length`` entries, and one value beyond."""
    if first.ndim == 0 or first.shape[1:] != second.shape[1:] or not 0 <= length <= min(len(first), len(second)):
        return False
    beyond = torch.cat([first[length:].flatten(), second[length:].flatten()])
    one_value = not len(beyond) or bool((beyond == beyond[0]).all()) or bool(torch.isnan(beyond).all())
    return one_value and _same_bits(first[:length], second[:length])
