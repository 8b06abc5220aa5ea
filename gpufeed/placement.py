"""Which op runs where on which device, and how equal its pixels are to torchvision's.

`place` reads a Plan and says for each op the stage and whether the result is exact, bounded (by what) or refused. The
executors follow it; ``explain`` shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpufeed.bounds import Bound, Device, bound_of
from gpufeed.errors import ArgumentError, UnsupportedError
from gpufeed.plan import (
    CenterCrop,
    Convert,
    Erase,
    EraseToNoise,
    Flip,
    Normalize,
    Op,
    Plan,
    RandomApply,
    RandomAreaCrop,
    RandomCrop,
    ResizeOp,
    ToDtype,
    ToTensor,
)
from gpufeed.spec import ImageSpec, is_float_dtype

__all__ = [
    "DALI_FILTERS",
    "WINDOWS",
    "Device",
    "Group",
    "GroupKind",
    "Placed",
    "Placement",
    "Stage",
    "fused",
    "place",
    "scaling_ops",
]

Stage = Literal["decode", "graph", "tail"]
"""``decode``: part of DALI's decoding (only the window is); ``graph``: another DALI operator; ``tail``: torch."""

WINDOWS = (RandomAreaCrop, RandomCrop, CenterCrop)
"""Ops that only take a window of the image, and so can be part of decoding it."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One op of a plan on a device."""

    op: Op
    input: ImageSpec
    output: ImageSpec
    stage: Stage
    bound: Bound


@dataclass(frozen=True, slots=True)
class Placement:
    """A plan on a device.

    Attributes:
        plan: the plan, unfused; parameters are drawn for it.
        device: where the result lies.
        placed: one entry per op.
        decoded: how many leading ops the decoder does, by decoding a window.
        in_graph: how many leading ops, those included, DALI does; the tail does the others. On the CPU equal to
            ``decoded``.
        uniform: position of the first op whose input has the same size in every sample from there on; ``len(plan.ops)``
            if only the output is known to be uniform, ``None`` if not even that: from there the tail works on batches.
        final: position of the op that makes the output's dtype, after which only ops follow that work in place: it
            writes straight into the batch. ``None`` where there is no such op.
    """

    plan: Plan
    device: Device
    placed: tuple[Placed, ...]
    decoded: int
    in_graph: int
    uniform: int | None
    final: int | None

    @property
    def output(self) -> ImageSpec:
        """The plan's output, known already where `Plan.output` would go through all ops again."""
        return self.placed[-1].output if self.placed else self.plan.input

    def refusals(self) -> tuple[Placed, ...]:
        """The ops that this device can't do exactly or within a bound."""
        return tuple(placed for placed in self.placed if placed.bound.refused)

    def require(self, *, strict: bool = False) -> Placement:
        """Itself, if no op is refused.

        Args:
            strict: refuse also ops whose bound isn't within 1/255 for 99.9 % of values (`Bound.strict`).

        Raises:
            UnsupportedError: naming each refused op, why, and the way out.
        """
        refusals = self.refusals()
        if refusals:
            reasons = "; ".join(f"{placed.op}: {placed.bound.detail}" for placed in refusals)
            raise UnsupportedError(f"the plan can't run on {self.device}: {reasons}")
        loose = [placed for placed in self.placed if strict and not placed.bound.strict]
        if loose:
            reasons = "; ".join(f"{placed.op}: {placed.bound.detail}" for placed in loose)
            raise UnsupportedError(
                f"strict=True asks for 99.9 % of the values within 1/255, which isn't promised on {self.device} for "
                f"{reasons}; choose another value where there is one, as `gpufeed explain` shows, or leave strict out"
            )
        return self


def place(plan: Plan, device: Device, *, fuse: bool = True) -> Placement:
    """Say where each op of ``plan`` runs on ``device``.

    Args:
        plan: what to do.
        device: ``"cpu"`` or ``"cuda"``; no device is touched.
        fuse: ``False`` decodes whole images and fuses nothing: slower, and equal bit for bit on the CPU (tests).

    Raises:
        ArgumentError: for another device.
    """
    if device not in ("cpu", "cuda"):
        raise ArgumentError(f"device must be 'cpu' or 'cuda', got {device!r}")
    specs = list(plan.specs())
    decoded = _leading_windows(plan) if fuse else 0
    in_graph = _leading_graph_ops(plan, specs, decoded) if device == "cuda" and fuse else decoded
    placed: list[Placed] = []
    for position, op in enumerate(plan.ops):
        stage: Stage = "decode" if position < decoded else "graph" if position < in_graph else "tail"
        placed.append(Placed(op, specs[position], specs[position + 1], stage, bound_of(op, specs[position], device)))
    return Placement(
        plan=plan,
        device=device,
        placed=tuple(placed),
        decoded=decoded,
        in_graph=in_graph,
        uniform=_uniform_from(specs, in_graph if fuse else len(plan.ops)),
        final=_final_op(plan, specs, in_graph) if fuse else None,
    )


def _leading_windows(plan: Plan) -> int:
    """How many leading ops only take windows; windows of windows are one window."""
    count = 0
    for op in plan.ops:
        if not isinstance(op, WINDOWS):
            break
        count += 1
    return count


def _uniform_from(specs: list[ImageSpec], first: int) -> int | None:
    """The first position from ``first`` on where the size is known and stays known."""
    position = len(specs)
    while position > first and specs[position - 1].size_hw is not None:
        position -= 1
    return position if position < len(specs) else None


def _final_op(plan: Plan, specs: list[ImageSpec], first: int) -> int | None:
    """The op that makes the output's float dtype, if what follows can be done in place in the batch."""
    output = specs[-1]
    if not is_float_dtype(output.dtype) or output.tuple_of is not None:
        return None
    for position in range(len(plan.ops) - 1, first - 1, -1):
        op = plan.ops[position]
        if isinstance(op, (ToTensor, ToDtype)):
            known = specs[position].size_hw is not None and specs[position].size_hw == output.size_hw
            scales_uint8 = specs[position].dtype == "uint8" and output.dtype == "float32"
            return position if known and scales_uint8 else None
        if not _works_in_place(op):
            return None
    return None


def _works_in_place(op: Op) -> bool:
    """Whether the tail can do it in the batch itself: it keeps size and dtype, and needs no more than its own pixel."""
    if isinstance(op, RandomApply):
        return all(map(_works_in_place, op.ops))
    return isinstance(op, (Normalize, Flip, Erase, EraseToNoise, Convert))


def _leading_graph_ops(plan: Plan, specs: list[ImageSpec], decoded: int) -> int:
    """How many leading ops DALI does on CUDA: moving and resizing bytes, and the whole plan if only scaling follows."""
    count = decoded
    while count < len(plan.ops) and _moves_or_resizes(plan.ops[count], specs[count]):
        count += 1
    return len(plan.ops) if _only_scales(plan.ops[count:], specs[count]) else count


def _moves_or_resizes(op: Op, spec: ImageSpec) -> bool:
    if isinstance(op, ResizeOp):  # torchvision's tensor kernels are torch's own, which the tail calls
        return spec.container == "pil" and op.interpolation in DALI_FILTERS
    return spec.dtype == "uint8" and isinstance(op, (*WINDOWS, Flip, Convert))


def _only_scales(ops: tuple[Op, ...], spec: ImageSpec) -> bool:
    """Whether ``ops`` are what DALI's crop-mirror-normalise does in one kernel: bytes to normalised float32."""
    if spec.dtype != "uint8":
        return False
    conversions = [op for op in ops if isinstance(op, (ToTensor, ToDtype))]
    normalizations = [op for op in ops if isinstance(op, Normalize)]
    if len(conversions) + len(normalizations) + sum(isinstance(op, (Flip, Convert)) for op in ops) != len(ops):
        return False
    if not conversions:
        return True  # bytes stay bytes; Normalize would have refused them
    first = conversions[0]
    to_unit = isinstance(first, ToTensor) or (first.dtype == "float32" and first.scale)
    return len(conversions) == 1 and len(normalizations) <= 1 and to_unit


DALI_FILTERS = ("bilinear", "bicubic", "lanczos")
"""Interpolations of Pillow's that DALI's antialiased resize on CUDA stands for."""


GroupKind = Literal["decode", "operator", "scale", "layout", "sample", "batch", "write"]
"""``decode``: DALI reads and decodes, only the window that the ops leave; ``operator``: one operator of DALI's;
``scale``: DALI's one kernel that mirrors, scales, normalises and makes CHW; ``layout``: DALI makes CHW;
``sample``: torch, one sample at a time; ``batch``: torch, several samples at a time; ``write``: torch, the conversion
that writes into the batch, and what is done in place there."""


@dataclass(frozen=True, slots=True)
class Group:
    """Ops that run as one.

    Attributes:
        kind: what runs them.
        positions: of the ops in the plan, in order; empty where it does something that is no op of the plan.
    """

    kind: GroupKind
    positions: tuple[int, ...]


def fused(placement: Placement) -> tuple[Group, ...]:
    """What runs as one, in the order in which it runs: every op in exactly one group, decoding first."""
    graph = _graph_groups(placement)
    return (*graph, *_tail_groups(placement))


def _graph_groups(placement: Placement) -> list[Group]:
    """DALI's part. A `Convert` does nothing there, and stands with what is before it."""
    ops, end = placement.plan.ops, placement.in_graph
    scaling = scaling_ops(placement)
    groups = [Group("decode", tuple(range(placement.decoded)))]
    for position in range(placement.decoded, end):
        if position in scaling:
            continue
        if isinstance(ops[position], Convert):
            groups[-1] = Group(groups[-1].kind, (*groups[-1].positions, position))
        else:
            groups.append(Group("operator", (position,)))
    if scaling:
        groups.append(Group("scale", scaling))
    elif placement.device == "cuda" and end == len(ops):
        groups.append(Group("layout", ()))
    return groups


def scaling_ops(placement: Placement) -> tuple[int, ...]:
    """Positions of what DALI's kernel for it scales, normalises and mirrors, where the whole plan is in the graph.

    All behind the last op that moves or resizes, but the vertical flips; nothing where the plan ends in bytes.
    """
    ops = placement.plan.ops
    if placement.device != "cuda" or placement.in_graph < len(ops) or not is_float_dtype(placement.output.dtype):
        return ()
    moving = [position for position, op in enumerate(ops) if isinstance(op, (*WINDOWS, ResizeOp))]
    first = moving[-1] + 1 if moving else 0
    return tuple(n for n in range(first, len(ops)) if not (isinstance(op := ops[n], Flip) and op.axis == "vertical"))


def _tail_groups(placement: Placement) -> list[Group]:
    """torch's part."""
    count, first = len(placement.plan.ops), placement.in_graph
    together = count if placement.uniform is None else max(placement.uniform, first)
    writes = count if placement.uniform is None or placement.final is None else placement.final
    found = (
        Group("sample", tuple(range(first, together))),
        Group("batch", tuple(range(together, writes))),
        Group("write", tuple(range(writes, count))),
    )
    return [group for group in found if group.positions]
