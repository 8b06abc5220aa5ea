"""``RandomHorizontalFlip`` and ``RandomVerticalFlip``."""

from __future__ import annotations

from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed.plan import Api, Flip, Op
from gpufeed.spec import ImageSpec
from gpufeed.translation import values
from gpufeed.translation.rule import Attributes, Rule, plain_tensor, refuse_chance_container

__all__ = ["RULES"]


def _flip(class_name: str, op: Flip, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    if op.p == 0.0:
        return ()
    if op.p < 1.0:
        refuse_chance_container(class_name, "the draw decides against the flip", spec, api)
    return plain_tensor((op,), spec, api)


def _horizontal(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    return _flip("RandomHorizontalFlip", Flip("horizontal", values.probability(attributes["p"])), spec, api)


def _vertical(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    return _flip("RandomVerticalFlip", Flip("vertical", values.probability(attributes["p"])), spec, api)


RULES = (
    Rule(v1.RandomHorizontalFlip, "v1", _horizontal, frozenset({"p"})),
    Rule(v2.RandomHorizontalFlip, "v2", _horizontal, frozenset({"p"})),
    Rule(v1.RandomVerticalFlip, "v1", _vertical, frozenset({"p"})),
    Rule(v2.RandomVerticalFlip, "v2", _vertical, frozenset({"p"})),
)
