"""Whether gpufeed draws as torchvision does: crops, flips, factors and choices, compared as distributions.

No pixels are needed. gpufeed's parameters are drawn for many samples with the sizes of the user's files; torchvision's
come from the transform object's own ``make_params`` or ``get_params`` on images of these sizes. A probability that the
object itself states (``p``) is taken as it stands, and an op that no function here knows is held to the ranges that it
declares.

Every comparison has a limit that chance alone exceeds with a known probability: for shares the Chernoff bound, for
distribution functions that of Dvoretzky, Kiefer, Wolfowitz and Massart, both valid for any number of draws, and between
two samples of thousands of draws the limit of Kolmogorov and Smirnov. The probabilities of all comparisons of a run sum
to `FALSE_ALARMS`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from gpufeed.draws import Draws, epoch_key
from gpufeed.inspect.drawn_by_torchvision import THEIRS
from gpufeed.inspect.drawn_by_us import OURS
from gpufeed.inspect.places import number_of
from gpufeed.inspect.quantities import Categories, Range
from gpufeed.inspect.verify.results import DrawCheck
from gpufeed.parameters import Branches, OpParameters, draw_parameters, rows_of
from gpufeed.plan import BranchOp, Op, RandomApply, RandomChoice, RandomOrder
from gpufeed.translation import Step, Translation

__all__ = ["FALSE_ALARMS", "NUM_OURS", "NUM_THEIRS", "compare_draws"]

FALSE_ALARMS = 1e-4
"""The probability that draws of equal distribution exceed any limit of a run."""

NUM_OURS, NUM_THEIRS = 20_000, 10_000
"""Draws; torchvision's take 20 to 60 microseconds each."""

_Sizes = NDArray[np.int64]
_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """One quantity from both sides.

    Attributes:
        ours: one number per draw.
        theirs: one number per draw of torchvision's; `Range` or a rate where that is known exactly.
    """

    place: str
    name: str
    quantity: str
    ours: _Floats | Categories
    theirs: _Floats | Range | Categories | float


@dataclass(slots=True, eq=False)
class _Found:
    """What was gathered over the leaves."""

    pairs: list[_Pair] = field(default_factory=list[_Pair])
    undrawn: list[str] = field(default_factory=list[str])


def compare_draws(
    translation: Translation, sizes_hw: _Sizes, seed: int
) -> tuple[tuple[DrawCheck, ...], tuple[str, ...]]:
    """Compare everything that a transform draws.

    Args:
        translation: of the transform.
        sizes_hw: (N, 2) sizes of decoded images, which are repeated for as many draws as it takes.
        seed: fixes the draws of both sides. torch's global generator is left as it was.

    Returns:
        One check per quantity, and a sentence for each leaf that draws what can't be compared.
    """
    plan = translation.require()
    sizes = _repeated(sizes_hw, NUM_OURS)
    draws = Draws(epoch_key(seed, 0), np.arange(len(sizes)), np.zeros(len(sizes), dtype=np.int64))
    parameters = draw_parameters(plan, sizes, draws)
    found = _Found()
    with cast(Any, torch.random).fork_rng(devices=[]):
        cast(Any, torch).manual_seed(seed % 2**63)
        _compare_steps(translation.steps, parameters.values, parameters.sizes_hw, found)
    level = FALSE_ALARMS / max(len(found.pairs), 1)
    return tuple(_check(pair, level) for pair in found.pairs), tuple(dict.fromkeys(found.undrawn))


def _repeated(sizes_hw: _Sizes, at_least: int) -> _Sizes:
    """Whole repetitions, so that every size counts alike on both sides."""
    return np.tile(sizes_hw, (-(-at_least // len(sizes_hw)), 1))


def _compare_steps(
    steps: Sequence[Step], values: Sequence[OpParameters], sizes: Sequence[_Sizes | None], found: _Found
) -> None:
    """Steps one after the other; ``values`` and ``sizes`` go with their ops, one more size for the output."""
    position = 0
    for step in steps:
        count = len(step.ops)
        own, own_sizes = values[position : position + count], sizes[position : position + count + 1]
        if step.branches:
            _compare_container(step, cast(Branches, own[0]), own_sizes, found)
        elif any(op.is_random for op in step.ops):
            _compare_leaf(step, own, own_sizes, found)
        position += count


def _compare_container(step: Step, drawn: Branches, sizes: Sequence[_Sizes | None], found: _Found) -> None:
    """A container: what it decides, then the leaves inside, by the samples that go through them."""
    op = cast(BranchOp, step.ops[0])
    found.pairs += _decisions(step, op, drawn, cast(Any, step.transform))
    before, after = sizes[0], sizes[-1]
    keeps = before is not None and after is not None and bool((before == after).all())
    for branch, inner in enumerate(step.branches):
        rows = np.flatnonzero((drawn.order == branch).any(axis=1))
        first = before[rows] if before is not None and (keeps or not isinstance(op, RandomOrder)) else None
        inner_values = [rows_of(value, rows) for value in drawn.values[branch]]
        inner_sizes: list[_Sizes | None] = [first] + [first if keeps else None] * len(inner_values)
        _compare_steps(inner, inner_values, inner_sizes, found)


def _decisions(step: Step, op: BranchOp, drawn: Branches, transform: object) -> Iterable[_Pair]:
    """Which branches are taken, against what the container's own attributes say."""
    if isinstance(op, RandomApply):
        p = getattr(transform, "p", op.p)
        yield _Pair(step.place, step.name, "rate", (drawn.order[:, 0] >= 0).astype(np.float64), float(p))
    elif isinstance(op, RandomChoice):
        weights = np.array(_stated_weights(transform, op), dtype=np.float64)
        ours = Categories(np.bincount(drawn.order[:, 0], minlength=len(weights)), _names_inside(step, len(weights)))
        yield _Pair(step.place, step.name, "choice", ours, Categories(weights / weights.sum()))
    elif isinstance(op, RandomOrder):
        count = len(op.parts)
        ours = Categories(np.bincount(drawn.order[:, 0], minlength=count), _names_inside(step, count))
        yield _Pair(step.place, step.name, "first", ours, Categories(np.full(count, 1 / count)))


def _names_inside(step: Step, count: int) -> list[str]:
    """What to call the ``count`` branches of a container: by their first transforms' numbers, or else their own."""
    if len(step.branches) == count and all(step.branches):
        return [number_of(branch[0].place) for branch in step.branches]
    return [f"number {branch}" for branch in range(count)]


def _stated_weights(transform: object, op: RandomChoice) -> Sequence[float]:
    """The ``p`` of a ``RandomChoice``, those that never happen left out, as the op has it."""
    stated = getattr(transform, "p", None)
    if not isinstance(stated, Sequence):
        return op.weights if len(set(op.weights)) > 1 else [1.0] * len(op.choices)
    return [float(weight) for weight in cast("Sequence[float]", stated) if weight > 0]


def _compare_leaf(step: Step, values: Sequence[OpParameters], sizes: Sequence[_Sizes | None], found: _Found) -> None:
    ours = _Ours(step)
    for op, value, op_sizes in zip(step.ops, values, sizes, strict=False):
        ours.gather(op, value, op_sizes)
    theirs = _theirs(step, sizes)
    for quantity, numbers in ours.quantities.items():
        wanted = theirs.get(quantity, ours.declared.get(quantity))
        if wanted is not None:
            found.pairs.append(_Pair(step.place, step.name, quantity, numbers, wanted))
        elif quantity not in ours.declared:
            ours.unknown.append(quantity)
    found.undrawn += [f"{step.place} ({step.name}): {what}" for what in dict.fromkeys(ours.unknown)]


def _theirs(step: Step, sizes: Sequence[_Sizes | None]) -> Mapping[str, _Floats | Range | Categories | float]:
    """What torchvision draws for the leaf; its ``p`` where that is all it has."""
    known: dict[str, _Floats | Range | Categories | float] = {}
    p = getattr(step.transform, "p", None)
    if isinstance(p, (int, float)):
        known["rate"] = float(p)
    draw = THEIRS.get(type(step.transform))
    if draw is None or sizes[0] is None or not len(sizes[0]):
        return known
    few = [None if size is None else size[:NUM_THEIRS] for size in sizes]
    return known | dict(draw(step.transform, step.ops, few))


@dataclass(slots=True, eq=False)
class _Ours:
    """The quantities of one leaf."""

    step: Step
    quantities: dict[str, _Floats | Categories] = field(default_factory=dict[str, "_Floats | Categories"])
    declared: dict[str, Range | Categories | float] = field(default_factory=dict[str, "Range | Categories | float"])
    unknown: list[str] = field(default_factory=list[str])

    def gather(self, op: Op, value: OpParameters, sizes: _Sizes | None, prefix: str = "") -> None:
        """One op's, and those of the ops inside, by the samples that go through them."""
        if isinstance(op, BranchOp):
            self._gather_branches(op, cast(Branches, value), sizes, prefix)
            return
        if not op.is_random:
            return
        read = OURS.get(type(op))
        if read is not None:
            for name, numbers in read(op, value, sizes).items():
                self.quantities.setdefault(prefix + name, numbers)
            self._declare(op, prefix)
            return
        if not self._in_declared_range(op, value, prefix):
            self.unknown.append(f"what {type(op).__name__} draws isn't compared")

    def _declare(self, op: Op, prefix: str) -> None:
        p = getattr(op, "p", None)
        if isinstance(p, float):
            self.declared.setdefault(f"{prefix}rate", p)

    def _gather_branches(self, op: BranchOp, drawn: Branches, sizes: _Sizes | None, prefix: str) -> None:
        for pair in _decisions(self.step, op, drawn, op):
            quantity = prefix + pair.quantity
            self.quantities.setdefault(quantity, pair.ours)
            self.declared.setdefault(quantity, cast("Categories | float", pair.theirs))
        several = sum(1 for ops in op.branches if any(one.is_random for one in ops)) > 1
        for branch, ops in enumerate(op.branches):
            rows = np.flatnonzero((drawn.order == branch).any(axis=1))
            inner_prefix = f"{prefix}{branch}." if several else prefix
            inner_sizes = sizes[rows] if sizes is not None else None
            for inner, value in zip(ops, drawn.values[branch], strict=True):
                self.gather(inner, rows_of(value, rows), inner_sizes, inner_prefix)

    def _in_declared_range(self, op: Op, value: OpParameters, prefix: str) -> bool:
        """Hold an op with one range and one number per sample to a uniform distribution."""
        ranges = [
            getattr(op, one.name)
            for one in fields(op)
            if isinstance(getattr(op, one.name), tuple)
            and len(getattr(op, one.name)) == 2
            and all(isinstance(end, (int, float)) for end in getattr(op, one.name))
        ]
        if len(ranges) != 1 or isinstance(value, Branches) or value is None or value.ndim != 1:
            return False
        name = f"{prefix}{type(op).__name__}"
        whole = bool(np.issubdtype(value.dtype, np.integer))
        self.quantities.setdefault(name, value.astype(np.float64))
        self.declared.setdefault(name, Range(float(ranges[0][0]), float(ranges[0][1]), whole))
        return True


def _check(pair: _Pair, level: float) -> DrawCheck:
    """Compare both sides; chance alone exceeds the limit with probability ``level`` at most."""
    if isinstance(pair.ours, Categories):
        return _check_categories(pair, pair.ours, cast(Categories, pair.theirs), level)
    ours = pair.ours[~np.isnan(pair.ours)]
    if isinstance(pair.theirs, float):
        share = float(ours.mean()) if len(ours) else pair.theirs
        limit = _rate_limit(len(ours), pair.theirs, share > pair.theirs, level)
        statistic = abs(share - pair.theirs)
        return _draw_check(pair, share, pair.theirs, (len(ours), 0), statistic, limit, "rate")
    exact = isinstance(pair.theirs, Range)
    theirs = pair.theirs.grid() if isinstance(pair.theirs, Range) else cast(_Floats, pair.theirs)
    theirs = theirs[~np.isnan(theirs)]
    fewest = min(len(ours), len(theirs))
    statistic = _distance(ours, theirs) if fewest else 0.0
    effective = len(ours) if exact else len(ours) * len(theirs) / max(len(ours) + len(theirs), 1)
    limit = min(1.0, math.sqrt(math.log(2 / level) / (2 * max(effective, 1))) + (1 / len(theirs) if exact else 0.0))
    means = (float(ours.mean()), float(theirs.mean())) if fewest else (0.0, 0.0)
    return _draw_check(pair, *means, (len(ours), 0 if exact else len(theirs)), statistic, limit, "KS")


def _check_categories(pair: _Pair, ours: Categories, theirs: Categories, level: float) -> DrawCheck:
    """The category that is farthest off, in terms of its own limit."""
    count = int(ours.numbers.sum())
    shares, wanted = ours.numbers / max(count, 1), theirs.numbers
    limits = [
        _rate_limit(count, float(p), bool(share > p), level / len(wanted))
        for share, p in zip(shares, wanted, strict=True)
    ]
    distances = np.abs(shares - wanted)
    farthest = int(np.argmax(distances / np.maximum(limits, 1e-12)))
    named = _Pair(pair.place, pair.name, f"{pair.quantity}: {ours.names[farthest]}", ours, theirs)
    return _draw_check(
        named,
        float(shares[farthest]),
        float(wanted[farthest]),
        (count, 0),
        float(distances[farthest]),
        limits[farthest],
        "rate",
    )


def _draw_check(
    pair: _Pair, ours: float, theirs: float, counts: tuple[int, int], statistic: float, limit: float, test: str
) -> DrawCheck:
    return DrawCheck(pair.place, pair.name, pair.quantity, ours, theirs, *counts, statistic, limit, test)


def _distance(one: _Floats, other: _Floats) -> float:
    """Kolmogorov and Smirnov's: the largest distance between the two empirical distribution functions."""
    one, other = np.sort(one), np.sort(other)
    points = np.concatenate([one, other])
    ahead = np.searchsorted(one, points, side="right") / len(one)
    behind = np.searchsorted(other, points, side="right") / len(other)
    return float(np.abs(ahead - behind).max())


def _rate_limit(count: int, p: float, above: bool, level: float) -> float:
    """How far a share of ``count`` coins may be from their probability ``p``, on one side.

    Chernoff: a share beyond ``q`` has a probability of at most ``exp(-count KL(q, p))``, where KL is the
    Kullback-Leibler divergence of two coins; each side gets half of ``level``.
    """
    if p <= 0.0 or p >= 1.0:
        return 0.0
    wanted = math.log(2 / level) / max(count, 1)
    low, high = 0.0, 1.0 - p if above else p
    for _ in range(60):
        middle = (low + high) / 2
        q = p + middle if above else p - middle
        low, high = (middle, high) if _divergence(q, p) < wanted else (low, middle)
    return high


def _divergence(q: float, p: float) -> float:
    heads = q * math.log(q / p) if q > 0.0 else 0.0
    tails = (1 - q) * math.log((1 - q) / (1 - p)) if q < 1.0 else 0.0
    return heads + tails
