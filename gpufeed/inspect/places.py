"""How the places of transforms and of what they became are numbered for people: by the transforms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gpufeed.plan import Op
from gpufeed.translation import Step

__all__ = ["number_of", "numbers_of_ops"]


def number_of(place: str) -> str:
    """A step's place as a number: ``2.0`` for ``transforms[2].transforms[0]``, nothing for a transform by itself."""
    return ".".join(re.findall(r"\[(\d+)\]", place))


def numbers_of_ops(steps: Sequence[Step]) -> Mapping[str, str]:
    """The number of the transform that each op comes from, by the op's place in the plan, such as ``3.0.1``."""
    return dict(_numbers(steps, ""))


def _numbers(steps: Sequence[Step], prefix: str) -> Iterator[tuple[str, str]]:
    position = 0
    for step in steps:
        for op in step.ops:
            place = f"{prefix}{position}"
            position += 1
            yield place, number_of(step.place)
            if step.branches:
                for branch, inner in enumerate(step.branches):
                    yield from _numbers(inner, f"{place}.{branch}.")
            else:
                yield from _inside(op, place, number_of(step.place))


def _inside(op: Op, place: str, number: str) -> Iterator[tuple[str, str]]:
    """The ops inside of one that a single transform became: they all have its number."""
    for branch, ops in enumerate(op.branches):
        for position, inner in enumerate(ops):
            inner_place = f"{place}.{branch}.{position}"
            yield inner_place, number
            yield from _inside(inner, inner_place, number)
