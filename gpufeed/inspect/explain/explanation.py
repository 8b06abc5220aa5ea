"""What becomes of a transform on a device: each step with its ops, where they run, and how equal they are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, repeat
from typing import Any, Literal

from gpufeed.bounds import Bound, Device, bound_of
from gpufeed.placement import GroupKind, Placement, Stage, fused, place
from gpufeed.plan import DECODED, BranchOp, Op, Plan
from gpufeed.plan.op import described
from gpufeed.spec import ImageSpec
from gpufeed.translation import Step, translate

__all__ = [
    "ENDS_IN_PIL",
    "SCHEMA",
    "SCHEMA_VERSION",
    "ExplainedGroup",
    "ExplainedOp",
    "ExplainedStep",
    "Explanation",
    "Library",
    "Refused",
    "RunsOn",
    "described_op",
    "explain",
    "explain_plan",
    "to_json",
]

SCHEMA = "gpufeed.explain"
SCHEMA_VERSION = 1

ENDS_IN_PIL = (
    "the transform must end in a tensor, and this one ends in a PIL image, which can't be collated; "
    "append ToTensor(), or ToImage() and ToDtype(torch.float32, scale=True)"
)
"""What the loader says too."""

Library = Literal["DALI", "torch"]
"""Whose stage it is."""

RunsOn = Literal["cpu", "cuda", "mixed"]
"""``mixed``: begins on the host and ends on the GPU, as DALI's decoding does."""


@dataclass(frozen=True, slots=True)
class ExplainedOp:
    """An op of the plan. What isn't known, since something before was refused, is ``None``.

    Attributes:
        op: the op.
        stage: whose stage it runs in; ``None`` also where it doesn't run.
        runs_on: where.
        input: what it gets.
        output: what it makes.
        bound: how equal it is to torchvision's; for an op that holds ops the worst of those inside.
        branches: the ops of each branch of one that holds ops; they run where it does.
    """

    op: Op
    stage: Library | None
    runs_on: RunsOn | None
    input: ImageSpec | None
    output: ImageSpec | None
    bound: Bound | None
    branches: tuple[tuple[ExplainedOp, ...], ...]


@dataclass(frozen=True, slots=True)
class ExplainedStep:
    """A transform and what it became.

    Attributes:
        place: where it is, as in `gpufeed.translation.Step`.
        name: its class as people import it, or what else it is.
        text: its ``repr`` in one line.
        ops: what it became; nothing where it is passed through or refused, or something inside is.
        refusal: why it can't be translated, and the way out.
        branches: the steps inside a container that draws, branch by branch.
    """

    place: str
    name: str
    text: str
    ops: tuple[ExplainedOp, ...]
    refusal: str | None
    branches: tuple[tuple[ExplainedStep, ...], ...]

    def each(self) -> Iterator[ExplainedStep]:
        """This step, and those inside it after it."""
        yield self
        for branch in self.branches:
            for step in branch:
                yield from step.each()

    @property
    def passes_through(self) -> bool:
        """Whether it does nothing here."""
        return not self.ops and not any(step.refusal for step in self.each())


@dataclass(frozen=True, slots=True)
class ExplainedGroup:
    """Ops that run as one.

    Attributes:
        kind: as in `gpufeed.placement.Group`.
        ops: the names of the ops, in order.
        positions: theirs in the plan.
        stage: whose stage it is.
        runs_on: where.
    """

    kind: GroupKind
    ops: tuple[str, ...]
    positions: tuple[int, ...]
    stage: Library
    runs_on: RunsOn


@dataclass(frozen=True, slots=True)
class Refused:
    """A transform that can't run on the device: what it is, where, why, and the way out."""

    place: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """What becomes of a transform.

    Attributes:
        subject: what the transform was called by who asked.
        device: where the result lies.
        input: what the first transform gets.
        output: what the last one makes; ``None`` where a transform can't be translated.
        steps: the transforms, in order.
        groups: what runs as one, in order; nothing where anything is refused.
        fingerprint: the plan's; ``None`` where there is none.
    """

    subject: str
    device: Device
    input: ImageSpec
    output: ImageSpec | None
    steps: tuple[ExplainedStep, ...]
    groups: tuple[ExplainedGroup, ...]
    fingerprint: str | None

    def each_step(self) -> Iterator[ExplainedStep]:
        """Every step, those inside of others after the one that holds them."""
        for step in self.steps:
            yield from step.each()

    @property
    def refused(self) -> tuple[Refused, ...]:
        """All that can't be translated, or can't run on this device."""
        return tuple(refused for step in self.each_step() for refused in _refused(step))

    @property
    def unfit(self) -> str | None:
        """Why no loader takes what comes out, and the way out; ``None`` where one does, or nothing comes out."""
        return ENDS_IN_PIL if self.output is not None and self.output.container == "pil" else None

    @property
    def sizes_vary(self) -> bool:
        """Whether images of unequal size come out."""
        return self.output is not None and self.output.size_hw is None


def _refused(step: ExplainedStep) -> Iterator[Refused]:
    if step.refusal is not None:
        yield Refused(step.place, step.name, step.refusal)
    for explained in step.ops:
        bound = explained.bound
        if bound is not None and bound.refused and not step.branches:  # of a container those inside tell it
            yield Refused(step.place, step.name, bound.detail)


def explain(transform: object, device: Device, subject: str, *, input: ImageSpec = DECODED) -> Explanation:  # noqa: A002 - the Plan's own word
    """Translate a transform and place it on a device, touching neither the transform nor the device.

    Args:
        transform: as for `gpufeed.translate`.
        device: ``"cpu"`` or ``"cuda"``.
        subject: what to call the transform.
        input: what the first transform gets.

    Raises:
        ArgumentError: for another device.
    """
    translation = translate(transform, input=input)
    plan = translation.plan
    if plan is None:
        steps = _steps(translation.steps, input, device, repeat(_NOWHERE))
        return Explanation(subject, device, input, None, steps, (), None)
    placement = place(plan, device)
    steps = _steps(translation.steps, input, device, (_where(one.stage, device) for one in placement.placed))
    groups = () if placement.refusals() else tuple(_groups(placement))
    return Explanation(subject, device, input, plan.output, steps, groups, plan.fingerprint())


def explain_plan(plan: Plan, device: Device) -> tuple[ExplainedOp, ...]:
    """The ops of a plan that stands by itself, placed on a device."""
    where = [_where(one.stage, device) for one in place(plan, device).placed]
    return _ops(plan.ops, plan.input, device, where)[0]


_Where = tuple[Library | None, RunsOn | None]
_NOWHERE: _Where = (None, None)


def _where(stage: Stage, device: Device) -> tuple[Library, RunsOn]:
    if stage == "decode":
        return "DALI", "mixed" if device == "cuda" else "cpu"
    return "DALI" if stage == "graph" else "torch", device


def _steps(
    steps: Sequence[Step], spec: ImageSpec | None, device: Device, where: Iterator[_Where]
) -> tuple[ExplainedStep, ...]:
    """Steps one after the other.

    Args:
        steps: of a translation, or of a branch of one.
        spec: what the first gets; behind a refused step none is known.
        device: where the result lies.
        where: where each op runs.
    """
    explained: list[ExplainedStep] = []
    for step in steps:
        places = list(islice(where, len(step.ops)))
        ops, after = _ops(step.ops, spec, device, places)
        inside = places[0] if places else _NOWHERE  # ops run where the one that holds them does
        held = _inside(step.ops[0], spec) if step.ops else None
        branches = tuple(_steps(branch, held, device, repeat(inside)) for branch in step.branches)
        explained.append(ExplainedStep(step.place, step.name, step.text, ops, step.refusal, branches))
        spec = None if any(True for _ in step.refused_steps()) else after
    return tuple(explained)


def _inside(op: Op, spec: ImageSpec | None) -> ImageSpec | None:
    """What every branch of an op gets."""
    return op.branch_spec(spec) if isinstance(op, BranchOp) and spec is not None else None


def _ops(
    ops: Sequence[Op], spec: ImageSpec | None, device: Device, places: Sequence[_Where]
) -> tuple[tuple[ExplainedOp, ...], ImageSpec | None]:
    """A step's ops, and what comes out of the last."""
    explained: list[ExplainedOp] = []
    for op, where in zip(ops, places, strict=True):
        before, bound = spec, None
        if before is not None:
            bound = bound_of(op, before, device)
            spec = op.out_spec(before)
        own = _NOWHERE if bound is not None and bound.refused else where
        held = _inside(op, before)
        branches = tuple(_ops(ops, held, device, [own] * len(ops))[0] for ops in op.branches)
        explained.append(ExplainedOp(op, *own, before, spec, bound, branches))
    return tuple(explained), spec


def _groups(placement: Placement) -> Iterator[ExplainedGroup]:
    for group in fused(placement):
        stage: Stage = "decode" if group.kind == "decode" else "graph" if group.kind in _OF_THE_GRAPH else "tail"
        names = tuple(type(placement.plan.ops[position]).__name__ for position in group.positions)
        yield ExplainedGroup(group.kind, names, group.positions, *_where(stage, placement.device))


_OF_THE_GRAPH = ("operator", "scale", "layout")


def to_json(explanation: Explanation) -> str:
    """The explanation as JSON text, with the schema's name and version, ending in a newline."""
    document = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "subject": explanation.subject,
        "device": explanation.device,
        "fingerprint": explanation.fingerprint,
        "input": asdict(explanation.input),
        "output": _spec(explanation.output),
        "steps": list(map(_described_step, explanation.steps)),
        "groups": [asdict(group) for group in explanation.groups],
        "unfit": explanation.unfit,
        "refused": [asdict(refused) for refused in explanation.refused],
    }
    return json.dumps(document, indent=2) + "\n"


def _described_step(step: ExplainedStep) -> dict[str, Any]:
    return {
        "place": step.place,
        "name": step.name,
        "text": step.text,
        "passes_through": step.passes_through,
        "refusal": step.refusal,
        "ops": list(map(described_op, step.ops)),
        "branches": [list(map(_described_step, branch)) for branch in step.branches],
    }


def described_op(explained: ExplainedOp) -> dict[str, Any]:
    """An op as JSON has it."""
    return {
        "op": described(explained.op),
        "stage": explained.stage,
        "runs_on": explained.runs_on,
        "input": _spec(explained.input),
        "output": _spec(explained.output),
        "exactness": _bound(explained.bound),
        "branches": [list(map(described_op, branch)) for branch in explained.branches],
    }


def _spec(spec: ImageSpec | None) -> dict[str, Any] | None:
    return None if spec is None else asdict(spec)


def _bound(bound: Bound | None) -> dict[str, Any] | None:
    return None if bound is None else {"kind": bound.kind, **asdict(bound)}
