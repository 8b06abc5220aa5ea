"""Which rule an object has, and what to say where it has none."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from types import MappingProxyType

from torchvision import transforms as v1

from gpufeed.errors import UnsupportedError
from gpufeed.plan import Op
from gpufeed.spec import ImageSpec
from gpufeed.translation import colour, conversion, crops, erasing, filters, flips, meta, presets, resizing, warps
from gpufeed.translation.branches import BRANCHING
from gpufeed.translation.compose import CONTAINERS
from gpufeed.translation.inspection import check_attributes, class_name, is_function, is_instance_to_call, object_name
from gpufeed.translation.refusals import REFUSALS, WAYS_OUT
from gpufeed.translation.rule import Rule

__all__ = ["RULES", "rule_for", "transform_ops"]

RULES: Mapping[type[object], Rule] = MappingProxyType(
    {
        rule.transform_class: rule
        for rule in itertools.chain(
            resizing.RULES,
            crops.RULES,
            flips.RULES,
            colour.RULES,
            erasing.RULES,
            filters.RULES,
            warps.RULES,
            conversion.RULES,
            presets.RULES,
            meta.RULES,
        )
    }
)
"""The rule of each class, for objects of exactly that class."""


def rule_for(transform: object) -> Rule:
    """The rule of an object's class.

    Raises:
        UnsupportedError: it has none; the message says what the object is, why that is refused, and the way out.
    """
    rule = RULES.get(type(transform))
    if rule is not None:
        return rule
    refusal = REFUSALS[v1.Lambda] if is_function(transform) else REFUSALS.get(type(transform))
    if refusal is not None:
        raise UnsupportedError(refusal)
    if not is_instance_to_call(transform):
        raise UnsupportedError(_no_transform(transform))
    for known in (*RULES, *CONTAINERS, *BRANCHING):
        if isinstance(transform, known):
            raise UnsupportedError(
                f"a subclass of {class_name(known)} may override anything; use {class_name(known)} itself, {WAYS_OUT}"
            )
    if object_name(transform).startswith("torchvision."):
        raise UnsupportedError(f"this class of torchvision isn't known to gpufeed; {WAYS_OUT}")
    raise UnsupportedError(
        "the class isn't torchvision's, so what it does isn't known; write it with the classes of "
        "torchvision.transforms.v2, " + WAYS_OUT
    )


def _no_transform(transform: object) -> str:
    if isinstance(transform, type):
        return f"it is a class, not an object of it; write {transform.__qualname__}(...) with its arguments"
    if isinstance(transform, list | tuple):
        return "it is a list; put its transforms into a Compose"
    return "it is no transform: torchvision can't call it with an image and get one; remove it"


def _check_tuple(spec: ImageSpec, rule: Rule, ops: tuple[Op, ...]) -> None:
    """Refuse what torchvision can't do, or doesn't do, to a tuple of images."""
    if rule.api == "v1":
        raise UnsupportedError(
            f"it gets a tuple of {spec.tuple_of} images, and torchvision.transforms takes one; use "
            "torchvision.transforms.v2 throughout, whose transforms take them all"
        )
    if ops and spec.container == "tensor":
        raise UnsupportedError(
            f"of a tuple of {spec.tuple_of} plain tensors torchvision transforms the first only; put v2.ToImage() "
            "before FiveCrop or TenCrop"
        )


def transform_ops(transform: object, spec: ImageSpec) -> tuple[tuple[Op, ...], ImageSpec]:
    """What one leaf becomes for an image of ``spec``, and what comes out of it.

    Raises:
        UnsupportedError: with the reason and the way out.
    """
    rule = rule_for(transform)
    check_attributes(transform, rule.reads, rule.carries_nothing)
    attributes = {name: getattr(transform, name) for name in rule.reads}
    try:
        ops = rule.ops(attributes, spec, rule.api)
        if spec.tuple_of is not None:
            _check_tuple(spec, rule, ops)
        for op in ops:
            spec = op.out_spec(spec)
    except (ValueError, OverflowError, RuntimeError) as error:  # a value that an op, NumPy or torch refuses
        raise UnsupportedError(f"{error}; give {class_name(rule.transform_class)} another value") from error
    return ops, spec
