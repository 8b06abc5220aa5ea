"""``gpufeed check``: a pipeline runs on the CPU, is described for a GPU, and is held to what it promises."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from gpufeed.bench.progress import Reporter
from gpufeed.cpus import default_num_threads
from gpufeed.errors import ArgumentError, GpufeedError, PipelineError, SampleError
from gpufeed.inspect.check.outputs import (
    Batch,
    described,
    differing,
    first_image,
    form_changes,
    rows_of,
    taken_apart,
)
from gpufeed.inspect.check.results import (
    Check,
    Comparison,
    Concern,
    DeviceFit,
    Fault,
    ReferenceCheck,
    Speed,
)
from gpufeed.inspect.example_data import open_data
from gpufeed.inspect.verify.files import open_as_torchvision
from gpufeed.loader import DataLoader
from gpufeed.pipelines import NamedPipeline, Pipeline, load_subject, pipelines_named
from gpufeed.pipelines.definition import Companion
from gpufeed.pipelines.namespaces import is_transform, kind_of
from gpufeed.recording import Recorded, record
from gpufeed.recording.graph_checks import NativeDraw
from gpufeed.recording.mistakes import explained
from gpufeed.recording.structure import leaf_paths, leaves_of
from gpufeed.recording.unkeyed import generator_states
from gpufeed.recording.values import BoxesValue
from gpufeed.sources.base import Source
from gpufeed.sources.folders import source_of

__all__ = ["Request", "check", "pipelines_of"]

_SEED = 0
_TIMED_S = 1.5
"""About how long batches are timed. [Unit: second]"""

_LARGEST_SHARE = 1.5  # of boxes in shares of the image; a little beyond the edge is common
_WARM_UP_BATCHES = 4  # those in flight, and as many again
_MOST_TIMED, _LEAST_TIMED = 100, 4


@dataclass(frozen=True, slots=True)
class Request:
    """What to check.

    Attributes:
        name: of the pipeline, as it can be written.
        pipeline: with its parameters.
        data: a path; ``None``: example data.
        batch_size: samples per batch.
        num_batches: how many; fewer where the data has fewer samples.

    Raises:
        ArgumentError: a number below 1, or a parameter without a value.
    """

    name: str
    pipeline: Pipeline
    data: str | None = None
    batch_size: int = 8
    num_batches: int = 4

    def __post_init__(self) -> None:
        for name, value in (("--batch-size", self.batch_size), ("--batches", self.num_batches)):
            if value < 1:
                raise ArgumentError(f"{name} must be at least 1, got {value}")
        self.pipeline.all_values()


def pipelines_of(reference: str) -> tuple[NamedPipeline, ...]:
    """The pipeline that a reference names, or all of the file or module that it names.

    Raises:
        ArgumentError: as for `gpufeed.pipelines.load_pipeline`, and for a transform.
    """
    instead = f"gpufeed explain {reference} shows what becomes of a transform"
    if reference.rpartition(":")[0].endswith(".py"):
        found = load_subject(reference)
        if isinstance(found, Pipeline):
            return (NamedPipeline(reference, reference.rpartition(":")[0], found),)
        way_out = instead if is_transform(found) else "name a function under @gpufeed.pipeline"
        raise ArgumentError(f"{reference} is {kind_of(found)}, not a pipeline; {way_out}")
    try:
        return pipelines_named(reference)
    except ArgumentError as error:
        if "torchvision transform" not in str(error):
            raise
        raise ArgumentError(f"{error}; {instead}") from None


def check(request: Request, folder: Path, progress: Reporter) -> Check:
    """Run a pipeline, describe it for a GPU, and hold it to what it promises.

    Args:
        request: what to check.
        folder: an empty one for example data.
        progress: is told what is going on.

    Raises:
        ArgumentError: the data can't be opened or holds no sample.
        UnsupportedError: the data can't be loaded exactly as its dataset would.
    """
    pipeline = request.pipeline
    given = ", ".join(f"{name}={value!r}" for name, value in pipeline.values.items())
    found = _Found(request, f"{request.name}({given})" if given else request.name)
    say = partial(_say, progress, request.name)
    say("opening the data")
    opened = found.guarded("cpu", "source", lambda: open_data(pipeline, request.data, folder))
    if opened is None:
        return found.result()
    dataset, found.data = opened
    source = source_of(dataset)
    if not len(source):
        raise ArgumentError(f"{found.data} holds no sample, and a check needs at least one; give DATA with samples")
    run = _Run(request, dataset, source, found)
    say("describing it for the GPU")
    run.describe()
    if run.recorded is not None:
        say("running it on the CPU")
        run.outputs()
    if run.batches:
        say("running it again, under other circumstances")
        run.compare()
        say("running its reference")
        run.reference()
        say("timing it")
        run.time()
    return found.result()


def _say(progress: Reporter, name: str, text: str) -> None:
    progress.say(f"{name}: {text}")


@dataclass(slots=True)
class _Found:
    """What is found, step by step."""

    request: Request
    name: str
    data: str = ""
    faults: list[Fault] = field(default_factory=list[Fault])
    notes: list[str] = field(default_factory=list[str])
    parts: dict[str, Any] = field(default_factory=dict[str, Any])

    def fault(self, concern: Concern, text: str, path: str = "", line: int = 0, code: str = "") -> None:
        """Note a fault; the same one is noted once."""
        if all((fault.text, fault.line) != (text, line) for fault in self.faults):
            self.faults.append(Fault(concern, text, path, line, code))

    def error(self, concern: Concern, error: PipelineError | SampleError) -> None:
        """Note an error as a fault."""
        if isinstance(error, PipelineError):
            self.fault(concern, error.cause, error.path, error.line, error.code)
        else:
            self.fault(concern, str(error))

    def guarded(self, concern: Concern, companion: Companion, make: Callable[[], Any]) -> Any:
        """What ``make`` makes; ``None`` where a function of the module's fails, which is noted with its line."""
        try:
            return make()
        except GpufeedError:
            raise
        except Exception as error:  # whatever the user's code raises is the user's error
            if not self.request.pipeline.has(companion):
                raise
            self.error(concern, explained(error, self.request.pipeline.companion(companion)))
            return None

    def result(self) -> Check:
        """Everything, immutable."""
        request = self.request
        return Check(
            pipeline=self.name,
            path=request.pipeline.path,
            data=self.data,
            batch_size=request.batch_size,
            faults=tuple(self.faults),
            notes=tuple(self.notes),
            **self.parts,
        )


@dataclass(slots=True)
class _Run:
    """A pipeline on its data."""

    request: Request
    dataset: Any
    source: Source
    found: _Found
    recorded: Recorded | None = None
    batches: list[Batch] = field(default_factory=list[Batch])
    seen: list[Batch] = field(default_factory=list[Batch])
    _unsteady: set[str] = field(default_factory=set[str])

    @property
    def num_samples(self) -> int:
        """How many samples are looked at."""
        return min(len(self.source), self.request.batch_size * self.request.num_batches)

    # Describing it ---------------------------------------------------------------------------------------------------

    def describe(self) -> None:
        """Call the function for both devices."""
        pipeline = self.request.pipeline
        example = {name: held[0] for name, held in self.source.fields([0]).items()}
        try:
            self.recorded = record(pipeline, "cpu", example=example)
        except PipelineError as error:
            self.found.error("cpu", error)
        try:
            on_cuda = record(pipeline, "cuda", example=example)
        except PipelineError as error:
            self.found.error("gpu", error)
        else:
            counts = on_cuda.devices
            self.found.parts["gpu"] = DeviceFit(counts["gpu"] + counts["mixed"], counts["cpu"])
        if self.recorded is not None:
            self._box_formats(self.recorded)

    def _box_formats(self, recorded: Recorded) -> None:
        """Boxes that ops.boxes_like takes for pixels and that are shares, or the other way round."""
        described = {
            (value.geometry.slot, value.boxes, value.normalized)
            for value in recorded.values()
            if isinstance(value, BoxesValue)
        }
        for _, name, normalized in sorted(described):
            held = self.source.fields(list(range(self.num_samples)))[name]
            found = [np.asarray(boxes, dtype=np.float64) for boxes in held if np.size(cast(Any, boxes))]
            largest = max((float(boxes.max()) for boxes in found), default=None)
            if largest is None or normalized == (largest <= _LARGEST_SHARE):
                continue
            how = (
                "lie in [0, 1], as shares of the image do, and ops.boxes_like takes them for pixels: give it "
                'normalized=True, and format="cxcywh" for YOLO\'s'
                if not normalized
                else f"go up to {largest:g}, as pixels do, and ops.boxes_like takes them for shares: "
                "leave normalized out"
            )
            self.found.fault("outputs", f"the boxes in sample.{name} {how}")

    # Running it ------------------------------------------------------------------------------------------------------

    def outputs(self) -> None:
        """A few batches, and what is in them."""
        before = generator_states()
        try:
            self.batches = list(self._load(self.request.batch_size))
        except (PipelineError, SampleError) as error:
            self.found.error("cpu", error)
            return
        if generator_states() != before:
            self._global_draws()
        self.seen += self.batches
        parts = self.found.parts
        parts["num_batches"] = len(self.batches)
        parts["num_samples"] = sum(batch.count for batch in self.batches)
        names = {tuple(batch.outputs) for batch in self.batches}
        if len(names) > 1:
            self.found.fault("outputs", f"batches have differing outputs: {_listed_names(names)}; return the same ones")
            self.batches = []

    def _global_draws(self) -> None:
        pipeline = self.request.pipeline
        has_tail = pipeline.has("tail")
        code = pipeline.companion("tail").__code__ if has_tail else None
        self.found.fault(
            "exactness",
            f"the {'tail' if has_tail else 'source'} draws from the global generator of random, numpy.random or torch, "
            "so that its numbers depend on what ran before; "
            + (
                "draw from its keyword argument samples, as samples.uniform(0, 1)" if has_tail else "draw by the sample"
            ),
            code.co_filename if code else "",
            code.co_firstlineno if code else 0,
            f"def {code.co_name}(...)" if code else "",
        )

    def _load(self, batch_size: int, num_threads: int | None = None) -> Iterator[Batch]:
        """Batches until all samples that are looked at have come, in shuffled order."""
        recorded = self.recorded
        assert recorded is not None
        structure = None if self.request.pipeline.has("tail") else recorded.outputs
        left = self.num_samples
        with closing(self._loader(batch_size, num_threads, shuffle=True)) as loader:
            for number, batch in enumerate(loader):
                count = min(batch_size, len(self.source) - number * batch_size)
                yield taken_apart(batch, structure, count)
                left -= count
                if left <= 0:
                    return

    def _loader(self, batch_size: int, num_threads: int | None = None, **arguments: Any) -> DataLoader:
        return DataLoader(
            self.dataset,
            batch_size=batch_size,
            pipeline=self.request.pipeline,
            device="cpu",
            seed=_SEED,
            num_threads=num_threads,
            **arguments,
        )

    # Comparing -------------------------------------------------------------------------------------------------------

    def compare(self) -> None:
        """The same samples again, and under other circumstances."""
        size, threads = self.request.batch_size, default_num_threads()
        other_size, other_threads = 3 if size != 3 else 2, 1 if threads > 1 else 2
        tried = (
            ("a second run", size, None),
            (f"batches of {other_size}", other_size, None),
            (f"{other_threads} thread{'s' * (other_threads != 1)}", size, other_threads),
        )
        rows = rows_of(self.batches, self.num_samples)
        comparisons: list[Comparison] = []
        for words, batch_size, num_threads in tried:
            try:
                batches = list(self._load(batch_size, num_threads))
            except (PipelineError, SampleError) as error:
                self.found.error("cpu", error)
                continue
            self.seen += batches
            comparisons.append(Comparison(words, differing(rows, rows_of(batches, self.num_samples))))
        self.found.parts["comparisons"] = tuple(comparisons)
        self._judge(comparisons)
        self._describe_outputs({name for one in comparisons[1:2] for name in one.differing} - self._unsteady)

    def _judge(self, comparisons: Sequence[Comparison]) -> None:
        """What differences mean."""
        assert self.recorded is not None
        for drawn in self.recorded.native_draws:
            self.found.fault("exactness", _native(drawn), drawn.path, drawn.line, drawn.code)
        for one in comparisons:
            by_size = one.circumstance.startswith("batches")
            names = [name for name in one.differing if name not in self._unsteady]
            if not names:
                continue
            if not by_size:
                self._unsteady |= set(names)
                if not self.recorded.native_draws and not self._drew_globally:
                    self.found.fault("exactness", _unsteady(names, one.circumstance))
            elif not self.recorded.native_draws:
                self.found.notes.append(
                    f"{_listed(names)} depend{'s' * (len(names) == 1)} on the batch: a sample's values there follow "
                    "from the other samples of its batch, as by mixing or normalising over a batch, and so on the "
                    "batch size"
                )

    @property
    def _drew_globally(self) -> bool:
        return any("global generator" in fault.text for fault in self.found.faults)

    def _describe_outputs(self, by_batch: set[str]) -> None:
        assert self.recorded is not None
        outputs = tuple(described(name, self.batches, by_batch=name in by_batch) for name in self.batches[0].outputs)
        self.found.parts["outputs"] = outputs
        always_lists = self._always_lists()
        for output in outputs:
            if output.not_finite:
                self.found.notes.append(f"{output.name} holds NaN or infinite values")
            if form_changes(output.name, self.seen, output.name in always_lists) or self._may_change(output.name):
                self.found.fault(
                    "outputs",
                    f"{output.name} comes as one tensor where the shapes in a batch are equal, and as a list where "
                    "they aren't: its form changes from batch to batch; use ops.ragged for a list always, ops.pad for "
                    "one tensor with lengths, or give its samples one shape",
                )

    def _always_lists(self) -> set[str]:
        recorded = self.recorded
        if recorded is None or self.request.pipeline.has("tail"):
            return set()
        paths = leaf_paths(recorded.outputs)
        return {path for path, leaf in zip(paths, recorded.leaves, strict=True) if leaf.ragged}

    def _may_change(self, name: str) -> bool:
        """Whether a list would be a tensor in another batch, such as one of a single sample."""
        if self.request.pipeline.has("tail") or name in self._always_lists():
            return False
        leaves = [batch.outputs[name] for batch in self.seen]
        return any(
            isinstance(leaf, list) and all(isinstance(one, torch.Tensor) for one in cast("list[Any]", leaf))
            for leaf in leaves
        )

    # Its reference ---------------------------------------------------------------------------------------------------

    def reference(self) -> None:
        """Torch's side on one image, against the shapes of the loader's."""
        pipeline = self.request.pipeline
        kinds: tuple[Companion, ...] = ("reference", "torch_dataset")
        there: list[Companion] = [kind for kind in kinds if pipeline.has(kind)]
        if there:
            kind = there[0]
            made = self.found.guarded("reference", kind, lambda: self._made_by(kind))
            if made is not None:
                self._hold_to(kind, made)

    def _made_by(self, kind: Companion) -> Any:
        pipeline = self.request.pipeline
        if kind == "torch_dataset":
            return pipeline.make_torch_dataset(self.dataset)[0]
        transform = pipeline.make_reference()
        path = self.source.read([0]).names()[0]
        image = open_as_torchvision(path)
        if isinstance(image, str):
            self.found.notes.append(f"the reference was not run: {path}: {image}")
            return None
        return transform(image)

    def _hold_to(self, kind: Companion, made: Any) -> None:
        function = self.request.pipeline.companion(kind)
        code = function.__code__
        place = (code.co_filename, code.co_firstlineno, f"def {code.co_name}(...)")
        theirs = first_image({str(number): leaf for number, leaf in enumerate(leaves_of(made))})
        rows = rows_of(self.batches, self.num_samples)
        ours = first_image(rows[0])
        if ours is None:
            self.found.notes.append(f"the {kind} has nothing to be compared with: no output is an image")
            return
        name, image = ours
        if theirs is None:
            text = f"the {kind} returns no image tensor, and {name} is one; end it with v2.ToImage() or the like"
            self.found.fault("reference", text, *place)
            return
        shape, dtype = tuple(theirs[1].shape), str(theirs[1].dtype).removeprefix("torch.")
        found = {tuple(row[name].shape) for row in rows}
        wanted = tuple(image.shape)
        same = shape == wanted if len(found) == 1 else len(shape) == len(wanted)
        if not same:
            text = f"the {kind} makes {shape}, and the pipeline {wanted} ({name}); do the same in both"
            self.found.fault("reference", text, *place)
        elif theirs[1].dtype != image.dtype:
            ours_dtype = str(image.dtype).removeprefix("torch.")
            text = f"the {kind} makes {dtype}, and the pipeline {ours_dtype} ({name}); do the same in both"
            self.found.fault("reference", text, *place)
        else:
            self.found.parts["reference"] = ReferenceCheck(kind, shape, dtype)

    # Its speed -------------------------------------------------------------------------------------------------------

    def time(self) -> None:
        """How long a batch takes, once everything is warm."""
        size = self.request.batch_size
        num_batches = _WARM_UP_BATCHES + _MOST_TIMED
        indices = [number % len(self.source) for number in range(size * num_batches)]
        times: list[float] = []
        try:
            with closing(self._loader(size, sampler=indices)) as loader:
                batches = iter(loader)
                for _ in range(_WARM_UP_BATCHES):
                    next(batches)
                last = time.perf_counter()
                while len(times) < _MOST_TIMED and (len(times) < _LEAST_TIMED or sum(times) < _TIMED_S):
                    next(batches)
                    now = time.perf_counter()
                    times.append(now - last)
                    last = now
        except (PipelineError, SampleError) as error:
            self.found.error("cpu", error)
            return
        speed = Speed(statistics.median(times), size * len(times) / sum(times), len(times), default_num_threads())
        self.found.parts["speed"] = speed


# Sentences ------------------------------------------------------------------------------------------------------------

_INSTEAD = {
    "fn.random.uniform": "sample.uniform(low, high)",
    "fn.random.normal": "sample.normal(mean, std)",
    "fn.random.coin_flip": "sample.coin(p)",
    "fn.random.choice": "sample.choice(values, p)",
    "fn.random_resized_crop": "sample.random_resized_crop(size)",
    "fn.decoders.image_random_crop": "sample.random_resized_crop(size)",
    "fn.noise.gaussian": "v2.GaussianNoise by ops.apply in the tail",
}


def _native(drawn: NativeDraw) -> str:
    instead = _INSTEAD.get(drawn.operator, "sample.uniform and the like, and give the operator the numbers")
    return (
        f"{drawn.operator} draws by the sample's place in the batch, so that its numbers change with the batch size "
        f"and the order, and resuming isn't exact; use {instead}"
    )


def _unsteady(names: Sequence[str], circumstance: str) -> str:
    why = (
        "something in it isn't a function of the sample: a generator of its own, the time, or a counter"
        if circumstance == "a second run"
        else "something in it isn't safe to run on another number of threads"
    )
    return f"{circumstance} gives other values of {_listed(names)}: {why}; draw by the sample's or samples' methods"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _listed_names(names: set[tuple[str, ...]]) -> str:
    return " and ".join(f"({', '.join(one)})" for one in sorted(names))
