"""From a transform to a Plan, or to the reasons against one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gpufeed.errors import TranslationError, UnsupportedError
from gpufeed.plan import DECODED, Op, Plan
from gpufeed.spec import Container, ImageSpec
from gpufeed.translation.branches import BRANCHING, branching
from gpufeed.translation.compose import Leaf, leaves
from gpufeed.translation.inspection import object_name, short_repr
from gpufeed.translation.registry import transform_ops

__all__ = ["Step", "Translation", "translate"]

_Specs = tuple[ImageSpec, ...]
"""What an image may be between two transforms."""

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
        branches: the steps of each branch of a container that draws; the op holds what they became.
    """

    place: str
    name: str
    text: str
    ops: tuple[Op, ...] = ()
    refusal: str | None = None
    transform: object = field(default=None, repr=False, compare=False)
    branches: tuple[tuple[Step, ...], ...] = ()

    def refused_steps(self) -> Iterator[Step]:
        """This step, or those inside it, that can't be translated."""
        if self.refusal is not None:
            yield self
        for branch in self.branches:
            for step in branch:
                yield from step.refused_steps()

    def __str__(self) -> str:
        refused = list(self.refused_steps())
        if self.refusal is not None:
            lines = [f"refused: {self.refusal}"]
        elif refused:
            lines = [line for step in refused for line in str(step).splitlines()]
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
        return tuple(f"{step.place} ({step.name}): {step.refusal}" for step in self._refused())

    def _refused(self) -> list[Step]:
        return [refused for step in self.steps for refused in step.refused_steps()]

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
        return "\n".join([*lines, f"refused: {len(self.refusals)} of {_count(self.steps)} transforms"])


def _count(steps: Iterable[Step]) -> int:
    return sum(1 + sum(map(_count, step.branches)) for step in steps)


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
    steps, _ = _steps(leaves(transform), (input,))
    if any(True for step in steps for _ in step.refused_steps()):
        return Translation(steps, None)
    return Translation(steps, Plan(_ops(steps), input))


def _ops(steps: Iterable[Step]) -> tuple[Op, ...]:
    return tuple(op for step in steps for op in step.ops)


def _steps(found: Iterable[Leaf], specs: _Specs) -> tuple[tuple[Step, ...], _Specs]:
    """The steps of leaves one after the other, and what can come out of the last."""
    steps: list[Step] = []
    for leaf in found:
        step, specs = _step(leaf, specs)
        steps.append(step)
    return tuple(steps), specs


def _step(leaf: Leaf, specs: _Specs) -> tuple[Step, _Specs]:
    """One step, and what can come out of it.

    ``specs`` is what can come in: one spec as long as nothing was refused, many after that. A leaf is refused if it
    takes none of them.
    """
    refusal = leaf.refusal
    taken: list[tuple[Step, ImageSpec]] = []
    if refusal is None:
        for spec in specs:
            try:
                taken.append(_translated(leaf, spec))
            except UnsupportedError as error:
                refusal = refusal or str(error)
    if not taken:
        walked = leaf.refusal is not None or type(leaf.transform) in BRANCHING
        text = _container_text(leaf.transform) if walked else short_repr(leaf.transform)
        return Step(leaf.place, object_name(leaf.transform), text, (), refusal, leaf.transform), _ANYTHING
    step = taken[0][0]
    if any(True for _ in step.refused_steps()):
        return step, _ANYTHING
    return step, tuple(dict.fromkeys(spec for _, spec in taken))


def _container_text(container: object) -> str:
    """Without its content: a container's ``repr`` shows all that is in it, uses up an iterator, or never ends."""
    return f"{type(container).__qualname__}(...)"


def _translated(leaf: Leaf, spec: ImageSpec) -> tuple[Step, ImageSpec]:
    """The step of a leaf that gets ``spec``, and what comes out of it; steps inside it may be refused.

    Raises:
        UnsupportedError: with the reason and the way out.
    """
    name = object_name(leaf.transform)
    if type(leaf.transform) not in BRANCHING:
        ops, out = transform_ops(leaf.transform, spec)
        return Step(leaf.place, name, short_repr(leaf.transform), ops, None, leaf.transform), out
    text = _container_text(leaf.transform)
    how = branching(leaf)
    if not how.branches:
        return Step(leaf.place, name, text, (), None, leaf.transform), spec
    inside = spec
    while True:
        branches = tuple(_steps(found, (inside,))[0] for found in how.branches)
        if any(True for steps in branches for step in steps for _ in step.refused_steps()):
            return Step(leaf.place, name, text, (), None, leaf.transform, branches), spec
        op = how.op(tuple(map(_ops, branches)))
        out = op.out_spec(spec)
        if op.branch_spec(spec) == inside:
            return Step(leaf.place, name, text, (op,), None, leaf.transform, branches), out
        inside = op.branch_spec(spec)  # a part of RandomOrder gets what the others make
