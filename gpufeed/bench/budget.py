"""Fitting a comparison into the time that the user allows. Pure arithmetic on measured paces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpufeed.bench.contenders import Contender
from gpufeed.bench.results import LeftOut
from gpufeed.errors import BenchmarkError

__all__ = ["Pace", "RoundPlan", "calibration_batches", "next_to_leave_out", "plan_rounds", "rotation"]

MIN_ROUNDS = 7  # what a 95 % interval of a median needs to be worth showing
MAX_ROUNDS = 31  # the interval shrinks with the root of their number: more cost much and tell little
_EPOCH_PER_IN_FLIGHT = 2  # an epoch has at least this many times the batches that a contender has under way at once
_ENOUGH_PER_IN_FLIGHT = 16  # and this many are plenty: then more rounds tell more than longer ones
_PLANNED_SHARE = 0.85  # of the time left is planned; the rest is for a machine that isn't always equally fast
_OVERRUN_SHARE = 0.08  # of the budget is tolerated rather than losing a contender midway


@dataclass(frozen=True, slots=True)
class Pace:
    """What calibration found out about a contender.

    Attributes:
        contender: whose it is.
        s_per_sample: in a warm epoch. [Unit: second]
        start_s: what a first epoch costs more than a later one: workers, graphs. [Unit: second]
    """

    contender: Contender
    s_per_sample: float
    start_s: float


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """How the rest of the budget is used.

    Attributes:
        num_samples: in each epoch, of whole batches, as many for each thread. A round is one epoch of each contender.
        names: who runs.
        left_out: who doesn't, and why.
    """

    num_samples: int
    names: tuple[str, ...]
    left_out: tuple[LeftOut, ...]


def calibration_batches(contender: Contender, num_threads: int) -> int:
    """Batches in a calibration epoch: enough to fill the contender's queues and some more."""
    return contender.batches_in_flight(num_threads) + 2


def plan_rounds(
    paces: Sequence[Pace], *, batch_size: int, num_threads: int, seconds_left: float, budget_s: float, read_s: float
) -> RoundPlan:
    """The longest rounds of which a warm-up and ``MIN_ROUNDS`` fit into the time left.

    If even the shortest sound ones don't fit, optional contenders are left out, in the order of their
    ``leave_out_rank``. Every epoch starts with empty queues, so nothing can flatter; the shortest epoch has twice as
    many batches as a contender has under way at once, so that filling and draining are not most of what is timed.
    The number of batches is a multiple of ``num_threads``: worker processes take whole batches, and in a short epoch
    one that is left over would cost them what it doesn't cost in training.

    Args:
        paces: of all contenders that can run.
        batch_size: samples per batch.
        num_threads: threads or workers per contender.
        seconds_left: until the deadline. [Unit: second]
        budget_s: the whole budget, for the message. [Unit: second]
        read_s: to bring one sample's file into the page cache. [Unit: second]

    Raises:
        BenchmarkError: the contenders that are never left out don't fit; it says which budget would do.
    """
    step = batch_size * num_threads
    in_flight = batch_size * max(pace.contender.batches_in_flight(num_threads) for pace in paces)
    shortest = -(-_EPOCH_PER_IN_FLIGHT * in_flight // step) * step
    longest = max(shortest, _ENOUGH_PER_IN_FLIGHT * in_flight // step * step)
    running = list(paces)
    left_out: list[LeftOut] = []
    while (num_samples := int(_samples_that_fit(running, seconds_left, read_s))) < shortest:
        optional = _optional([pace.contender for pace in running])
        if optional is None:
            missing_s = shortest * _s_per_sample(running, read_s) - _fitting_s(running, seconds_left)
            raise BenchmarkError(
                f"a budget of {budget_s:.0f} s is too short here: a warm-up and {MIN_ROUNDS} rounds of {shortest} "
                f"images don't fit; give --budget {_rounded_up(budget_s + missing_s / _PLANNED_SHARE)}"
            )
        reason = f"{MIN_ROUNDS} rounds of it don't fit into the budget of {budget_s:.0f} s"
        left_out.append(LeftOut(optional.name, reason))
        running = [pace for pace in running if pace.contender.name != optional.name]
    names = tuple(pace.contender.name for pace in running)
    return RoundPlan(min(num_samples, longest) // step * step, names, tuple(left_out))


def _samples_that_fit(paces: Sequence[Pace], seconds_left: float, read_s: float) -> float:
    return _fitting_s(paces, seconds_left) / _s_per_sample(paces, read_s)


def _fitting_s(paces: Sequence[Pace], seconds_left: float) -> float:
    return _PLANNED_SHARE * seconds_left - sum(pace.start_s for pace in paces)


def _s_per_sample(paces: Sequence[Pace], read_s: float) -> float:
    return read_s + (1 + MIN_ROUNDS) * sum(pace.s_per_sample for pace in paces)


def next_to_leave_out(
    contenders: Sequence[Contender],
    round_s: Mapping[str, float],
    *,
    rounds_done: int,
    seconds_left: float,
    budget_s: float,
) -> Contender | None:
    """Whom to leave out now so that ``MIN_ROUNDS`` still fit, if the machine has become slower than planned.

    Args:
        contenders: who is running.
        round_s: what an epoch of each takes, as last seen. [Unit: second]
        rounds_done: by all of them.
        seconds_left: until the deadline, negative after it. [Unit: second]
        budget_s: the whole budget. [Unit: second]
    """
    needed_s = (MIN_ROUNDS - rounds_done) * sum(round_s[contender.name] for contender in contenders)
    if needed_s <= seconds_left + _OVERRUN_SHARE * budget_s:
        return None
    return _optional(contenders)


def _optional(contenders: Sequence[Contender]) -> Contender | None:
    if len(contenders) == 1:
        return None
    ranked = [(contender.leave_out_rank, contender) for contender in contenders if contender.leave_out_rank is not None]
    return min(ranked, key=lambda entry: entry[0])[1] if ranked else None


def _rounded_up(seconds: float) -> int:
    return (int(seconds) // 5 + 1) * 5


def rotation(names: Sequence[str], round_index: int) -> tuple[str, ...]:
    """The order of a round: rotated by one in each, so that over the rounds everyone runs in every place."""
    start = round_index % len(names)
    return (*names[start:], *names[:start])
