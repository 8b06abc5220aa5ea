"""Running a transform or a Plan through torchvision, with the parameters that gpufeed drew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import torch

from gpufeed.errors import ArgumentError
from gpufeed.parameters import BatchParameters, Branches
from gpufeed.plan import BranchOp, Op, Pad, Plan
from gpufeed.reference import colour, conversion, erasing, filters, resizing, warps, windows
from gpufeed.reference.image import Function, Image, Leaf, spec_of
from gpufeed.reference.values import LeafValues, row_of
from gpufeed.translation import Step, Translation, translate

__all__ = ["FUNCTIONS", "LEAVES", "apply", "run", "run_steps", "run_together", "trace"]

LEAVES: Mapping[type[object], Leaf] = {
    **windows.LEAVES,
    **resizing.LEAVES,
    **colour.LEAVES,
    **erasing.LEAVES,
    **filters.LEAVES,
    **warps.LEAVES,
    **conversion.LEAVES,
}
"""The classes that draw. Objects of the others are called as they are."""

FUNCTIONS: Mapping[type[Op], Function] = {
    **windows.FUNCTIONS,
    **resizing.FUNCTIONS,
    **colour.FUNCTIONS,
    **erasing.FUNCTIONS,
    **filters.FUNCTIONS,
    **warps.FUNCTIONS,
    **conversion.FUNCTIONS,
}
"""torchvision's function of each op but those that hold others."""


def run(transform: object, image: Image, parameters: BatchParameters, row: int) -> Image:
    """What torchvision makes of ``image`` with the draws of one sample.

    Args:
        transform: what `gpufeed.translate` can translate.
        image: the decoded image.
        parameters: drawn for the transform's own, unfused Plan.
        row: the sample's row in the batch that ``parameters`` were drawn for.

    Raises:
        TranslationError: the transform can't be translated.
        ArgumentError: ``parameters`` belong to another Plan, or the sample was refused when they were drawn.
    """
    for _, after in run_steps(transform, image, parameters, row):
        image = after
    return image


def run_together(
    translation: Translation, inputs: Sequence[Any], parameters: BatchParameters, row: int
) -> tuple[Any, ...]:
    """As `run`, of an image and what goes with it, such as ``tv_tensors.Mask``: v2's functions choose by the type.

    Args:
        translation: of a transform of v2, for the image.
        inputs: the image first. What follows must be something that the transform takes.
        parameters: as in `run`.
        row: as in `run`.
    """
    _check(translation.require(), parameters, row)
    values = [row_of(value, row) for value in parameters.values]
    results = list(inputs)
    for position, one in enumerate(inputs):
        for _, after in _run_steps(translation.steps, values, one):
            results[position] = after
    return tuple(results)


def run_steps(transform: object, image: Image, parameters: BatchParameters, row: int) -> Iterator[tuple[Step, Image]]:
    """As `run`, and yields each leaf of the transform with the image behind it."""
    translation = translate(transform, input=spec_of(image))
    _check(translation.require(), parameters, row)
    yield from _run_steps(translation.steps, [row_of(value, row) for value in parameters.values], image)


def _run_steps(steps: Sequence[Step], values: Sequence[Any], image: Image) -> Iterator[tuple[Step, Image]]:
    position = 0
    for step in steps:
        own = LeafValues(step.ops, values[position : position + len(step.ops)])
        image = _run_branches(step, own, image) if step.branches else _run_leaf(step.transform, own, image)
        position += len(step.ops)
        yield step, image


def _run_branches(step: Step, values: LeafValues, image: Image) -> Image:
    """A container that draws: the steps inside, in the order that was drawn."""
    drawn = cast(Branches, values.values[0])
    for branch in drawn.way(0):
        inner = [row_of(value, 0) for value in drawn.values[branch]]
        for _, after in _run_steps(step.branches[branch], inner, image):
            image = after
    return image


def _run_leaf(transform: object, values: LeafValues, image: Image) -> Image:
    leaf = LEAVES.get(type(transform))
    if leaf is None:
        # Normalize(inplace=True) writes into its input
        return cast(Any, transform)(image.clone() if isinstance(image, torch.Tensor) else image)
    if isinstance(image, tuple):  # v2 draws once for all that is in one sample
        return tuple(leaf(transform, values, one) for one in image)
    return leaf(transform, values, image)


def trace(plan: Plan, image: Image, parameters: BatchParameters, row: int) -> Iterator[tuple[Op, Image]]:
    """Run ``plan`` op by op through torchvision's functions, and yield each op with the image behind it.

    Raises:
        ArgumentError: ``parameters`` belong to another Plan, or the sample was refused when they were drawn.
    """
    _check(plan, parameters, row)
    for op, value in zip(plan.ops, parameters.values, strict=True):
        image = apply(op, image, row_of(value, row))
        yield op, image


def apply(op: Op, image: Image, value: Any) -> Image:
    """One op through torchvision's function for it.

    Args:
        op: what to do.
        image: what to do it to.
        value: the op's parameters for this sample: a row of its array, `Branches` of one row for an op that holds ops,
            or ``None`` where it needs none.
    """
    if isinstance(op, BranchOp):
        drawn = cast(Branches, value)
        for branch in drawn.way(0):
            for inner, inner_value in zip(op.branches[branch], drawn.values[branch], strict=True):
                image = apply(inner, image, row_of(inner_value, 0))
        return image
    function = FUNCTIONS.get(type(op))
    if function is None:
        raise ArgumentError(f"op must be one of those in gpufeed.plan, got {op!r}")
    if value is None and (op.is_random or isinstance(op, Pad)):
        raise ArgumentError(f"{op} needs its parameters, got None")
    if isinstance(image, tuple):
        return tuple(function(op, one, value) for one in image)
    return function(op, image, value)


def _check(plan: Plan, parameters: BatchParameters, row: int) -> None:
    if len(parameters.values) != len(plan.ops):
        raise ArgumentError(
            f"parameters must be drawn for this plan of {len(plan.ops)} ops, got those of {len(parameters.values)}"
        )
    if row in parameters.refused:
        raise ArgumentError(f"row {row} was refused when its parameters were drawn: {parameters.refused[row]}")
