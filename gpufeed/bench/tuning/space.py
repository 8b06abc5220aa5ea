"""Which settings there are to try, and which of two is the cheaper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast

from gpufeed.config import GpufeedSettings, TorchSettings

__all__ = ["LoaderName", "Setting", "Space", "cost", "describe", "gpufeed_space", "levels", "torch_space"]

LoaderName = Literal["torch", "gpufeed"]

Setting: TypeAlias = TorchSettings | GpufeedSettings

MOST_PER_CPU = 4
"""Workers or threads for each CPU, at the most: well past the knee, so that the decline is seen."""

_LADDER = (0, 1, 2, 3)  # and from here on 4, 6, 8, 12, …: no step of more than a half again
_DEPTHS = (1, 2, 4, 8)
_HARDWARE_LOADS = (None, 0.5, 0.75, 1.0)  # DALI's own choice is 0.65


@dataclass(frozen=True, slots=True)
class Space:
    """The settings of one loader that may be tried.

    Attributes:
        loader: whose they are.
        start: what the first stage varies.
        main: one setting for each number of workers or threads, and placement if there are several: all other values
            are those of ``start``.
        others: the further arguments in the order in which they are searched, each with its values.
    """

    loader: LoaderName
    start: Setting
    main: tuple[Setting, ...]
    others: tuple[tuple[str, tuple[object, ...]], ...]

    def variants(self, setting: Setting, argument: str) -> tuple[Setting, ...]:
        """The setting with every value of one further argument, itself among them, the cheapest first.

        Only the setting where that argument means nothing for it, as ``prefetch_factor`` without workers.
        """
        if not _applies(setting, argument):
            return (setting,)
        values = dict(self.others)[argument]
        found = {_with(setting, argument, value) for value in values} | {setting}
        return tuple(sorted(found, key=cost))

    def grid(self) -> tuple[Setting, ...]:
        """Every combination, the cheapest first."""
        found = set(self.main)
        for argument, _ in self.others:
            found |= {variant for setting in found for variant in self.variants(setting, argument)}
        return tuple(sorted(found, key=cost))


def levels(num_cpus: int, least: int = 0) -> tuple[int, ...]:
    """Numbers of workers or threads to try: 0, 1, 2, 3, 4, 6, 8, 12, … up to 4 times the CPUs, these among them.

    Args:
        num_cpus: that may be used.
        least: the smallest number.
    """
    most = MOST_PER_CPU * num_cpus
    found = {*_LADDER, num_cpus, most}
    power = 4
    while power <= most:
        found |= {power, power + power // 2}
        power *= 2
    return tuple(sorted(level for level in found if least <= level <= most))


def torch_space(num_cpus: int, *, on_cuda: bool, least_depth: int = 2, start_depth: int = 2) -> Space:
    """What can be set of ``torch.utils.data.DataLoader``.

    Args:
        num_cpus: that may be used.
        on_cuda: whether batches end on a GPU, so that pinned memory means something.
        least_depth: the smallest ``prefetch_factor`` to try. What a deeper queue is good for shows only where somebody
            is busy between two batches, so without a step torch's own default is the least.
        start_depth: that of the first stage.
    """
    start = TorchSettings(num_cpus, start_depth, persistent_workers=True, pin_memory=on_cuda)
    main = tuple(
        replace(start, num_workers=level)
        if level
        else TorchSettings(pin_memory=on_cuda)  # the other two mean nothing without workers
        for level in levels(num_cpus)
    )
    others: list[tuple[str, tuple[object, ...]]] = [
        ("prefetch_factor", _depths(least_depth)),
        ("persistent_workers", (False, True)),
    ]
    if on_cuda:
        others.append(("pin_memory", (False, True)))
    return Space("torch", start, main, tuple(others))


def gpufeed_space(num_cpus: int, *, on_cuda: bool, least_depth: int = 2, start_depth: int = 2) -> Space:
    """What can be set of ``gpufeed.DataLoader``; see `torch_space`."""
    placements: tuple[Literal["auto", "cpu", "mixed"], ...] = ("mixed", "cpu") if on_cuda else ("auto",)
    start = GpufeedSettings(num_cpus, start_depth, placements[0])
    main = tuple(
        replace(start, num_threads=level, placement=placement)
        for placement in placements
        for level in levels(num_cpus, least=1)
    )
    others: list[tuple[str, tuple[object, ...]]] = [("prefetch_factor", _depths(least_depth))]
    if on_cuda:
        others.append(("hw_decoder_load", _HARDWARE_LOADS))
    return Space("gpufeed", start, main, tuple(others))


def _depths(least: int) -> tuple[int, ...]:
    return tuple(depth for depth in _DEPTHS if depth >= least)


def _applies(setting: Setting, argument: str) -> bool:
    if isinstance(setting, TorchSettings):
        return setting.num_workers > 0 or argument == "pin_memory"
    return argument != "hw_decoder_load" or setting.placement == "mixed"


def _with(setting: Setting, argument: str, value: object) -> Setting:
    return replace(setting, **cast("dict[str, int]", {argument: value}))


def cost(setting: Setting) -> tuple[float, ...]:
    """What orders settings from the cheapest: workers or threads, batches under way, pinned memory.

    Workers that live on are the cheaper ones: at their peak both take the same memory, and they start once.
    """
    if isinstance(setting, TorchSettings):
        return (
            setting.num_workers,
            setting.batches_in_flight,
            setting.pin_memory,
            not setting.persistent_workers,
        )
    # Decoding on the GPU takes its time and memory, which the model wants too.
    load = setting.hw_decoder_load
    return (
        setting.num_threads,
        setting.batches_in_flight,
        setting.placement == "mixed",
        -1.0 if load is None else load,
    )


def describe(setting: Setting) -> str:
    """The setting in a few words, such as ``4 workers, prefetch 2, persistent``."""
    if isinstance(setting, TorchSettings):
        parts = [f"{setting.num_workers} worker{'s' * (setting.num_workers != 1)}"]
        if setting.num_workers:
            parts.append(f"prefetch {setting.prefetch_factor or 2}")
        parts += ["persistent"] * setting.persistent_workers + ["pinned"] * setting.pin_memory
    else:
        parts = [
            f"{setting.num_threads} thread{'s' * (setting.num_threads != 1)}",
            f"prefetch {setting.prefetch_factor}",
        ]
        parts += [] if setting.placement == "auto" else [f"decode {setting.placement}"]
        parts += [f"hardware {setting.hw_decoder_load:.0%}"] if setting.hw_decoder_load is not None else []
    return ", ".join(parts)
