"""How far a comparison can be trusted, in the words of the terminal, the page and the picture alike."""

from __future__ import annotations

from dataclasses import dataclass

from gpufeed.bench.results import Comparison, Mode
from gpufeed.bench.statistics import LEAST_EFFECT, MUCH_TAKEN, drift_of, noise_of, taken_cpus

__all__ = ["Caveat", "drifted", "noise_found", "taken_away"]


@dataclass(frozen=True, slots=True)
class Caveat:
    """A paragraph, and whether something went wrong: it then belongs where nobody misses it."""

    text: str
    is_warning: bool


def noise_found(comparison: Comparison, mode: Mode = "loader", dash: str = "\N{EN DASH}") -> Caveat:
    """How far two copies of the baseline were apart, and what difference isn't shown therefore.

    Args:
        comparison: what was measured.
        mode: of which batches.
        dash: between the ends of an interval.
    """
    noise = noise_of(comparison, mode)
    if noise is None:
        return Caveat(
            f"This machine's noise wasn't measured; differences up to {100 * LEAST_EFFECT:.0f} %, by which two starts "
            "of one program differ, aren't shown.",
            is_warning=False,
        )
    ratio = noise.ratio
    interval = "" if ratio.low is None else f" ({ratio.low:.2f}{dash}{ratio.high:.2f})"
    found = {
        "none": "no difference shown",
        "too few rounds": "in too few rounds for an interval",
    }.get(noise.difference, "a difference where there is none: something else disturbs this machine")
    return Caveat(
        f"Noise: a second {comparison.baseline} came out at {ratio.median:.2f}{interval} of the first, {found}. "
        f"Differences up to {100 * noise.relative:.0f} % aren't shown.",
        is_warning=noise.difference not in ("none", "too few rounds"),
    )


def taken_away(comparison: Comparison) -> Caveat | None:
    """What other programs took of the CPUs; ``None`` where there was enough for all."""
    taken = taken_cpus(comparison)
    if taken < MUCH_TAKEN:
        return None
    return Caveat(
        f"Other programs took {taken:.1f} CPUs away meanwhile: this machine is faster than these figures. Run it "
        "again when it has nothing else to do.",
        is_warning=True,
    )


def drifted(comparison: Comparison, mode: Mode = "loader") -> Caveat | None:
    """How the machine's speed changed over the rounds; ``None`` where it didn't."""
    drift = drift_of(comparison, mode)
    if drift is None:
        return None
    return Caveat(
        f"Drift: {drift.name} went from {drift.first_images_per_s:,.0f} to {drift.last_images_per_s:,.0f} images/s "
        f"({100 * drift.relative:+.0f} %) over the rounds. Ratios are taken within rounds and hold; images/s do so "
        "only for this run.",
        is_warning=True,
    )
