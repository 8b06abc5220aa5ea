"""``gpufeed verify`` of a pipeline: its images and those of its reference on the same files with the same draws."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from gpufeed import reference
from gpufeed.bench.environment import describe
from gpufeed.bench.one_thread import one_torch_thread
from gpufeed.bench.progress import Reporter
from gpufeed.devices import resolve_device
from gpufeed.draws import Draws, epoch_key
from gpufeed.errors import ArgumentError, PipelineError
from gpufeed.inspect.explain.explanation import ENDS_IN_PIL
from gpufeed.inspect.pipeline_graph import UserOperator, user_operators
from gpufeed.inspect.side_by_side import Picture, check_save_target, write_pictures
from gpufeed.inspect.verify.differences import Differences, Scale, as_tensor, full_scales
from gpufeed.inspect.verify.files import LoadedPipeline, open_as_torchvision
from gpufeed.inspect.verify.results import SCHEMA, SCHEMA_VERSION, LeftOutSample, Spread, Worst
from gpufeed.parameters import draw_parameters, op_count, op_numbers
from gpufeed.pipelines import Pipeline
from gpufeed.plan import Plan
from gpufeed.recording import record
from gpufeed.recording.structure import leaf_paths, leaves_of
from gpufeed.sources.folders import source_of
from gpufeed.translation import translate

__all__ = [
    "OutputCheck",
    "PipelineRequest",
    "PipelineVerification",
    "pipeline_to_json",
    "require_reference",
    "verify_pipeline",
]

_CHUNK = 8
"""Samples of a batch, as for transforms."""

_LARGE_MEAN_255 = 4.0
"""A mean difference that no resampling makes: other draws do."""


@dataclass(frozen=True, slots=True)
class PipelineRequest:
    """What to verify.

    Attributes:
        pipeline: with its parameters; it has a reference.
        dataset: a source or Dataset that it reads.
        indices: which of its samples.
        data: what it is, in words.
        subject: the pipeline's name and its parameters as they were given.
        device: ``auto``, ``cpu`` or ``cuda``, as `gpufeed.DataLoader` takes it.
        seed: of the draws.
        save: a folder for side-by-side pictures; ``None``: none are made.
    """

    pipeline: Pipeline
    dataset: Any
    indices: Sequence[int]
    data: str
    subject: str
    device: str = "auto"
    seed: int = 0
    save: Path | None = None


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """An image output against the reference's image, with the same draws, over all samples.

    Attributes:
        path: its place in what the pipeline returns, such as ``[0]``.
        num_samples: compared.
        shape: of the first sample's, (C, H, W).
        sizes_vary: whether others have another size.
        dtype: torch's name without ``torch.``.
        spread: the differences, in 1/255 of the intensity before any ``Normalize``; ``share_beyond`` is what is beyond
            the bound's ``within_255``.
        worst: the sample farthest off, by its mean.
        exceeded: what is wrong, in words; empty where the bound holds.
    """

    path: str
    num_samples: int
    shape: tuple[int, ...]
    sizes_vary: bool
    dtype: str
    spread: Spread
    worst: Worst | None
    exceeded: str

    @property
    def share_within(self) -> float:
        """The share of values, in [0, 1], that are within the bound."""
        return 1.0 - self.spread.share_beyond


@dataclass(frozen=True, slots=True)
class PipelineVerification:
    """One run of ``gpufeed verify`` of a pipeline.

    Attributes:
        data: what was verified on, in words.
        num_files: samples that there are.
        num_chosen: how many of them were chosen.
        num_compared: how many were compared.
        subject: the pipeline's name and its parameters as they were given.
        name: the pipeline function's.
        plans: what the reference became, one for each image that it makes.
        device: where the pipeline ran.
        device_name: the GPU's model; empty for the CPU.
        seed: of the draws.
        elapsed_s: what it took. [Unit: second]
        interrupted: whether the user stopped it early.
        within_255: the pipeline's bound. [Unit: 1/255]
        share: of the values that must be within it.
        sizes_hw: the smallest and the largest image that was compared, by area, in pixels.
        outputs: the images.
        operators: of DALI's that the pipeline calls; they have no bound of their own.
        native_draws: operators that draw by themselves, so that no reference can draw the same.
        left_out: samples that could not be loaded.
        pictures: side-by-side pictures that were saved.
        environment: versions and machine.
    """

    data: str
    num_files: int
    num_chosen: int
    num_compared: int
    subject: str
    name: str
    plans: tuple[str, ...]
    device: str
    device_name: str
    seed: int
    elapsed_s: float
    interrupted: bool
    within_255: float
    share: float
    sizes_hw: tuple[tuple[int, int], tuple[int, int]]
    outputs: tuple[OutputCheck, ...]
    operators: tuple[UserOperator, ...] = ()
    native_draws: tuple[str, ...] = ()
    left_out: tuple[LeftOutSample, ...] = ()
    pictures: tuple[str, ...] = ()
    environment: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def failures(self) -> tuple[str, ...]:
        """What exceeds the bound, one sentence each."""
        return tuple(check.exceeded for check in self.outputs if check.exceeded)


def verify_pipeline(request: PipelineRequest, progress: Reporter) -> PipelineVerification:
    """Run a pipeline and its reference on the same files and hold their images to the pipeline's bound.

    Ctrl-C ends it early: what was verified until then is returned, ``interrupted``.

    Raises:
        ArgumentError: the pipeline has no reference, a wrong value, or no sample could be verified.
        TranslationError: listing every part of the reference that can't be translated, so that its draws aren't known.
        PipelineError: a mistake of the pipeline's, or a reference that ends in another shape or dtype.
    """
    started_s = time.monotonic()
    pipeline = request.pipeline
    require_reference(pipeline)
    if not request.indices:
        raise ArgumentError(f"{request.data} holds no samples to verify")
    if request.save is not None:
        check_save_target(request.save)
    views = _views(pipeline)
    device = resolve_device(request.device)
    recorded = record(pipeline, "cuda" if device.type == "cuda" else "cpu")
    run = _Run(request, views, device)
    interrupted = False
    pictures: tuple[str, ...] = ()
    try:
        run.go(progress)
        if request.save is not None:
            progress.say("saving pictures")
            pictures = write_pictures(request.save, list(run.pictures()))
    except KeyboardInterrupt:
        if not run.sizes_hw:
            raise
        interrupted = True
    if not run.sizes_hw:
        first = run.left_out[0]
        raise ArgumentError(
            f"none of the {len(run.left_out)} samples could be loaded; the first is {first.file}: {first.reason}"
        )
    by_area = sorted(run.sizes_hw, key=lambda size_hw: size_hw[0] * size_hw[1])
    return PipelineVerification(
        data=request.data,
        num_files=len(request.dataset),
        num_chosen=len(request.indices),
        num_compared=len(run.sizes_hw),
        subject=request.subject,
        name=pipeline.name,
        plans=tuple(str(view.plan) for view in views),
        device=str(device),
        device_name=torch.cuda.get_device_name(device) if device.type == "cuda" else "",
        seed=request.seed,
        elapsed_s=time.monotonic() - started_s,
        interrupted=interrupted,
        within_255=pipeline.bound.within_255,
        share=pipeline.bound.share,
        sizes_hw=(by_area[0], by_area[-1]),
        outputs=run.checks(),
        operators=user_operators(recorded),
        native_draws=tuple(f"{draw.operator}, line {draw.line}" for draw in recorded.native_draws),
        left_out=tuple(run.left_out),
        pictures=pictures,
        environment=describe(),
    )


def require_reference(pipeline: Pipeline) -> None:
    """Refuse a pipeline that there is nothing to verify against.

    Raises:
        ArgumentError: it has no reference; with how to write one.
    """
    if pipeline.has("reference"):
        return
    name = pipeline.name
    besides = f"; @{name}.torch_dataset is for gpufeed compare alone" if pipeline.has("torch_dataset") else ""
    raise ArgumentError(
        f"the pipeline {name} has no reference to be verified against; write in its module @{name}.reference above a "
        f"function that returns the torchvision transform that does the same to one image, in the same order{besides}"
    )


# The reference --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _View:
    """A transform of the reference's, which makes one image, or a tuple of them.

    Attributes:
        transform: torchvision's.
        plan: what it became.
        numbers: of its ops, counted on from those of the views before.
        scale: of its output.
    """

    transform: Any
    plan: Plan
    numbers: tuple[int, ...]
    scale: Scale


def _views(pipeline: Pipeline) -> list[_View]:
    """The reference's transforms: one, or where it returns several a view of the image for each."""
    made = pipeline.make_reference()
    transforms = list(cast("Sequence[Any]", made)) if isinstance(made, (tuple, list)) else [made]
    views: list[_View] = []
    first = 0
    for transform in transforms:
        plan = translate(transform).require()
        if plan.output.container == "pil":
            raise _unfit(pipeline, f"it ends in a PIL image: {ENDS_IN_PIL}")
        views.append(_View(transform, plan, op_numbers(plan.ops, first), full_scales(plan)[-1]))
        first += sum(map(op_count, plan.ops))
    return views


def _unfit(pipeline: Pipeline, what: str) -> PipelineError:
    code = pipeline.companion("reference").__code__
    return PipelineError(
        f"the reference can't be compared with the pipeline: {what}",
        code.co_filename,
        code.co_firstlineno,
        f"def {code.co_name}(...)",
    )


# The run --------------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Output:
    """What is gathered of one image output."""

    path: str
    view: _View
    within_255: float
    differences: Differences = field(init=False)
    shapes: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    dtype: str = ""
    worst: Worst | None = None
    images: tuple[torch.Tensor, torch.Tensor] | None = None

    def __post_init__(self) -> None:
        self.differences = Differences(usual_255=self.within_255)

    def add(self, mine: torch.Tensor, theirs: torch.Tensor, index: int, file: str) -> None:
        largest, mean = self.differences.add(mine, theirs, self.view.scale)
        self.shapes.append(tuple(mine.shape))
        self.dtype = str(mine.dtype).removeprefix("torch.")
        if self.worst is None or mean > self.worst.mean_255:
            self.worst = Worst(index, file, largest, mean)
            self.images = (theirs, mine)


@dataclass(slots=True, eq=False)
class _Run:
    """What a verification holds while it runs."""

    request: PipelineRequest
    views: Sequence[_View]
    device: torch.device
    sizes_hw: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    left_out: list[LeftOutSample] = field(default_factory=list[LeftOutSample])
    _outputs: dict[str, _Output] = field(default_factory=dict[str, _Output])

    def go(self, progress: Reporter) -> None:
        request, indices = self.request, list(self.request.indices)
        progress.say(f"comparing the pixels of {len(indices)} samples")
        with LoadedPipeline(request.dataset, request.pipeline, self.device, request.seed) as loader:
            for start in range(0, len(indices), _CHUNK):
                samples, refused = loader.load(indices[start : start + _CHUNK])
                self.left_out += refused
                with one_torch_thread():
                    for number, (index, sample) in enumerate(samples.items(), start=start + len(refused) + 1):
                        self._sample(index, sample)
                        progress.count(number, len(indices))

    def _sample(self, index: int, sample: Any) -> None:
        source = source_of(self.request.dataset)
        (path,) = source.read([index]).names()
        image = open_as_torchvision(path)
        if isinstance(image, str):
            self.left_out.append(LeftOutSample(path, image))
            return
        size_hw = np.array([[image.height, image.width]])
        wanted = [(view, one) for view in self.views for one in self._theirs(view, image, size_hw, index)]
        mine = _images(sample)
        if len(mine) < len(wanted):
            has = "no image" if not mine else f"{len(mine)} image{'s' * (len(mine) > 1)}"
            raise _unfit(self.request.pipeline, f"it makes {len(wanted)}, and the pipeline's outputs hold {has}")
        for (where, own), (view, theirs) in zip(mine, wanted, strict=False):
            if own.shape != theirs.shape or own.dtype != theirs.dtype:
                raise _unfit(self.request.pipeline, _unlike(where, own, theirs, source.name_of(index)))
            output = self._outputs.setdefault(where, _Output(where, view, self.request.pipeline.bound.within_255))
            output.add(own, theirs, index, source.name_of(index))
        self.sizes_hw.append((image.height, image.width))

    def _theirs(self, view: _View, image: Any, size_hw: NDArray[np.int64], index: int) -> list[torch.Tensor]:
        """What the reference makes with what the pipeline draws for a sample."""
        draws = Draws(epoch_key(self.request.seed, 0), np.array([index]), np.array([0]))
        parameters = draw_parameters(view.plan, size_hw, draws, view.numbers)
        made = reference.run(view.transform, image, parameters, 0)
        return [as_tensor(one) for one in (made if isinstance(made, tuple) else (made,))]

    def checks(self) -> tuple[OutputCheck, ...]:
        """What every image output is off, as far as it was verified."""
        return tuple(map(self._check, self._outputs.values()))

    def _check(self, output: _Output) -> OutputCheck:
        spread = output.differences.spread()
        return OutputCheck(
            path=output.path,
            num_samples=len(output.shapes),
            shape=output.shapes[0],
            sizes_vary=len(set(output.shapes)) > 1,
            dtype=output.dtype,
            spread=spread,
            worst=output.worst,
            exceeded=self._exceeded(output, spread),
        )

    def _exceeded(self, output: _Output, spread: Spread) -> str:
        bound = self.request.pipeline.bound
        if 1.0 - spread.share_beyond >= bound.share:
            return ""
        name = self.request.pipeline.name
        farthest = f"; farthest in {output.worst.file}" if output.worst else ""
        several = "; its transforms count on from each other, one by one" if len(self.views) > 1 else ""
        hint = (
            f". The differences are large: a reference gets the pipeline's draws only where it draws in the pipeline's "
            f"order, op by op{several}; compare what gpufeed explain lists as draws with the order of @{name}.reference"
            if spread.mean_255 > _LARGE_MEAN_255
            else f". Mend it, or declare what is right by @{name}.reference(within_255=..., share=...)"
        )
        return (
            f"{100 * (1.0 - spread.share_beyond):.5g} % of {output.path}'s values are within {bound.within_255:g}/255 "
            f"of the reference's, and {100 * bound.share:.6g} % must be{farthest}{hint}"
        )

    def pictures(self) -> Iterator[Picture]:
        """The worst sample of each image output."""
        for output in self._outputs.values():
            if output.worst is not None and output.images is not None:
                plan = output.view.plan
                yield Picture(f"output {output.path}", output.worst, *output.images, len(plan.ops), plan)


def _images(sample: Any) -> list[tuple[str, torch.Tensor]]:
    """The outputs of a sample that are images, on the host, with their places."""
    found = zip(leaf_paths(sample), leaves_of(sample), strict=True)
    return [(path, leaf.as_subclass(torch.Tensor).cpu()) for path, leaf in found if _is_image(leaf)]


def _is_image(leaf: object) -> bool:
    if not isinstance(leaf, torch.Tensor) or leaf.ndim != 3:
        return False
    return leaf.shape[0] in (1, 3) or leaf.shape[-1] in (1, 3)


def _unlike(where: str, mine: torch.Tensor, theirs: torch.Tensor, file: str) -> str:
    own, wanted = (f"{str(one.dtype).removeprefix('torch.')} {tuple(one.shape)}" for one in (mine, theirs))
    way_out = "make both end alike"
    if mine.dtype == theirs.dtype and mine.permute(2, 0, 1).shape == theirs.shape:
        way_out = "return ops.to_chw(image) from the pipeline"
    elif mine.dtype != theirs.dtype:
        way_out = "make both end in the same dtype, as by ops.normalize, and ToDtype(..., scale=True) and Normalize"
    return f"it ends in {wanted}, and the pipeline's {where} is {own} for {file}; {way_out}"


def pipeline_to_json(verification: PipelineVerification) -> str:
    """The verification as JSON text, with the schema's name and version, ending in a newline."""
    document = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "kind": "pipeline",
        **asdict(verification),
        "failures": list(verification.failures),
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"
