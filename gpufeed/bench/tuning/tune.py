"""One tuning: look at the data and the transform, search torch's settings, then gpufeed's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from gpufeed.bench.contenders import Contender
from gpufeed.bench.environment import describe as describe_environment
from gpufeed.bench.process import ContenderProcess
from gpufeed.bench.results import LeftOut
from gpufeed.bench.subject import Asked, Subject
from gpufeed.bench.tuning.live import Watcher
from gpufeed.bench.tuning.measuring import CONTENDERS, Measuring
from gpufeed.bench.tuning.results import Trial, Tuned, Tuning
from gpufeed.bench.tuning.search import Bench, Search
from gpufeed.bench.tuning.space import LoaderName, Space, gpufeed_space, torch_space
from gpufeed.bench.workload import Workload
from gpufeed.errors import UnsupportedError

__all__ = ["MakeSearch", "Request", "Searching", "tune"]

_ENDING_S = 1.5  # kept for ending processes and drawing
_TORCH_SHARE = 0.63  # of the time left, where both loaders are tuned: torch has more to set, and is mostly slower
_FIRST_BATCHES = 1
_MOST_READ = 4096  # files that are brought into the page cache before


class Searching(Protocol):
    """A `Search`, or what takes its place."""

    def run(self) -> None:
        """Measure."""
        ...

    def result(self) -> Tuned:
        """What is known so far."""
        ...


MakeSearch = Callable[[Space, Bench, int | None, Callable[[Trial], None]], Searching]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Asked):
    """What to tune, as the user asked for it.

    Attributes:
        num_cpus: that may be used.
        budget_s: wall time for everything. [Unit: second]
        step: what each batch feeds, see `gpufeed.bench.steps.check_step`; empty: nothing.
        max_memory_bytes: settings above it are excluded; ``None``: none is. [Unit: byte]
        contenders: whose factories take ``settings``, by loader.
        search: what chooses the settings to measure.
    """

    num_cpus: int
    budget_s: float = 120.0
    step: str = ""
    max_memory_bytes: int | None = None
    contenders: Mapping[LoaderName, Contender] = field(default_factory=lambda: CONTENDERS)
    search: MakeSearch = Search


def tune(request: Request, watcher: Watcher, started_s: float) -> Tuning:
    """Search the settings of torch's and gpufeed's loader.

    Only one process works at a time. On return, and on any exception, all have ended.

    Args:
        request: what to tune.
        watcher: is told what is going on.
        started_s: when the budget began, by ``time.monotonic()``. [Unit: second]

    Returns:
        What was found. After Ctrl-C the best so far, marked as interrupted.

    Raises:
        KeyboardInterrupt: Ctrl-C before anything was measured.
        ArgumentError: the transform, pipeline, data, device, step or an image is wrong.
        UnsupportedError: neither loader can do this workload.
        BenchmarkError: a loader's process failed with ordinary settings.
    """
    run = _Run(request, watcher, started_s)
    try:
        run.go()
    except KeyboardInterrupt:
        if not any(tuned.best for tuned in run.tuned()):
            raise
        run.interrupted = True
    finally:
        run.end()
    return run.tuning()


class _Run:
    """The state of one tuning."""

    def __init__(self, request: Request, watcher: Watcher, started_s: float) -> None:
        self.interrupted = False
        self._request = request
        self._watcher = watcher
        self._started_s = started_s
        self._environment: dict[str, Any] = describe_environment()
        self._process: ContenderProcess | None = None
        self._searches: list[Searching] = []
        self._left_out: list[LeftOut] = []
        self._subject = Subject(request)
        self._looked = False

    def go(self) -> None:
        names: list[LoaderName] = list(self._request.contenders)
        for place, name in enumerate(names):
            process = self._begin(name)
            if not self._looked:
                self._look(process)
            try:
                self._search(name, process, is_last=place == len(names) - 1)
            except UnsupportedError as error:
                self._left_out.append(LeftOut(name, str(error)))
                self._searches.pop()
            self.end()
        if not self._searches:
            raise UnsupportedError("; ".join(f"{left.name}: {left.reason}" for left in self._left_out))

    def end(self) -> None:
        """End the process that runs."""
        process, self._process = self._process, None
        if process is not None:
            process.end()

    def _begin(self, name: LoaderName) -> ContenderProcess:
        self._watcher.say(f"importing {name}'s libraries")
        process = self._process = ContenderProcess(self._request.contenders[name])
        process.begin_prepare(self._request.num_cpus)
        if self._subject.has_files:
            self._subject.read_first(_FIRST_BATCHES)  # meanwhile
        process.finish_prepare()
        return process

    def _look(self, process: ContenderProcess) -> None:
        """In a child: what a user's file and CUDA leave behind must not be in what is forked later."""
        process.fork(process.contender, self._request.num_cpus)
        self._subject.open(process, self._watcher.say, _FIRST_BATCHES)
        process.join()
        probed = self._subject.probed
        self._environment |= {"gpu": probed.device_name, "cuda": probed.cuda_version}
        self._looked = True

    def _search(self, name: LoaderName, process: ContenderProcess, *, is_last: bool) -> None:
        request = self._request
        left_s = self._started_s + request.budget_s - _ENDING_S - time.monotonic()
        bench = Measuring(
            process,
            self._make_workload,
            num_threads=request.num_cpus,
            batch_size=request.batch_size,
            step=request.step,
            budget_s=request.budget_s,
            deadline_s=time.monotonic() + left_s * (1.0 if is_last else _TORCH_SHARE),
        )
        search: Searching

        def tell(trial: Trial) -> None:
            self._watcher.tried(search.result(), trial)

        search = request.search(self._space(name), bench, request.max_memory_bytes, tell)
        self._searches.append(search)
        if name == "torch" and self._subject.seen.is_pipeline and not self._subject.seen.torch_side:
            raise UnsupportedError(f"{request.transform} has nothing that torch's loader could run")
        self._watcher.say(f"searching {name}'s settings")
        search.run()

    def _space(self, name: LoaderName) -> Space:
        request = self._request
        # Memory is most of what a deeper queue costs, and with a limit the first stage must not exclude too much.
        is_limited = request.max_memory_bytes is not None
        make = torch_space if name == "torch" else gpufeed_space
        return make(
            request.num_cpus,
            on_cuda=self._subject.probed.device != "cpu",
            least_depth=1 if request.step or is_limited else 2,
            start_depth=1 if is_limited else 2,
        )

    def _make_workload(self, num_samples: int) -> Workload:
        workload = self._subject.workload(num_samples, self._request.num_cpus)
        if self._subject.num_read < _MOST_READ:
            self._subject.read(workload.paths)
        return workload

    def tuned(self) -> tuple[Tuned, ...]:
        """What is known of each loader so far."""
        return tuple(search.result() for search in self._searches)

    def tuning(self) -> Tuning:
        """What is known so far."""
        request = self._request
        return Tuning(
            data=self._subject.data,
            transform=request.transform,
            parameters=request.parameters,
            batch_size=request.batch_size,
            device=self._subject.probed.device,
            device_name=self._subject.probed.device_name,
            num_cpus=request.num_cpus,
            step=request.step,
            budget_s=request.budget_s,
            elapsed_s=time.monotonic() - self._started_s,
            interrupted=self.interrupted,
            max_memory_bytes=request.max_memory_bytes,
            loaders=self.tuned(),
            left_out=tuple(self._left_out),
            environment=self._environment,
        )
