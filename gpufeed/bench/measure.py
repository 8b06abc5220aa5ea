"""Running contenders against each other: calibrate, plan, warm up, then interleaved rounds until the budget is used."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from gpufeed.bench.budget import (
    MAX_ROUNDS,
    MIN_ROUNDS,
    Pace,
    RoundPlan,
    calibration_batches,
    fewest_samples,
    next_to_leave_out,
    plan_rounds,
    rotation,
)
from gpufeed.bench.checks import check_same_images, check_same_outputs, what_was_checked
from gpufeed.bench.contenders import BASELINE, Contender, copy_of
from gpufeed.bench.environment import describe
from gpufeed.bench.images import first_broken
from gpufeed.bench.page_cache import CacheState, cache_sentence, check_can_drop, drop, share_in_cache
from gpufeed.bench.process import ContenderProcess, ContenderRaisedError, Seat, end_all
from gpufeed.bench.progress import Reporter
from gpufeed.bench.results import Comparison, ContenderResult, Cost, Epoch, LeftOut, Measurement, Mode, StepUsed
from gpufeed.bench.steps import NO_STEP
from gpufeed.bench.subject import Asked, Subject
from gpufeed.bench.usage import MemorySampler
from gpufeed.bench.workload import Workload
from gpufeed.errors import ArgumentError, BenchmarkError, UnsupportedError

__all__ = ["Request", "explained_epoch", "measure"]

_BOUNDS = "bounds"  # as their process is named in messages
_ENDING_S = 2.5  # kept for what was imported before, ending the processes and drawing the table
_CALIBRATION_SHARE = 0.05  # of the budget, for each contender; if it allows, a second, warm epoch is run
_ROUND_MARGIN = 1.05  # an extra round begins only if one this much longer than the last would still fit


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Asked):
    """What to compare, as the user asked for it.

    Attributes:
        contenders: who is to be measured.
        num_threads: threads or worker processes per contender.
        budget_s: wall time for everything. [Unit: second]
        max_rounds: rounds after which it ends early.
        bounds: what no loader can exceed; measured in one process, in some of the rounds. One that makes no sense for
            the workload is passed over in silence.
        with_copy: whether the baseline is measured twice, which shows the machine's noise.
        step: what batches feed, see `gpufeed.bench.steps.check_step`.
        cache: whether files come from the page cache, or are dropped from it before each epoch.
    """

    contenders: tuple[Contender, ...]
    num_threads: int
    budget_s: float = 90.0
    max_rounds: int = MAX_ROUNDS
    bounds: tuple[Contender, ...] = ()
    with_copy: bool = False
    step: str = NO_STEP
    cache: CacheState = "warm"

    @property
    def has_step(self) -> bool:
        """Whether batches feed a training step in some of the epochs."""
        return self.step != NO_STEP


def measure(request: Request, reporter: Reporter, started_s: float) -> Comparison:
    """Run the comparison.

    Each contender lives in a process of its own, the bounds together in one, and only one works at a time. A round is
    one epoch of each, in an order that rotates, with a step another one with it right after; then the bounds. On
    return, and on any exception, all processes have ended.

    Args:
        request: what to compare.
        reporter: is told what is going on.
        started_s: when the budget began, by ``time.monotonic()``. [Unit: second]

    Returns:
        The results. After Ctrl-C those so far, marked as interrupted.

    Raises:
        KeyboardInterrupt: Ctrl-C before the first measurement.
        ArgumentError: the transform, pipeline, data, device or an image is wrong.
        UnsupportedError: a contender that is never left out can't do this workload.
        BenchmarkError: unequal work, a contender that raised or died, or a budget that is too short.
    """
    run = _Run(request, reporter, started_s)
    try:
        run.go()
    except KeyboardInterrupt:
        if not run.measured_anything:
            raise
        run.interrupted = True
    finally:
        reporter.say("ending the contenders' processes")
        end_all(run.processes)
    return run.comparison()


class _Run:
    """The state of one comparison."""

    def __init__(self, request: Request, reporter: Reporter, started_s: float) -> None:
        self.processes: list[ContenderProcess] = []
        self.interrupted = False
        self._request = request
        self._reporter = reporter
        self._started_s = started_s
        self._environment = describe()
        self._subject = Subject(request)
        self._left_out: list[LeftOut] = []
        self._workload: Workload | None = None
        self._seats: dict[str, Seat] = {}
        self._copied = ""  # whom the copy is of
        self._retired: set[str] = set()  # measured often enough, as time is short
        self._bounds_process: ContenderProcess | None = None
        self._step: StepUsed | None = None
        self._costs: tuple[Cost, ...] = ()
        self._step_workload: Workload | None = None
        self._looked_at_cache = False
        self._share_left: float | None = None  # of the files in the page cache, after they were dropped
        self._first_batch_s: dict[str, float] = {}
        self._warm_up: dict[str, Epoch] = {}
        self._memory: dict[str, MemorySampler] = {}
        self._measurements: dict[str, list[Measurement]] = {}

    @property
    def measured_anything(self) -> bool:
        return any(self._measurements.values())

    def go(self) -> None:
        self._check_cold()
        self._start()
        self._probe()
        paces = self._calibrate()
        plan = self._plan(paces)
        self._workload = self._make_workload(plan.num_samples)
        if not self._subject.is_read(self._workload.paths):
            self._reporter.say("reading all images once, so that none is broken or comes from a cold disk")
            self._subject.read(self._workload.paths)
        self._measure_costs(self._workload)
        self._warm_up_all(self._workload, plan.step_samples)
        self._run_rounds(
            {
                pace.contender.name: pace.s_per_sample * plan.num_samples + pace.step_s_per_sample * plan.step_samples
                for pace in paces
            }
        )

    def _check_cold(self) -> None:
        if self._request.cache == "cold" and (why := check_can_drop()) is not None:
            raise ArgumentError(f"--cache cold isn't possible here: {why}; leave it out")

    def _start(self) -> None:
        request = self._request
        contenders = [*request.contenders]
        if request.with_copy:
            self._copied = _baseline([contender.name for contender in contenders])
            contenders += [copy_of(contender) for contender in contenders if contender.name == self._copied]
        self._reporter.say(f"starting {len(request.contenders)} contenders")
        for contender in contenders:
            seat = Seat(contender, self._begin(contender))
            self._seats[contender.name] = seat
        if request.bounds:
            self._bounds_process = self._begin(replace(request.bounds[0], name=_BOUNDS))
        if self._subject.has_files:
            self._subject.read_first(self._first_batches)  # while they import their libraries
        for seat in list(self._seats.values()):
            if seat.name not in self._seats:  # a copy whose original has just been left out
                continue
            try:
                seat.process.finish_prepare()
            except (UnsupportedError, ContenderRaisedError) as error:
                self._leave_out_or_raise(seat, error)
        self._seat_bounds()

    def _begin(self, contender: Contender) -> ContenderProcess:
        process = ContenderProcess(contender)
        self.processes.append(process)
        process.begin_prepare(self._request.num_threads)
        return process

    def _seat_bounds(self) -> None:
        """The bounds, each in a slot of their process; its first contender's own slot isn't used."""
        process = self._bounds_process
        if process is None:
            return
        try:
            process.finish_prepare()
            for bound in self._request.bounds:
                process.also(bound, self._request.num_threads, bound.name)
                self._seats[bound.name] = Seat(bound, process, bound.name)
        except BenchmarkError as error:
            self._left_out.append(LeftOut(_BOUNDS, str(error)))

    @property
    def _first_batches(self) -> int:
        """Of the longest epoch of a calibration."""
        return max(calibration_batches(contender, self._request.num_threads) for contender in self._request.contenders)

    def _probe(self) -> None:
        process = next(iter(self._seats.values())).process
        self._subject.open(process, self._reporter.say, self._first_batches)
        probed = self._subject.probed
        self._environment |= {"gpu": probed.device_name, "cuda": probed.cuda_version}

    def _calibrate(self) -> list[Pace]:
        paces: list[Pace] = []
        for seat in list(self._seats.values()):
            if seat.name not in self._seats:  # a copy whose original has just been left out
                continue
            if seat.contender.kind == "copy" and self._copied in self._seats:
                continue
            self._reporter.say(f"calibrating {seat.name}")
            batches = calibration_batches(seat.contender, self._request.num_threads)
            workload = self._make_workload(batches * self._request.batch_size)
            try:
                paces.append(self._pace(seat, workload))
            except UnsupportedError as error:
                self._leave_out_or_raise(seat, error)
            except BenchmarkError as error:
                self._leave_out_bound(seat, error)
        paces += [
            replace(pace, contender=seat.contender)  # a copy is as fast as its original
            for seat in self._seats.values()
            for pace in paces
            if seat.contender.kind == "copy" and pace.contender.name == self._copied
        ]
        if self._step is None:
            return paces
        s_per_sample = self._step.s_per_batch / self._request.batch_size
        return [
            replace(pace, step_s_per_sample=pace.s_per_sample + s_per_sample) if pace.contender.feeds_step else pace
            for pace in paces
        ]

    def _pace(self, seat: Seat, workload: Workload) -> Pace:
        started_s = time.monotonic()
        self._make_cold(workload)
        seat.open(workload)
        first = explained_epoch(seat, workload)
        cold_s = time.monotonic() - started_s
        self._first_batch_s[seat.name] = first.first_batch_s
        warm_s = first.elapsed_s
        if cold_s + warm_s < _CALIBRATION_SHARE * self._request.budget_s:
            self._make_cold(workload)
            warm_s = min(warm_s, explained_epoch(seat, workload).elapsed_s)
        if self._request.has_step and self._step is None and seat.name == _baseline(list(self._seats)):
            self._time_step(seat)
        seat.close()
        return Pace(seat.contender, warm_s / len(workload), cold_s - warm_s)

    def _time_step(self, seat: Seat) -> None:
        step = self._request.step
        self._reporter.say(f"timing the step {step}")
        timed = seat.process.time_step(step, seat.slot)
        self._step = StepUsed(step, timed.what, timed.s_per_batch)

    def _make_cold(self, workload: Workload) -> None:
        if self._request.cache == "cold":
            drop(workload.paths)

    def _measure_costs(self, workload: Workload) -> None:
        """Of the parts of loading an image; nobody misses them where there are none to be had."""
        if not self._request.bounds:
            return
        self._reporter.say("timing the parts of loading an image")
        process = self._bounds_process or next(iter(self._seats.values())).process
        with suppress(UnsupportedError, BenchmarkError):
            self._costs = process.costs(workload).parts

    def _plan(self, paces: list[Pace]) -> RoundPlan:
        plan = plan_rounds(
            paces,
            batch_size=self._request.batch_size,
            num_threads=self._request.num_threads,
            seconds_left=self._seconds_left(),
            budget_s=self._request.budget_s,
            read_s=self._subject.read_s,
            most_samples=self._most_samples([pace.contender for pace in paces]),
        )
        for left_out in plan.left_out:
            self._leave_out(left_out)
        return plan

    def _most_samples(self, contenders: Sequence[Contender]) -> int | None:
        """Of an epoch: with a cold cache each file once, as it isn't cold the second time."""
        if self._request.cache == "warm":
            return None
        batch_size, num_threads = self._request.batch_size, self._request.num_threads
        fewest, found = fewest_samples(contenders, batch_size, num_threads), len(self._subject.files)
        if found < fewest:
            raise ArgumentError(
                f"--cache cold needs at least {fewest:,} files here, {fewest // batch_size} batches of {batch_size}, "
                f"got {found:,}: a file that is read twice in an epoch isn't cold the second time; "
                f"give more files or --batch-size {max(1, found * batch_size // fewest)}, or leave --cache cold out"
            )
        return found

    def _warm_up_all(self, workload: Workload, step_samples: int) -> None:
        loaders = [seat for seat in self._seats.values() if seat.contender.kind != "bound"]
        reference = _baseline([seat.name for seat in loaders])
        order = [self._seats[reference], *(seat for seat in self._seats.values() if seat.name != reference)]
        for seat in order:
            self._reporter.say(f"warming up {seat.name} with {len(workload)} images")
            try:
                self._warm_up_one(seat, workload, reference)
            except BenchmarkError as error:
                self._leave_out_bound(seat, error)
        if step_samples:
            self._warm_up_step(self._make_workload(step_samples))

    def _warm_up_one(self, seat: Seat, workload: Workload, reference: str) -> None:
        self._make_cold(workload)
        seat.open(workload)
        is_bound = seat.contender.kind == "bound"
        with MemorySampler(seat.process.pid) as memory:
            epoch = explained_epoch(seat, workload, with_pixels=not is_bound)
        self._warm_up[seat.name] = epoch
        self._first_batch_s.setdefault(seat.name, epoch.first_batch_s)
        self._measurements[seat.name] = []
        if not is_bound:
            self._memory[seat.name] = memory
            check = check_same_outputs if workload.is_pipeline else check_same_images
            check(reference, self._warm_up[reference], seat.name, epoch)

    def _warm_up_step(self, workload: Workload) -> None:
        """An epoch with the step, which also makes it, for everyone who feeds it."""
        for seat in self._seats.values():
            if seat.contender.feeds_step:
                self._reporter.say(f"warming up {seat.name} with the step {self._request.step}")
                seat.open_for_step(workload)
                seat.run_step_epoch(self._request.step)
        self._step_workload = workload

    def _run_rounds(self, epoch_s: dict[str, float]) -> None:
        for round_index in range(self._request.max_rounds):
            self._keep_to_budget(epoch_s, round_index)
            order = self._order(round_index)
            round_s = sum(epoch_s[seat.name] for seat in order)
            if round_index >= MIN_ROUNDS and round_s * _ROUND_MARGIN > self._seconds_left():
                return
            planned = f" of {MIN_ROUNDS}" if round_index < MIN_ROUNDS else ", as there is time left"
            self._reporter.say(f"round {round_index + 1}{planned}")
            for place, seat in enumerate(order):
                self._reporter.detail(seat.name)
                started_s = time.monotonic()
                try:
                    self._run_both(seat, round_index, place)
                except BenchmarkError as error:
                    self._leave_out_bound(seat, error)
                epoch_s[seat.name] = time.monotonic() - started_s

    @property
    def _running(self) -> list[Seat]:
        return [seat for seat in self._seats.values() if seat.name not in self._retired]

    def _order(self, round_index: int) -> list[Seat]:
        """Who runs in a round: everyone but the bounds in rotating order, then the bounds whose turn it is."""
        loaders = [seat.name for seat in self._running if seat.contender.kind != "bound"]
        bounds = [seat for seat in self._running if seat.contender.kind == "bound"]
        rotated = [self._seats[name] for name in rotation(loaders, round_index)]
        return [*rotated, *(seat for seat in bounds if seat.contender.runs_in(round_index))]

    def _run_both(self, seat: Seat, round_index: int, place: int) -> None:
        """An epoch without the step and, where there is one, an epoch with it."""

        def note(epoch: Epoch, mode: Mode) -> None:
            self._measurements[seat.name].append(Measurement(round_index, place, epoch, mode))

        if self._workload is not None:
            self._make_cold(self._workload)
            self._look_at_cache(self._workload)
        note(seat.run_epoch(), "loader")
        if self._step_workload is None:
            if seat.name in self._memory:
                self._memory[seat.name].look()  # with a step its memory, and a second loader's, would be in it
        elif seat.contender.feeds_step:
            self._make_cold(self._step_workload)
            note(seat.run_step_epoch(self._request.step), "step")

    def _look_at_cache(self, workload: Workload) -> None:
        """Whether files that were dropped have left, the first time."""
        if self._request.cache == "cold" and not self._looked_at_cache:
            self._share_left = share_in_cache(workload.paths)
            self._looked_at_cache = True

    def _keep_to_budget(self, epoch_s: dict[str, float], rounds_done: int) -> None:
        while True:
            late = next_to_leave_out(
                [seat.contender for seat in self._running],
                epoch_s,
                rounds_done=rounds_done,
                seconds_left=self._seconds_left(),
                budget_s=self._request.budget_s,
            )
            if late is None:
                return
            if late.kind == "bound" and self._measurements[late.name]:
                self._retired.add(late.name)  # what has been measured of it stays: a bound isn't paired with anybody
            else:
                self._leave_out(LeftOut(late.name, f"the machine became slower, and {MIN_ROUNDS} rounds no longer fit"))

    def _leave_out_or_raise(self, seat: Seat, error: UnsupportedError | ContenderRaisedError) -> None:
        """Leave a contender out that can't; a bound that makes no sense for the workload isn't even mentioned."""
        if seat.contender.kind == "bound":
            self._remove(seat.name)
            return
        others = [other for other in self._seats.values() if other.contender.kind == "loader" and other is not seat]
        if seat.contender.leave_out_rank is None or not others:
            raise error
        self._leave_out(LeftOut(seat.name, str(error)))

    def _leave_out_bound(self, seat: Seat, error: BenchmarkError) -> None:
        """Leave out a bound that fails: it is there to explain the loaders, and these are still right."""
        if seat.contender.kind != "bound":
            raise error
        self._leave_out(LeftOut(seat.name, str(error)))

    def _leave_out(self, left_out: LeftOut) -> None:
        self._left_out.append(left_out)
        copies = [seat.name for seat in self._seats.values() if seat.contender.kind == "copy"]
        if left_out.name == self._copied:
            for name in copies:
                self._remove(name)  # a copy without its original tells nothing
        self._remove(left_out.name)

    def _remove(self, name: str) -> None:
        self._measurements.pop(name, None)
        seat = self._seats.pop(name, None)
        if seat is not None:
            seat.end()

    def _make_workload(self, num_samples: int) -> Workload:
        return self._subject.workload(num_samples, self._request.num_threads)

    def _seconds_left(self) -> float:
        return self._started_s + self._request.budget_s - _ENDING_S - time.monotonic()

    def comparison(self) -> Comparison:
        """What has been measured so far."""
        request = self._request
        workload = self._workload
        if workload is None:
            raise BenchmarkError("nothing has been measured")
        measured = {name: self._warm_up[name] for name in self._measurements if name in self._memory}
        return Comparison(
            data=self._subject.data,
            root=self._subject.files.root,
            num_files=len(set(workload.paths)),
            samples_per_round=len(workload),
            transform=request.transform,
            transform_text=self._subject.probed.transform_text,
            batch_size=request.batch_size,
            num_threads=request.num_threads,
            device=self._subject.probed.device,
            device_name=self._subject.probed.device_name,
            dtype=self._subject.probed.dtype,
            seed=request.seed,
            baseline=_baseline(list(measured)),
            budget_s=request.budget_s,
            elapsed_s=time.monotonic() - self._started_s,
            interrupted=self.interrupted,
            contenders=tuple(
                self._result(seat.contender) for seat in self._seats.values() if seat.name in self._measurements
            ),
            left_out=tuple(self._left_out),
            environment=self._environment,
            parameters=request.parameters,
            torch_side=self._subject.seen.torch_side,
            checked=what_was_checked(measured) if workload.is_pipeline else "",
            step=self._step,
            costs=self._costs,
            cache=self._cache_sentence(workload),
        )

    def _result(self, contender: Contender) -> ContenderResult:
        name = contender.name
        return ContenderResult(
            name=name,
            first_batch_s=self._first_batch_s[name],
            warm_up=self._warm_up[name],
            peak_pss_bytes=self._memory[name].peak_bytes if name in self._memory else None,
            measurements=tuple(self._measurements[name]),
            kind=contender.kind,
            summary=contender.summary,
        )

    def _cache_sentence(self, workload: Workload) -> str:
        if not os.path.isfile(workload.paths[0]):
            return ""
        return cache_sentence(self._request.cache, len(set(workload.paths)), self._share_left)


def _baseline(names: list[str]) -> str:
    return BASELINE if BASELINE in names else names[0]


def explained_epoch(process: ContenderProcess | Seat, workload: Workload, *, with_pixels: bool = False) -> Epoch:
    """An epoch of the process. If it raises, the images are searched for one that explains it.

    Raises:
        ArgumentError: naming an image that can't be decoded.
        BenchmarkError: from the process, where all can be.
    """
    try:
        return process.run_epoch(with_pixels=with_pixels)
    except ContenderRaisedError:
        broken = first_broken(workload.paths)
        if broken is None:
            raise
        path, why = broken
        raise ArgumentError(f"{path} can't be decoded ({why}); remove it or repair it") from None
