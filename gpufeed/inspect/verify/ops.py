"""Judging ops one by one: our kernel against torchvision's function on torchvision's own input, with the same draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

import numpy as np
import PIL.Image
import torch
from torchvision import tv_tensors

from gpufeed import reference
from gpufeed.bounds import Bound, Device, bound_of
from gpufeed.inspect.verify.differences import Differences, Scale, as_tensor, full_scales, ring_and_rest
from gpufeed.inspect.verify.results import OpCheck, Worst
from gpufeed.parameters import BatchParameters, Branches, OpParameters, rows_of
from gpufeed.plan import BranchOp, Op, Plan, each_op
from gpufeed.reference.values import row_of
from gpufeed.spec import ImageSpec

__all__ = ["DECODE", "OpAt", "OpJudge", "OpRun", "Runner", "as_image", "batched", "ops_at", "walk"]

_SLACK_VALUES = 3
"""Where a share of the values may be beyond the usual bound, so many more may be: a handful decides nothing."""

_ROUNDING_255 = 1e-9
"""What float64 adds to a difference while it is scaled."""


@dataclass(frozen=True, slots=True)
class OpAt:
    """An op at its place in a plan, those inside of others too.

    Attributes:
        place: as in `OpCheck.place`.
        op: the op.
        spec: its input.
        bound: what holds for it on the device.
        scale: of its output's values.
        number: of the transform that it comes from; see `OpCheck.number`.
    """

    place: str
    op: Op
    spec: ImageSpec
    bound: Bound
    scale: Scale
    number: str = ""


DECODE = "decode"
"""The place of the decoder, which comes before every op."""


def ops_at(plan: Plan, device: Device, numbers: Mapping[str, str] | None = None) -> tuple[OpAt, ...]:
    """Every op of a plan in order, those inside of others after the one that holds them.

    Args:
        plan: the plan.
        device: where it runs.
        numbers: of the transforms, by the places of the ops.
    """
    found: list[OpAt] = []
    scales = full_scales(plan)
    for position, (op, spec) in enumerate(zip(plan.ops, plan.specs(), strict=False)):
        _collect(found, str(position), op, spec, scales[position + 1], device)
    return tuple(replace(at, number=(numbers or {}).get(at.place, "")) for at in found)


def _collect(found: list[OpAt], place: str, op: Op, spec: ImageSpec, scale: Scale, device: Device) -> None:
    found.append(OpAt(place, op, spec, bound_of(op, spec, device), scale))
    if not isinstance(op, BranchOp):
        return
    for branch, ops in enumerate(op.branches):
        before = op.branch_spec(spec)
        for position, inner in enumerate(ops):
            _collect(found, f"{place}.{branch}.{position}", inner, before, scale, device)
            before = inner.out_spec(before)


@dataclass(frozen=True, slots=True, eq=False)
class OpRun:
    """One op on one sample, as torchvision does it.

    Attributes:
        place: the op's.
        before: the oracle's image in front of it.
        after: and behind it.
        value: the op's parameters, one row.
    """

    place: str
    before: reference.Image
    after: reference.Image
    value: OpParameters


def walk(plan: Plan, image: reference.Image, parameters: BatchParameters, row: int) -> Iterator[OpRun]:
    """One sample through torchvision's functions, op by op, down into the branches that were drawn for it."""
    values = [rows_of(value, slice(row, row + 1)) for value in parameters.values]
    return _walk(plan.ops, values, image, "")


def _walk(
    ops: tuple[Op, ...], values: list[OpParameters], image: reference.Image, prefix: str
) -> Generator[OpRun, None, reference.Image]:
    for position, (op, value) in enumerate(zip(ops, values, strict=True)):
        place = f"{prefix}{position}"
        if isinstance(op, BranchOp):
            drawn = cast(Branches, value)
            for branch in drawn.way(0):
                inside = list(drawn.values[branch])
                image = yield from _walk(op.branches[branch], inside, image, f"{place}.{branch}.")
            continue
        after = reference.apply(op, image, row_of(value, 0))
        yield OpRun(place, image, after, value)
        image = after
    return image


def as_image(tensor: torch.Tensor, like: reference.Image) -> reference.Image:
    """Our result, (N, C, H, W), in the container that torchvision's is in."""
    if isinstance(like, tuple):
        return tuple(as_image(one[None], other) for one, other in zip(tensor, like, strict=True))
    if isinstance(like, torch.Tensor):
        image = tensor[0].contiguous()
        return tv_tensors.Image(image) if isinstance(like, tv_tensors.Image) else image
    pixels = np.ascontiguousarray(tensor[0].permute(1, 2, 0).numpy())
    return PIL.Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0])


Runner = Callable[[OpAt, torch.Tensor, OpParameters], torch.Tensor]
"""An op, (N, C, H, W) images on the host and parameters of one row, to our result on the host."""


@dataclass(slots=True, eq=False)
class OpJudge:
    """Gathers what one op, or the decoder, is off.

    Attributes:
        place: as in `OpCheck.place`.
        text: the op in words.
        short: the same without what is the usual value.
        name: its class.
        spec: its input.
        bound: what has to hold.
        scale: of its output.
        resamples: whether border and interior are told apart.
        holds_ops: whether there are only ops inside to judge.
        number: as in `OpCheck.number`.
    """

    place: str
    text: str
    short: str
    name: str
    spec: ImageSpec
    bound: Bound
    scale: Scale
    resamples: bool
    holds_ops: bool = False
    number: str = ""
    _whole: Differences = field(default_factory=Differences)
    _border: Differences = field(default_factory=Differences)
    _interior: Differences = field(default_factory=Differences)
    _passed_on: Differences = field(default_factory=Differences)
    _worst: Worst | None = None
    _num_samples: int = 0
    _misfit: str = ""

    @classmethod
    def of(cls, at: OpAt) -> OpJudge:
        """A judge of an op of a plan."""
        resamples = not isinstance(at.op, BranchOp) and any(
            getattr(one, "interpolation", None) is not None for one in each_op((at.op,))
        )
        judge = cls(
            at.place,
            str(at.op),
            _short(at.op),
            type(at.op).__name__,
            at.spec,
            at.bound,
            at.scale,
            resamples,
            isinstance(at.op, BranchOp),
            at.number,
        )
        judge._whole.usual_255 = at.bound.usual_255
        return judge

    def add(self, mine: torch.Tensor, theirs: torch.Tensor, index: int, file: str) -> bool:
        """Take in one sample: our result and torchvision's, (N, C, H, W) or (C, H, W) on the host.

        Returns:
            Whether they differ, so that it is worth to know what becomes of that.
        """
        self._num_samples += 1
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            if not self._misfit:
                self._misfit = (
                    f"{self._label} makes {_described(mine)} where torchvision makes {_described(theirs)}, of {file}"
                )
            return False
        largest, mean = self._whole.add(mine, theirs, self.scale)
        if self.resamples:
            ring, rest = ring_and_rest(mine)
            ring_theirs, rest_theirs = ring_and_rest(theirs)
            for one, other in zip(ring, ring_theirs, strict=True):
                self._border.add(one, other, self.scale)
            self._interior.add(rest, rest_theirs, self.scale)
        if self._worst is None or (largest, mean) > (self._worst.largest_255, self._worst.mean_255):
            self._worst = Worst(index, file, largest, mean)
        return largest > 0.0

    def pass_on(self, end: torch.Tensor, theirs: torch.Tensor, scale: Scale) -> None:
        """Take in what became of one sample's differences.

        Args:
            end: what torchvision makes of our result with the rest of the plan; ``theirs`` where nothing differs.
            theirs: what it makes of its own.
            scale: of these values.
        """
        if end.shape == theirs.shape:
            self._passed_on.add(end, theirs, scale)

    def check(self) -> OpCheck:
        """What was found so far."""
        bound, seen = self.bound, self._num_samples > 0 and self._whole.num_values > 0
        passed_on = self._passed_on.spread()
        border = self.resamples and self._border.num_values > 0
        interior = self.resamples and self._interior.num_values > 0
        return OpCheck(
            place=self.place,
            op=self.text,
            short=self.short,
            name=self.name,
            domain=self.spec.domain,
            holds_ops=self.holds_ops,
            bound_kind=bound.kind,
            bound_words=bound.words,
            bound_largest_255=bound.largest_255,
            bound_usual_255=bound.usual_255,
            bound_share_beyond=bound.share_beyond,
            bound_measured=bound.measured,
            num_samples=self._num_samples,
            spread=self._whole.spread() if seen else None,
            border=self._border.spread() if border else None,
            interior=self._interior.spread() if interior else None,
            passed_on=passed_on if passed_on.share_unequal else None,
            worst=self._worst,
            exceeded=self._exceeded(),
            number=self.number,
            num_beyond_allowed=_allowed(bound, self._whole.num_values),
        )

    @property
    def _label(self) -> str:
        if self.place == DECODE:
            return self.text
        return f"op {self.number} ({self.short})" if self.number else f"the op {self.short}"

    def _exceeded(self) -> str:
        if self._misfit:
            return self._misfit
        if self._worst is None:
            return ""
        bound, worst = self.bound, self._worst
        if bound.largest_255 is not None and worst.largest_255 > bound.largest_255 + _ROUNDING_255:
            allowed = "equal" if bound.largest_255 == 0.0 else f"within {bound.largest_255:.6g}/255"
            return (
                f"{self._label} is {_number(worst.largest_255)}/255 off torchvision and must be {allowed}: {worst.file}"
            )
        beyond, values = self._whole.num_beyond, self._whole.num_values
        if beyond > _allowed(bound, values):
            largest = bound.largest_255
            if largest is None or largest > bound.usual_255:
                return (
                    f"{self._label} has {100 * beyond / values:.3g} % of its values more than {bound.usual_255:.6g}/"
                    f"255 off torchvision, and {100 * bound.share_beyond:.6g} % may be; farthest in {worst.file}"
                )
        return ""


def _allowed(bound: Bound, num_values: int) -> int:
    """How many values may be beyond the usual bound."""
    return math.floor(bound.share_beyond * num_values) + (_SLACK_VALUES if bound.share_beyond else 0)


def _short(op: Op) -> str:
    """The class, with the values that aren't the usual ones; without the ops inside."""
    held = {one.name for one in fields(op) if one.name in ("ops", "choices", "parts")}
    unusual = [
        f"{one.name}={getattr(op, one.name)!r}"
        for one in fields(op)
        if one.name not in held and (one.name == "p" or getattr(op, one.name) != one.default)
    ]
    return " ".join([type(op).__name__, *unusual])


def _number(value: float) -> str:
    return f"{value:.0f}" if value == round(value) else f"{value:.3g}"


def _described(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def batched(image: Any) -> torch.Tensor:
    """An image of the oracle's as (N, C, H, W): N is 1, or the number of images in a tuple."""
    tensor = as_tensor(image)
    return tensor if tensor.ndim == 4 else tensor[None]
