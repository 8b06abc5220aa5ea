"""One tuning: look at the data and the transform, search torch's settings, then gpufeed's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gpufeed.bench.contenders import Contender
from gpufeed.bench.environment import describe as describe_environment
from gpufeed.bench.images import ImageFolderFiles, check_images, chosen_indices, list_image_folder
from gpufeed.bench.process import ContenderProcess
from gpufeed.bench.protocol import Probe, Probed, Seen
from gpufeed.bench.results import LeftOut
from gpufeed.bench.tuning.live import Watcher
from gpufeed.bench.tuning.measuring import CONTENDERS, Measuring
from gpufeed.bench.tuning.results import Trial, Tuned, Tuning
from gpufeed.bench.tuning.search import Bench, Search
from gpufeed.bench.tuning.space import LoaderName, Space, gpufeed_space, torch_space
from gpufeed.bench.workload import Workload
from gpufeed.errors import ArgumentError, UnsupportedError

__all__ = ["MakeSearch", "Request", "Searching", "tune"]

_ENDING_S = 1.5  # kept for ending processes and drawing
_TORCH_SHARE = 0.63  # of the time left, where both loaders are tuned: torch has more to set, and is mostly slower
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


@dataclass(frozen=True, slots=True)
class Request:
    """What to tune, as the user asked for it.

    Attributes:
        files: the images; ``None``: a pipeline may open ``root`` by its own source.
        data: what they are, in words.
        transform: its reference, or a pipeline's, see `gpufeed.bench.transforms.subject_of`.
        batch_size: samples per batch.
        num_cpus: that may be used.
        device: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
        budget_s: wall time for everything. [Unit: second]
        step: what each batch feeds, see `gpufeed.bench.steps.check_step`; empty: nothing.
        max_memory_bytes: settings above it are excluded; ``None``: none is. [Unit: byte]
        parameters: of a pipeline, each ``NAME=VALUE``.
        root: the data that the user gave; ``None`` where they gave none.
        example: for a pipeline with its own source where they gave none: makes example data, and returns its root and
            what it is in words.
        seed: of the choice of samples and the orders.
        contenders: whose factories take ``settings``, by loader.
        search: what chooses the settings to measure.
    """

    files: ImageFolderFiles | None
    data: str
    transform: str
    batch_size: int
    num_cpus: int
    device: str = "auto"
    budget_s: float = 120.0
    step: str = ""
    max_memory_bytes: int | None = None
    parameters: tuple[str, ...] = ()
    root: str | None = None
    example: Callable[[], tuple[str, str]] | None = None
    seed: int = 0
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
        self._files = request.files
        self._data = request.data
        self._seen: Seen | None = None
        self._probed = Probed(device="cpu", device_name="", dtype="float32", transform_text="", cuda_version="")
        self._read: set[str] = set()

    def go(self) -> None:
        names: list[LoaderName] = list(self._request.contenders)
        for place, name in enumerate(names):
            process = self._begin(name)
            if self._seen is None:
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
        if self._files is not None:
            self._read_ahead(self._files.paths[: self._request.batch_size])  # meanwhile
        process.finish_prepare()
        return process

    def _look(self, process: ContenderProcess) -> None:
        """In a child: what a user's file and CUDA leave behind must not be in what is forked later."""
        request = self._request
        self._watcher.say(f"loading {request.transform}")
        process.fork(process.contender, request.num_cpus)
        seen = process.look(request.transform, request.parameters)
        root = self._own_root(seen)
        if root is None and self._files is None:
            self._files = list_image_folder(Path(request.root or ""))
        first = "" if root is not None or self._files is None else self._files.paths[0]
        self._probed = process.probe(Probe(request.transform, first, request.device, request.parameters, root))
        process.join()
        if root is not None:
            self._files = ImageFolderFiles(root, (), self._probed.names, ())
        self._environment |= {"gpu": self._probed.device_name, "cuda": self._probed.cuda_version}
        self._seen = seen

    def _own_root(self, seen: Seen) -> str | None:
        """What the pipeline's own source opens; ``None`` where it has none."""
        if not seen.opens_data:
            return None
        if self._request.root is not None:
            return self._request.root
        if self._request.example is None:
            raise ArgumentError(f"{self._request.transform} opens its data by a source of its own; give DATA, its path")
        self._watcher.say("making example data")
        root, self._data = self._request.example()
        return root

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
        if name == "torch" and self._seen is not None and self._seen.is_pipeline and not self._seen.torch_side:
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
            on_cuda=self._probed.device != "cpu",
            least_depth=1 if request.step or is_limited else 2,
            start_depth=1 if is_limited else 2,
        )

    def _read_ahead(self, paths: tuple[str, ...]) -> None:
        """Bring files into the page cache, the most that an epoch may need."""
        new = [path for path in paths if path not in self._read]
        self._read |= set(new)
        if new and (self._seen is None or not self._seen.opens_data):
            check_images(new)

    def _make_workload(self, num_samples: int) -> Workload:
        request, files, seen = self._request, self._files, self._seen
        if files is None or seen is None:
            raise ArgumentError("there is nothing to measure on; give DATA, an image folder")
        indices = chosen_indices(len(files), num_samples, request.seed)
        paths = tuple(files.paths[index] for index in indices)
        if len(self._read) < _MOST_READ:
            self._read_ahead(paths)
        return Workload(
            root=files.root,
            classes=files.classes,
            paths=paths,
            targets=() if seen.opens_data else tuple(files.targets[index] for index in indices),
            transform=request.transform,
            batch_size=request.batch_size,
            num_threads=request.num_cpus,
            device=self._probed.device,
            dtype=self._probed.dtype,
            seed=request.seed,
            parameters=request.parameters,
            is_pipeline=seen.is_pipeline,
            indices=tuple(indices) if seen.opens_data else None,
        )

    def tuned(self) -> tuple[Tuned, ...]:
        """What is known of each loader so far."""
        return tuple(search.result() for search in self._searches)

    def tuning(self) -> Tuning:
        """What is known so far."""
        request = self._request
        return Tuning(
            data=self._data,
            transform=request.transform,
            parameters=request.parameters,
            batch_size=request.batch_size,
            device=self._probed.device,
            device_name=self._probed.device_name,
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
