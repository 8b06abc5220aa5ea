"""Running contenders against each other: calibrate, plan, warm up, then interleaved rounds until the budget is used."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpufeed.bench.budget import (
    MAX_ROUNDS,
    MIN_ROUNDS,
    Pace,
    RoundPlan,
    calibration_batches,
    next_to_leave_out,
    plan_rounds,
    rotation,
)
from gpufeed.bench.checks import check_same_images, check_same_outputs, what_was_checked
from gpufeed.bench.contenders import BASELINE, Contender
from gpufeed.bench.environment import describe
from gpufeed.bench.images import (
    ImageFolderFiles,
    check_images,
    chosen_indices,
    first_broken,
    list_image_folder,
)
from gpufeed.bench.process import ContenderProcess, ContenderRaisedError, end_all
from gpufeed.bench.progress import Reporter
from gpufeed.bench.protocol import Probe, Probed, Seen
from gpufeed.bench.results import Comparison, ContenderResult, Epoch, LeftOut, Measurement
from gpufeed.bench.transforms import BUILT_IN
from gpufeed.bench.usage import MemorySampler
from gpufeed.bench.workload import Workload
from gpufeed.errors import ArgumentError, BenchmarkError, UnsupportedError

__all__ = ["Request", "explained_epoch", "measure"]

_ENDING_S = 1.5  # kept for ending the processes and drawing the table
_CALIBRATION_SHARE = 0.05  # of the budget, for each contender; if it allows, a second, warm epoch is run
_ROUND_MARGIN = 1.05  # an extra round begins only if one this much longer than the last would still fit


@dataclass(frozen=True, slots=True)
class Request:
    """What to compare, as the user asked for it.

    Attributes:
        files: the images; ``None``: they are listed at ``root``, unless a pipeline opens that by its own source.
        data: what they are, in words.
        transform: its reference, or a pipeline's, see :func:`gpufeed.bench.transforms.subject_of`.
        contenders: who is to be measured.
        batch_size: samples per batch.
        num_threads: threads or worker processes per contender.
        device: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
        budget_s: wall time for everything. [Unit: second]
        seed: of the choice of samples, the orders and the bootstrap.
        max_rounds: rounds after which it ends early.
        parameters: of a pipeline, each ``NAME=VALUE``.
        root: the data that the user gave; ``None`` where they gave none.
        example: for a pipeline with its own source where they gave none: makes example data, and returns its root and
            what it is in words.
    """

    files: ImageFolderFiles | None
    data: str
    transform: str
    contenders: tuple[Contender, ...]
    batch_size: int
    num_threads: int
    device: str = "auto"
    budget_s: float = 90.0
    seed: int = 0
    max_rounds: int = MAX_ROUNDS
    parameters: tuple[str, ...] = ()
    root: str | None = None
    example: Callable[[], tuple[str, str]] | None = None


def measure(request: Request, reporter: Reporter, started_s: float) -> Comparison:
    """Run the comparison.

    Each contender lives in a process of its own, and only one works at a time. A round is one epoch of each, in an
    order that rotates. On return, and on any exception, all processes have ended.

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
        end_all(list(run.processes.values()))
    return run.comparison()


class _Run:
    """The state of one comparison."""

    def __init__(self, request: Request, reporter: Reporter, started_s: float) -> None:
        self.processes: dict[str, ContenderProcess] = {}
        self.interrupted = False
        self._request = request
        self._reporter = reporter
        self._started_s = started_s
        self._environment = describe()
        self._seen = Seen()
        self._probed = Probed(device="cpu", device_name="", dtype="float32", transform_text="", cuda_version="")
        self._files: ImageFolderFiles | None = request.files
        self._data = request.data
        self._read_s = 0.0  # per file that isn't in the page cache yet
        self._checked: set[str] = set()
        self._left_out: list[LeftOut] = []
        self._workload: Workload | None = None
        self._first_batch_s: dict[str, float] = {}
        self._warm_up: dict[str, Epoch] = {}
        self._memory: dict[str, MemorySampler] = {}
        self._measurements: dict[str, list[Measurement]] = {}

    @property
    def measured_anything(self) -> bool:
        return any(self._measurements.values())

    def go(self) -> None:
        self._start()
        self._probe()
        paces = self._calibrate()
        plan = self._plan(paces)
        self._workload = self._make_workload(plan.num_samples)
        if len(self._checked) < len(set(self._workload.paths)):
            self._reporter.say("reading all images once, so that none comes from a cold disk")
            self._check_images(self._workload.paths)
        self._warm_up_all(self._workload)
        self._run_rounds({pace.contender.name: pace.s_per_sample * plan.num_samples for pace in paces})

    def _start(self) -> None:
        request = self._request
        self._reporter.say(f"starting {len(request.contenders)} contenders")
        for contender in request.contenders:
            process = ContenderProcess(contender)
            self.processes[contender.name] = process
            process.begin_prepare(request.num_threads)
        if request.files is not None:
            self._check_first_images()  # while they import their libraries
        for process in list(self.processes.values()):
            try:
                process.finish_prepare()
            except (UnsupportedError, ContenderRaisedError) as error:
                self._leave_out_or_raise(process, error)

    def _check_first_images(self) -> None:
        request = self._request
        most = max(calibration_batches(contender, request.num_threads) for contender in request.contenders)
        indices = chosen_indices(len(self._found_files), most * request.batch_size, request.seed)
        self._check_images(tuple(self._found_files.paths[index] for index in indices))

    @property
    def _found_files(self) -> ImageFolderFiles:
        assert self._files is not None
        return self._files

    def _check_images(self, paths: tuple[str, ...]) -> None:
        new = set(paths) - self._checked
        if not new:
            return
        started_s = time.monotonic()
        check_images(path for path in paths if path in new)
        self._checked |= new
        if len(self._checked) < len(self._found_files):
            self._read_s = (time.monotonic() - started_s) / len(new)

    def _probe(self) -> None:
        request = self._request
        process = next(iter(self.processes.values()))
        if request.transform not in BUILT_IN or request.parameters:
            self._reporter.say(f"loading {request.transform}")
            self._seen = process.look(request.transform, request.parameters)
        root = self._own_root()
        if root is None:
            self._files = self._files or list_image_folder(Path(request.root or ""))
            self._check_first_images()
        first = "" if root is not None else self._found_files.paths[0]
        self._probed = process.probe(Probe(request.transform, first, request.device, request.parameters, root))
        self._environment |= {"gpu": self._probed.device_name, "cuda": self._probed.cuda_version}
        if root is not None:
            names = self._probed.names
            self._files = ImageFolderFiles(root, (), names, ())
            # what isn't a file can't be read ahead here
            self._checked = set() if os.path.isfile(names[0]) else set(names)
            self._check_first_images()

    def _own_root(self) -> str | None:
        """What the pipeline's own source opens; ``None`` where it has none."""
        request = self._request
        if not self._seen.opens_data:
            return None
        if request.root is not None:
            return request.root
        if request.example is None:
            raise ArgumentError(f"{request.transform} opens its data by a source of its own; give DATA, its path")
        self._reporter.say("making example data")
        root, self._data = request.example()
        return root

    def _calibrate(self) -> list[Pace]:
        paces: list[Pace] = []
        for process in list(self.processes.values()):
            self._reporter.say(f"calibrating {process.name}")
            batches = calibration_batches(process.contender, self._request.num_threads)
            workload = self._make_workload(batches * self._request.batch_size)
            try:
                paces.append(self._pace(process, workload))
            except UnsupportedError as error:
                self._leave_out_or_raise(process, error)
        return paces

    def _pace(self, process: ContenderProcess, workload: Workload) -> Pace:
        started_s = time.monotonic()
        process.open(workload)
        first = explained_epoch(process, workload)
        cold_s = time.monotonic() - started_s
        self._first_batch_s[process.name] = first.first_batch_s
        warm_s = first.elapsed_s
        if cold_s + warm_s < _CALIBRATION_SHARE * self._request.budget_s:
            warm_s = min(warm_s, explained_epoch(process, workload).elapsed_s)
        process.close()
        return Pace(process.contender, warm_s / len(workload), cold_s - warm_s)

    def _plan(self, paces: list[Pace]) -> RoundPlan:
        plan = plan_rounds(
            paces,
            batch_size=self._request.batch_size,
            num_threads=self._request.num_threads,
            seconds_left=self._seconds_left(),
            budget_s=self._request.budget_s,
            read_s=self._read_s,
        )
        for left_out in plan.left_out:
            self._leave_out(left_out)
        return plan

    def _warm_up_all(self, workload: Workload) -> None:
        reference = _baseline(list(self.processes))
        order = [reference, *(name for name in self.processes if name != reference)]
        for name in order:
            process = self.processes[name]
            self._reporter.say(f"warming up {name} with {len(workload)} images")
            process.open(workload)
            with MemorySampler(process.pid) as memory:
                epoch = explained_epoch(process, workload, with_pixels=True)
            self._memory[name] = memory
            self._warm_up[name] = epoch
            self._measurements[name] = []
            check = check_same_outputs if workload.is_pipeline else check_same_images
            check(reference, self._warm_up[reference], name, epoch)

    def _run_rounds(self, epoch_s: dict[str, float]) -> None:
        for round_index in range(self._request.max_rounds):
            self._keep_to_budget(epoch_s, round_index)
            round_s = sum(epoch_s[name] for name in self.processes)
            if round_index >= MIN_ROUNDS and round_s * _ROUND_MARGIN > self._seconds_left():
                return
            planned = f" of {MIN_ROUNDS}" if round_index < MIN_ROUNDS else ", as there is time left"
            self._reporter.say(f"round {round_index + 1}{planned}")
            for place, name in enumerate(rotation(list(self.processes), round_index)):
                self._reporter.detail(name)
                started_s = time.monotonic()
                epoch = self.processes[name].run_epoch()
                self._measurements[name].append(Measurement(round_index, place, epoch))
                self._memory[name].look()
                epoch_s[name] = time.monotonic() - started_s

    def _keep_to_budget(self, epoch_s: dict[str, float], rounds_done: int) -> None:
        while True:
            late = next_to_leave_out(
                [process.contender for process in self.processes.values()],
                epoch_s,
                rounds_done=rounds_done,
                seconds_left=self._seconds_left(),
                budget_s=self._request.budget_s,
            )
            if late is None:
                return
            self._leave_out(LeftOut(late.name, f"the machine became slower, and {MIN_ROUNDS} rounds no longer fit"))

    def _leave_out_or_raise(self, process: ContenderProcess, error: UnsupportedError | ContenderRaisedError) -> None:
        if process.contender.leave_out_rank is None or len(self.processes) == 1:
            raise error
        self._leave_out(LeftOut(process.name, str(error)))

    def _leave_out(self, left_out: LeftOut) -> None:
        self._left_out.append(left_out)
        self._measurements.pop(left_out.name, None)
        self.processes.pop(left_out.name).end()

    def _make_workload(self, num_samples: int) -> Workload:
        request, files = self._request, self._found_files
        indices = chosen_indices(len(files), num_samples, request.seed)
        own_source = self._seen.opens_data
        return Workload(
            root=files.root,
            classes=files.classes,
            paths=tuple(files.paths[index] for index in indices),
            targets=() if own_source else tuple(files.targets[index] for index in indices),
            transform=request.transform,
            batch_size=request.batch_size,
            num_threads=request.num_threads,
            device=self._probed.device,
            dtype=self._probed.dtype,
            seed=request.seed,
            parameters=request.parameters,
            is_pipeline=self._seen.is_pipeline,
            indices=tuple(indices) if own_source else None,
        )

    def _seconds_left(self) -> float:
        return self._started_s + self._request.budget_s - _ENDING_S - time.monotonic()

    def comparison(self) -> Comparison:
        """What has been measured so far."""
        request = self._request
        workload = self._workload
        if workload is None:
            raise BenchmarkError("nothing has been measured")
        measured = {name: self._warm_up[name] for name in self._measurements}
        return Comparison(
            data=self._data,
            root=self._found_files.root,
            num_files=len(set(workload.paths)),
            samples_per_round=len(workload),
            transform=request.transform,
            transform_text=self._probed.transform_text,
            batch_size=request.batch_size,
            num_threads=request.num_threads,
            device=self._probed.device,
            device_name=self._probed.device_name,
            dtype=self._probed.dtype,
            seed=request.seed,
            baseline=_baseline(list(self._measurements)),
            budget_s=request.budget_s,
            elapsed_s=time.monotonic() - self._started_s,
            interrupted=self.interrupted,
            contenders=tuple(
                ContenderResult(
                    name=name,
                    first_batch_s=self._first_batch_s[name],
                    warm_up=self._warm_up[name],
                    peak_pss_bytes=self._memory[name].peak_bytes,
                    measurements=tuple(self._measurements[name]),
                )
                for name in (contender.name for contender in request.contenders)
                if name in self._measurements
            ),
            left_out=tuple(self._left_out),
            environment=self._environment,
            parameters=request.parameters,
            torch_side=self._seen.torch_side,
            checked=what_was_checked(measured) if workload.is_pipeline else "",
        )


def _baseline(names: list[str]) -> str:
    return BASELINE if BASELINE in names else names[0]


def explained_epoch(process: ContenderProcess, workload: Workload, *, with_pixels: bool = False) -> Epoch:
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
