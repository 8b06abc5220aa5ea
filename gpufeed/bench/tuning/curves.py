"""What a tuning's charts draw: throughput and memory over workers or threads, and memory over ``prefetch_factor``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpufeed.bench.tuning.results import Trial, Tuned
from gpufeed.bench.tuning.space import Setting
from gpufeed.config import TorchSettings

__all__ = ["Curve", "Point", "curves_of", "knee_sentence"]

_SAME = 0.03  # of the best rate: less isn't called a decline
_SAME_MEMORY = 0.05


@dataclass(frozen=True, slots=True)
class Point:
    """One setting of a curve.

    Attributes:
        at: the number of workers or threads, or the ``prefetch_factor``.
        value: images per second, or bytes.
        is_chosen: whether the chosen setting has this number.
    """

    at: int
    value: float
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Curve:
    """One chart.

    Attributes:
        loader: whose it is.
        quantity: of ``value``: throughput in images per second, or memory in bytes.
        over: the argument on the other axis.
        note: what the other arguments were, in words.
        points: in ascending order of ``at``.
    """

    loader: str
    quantity: Literal["throughput", "memory"]
    over: str
    note: str
    points: tuple[Point, ...]

    @property
    def title(self) -> str:
        """Such as ``torch: memory over num_workers``."""
        return f"{self.loader}: {self.quantity} over {self.over}"


def curves_of(tuned: Tuned) -> tuple[Curve, ...]:
    """A loader's charts; those with less than two points are left out."""
    over = "num_workers" if tuned.loader == "torch" else "num_threads"
    main = [trial for trial in _usable(tuned, tuned.main) if _placement(trial.setting) == _placement(tuned.best)]
    depths = _usable(tuned, tuned.depths)
    main_note = f"prefetch_factor {tuned.start.prefetch_factor}"
    depth_note = f"{over} {_main(depths[0].setting)}" if depths else ""
    curves = (
        _curve(tuned, "throughput", over, main_note, main),
        _curve(tuned, "memory", over, main_note, main),
        _curve(tuned, "memory", "prefetch_factor", depth_note, depths),
    )
    return tuple(curve for curve in curves if len(curve.points) > 1)


def _usable(tuned: Tuned, settings: tuple[Setting, ...]) -> list[Trial]:
    trials = [tuned.trial(setting) for setting in settings]
    return [trial for trial in trials if trial is not None and trial.images_per_s]


def _placement(setting: Setting | None) -> str:
    return "" if setting is None or isinstance(setting, TorchSettings) else setting.placement


def _main(setting: Setting) -> int:
    return setting.num_workers if isinstance(setting, TorchSettings) else setting.num_threads


def _curve(tuned: Tuned, quantity: Literal["throughput", "memory"], over: str, note: str, trials: list[Trial]) -> Curve:
    points: dict[int, Point] = {}
    for trial in trials:
        value = trial.rate if quantity == "throughput" else trial.peak_memory_bytes
        if value is not None:
            at = (trial.setting.prefetch_factor or 0) if over == "prefetch_factor" else _main(trial.setting)
            chosen = tuned.best is not None and at == (
                tuned.best.prefetch_factor if over == "prefetch_factor" else _main(tuned.best)
            )
            points[at] = Point(at, float(value), chosen)
    return Curve(tuned.loader, quantity, over, note, tuple(points[at] for at in sorted(points)))


def knee_sentence(tuned: Tuned) -> str:
    """Where more workers or threads stop to help, and what they cost from there on; empty where it can't be told."""
    curves = {(curve.quantity, curve.over): curve for curve in curves_of(tuned)}
    over = "num_workers" if tuned.loader == "torch" else "num_threads"
    rates = curves.get(("throughput", over))
    if rates is None:
        return ""
    best = max(point.value for point in rates.points)
    knee = next(point for point in rates.points if point.value >= (1 - _SAME) * best)
    last = rates.points[-1]
    if knee == last:
        return f"{tuned.loader}: throughput still rises at {over} {last.at}, the most that was tried."
    change = last.value / knee.value - 1
    told = f"is {-change:.0%} slower" if change < -_SAME else "is no faster"
    memory = curves.get(("memory", over))
    used = {point.at: point.value for point in memory.points} if memory is not None else {}
    more = f" and takes {_times(used[last.at] / used[knee.at])} memory" if {last.at, knee.at} <= used.keys() else ""
    where = f"the knee is at {over} {knee.at} with {knee.value:,.0f} images/s"
    return f"{tuned.loader}: {where}; {over} {last.at} {told}{more}."


def _times(ratio: float) -> str:
    return "about the same" if abs(ratio - 1) <= _SAME_MEMORY else f"{ratio:.1f} times the"
