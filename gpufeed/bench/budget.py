"""Fitting a comparison into the time that the user allows. Pure arithmetic on measured paces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpufeed.bench.contenders import ASKED_RANK, Contender
from gpufeed.bench.results import LeftOut
from gpufeed.errors import BenchmarkError

__all__ = [
    "MAX_ROUNDS",
    "MIN_ROUNDS",
    "Pace",
    "RoundPlan",
    "calibration_batches",
    "fewest_samples",
    "next_to_leave_out",
    "plan_rounds",
    "rotation",
]

MIN_ROUNDS = 7  # what a 95 % interval of a median needs to be worth showing
MAX_ROUNDS = 31  # the interval shrinks with the root of their number: more cost much and tell little
_EPOCH_PER_IN_FLIGHT = 2  # an epoch has at least this many times the batches that a contender has under way at once
_ENOUGH_PER_IN_FLIGHT = 16  # and this many are plenty: then more rounds tell more than longer ones
_PLANNED_SHARE = 0.85  # of the time left is planned; the rest is for a machine that isn't always equally fast
_TIGHTEST_SHARE = 0.95  # is planned where somebody would otherwise be left out: there is still time for that midway
_OVERRUN_SHARE = 0.08  # of the budget is tolerated rather than losing a contender midway


@dataclass(frozen=True, slots=True)
class Pace:
    """What calibration found out about a contender.

    Attributes:
        contender: whose it is.
        s_per_sample: in a warm epoch. [Unit: second]
        start_s: what a first epoch costs more than a later one: workers, graphs. [Unit: second]
        step_s_per_sample: with a training step, of that and the loading together; 0 without. [Unit: second]
    """

    contender: Contender
    s_per_sample: float
    start_s: float
    step_s_per_sample: float = 0.0

    @property
    def num_epochs(self) -> int:
        """A warm-up, and one for each of ``MIN_ROUNDS`` in which it runs."""
        return 1 + _rounds_left(self.contender, 0)


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """How the rest of the budget is used.

    Attributes:
        num_samples: in each epoch, of whole batches, as many for each thread. A round is one epoch of each contender.
        names: who runs.
        left_out: who doesn't, and why.
        step_samples: in each epoch with a training step, at most ``num_samples``; 0 without.
    """

    num_samples: int
    names: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    step_samples: int = 0


def calibration_batches(contender: Contender, num_threads: int) -> int:
    """Batches in a calibration epoch: enough to fill the contender's queues and some more."""
    return contender.batches_in_flight(num_threads) + 2


def fewest_samples(contenders: Sequence[Contender], batch_size: int, num_threads: int) -> int:
    """The fewest samples of an epoch that shows a throughput: twice as many batches as anyone has under way at once.

    Fewer would show filling and draining queues. The batches are as many for each thread.
    """
    step = batch_size * num_threads
    in_flight = batch_size * max(contender.batches_in_flight(num_threads) for contender in contenders)
    return -(-_EPOCH_PER_IN_FLIGHT * in_flight // step) * step


def plan_rounds(
    paces: Sequence[Pace],
    *,
    batch_size: int,
    num_threads: int,
    seconds_left: float,
    budget_s: float,
    read_s: float,
    most_samples: int | None = None,
) -> RoundPlan:
    """The longest rounds of which a warm-up and ``MIN_ROUNDS`` fit into the time left.

    If even the shortest sound ones don't fit, optional contenders are left out, in the order of their
    ``leave_out_rank``. Every epoch starts with empty queues, so nothing can flatter; the shortest epoch has twice as
    many batches as a contender has under way at once, so that filling and draining are not most of what is timed.
    The number of batches is a multiple of ``num_threads``: worker processes take whole batches, and in a short epoch
    one that is left over would cost them what it doesn't cost in training.

    With a training step a round also has an epoch with it for each contender that feeds one. They get half of the
    time, or more where the shortest sound ones need it, and are no longer than those without.

    Args:
        paces: of all contenders that can run.
        batch_size: samples per batch.
        num_threads: threads or workers per contender.
        seconds_left: until the deadline. [Unit: second]
        budget_s: the whole budget, for the message. [Unit: second]
        read_s: to bring one sample's file into the page cache. [Unit: second]
        most_samples: of an epoch, where more make no sense.

    Raises:
        BenchmarkError: the contenders that are never left out don't fit; it says which budget would do.
    """
    contenders = [pace.contender for pace in paces]
    step = batch_size * num_threads
    shortest = fewest_samples(contenders, batch_size, num_threads)
    in_flight = batch_size * max(contender.batches_in_flight(num_threads) for contender in contenders)
    longest = max(shortest, _ENOUGH_PER_IN_FLIGHT * in_flight // step * step)
    if most_samples is not None:
        longest = max(shortest, min(longest, most_samples // step * step))
    running = list(paces)
    left_out: list[LeftOut] = []
    while (missing_s := _missing_s(running, shortest, seconds_left, read_s)) > 0:
        optional = _optional([pace.contender for pace in running])
        if optional is None:
            with_step = " with and without the step" if _step_s_per_sample(running) else ""
            raise BenchmarkError(
                f"a budget of {budget_s:.0f} s is too short here: a warm-up and {MIN_ROUNDS} rounds of {shortest} "
                f"images{with_step} don't fit; give --budget {_rounded_up(budget_s + missing_s / _PLANNED_SHARE)}"
            )
        reason = f"{MIN_ROUNDS} rounds of it don't fit into the budget of {budget_s:.0f} s"
        left_out.append(LeftOut(optional.name, reason))
        running = [pace for pace in running if pace.contender.name != optional.name]
    names = tuple(pace.contender.name for pace in running)
    fitting_s = _fitting_s(running, seconds_left)
    spare_s = fitting_s - shortest * _s_per_sample(running, read_s)
    step_samples = _step_samples(running, min(fitting_s / 2, spare_s), (shortest, longest), step)
    fitting_s -= step_samples * _step_s_per_sample(running)
    num_samples = max(shortest, min(int(fitting_s / _s_per_sample(running, read_s)), longest) // step * step)
    return RoundPlan(num_samples, names, tuple(left_out), min(step_samples, num_samples))


def _missing_s(paces: Sequence[Pace], shortest: int, seconds_left: float, read_s: float) -> float:
    """What the shortest sound rounds take more than there is. [Unit: second]"""
    needed_s = shortest * (_s_per_sample(paces, read_s) + _step_s_per_sample(paces))
    return needed_s - _fitting_s(paces, seconds_left, _TIGHTEST_SHARE)


def _step_samples(paces: Sequence[Pace], spare_s: float, limits: tuple[int, int], step: int) -> int:
    s_per_sample = _step_s_per_sample(paces)
    if not s_per_sample:
        return 0
    shortest, longest = limits
    return min(max(int(spare_s / s_per_sample) // step * step, shortest), longest)


def _fitting_s(paces: Sequence[Pace], seconds_left: float, share: float = _PLANNED_SHARE) -> float:
    return share * seconds_left - sum(pace.start_s for pace in paces)


def _s_per_sample(paces: Sequence[Pace], read_s: float) -> float:
    return read_s + sum(pace.num_epochs * pace.s_per_sample for pace in paces)


def _step_s_per_sample(paces: Sequence[Pace]) -> float:
    return sum(pace.num_epochs * pace.step_s_per_sample for pace in paces)


def _rounds_left(contender: Contender, rounds_done: int) -> int:
    return sum(contender.runs_in(index) for index in range(rounds_done, MIN_ROUNDS))


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
    needed_s = sum(_rounds_left(contender, rounds_done) * round_s[contender.name] for contender in contenders)
    if needed_s <= seconds_left + _OVERRUN_SHARE * budget_s:
        return None
    return _optional(contenders)


def _optional(contenders: Sequence[Contender]) -> Contender | None:
    """The first that can be spared: somebody who isn't a bound stays in any case."""
    loaders = [contender for contender in contenders if contender.kind == "loader"]
    spare = [contender for contender in contenders if contender.kind != "loader" or len(loaders) > 1]
    ranked = [
        (contender.leave_out_rank, contender)
        for contender in spare
        if contender.leave_out_rank is not None and contender.leave_out_rank < ASKED_RANK
    ]
    return min(ranked, key=lambda entry: entry[0])[1] if ranked else None


def _rounded_up(seconds: float) -> int:
    return (int(seconds) // 5 + 1) * 5


def rotation(names: Sequence[str], round_index: int) -> tuple[str, ...]:
    """The order of a round: rotated by one in each, so that over the rounds everyone runs in every place."""
    start = round_index % len(names)
    return (*names[start:], *names[:start])
