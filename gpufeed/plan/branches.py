"""Ops that hold ops: which of them a sample goes through, and in which order, is drawn for each."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import reduce

from gpufeed.errors import UnsupportedError
from gpufeed.plan.op import Op, check_probability
from gpufeed.spec import ImageSpec

__all__ = ["BranchOp", "RandomApply", "RandomChoice", "RandomOrder"]


@dataclass(frozen=True, slots=True)
class BranchOp(Op):
    """An op with other ops in branches."""

    @property
    def is_random(self) -> bool:
        return True

    @abstractmethod
    def branch_spec(self, spec: ImageSpec) -> ImageSpec:
        """What every branch gets where the op gets ``spec``."""


def _through(ops: tuple[Op, ...], spec: ImageSpec) -> ImageSpec:
    return reduce(lambda before, op: op.out_spec(before), ops, spec)


def _either(one: ImageSpec, other: ImageSpec) -> ImageSpec:
    """What may be the one or the other."""
    if one.tuple_of != other.tuple_of or (one.container, one.dtype, one.channels) != (
        other.container,
        other.dtype,
        other.channels,
    ):
        raise UnsupportedError(
            f"what stands behind it would get {one} for some samples and {other} for others, and a batch holds one "
            "kind; take out what changes the kind of image, and put it behind"
        )
    ranges = (one.value_range, other.value_range)
    return replace(
        one,
        size_hw=one.size_hw if one.size_hw == other.size_hw else None,
        value_range=None
        if ranges[0] is None or ranges[1] is None
        else (
            min(ranges[0][0], ranges[1][0]),
            max(ranges[0][1], ranges[1][1]),
        ),
    )


@dataclass(frozen=True, slots=True)
class RandomApply(BranchOp):
    """Do ``ops`` with probability ``p``, else nothing."""

    ops: tuple[Op, ...]
    p: float = 0.5

    def __post_init__(self) -> None:
        check_probability(self.p)

    @property
    def branches(self) -> tuple[tuple[Op, ...], ...]:
        return (self.ops,)

    def branch_spec(self, spec: ImageSpec) -> ImageSpec:
        return spec

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return _either(spec, _through(self.ops, spec))


@dataclass(frozen=True, slots=True)
class RandomChoice(BranchOp):
    """Do one of ``choices``, drawn with these ``weights``, which needn't sum to 1."""

    choices: tuple[tuple[Op, ...], ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.choices) or not self.choices:
            raise ValueError(f"weights must be one for each of {len(self.choices)} choices, got {self.weights}")
        if min(self.weights) <= 0.0:
            raise ValueError(f"weights must be positive, got {self.weights}")

    @property
    def branches(self) -> tuple[tuple[Op, ...], ...]:
        return self.choices

    def branch_spec(self, spec: ImageSpec) -> ImageSpec:
        return spec

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return reduce(_either, [_through(ops, spec) for ops in self.choices])


@dataclass(frozen=True, slots=True)
class RandomOrder(BranchOp):
    """Do all of ``parts``, in an order that is drawn; each part takes what any other one makes."""

    parts: tuple[tuple[Op, ...], ...]

    @property
    def branches(self) -> tuple[tuple[Op, ...], ...]:
        return self.parts

    def branch_spec(self, spec: ImageSpec) -> ImageSpec:
        """What holds before each part, whichever were done before: their sizes and ranges where none changes them."""
        before = spec
        if len(self.parts) == 1:
            return before
        for _ in range(2):  # the second time with what the first may have left open
            before = reduce(_either, [_through(ops, before) for ops in self.parts], before)
        return before

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        before = self.branch_spec(spec)
        if len(self.parts) == 1:
            return _through(self.parts[0], before)
        sizes = {_through(ops, before).size_hw for ops in self.parts}
        return replace(before, size_hw=sizes.pop() if len(sizes) == 1 else None)
