"""From a transform to a Plan, or to the reasons against one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpufeed.errors import TranslationError, UnsupportedError
from gpufeed.plan import DECODED, Op, Plan
from gpufeed.spec import Container, ImageSpec
from gpufeed.translation.compose import Leaf, leaves
from gpufeed.translation.inspection import object_name, short_repr
from gpufeed.translation.registry import transform_ops

__all__ = ["Step", "Translation", "translate"]

_CONTAINERS: tuple[Container, ...] = ("pil", "tensor", "tv_image")
_ANYTHING = tuple(
    ImageSpec(container, dtype, channels)
    for channels in (3, 1)
    for dtype in ("uint8", "float32")
    for container in _CONTAINERS
    if container != "pil" or dtype == "uint8"
)
"""What may come out of a transform that was refused, so that the ones behind it can still be judged."""


@dataclass(frozen=True, slots=True)
class Step:
    """One leaf of the transform.

    Attributes:
        place: where it is, such as ``transforms[2].transforms[0]``, or ``transform`` where it isn't inside another.
        name: its class as people import it, or what else it is.
        text: its ``repr`` in one line.
        ops: what it became; nothing for a leaf that changes nothing here, and for a refused one.
        refusal: why it can't be translated, and the way out; ``None`` where it can.
        transform: the object itself.
    """

    place: str
    name: str
    text: str
    ops: tuple[Op, ...] = ()
    refusal: str | None = None
    transform: object = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        if self.refusal is not None:
            lines = [f"refused: {self.refusal}"]
        else:
            lines = [str(op) for op in self.ops] or ["nothing to do here"]
        return "\n".join([f"{self.place}  {self.text}", *(f"    {line}" for line in lines)])


@dataclass(frozen=True, slots=True)
class Translation:
    """What a transform became.

    Attributes:
        steps: one per leaf, in order.
        plan: the Plan; ``None`` if any step is refused.
    """

    steps: tuple[Step, ...]
    plan: Plan | None

    @property
    def refusals(self) -> tuple[str, ...]:
        """A sentence or two per refused step: what it is, where, why, and what to do instead."""
        return tuple(f"{step.place} ({step.name}): {step.refusal}" for step in self.steps if step.refusal is not None)

    def require(self) -> Plan:
        """The Plan.

        Raises:
            TranslationError: listing every refusal.
        """
        if self.plan is not None:
            return self.plan
        if len(self.refusals) == 1:
            raise TranslationError(f"gpufeed can't do this transform exactly: {self.refusals[0]}.")
        listed = "".join(f"\n- {refusal}." for refusal in self.refusals)
        raise TranslationError(f"gpufeed can't do {len(self.refusals)} of these transforms exactly:{listed}")

    def __str__(self) -> str:
        lines = [str(step) for step in self.steps]
        if self.plan is not None:
            return "\n".join([f"in  {self.plan.input}", *lines, f"out {self.plan.output}"])
        return "\n".join([*lines, f"refused: {len(self.refusals)} of {len(self.steps)} transforms"])


def translate(transform: object, *, input: ImageSpec = DECODED) -> Translation:  # noqa: A002 - the Plan's own word
    """Translate a torchvision transform.

    Args:
        transform: a transform of ``torchvision.transforms`` or ``.v2``, or ``Compose`` or ``torch.nn.Sequential`` of
            them, nested as deep as you like. ``None``, a dataset's "no transform", is the empty Plan.
        input: what the first transform gets.

    Returns:
        The Plan, or per transform the refusal. The transform is neither called nor changed. The same object may become
        another Plan after its attributes were edited.
    """
    if transform is None:
        return Translation((), Plan((), input))
    steps: list[Step] = []
    specs: tuple[ImageSpec, ...] = (input,)
    for leaf in leaves(transform):
        step, specs = _step(leaf, specs)
        steps.append(step)
    if any(step.refusal is not None for step in steps):
        return Translation(tuple(steps), None)
    return Translation(tuple(steps), Plan(tuple(op for step in steps for op in step.ops), input))


def _step(leaf: Leaf, specs: Iterable[ImageSpec]) -> tuple[Step, tuple[ImageSpec, ...]]:
    """One step, and what can come out of it.

    ``specs`` is what can come in: one spec as long as nothing was refused, many after that. A leaf is refused if it
    takes none of them.
    """
    name, refusal = object_name(leaf.transform), leaf.refusal
    # a container's repr would show all that is in it, use up an iterator, or never end
    text = short_repr(leaf.transform) if refusal is None else f"{type(leaf.transform).__qualname__}(...)"
    taken: list[tuple[tuple[Op, ...], ImageSpec]] = []
    if refusal is None:
        for spec in specs:
            try:
                taken.append(transform_ops(leaf.transform, spec))
            except UnsupportedError as error:
                refusal = refusal or str(error)
    if not taken:
        return Step(leaf.place, name, text, (), refusal, leaf.transform), _ANYTHING
    ops = taken[0][0]
    return Step(leaf.place, name, text, ops, None, leaf.transform), tuple(dict.fromkeys(spec for _, spec in taken))
