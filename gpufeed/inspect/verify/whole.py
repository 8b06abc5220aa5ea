"""Judging the whole: what the loader yields against what the transform object makes of the same files.

Bounds of ops don't compose: an op that stretches contrast stretches the differences before it too, and one that counts
values may move all of them. So the whole has no largest difference to keep, but a budget that follows from what the
ops showed on the same samples with the same draws.

For each op torchvision itself tells what the op's differences amount to in the end: our result of the op, on
torchvision's input, goes through torchvision's functions for the rest of the plan (`OpCheck.passed_on`). With one op
that differs this is what the whole differs by. With several the whole differs by at most about their sum: exactly so
if an op's own differences were the same behind gpufeed's ops as behind torchvision's. They nearly are; `GAIN` is for
what is left of it.

- The mean may be `GAIN` times the sum of the ops' means.
- The 99.9th percentile may be `GAIN` times the sum of theirs, and 1/255 more: percentiles don't add up, and a
  difference may fall on the other side of a rounding.
- The share above 1/255 may be `GAIN` times the sum of theirs, and `MEETING` times the sum of the shares that are off at
  all: two differences of 1/255 may meet in one value. On few values `SLACK_VALUES` more may be: a handful decides
  nothing.

Without any difference in an op there is none to pass on, and the whole has to be equal within a millionth of full
intensity, which is what a sum and a product in another order cost in float32.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch

from gpufeed.inspect.verify.differences import Differences, Scale
from gpufeed.inspect.verify.results import Budget, OpCheck, Spread, WholeCheck, Worst

__all__ = ["GAIN", "MEETING", "WholeJudge", "budget_of"]

GAIN = 1.5
MEETING = 0.1
SLACK_VALUES = 3
FLOAT_255 = 255e-6
"""A millionth of full intensity, in 1/255."""


def budget_of(ops: Iterable[OpCheck], num_values: int) -> Budget:
    """What the whole, of ``num_values`` values, may be off, from what the differences of the ops amount to."""
    differing = [check.passed_on for check in ops if check.passed_on is not None]
    meeting = MEETING * sum(one.share_unequal for one in differing)
    few = SLACK_VALUES / max(num_values, 1) if differing else 0.0
    percentiles = sum(one.p999_255 for one in differing)
    return Budget(
        mean_255=max(GAIN * sum(one.mean_255 for one in differing), FLOAT_255),
        p999_255=GAIN * percentiles + (1.0 if differing else FLOAT_255),
        share_above_1=min(GAIN * sum(one.share_above_1 for one in differing) + meeting + few, 1.0),
    )


@dataclass(slots=True, eq=False)
class WholeJudge:
    """Gathers what the loader's samples are off.

    Attributes:
        scale: of the plan's output.
        on_cpu: whether the loader's values have to be those of the ops one after the other.
    """

    scale: Scale
    on_cpu: bool
    _differences: Differences = field(default_factory=Differences)
    _num_samples: int = 0
    _num_misfits: int = 0
    _num_unlike_ops: int = 0
    _num_unlike_plan: int = 0
    _first: torch.Tensor | None = None
    _worst: Worst | None = None
    _files: dict[str, str] = field(default_factory=dict[str, str])

    def add(
        self, mine: torch.Tensor, theirs: torch.Tensor, index: int, file: str, *, like_ops: bool, like_plan: bool
    ) -> None:
        """Take in one sample.

        Args:
            mine: the loader's, on the host.
            theirs: the transform object's.
            index: in the list of files.
            file: its path.
            like_ops: whether ``mine`` is what the ops make one after the other.
            like_plan: whether ``theirs`` is what the plan's functions make in torchvision.
        """
        self._num_samples += 1
        self._first = theirs if self._first is None else self._first
        if not like_ops:
            self._num_unlike_ops += 1
            self._files.setdefault("ops", file)
        if not like_plan:
            self._num_unlike_plan += 1
            self._files.setdefault("plan", file)
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            self._num_misfits += 1
            self._files.setdefault(
                "shape", f"{mine.dtype} {tuple(mine.shape)} and not {theirs.dtype} {tuple(theirs.shape)} of {file}"
            )
            return
        largest, mean = self._differences.add(mine, theirs, self.scale)
        if self._worst is None or mean > self._worst.mean_255:
            self._worst = Worst(index, file, largest, mean)

    @property
    def num_samples(self) -> int:
        """Samples taken in so far."""
        return self._num_samples

    def check(self, ops: Iterable[OpCheck]) -> WholeCheck | None:
        """What was found so far; ``None`` before the first sample."""
        if self._first is None:
            return None
        spread = self._differences.spread()
        budget = budget_of(ops, spread.num_values)
        return WholeCheck(
            num_samples=self._num_samples,
            spread=spread,
            budget=budget,
            worst=self._worst,
            shape=tuple(self._first.shape),
            dtype=str(self._first.dtype).removeprefix("torch."),
            num_shape_mismatches=self._num_misfits,
            num_unlike_ops=self._num_unlike_ops if self.on_cpu else None,
            num_unlike_plan=self._num_unlike_plan,
            exceeded=tuple(self._exceeded(spread, budget)),
        )

    def _exceeded(self, spread: Spread, budget: Budget) -> Iterable[str]:
        if self._num_misfits:
            yield f"the loader yields {self._files['shape']} ({self._num_misfits} of {self._num_samples} samples)"
        farthest = f"; farthest in {self._worst.file}" if self._worst else ""
        if spread.mean_255 > budget.mean_255:
            yield (
                f"the whole is {spread.mean_255:.3g}/255 off on average, and its budget is "
                f"{budget.mean_255:.3g}/255{farthest}"
            )
        if spread.p999_255 > budget.p999_255:
            yield (
                f"0.1 % of the whole's values are {spread.p999_255:.3g}/255 off or more, and its budget is "
                f"{budget.p999_255:.3g}/255{farthest}"
            )
        if spread.share_above_1 > budget.share_above_1:
            yield (
                f"{100 * spread.share_above_1:.3g} % of the whole's values are more than 1/255 off, and its budget is "
                f"{100 * budget.share_above_1:.3g} %{farthest}"
            )
        if self.on_cpu and self._num_unlike_ops:
            yield (
                f"the loader's values aren't those of the plan's ops one after the other in {self._num_unlike_ops} of "
                f"{self._num_samples} samples, as in {self._files['ops']}"
            )
        if self._num_unlike_plan:
            yield (
                "by the plan's functions torchvision ends elsewhere than by the transform object in "
                f"{self._num_unlike_plan} of {self._num_samples} samples, as in {self._files['plan']}: it is "
                "translated wrongly"
            )
