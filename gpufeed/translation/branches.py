"""The containers that draw: ``RandomApply``, ``RandomChoice`` and ``RandomOrder``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, cast

import torch
from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed.errors import UnsupportedError
from gpufeed.plan import BranchOp, Op, RandomApply, RandomChoice, RandomOrder
from gpufeed.translation import values
from gpufeed.translation.compose import Leaf, held_transforms, leaves, place_inside
from gpufeed.translation.inspection import check_attributes

__all__ = ["BRANCHING", "Branching", "branching"]

_BranchOps = tuple[tuple[Op, ...], ...]


@dataclass(frozen=True, slots=True)
class Branching:
    """What a container that draws may do.

    Attributes:
        branches: the leaves of each branch; empty where it never does anything.
        op: the branches' ops to the op.
    """

    branches: tuple[tuple[Leaf, ...], ...]
    op: Callable[[_BranchOps], BranchOp]


def _apply(transform: object, branches: list[tuple[Leaf, ...]]) -> Branching:
    p = values.probability(cast(Any, transform).p)
    if p == 0.0 or not branches:
        return Branching((), _random_apply(p))
    return Branching((tuple(leaf for branch in branches for leaf in branch),), _random_apply(p))


def _random_apply(p: float) -> Callable[[_BranchOps], BranchOp]:
    return lambda branches: RandomApply(branches[0], p)


def _choice(transform: object, branches: list[tuple[Leaf, ...]]) -> Branching:
    weights = _weights(cast(Any, transform).p, len(branches))
    if isinstance(transform, v2.RandomChoice):
        try:
            torch.multinomial(torch.tensor(cast(Any, transform).p), 1, generator=torch.Generator())
        except (TypeError, ValueError, RuntimeError) as error:
            raise UnsupportedError(
                f"torchvision can't draw by p={cast(Any, transform).p!r}: {error}; give p when RandomChoice is made"
            ) from error
    possible = [number for number, weight in enumerate(weights) if weight > 0]  # the others never happen
    chosen = tuple(weights[number] for number in possible)
    return Branching(tuple(branches[number] for number in possible), partial(RandomChoice, weights=chosen))


def _weights(p: object, count: int) -> list[float]:
    if p is None:
        return [1.0] * count
    items = list(cast(Sequence[Any], p)) if isinstance(p, Sequence) and not isinstance(p, str) else []
    if len(items) != count or not all(isinstance(item, Real) and math.isfinite(item) for item in items):
        raise UnsupportedError(f"p must be a finite number for each of the {count} transforms, got {p!r}")
    weights = [float(item) for item in items]
    if min(weights) < 0 or sum(weights) <= 0:
        raise UnsupportedError(f"p must not have a negative number, and not only zeros, got {p!r}")
    return weights


def _order(transform: object, branches: list[tuple[Leaf, ...]]) -> Branching:
    del transform
    return Branching(tuple(branches), RandomOrder)


_NEVER_EMPTY = "here"

BRANCHING: dict[type[object], tuple[frozenset[str], str | None, Callable[[Any, list[tuple[Leaf, ...]]], Branching]]] = {
    v1.RandomApply: (frozenset({"transforms", "p"}), None, _apply),
    v2.RandomApply: (frozenset({"transforms", "p"}), _NEVER_EMPTY, _apply),
    v1.RandomChoice: (frozenset({"transforms", "p"}), _NEVER_EMPTY, _choice),
    v2.RandomChoice: (frozenset({"transforms", "p"}), _NEVER_EMPTY, _choice),
    v1.RandomOrder: (frozenset({"transforms"}), None, _order),
    v2.RandomOrder: (frozenset({"transforms"}), _NEVER_EMPTY, _order),
}
"""Of each class the attributes that are read, where it mustn't be empty, and how it becomes a `Branching`."""


def branching(leaf: Leaf) -> Branching:
    """What a container may do.

    Raises:
        UnsupportedError: for attributes that torchvision can't draw by.
    """
    reads, not_empty, make = BRANCHING[type(leaf.transform)]
    check_attributes(leaf.transform, reads, {})
    inside = (*leaf.inside, id(leaf.transform))
    branches = [
        tuple(leaves(child, place_inside(leaf.place, number), inside))
        for number, child in enumerate(held_transforms(leaf.transform, not_empty))
    ]
    return make(leaf.transform, branches)
