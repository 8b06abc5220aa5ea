"""What the rule of one transform class is, and the few things that all rules share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpufeed.errors import UnsupportedError
from gpufeed.plan import Api, Convert, Op
from gpufeed.spec import ImageSpec

__all__ = ["Attributes", "Rule", "kernel_api", "plain_tensor", "refuse_chance_container"]

Attributes = Mapping[str, object]
"""The attributes that a rule reads, by name."""


def _no_attributes() -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Rule:
    """How objects of exactly one class become ops.

    Attributes:
        transform_class: the class; never its subclasses, which may override anything.
        api: which generation of torchvision the class belongs to.
        ops: attributes, input and ``api`` to ops. Raises `UnsupportedError` with the reason and the way out for what
            can't be done exactly, and for whatever torchvision itself refuses there.
        reads: names of the attributes that ``ops`` reads.
        carries_nothing: names of attributes that never change a pixel, with the reason.
    """

    transform_class: type[object]
    api: Api
    ops: Callable[[Attributes, ImageSpec, Api], tuple[Op, ...]]
    reads: frozenset[str] = frozenset()
    carries_nothing: Mapping[str, str] = field(default_factory=_no_attributes)


def kernel_api(spec: ImageSpec, api: Api) -> Api:
    """The ``api`` of an op: ``"v2"`` on PIL images, where both generations call the same Pillow code."""
    return "v2" if spec.container == "pil" else api


def plain_tensor(ops: tuple[Op, ...], spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    """``ops``, and then a plain tensor where a v1 class takes a ``tv_tensors.Image``.

    v1's functions know nothing of tv_tensors: what they compute from one is a plain ``torch.Tensor``. v2's keep the
    class.
    """
    if api == "v1" and spec.container == "tv_image":
        return (*ops, Convert("tensor"))
    return ops


def refuse_chance_container(class_name: str, chance: str, spec: ImageSpec, api: Api) -> None:
    """Refuse a v1 class that returns a ``tv_tensors.Image`` for some samples and a plain tensor for the others."""
    if api == "v1" and spec.container == "tv_image":
        raise UnsupportedError(
            f"torchvision.transforms.{class_name} keeps a tv_tensors.Image where {chance} and makes it a plain tensor "
            f"elsewhere; use torchvision.transforms.v2.{class_name}, or put v2.ToPureTensor() before it"
        )
