"""What a loader's time per image goes to, from bounds and from what the parts cost one thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpufeed.bench.limits import bound_rates, rate_of
from gpufeed.bench.results import Comparison
from gpufeed.bench.statistics import median

__all__ = ["TimeParts", "time_parts"]


@dataclass(frozen=True, slots=True)
class TimeParts:
    """What the baseline's time per image goes to, as shares that add up to 1; less what other programs took of it.

    Attributes:
        read: reading the file.
        decode: decoding it.
        transforms: transforming the image; ``None`` where that wasn't measured and is in ``other``.
        other: everything else.
        dearest: the transform that takes longest, as it prints itself; empty where none is known.
        dearest_share: its share.
    """

    read: float
    decode: float
    transforms: float | None
    other: float
    dearest: str = ""
    dearest_share: float = 0.0


def time_parts(comparison: Comparison) -> TimeParts | None:
    """What the baseline's time per image goes to when its batches are thrown away.

    Returns:
        ``None`` where neither bounds nor costs were measured, or the baseline has no round.
    """
    result = next((found for found in comparison.contenders if found.name == comparison.baseline), None)
    rate = None if result is None else rate_of(result)
    bounds = bound_rates(comparison)
    if result is None or rate is None or not (comparison.costs or {"storage", "decode"} & bounds.keys()):
        return None
    costs = {"read": 0.0, "decode": 0.0}
    transforms: dict[str, float] = {}
    for cost in comparison.costs:
        into = costs if cost.part in costs else transforms
        into[cost.part] = into.get(cost.part, 0.0) + cost.s_per_image
    cpus = min(comparison.num_threads, _usable_cpus(comparison.environment) or comparison.num_threads)
    read_s = max(costs["read"] / comparison.num_threads, 1 / bounds["storage"] if "storage" in bounds else 0.0)
    # The decoding bound reads as well; a slow disk isn't to count twice.
    decode_bound_s = max(0.0, 1 / bounds["decode"] - read_s) if "decode" in bounds else 0.0
    decode_s = max(costs["decode"] / cpus, decode_bound_s)
    transforms_s = sum(transforms.values()) / cpus
    known_s = read_s + decode_s + transforms_s
    taken_s = median([entry.epoch.taken_cpu_s / entry.epoch.num_samples for entry in result.in_mode("loader")])
    whole_s = max(1 / rate - taken_s / cpus, known_s)  # reading and decoding may overlap
    dearest = max(transforms, key=lambda part: transforms[part], default="")
    return TimeParts(
        read=read_s / whole_s,
        decode=decode_s / whole_s,
        transforms=transforms_s / whole_s if comparison.costs else None,
        other=1 - known_s / whole_s,
        dearest=dearest,
        dearest_share=transforms.get(dearest, 0.0) / cpus / whole_s,
    )


def _usable_cpus(environment: dict[str, Any]) -> int | None:
    cpus = environment.get("usable_cpus")
    return cpus if isinstance(cpus, int) and cpus > 0 else None
