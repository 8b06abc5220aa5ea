"""Which bound limits a contender, and how much of it the contender reaches."""

from __future__ import annotations

from dataclasses import dataclass

from gpufeed.bench.results import Comparison, ContenderResult, Mode
from gpufeed.bench.statistics import median

__all__ = ["STEP", "Limit", "bound_rates", "limit_of", "rate_of", "step_rate"]

STEP = "step"
"""The training step as a bound: what it takes where a batch is always there."""

_WHOLE_IMAGES = ("torch", "spdl")
"""Contenders whose names begin so decode whole images, as torchvision's transforms need them."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A contender against the lowest bound that applies to it.

    Attributes:
        bound: its name.
        images_per_s: what it allows. [Unit: image/second]
        share: the contender's rate divided by that; above 1 within the noise, or where the contender has a faster way
            than the bound's.
    """

    bound: str
    images_per_s: float
    share: float


def rate_of(result: ContenderResult, mode: Mode = "loader") -> float | None:
    """The median over the rounds; ``None`` without a round. [Unit: image/second]"""
    rates = [entry.epoch.images_per_s for entry in result.in_mode(mode)]
    return median(rates) if rates else None


def step_rate(comparison: Comparison) -> float | None:
    """What the step takes of batches that lie on the device already; ``None`` without one. [Unit: image/second]"""
    step = comparison.step
    return comparison.batch_size / step.s_per_batch if step is not None and step.s_per_batch > 0 else None


def bound_rates(comparison: Comparison, mode: Mode = "loader") -> dict[str, float]:
    """Every bound's rate by name. [Unit: image/second]

    With a step, a bound that was measured with it stands for itself; what a loader can't exceed alone it can't exceed
    there; and the step is a bound too.
    """
    rates = {bound.name: rate for bound in comparison.bounds if (rate := rate_of(bound)) is not None}
    if mode == "loader":
        return rates
    rates |= {bound.name: rate for bound in comparison.bounds if (rate := rate_of(bound, mode)) is not None}
    step = step_rate(comparison)
    return rates if step is None else {**rates, STEP: step}


def limit_of(comparison: Comparison, result: ContenderResult, mode: Mode = "loader") -> Limit | None:
    """The lowest of the bounds that apply to a contender.

    Whole images bound who decodes whole images. Where the transform begins with a crop, regions alone bound everyone
    else.

    Returns:
        ``None`` where no bound or no round of the contender was measured in this mode.
    """
    rates = bound_rates(comparison, mode)
    if "region-decode" in rates:
        rates.pop("region-decode" if result.name.startswith(_WHOLE_IMAGES) and "decode" in rates else "decode", None)
    rate = rate_of(result, mode)
    if not rates or rate is None:
        return None
    bound, allowed = min(rates.items(), key=lambda entry: entry[1])
    return Limit(bound, allowed, rate / allowed)
