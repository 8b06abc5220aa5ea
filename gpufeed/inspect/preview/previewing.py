"""``gpufeed preview``: a few samples as the model will see them, epoch after epoch, and as the reference makes them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import PIL.Image
import torch
from torchvision.datasets import ImageFolder

from gpufeed import reference
from gpufeed.bench.progress import Reporter
from gpufeed.devices import resolve_device
from gpufeed.draws import Draws, epoch_key
from gpufeed.errors import ArgumentError, SampleError, TranslationError, UnsupportedError
from gpufeed.inspect.example_data import example_data, open_data
from gpufeed.inspect.explain.explanation import ENDS_IN_PIL
from gpufeed.inspect.preview.hints import Hints, Undoing, hints_of, hints_of_fields, normalized_by
from gpufeed.inspect.preview.leaves import Drawable, ImageLeaf, arrays_of, as_pixels, class_text, found_in, tiles_of
from gpufeed.inspect.preview.results import Preview, SampleRow, Strip, Tile
from gpufeed.inspect.verify.differences import as_tensor
from gpufeed.inspect.verify.files import open_as_torchvision
from gpufeed.loader import DataLoader
from gpufeed.parameters import draw_parameters
from gpufeed.pipelines import Pipeline
from gpufeed.pipelines.namespaces import kind_of
from gpufeed.pipelines.naming import load_subject
from gpufeed.plan import Plan
from gpufeed.recording import record
from gpufeed.sources.base import Source
from gpufeed.sources.folders import source_of
from gpufeed.translation import translate

__all__ = ["MAX_TILES", "Request", "preview"]

MAX_TILES = 1000
"""Views on a sheet: more would give a picture that no viewer opens."""

_CHUNK = 16
"""Samples of a batch."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to show.

    Attributes:
        subject: a pipeline or a torchvision transform, as it is named.
        data: a path; ``None``: example data.
        assignments: values for the pipeline's parameters, each ``NAME=VALUE``.
        num_samples: how many, evenly over the data; all where there are fewer.
        num_views: epochs, from 0 on.
        seed: of the draws.
        device: ``auto``, ``cpu`` or ``cuda``, as `gpufeed.DataLoader` takes it.

    Raises:
        ArgumentError: a number below 1, or too many together.
    """

    subject: str
    data: str | None = None
    assignments: tuple[str, ...] = ()
    num_samples: int = 8
    num_views: int = 6
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        for name, value in (("--samples", self.num_samples), ("--views", self.num_views)):
            if value < 1:
                raise ArgumentError(f"{name} must be at least 1, got {value}")
        if self.num_samples * self.num_views > MAX_TILES:
            raise ArgumentError(
                f"--samples times --views must be at most {MAX_TILES}, got {self.num_samples} times {self.num_views}: "
                "the sheet would be too large to look at"
            )
        if not -(2**63) <= self.seed < 2**63:
            raise ArgumentError(f"--seed must be in [-2**63, 2**63), got {self.seed}")


def preview(request: Request, progress: Reporter) -> Preview:
    """Load the samples and find out what can be drawn of them.

    Raises:
        ArgumentError: a wrong name or value, or data that can't be opened or of which no sample could be loaded.
        TranslationError: listing every part of a torchvision transform that can't be translated.
        UnsupportedError: a transform that doesn't end in a tensor, or outputs without an image.
        PipelineError: a mistake in the pipeline's file.
    """
    subject = _subject_of(request)
    device = resolve_device(request.device)
    with tempfile.TemporaryDirectory(prefix="gpufeed-preview-") as folder:
        if request.data is None:
            progress.say("making example images")
        opened, data = _opened(subject, request.data, Path(folder) / "examples")
        source = source_of(opened)
        if len(source) == 0:
            raise ArgumentError(f"{data} holds no samples; give DATA with images")
        run = _Run(request, subject, opened, source, device)
        return run.preview(data, progress)


def _subject_of(request: Request) -> Any:
    subject = load_subject(request.subject)
    if isinstance(subject, Pipeline):
        return subject.parse(request.assignments)
    if isinstance(subject, type) or not callable(subject):
        raise ArgumentError(
            f"{request.subject} is {kind_of(subject)}, neither a pipeline nor a transform; name an object such as "
            "Compose([...]), or a function under @gpufeed.pipeline"
        )
    if request.assignments:
        raise ArgumentError(
            f"-p gives values to a pipeline's parameters, and {request.subject} is {kind_of(subject)}; leave "
            f"-p {request.assignments[0]} out"
        )
    if translate(subject).require().output.container == "pil":
        raise UnsupportedError(ENDS_IN_PIL)
    return subject


def _opened(subject: Any, data: str | None, folder: Path) -> tuple[Any, str]:
    """The samples, and what they are in words."""
    if isinstance(subject, Pipeline):
        return open_data(subject, data, folder)
    root = str(example_data(folder).folders if data is None else Path(data).expanduser())
    try:
        dataset = cast(Any, ImageFolder)(root)
    except OSError as error:
        raise ArgumentError(
            f"{root} can't be opened as a folder with one sub-folder per class: {error}; give a path to data of this "
            "kind"
        ) from error
    return dataset, f"{len(dataset)} built-in example images" if data is None else data


def _evenly(length: int, count: int) -> list[int]:
    """Indices taken evenly over the data; all where there are fewer."""
    count = min(length, count)
    return [number * length // count for number in range(count)]


@dataclass(slots=True, eq=False)
class _Run:
    """What a preview holds while it is made."""

    request: Request
    subject: Any
    opened: Any
    source: Source
    device: torch.device
    left_out: list[str] = field(default_factory=list[str])

    def preview(self, data: str, progress: Reporter) -> Preview:
        """Everything that the sheet shows."""
        indices = _evenly(len(self.source), self.request.num_samples)
        names = _class_names(self.opened, ("category_names", "names", "classes"))
        target_names = _class_names(self.opened, ("classes",))  # COCO's targets are images' ids, not categories
        views = self._views(indices, progress)
        if not views:
            raise ArgumentError(f"none of the {len(indices)} samples could be loaded; {self.left_out[0]}")
        every = [sample for epochs in views.values() for sample in epochs]
        drawable = found_in(every, self._hints())
        if not drawable.images:
            raise UnsupportedError(
                f"there is no image among the outputs to draw; they are {', '.join(drawable.undrawn) or 'none'}; an "
                "image is (3, H, W), (1, H, W) or (H, W, 3), uint8 or float"
            )
        beneath = self._reference()
        progress.say("reading the originals" if beneath.transform is None else f"running {beneath.name}")
        originals = _Originals.of(self.source, list(views), names, target_names)
        rows: list[SampleRow] = []
        for index, epochs in views.items():
            progress.detail(f"{len(rows) + 1} of {len(views)}")
            strips = _own_strips(epochs, drawable, originals, originals.class_of(index))
            image = originals.images[index]
            if beneath.transform is not None and image is not None:
                strips = _woven(strips, self._reference_strips(beneath, index, image))
            rows.append(SampleRow(index, originals.caption(index, self.source), originals.tile(index), tuple(strips)))
        return Preview(
            title=f"gpufeed preview, {self.request.subject}{_values(self.subject)}",
            lines=(f"{data}; seed {self.request.seed}; on {self.device}", *_lines(drawable, every, beneath)),
            notes=(*self._notes(len(indices)), *beneath.notes, *originals.notes),
            rows=tuple(rows),
            class_names=names,
        )

    def _notes(self, num_found: int) -> list[str]:
        notes: list[str] = []
        if num_found < self.request.num_samples:
            notes.append(f"{self.request.num_samples} samples were asked for, and the data has {num_found}")
        return [*notes, *self.left_out]

    # What gpufeed makes ----------------------------------------------------------------------------------------------

    def _views(self, indices: Sequence[int], progress: Reporter) -> dict[int, list[dict[str, Any]]]:
        """Each sample's outputs by their paths, epoch after epoch; samples that can't be loaded are left out."""
        views: dict[int, list[dict[str, Any]]] = {index: [] for index in indices}
        batches: list[list[int]] = []
        loader = DataLoader(
            self.opened,
            pipeline=self.subject,
            batch_sampler=batches,
            collate_fn=lambda samples: samples,
            device=self.device,
            seed=self.request.seed,
        )
        progress.say(f"loading {self.request.num_views} views of {len(indices)} samples")
        with loader:
            for epoch in range(self.request.num_views):
                progress.detail(f"epoch {epoch}")
                for index, sample in self._epoch(loader, batches, epoch, views):
                    views[index].append(arrays_of(sample))
        return views

    def _epoch(
        self, loader: DataLoader, batches: list[list[int]], epoch: int, views: dict[int, Any]
    ) -> list[tuple[int, Any]]:
        while True:
            kept = list(views)
            batches[:] = [kept[start : start + _CHUNK] for start in range(0, len(kept), _CHUNK)]
            loader.set_epoch(epoch)
            try:
                samples = [sample for batch in loader for sample in batch]
            except SampleError as error:
                if error.index not in views:
                    raise
                del views[error.index]
                self.left_out.append(f"{Path(error.name).name} is left out: {error.cause}")
                continue
            return list(zip(kept, samples, strict=True))

    def _hints(self) -> Hints:
        if isinstance(self.subject, Pipeline):
            return hints_of(record(self.subject, "cpu", example=self.source.fields([0])))
        plan = translate(self.subject).require()
        count = plan.output.tuple_of
        paths = ["[0]"] if count is None else [f"[0][{number}]" for number in range(count)]
        return Hints(names={"[1]": "target"}, images=dict.fromkeys(paths, plan))

    # What the reference makes ----------------------------------------------------------------------------------------

    def _reference(self) -> _Reference:
        if not isinstance(self.subject, Pipeline):
            return _Reference("torchvision", self.subject, translate(self.subject).require())
        if not self.subject.has("reference"):
            return _Reference("reference", None, Plan(()))
        transform = self.subject.make_reference()
        try:
            plan = translate(transform).require()
        except TranslationError as error:
            note = f"the reference isn't shown, as it can't be given the same draws: {error}"
            return _Reference("reference", None, Plan(()), (note,))
        return _Reference("reference", transform, plan)

    def _reference_strips(self, beneath: _Reference, index: int, image: PIL.Image.Image) -> list[Strip]:
        """What the reference makes of a sample with the draws of each epoch, one strip for each of its images."""
        sizes_hw = np.array([[image.height, image.width]])
        made: list[Sequence[torch.Tensor]] = []
        for epoch in range(self.request.num_views):
            draws = Draws(epoch_key(self.request.seed, epoch), np.array([index]), np.array([0]))
            parameters = draw_parameters(beneath.plan, sizes_hw, draws)
            result = reference.run(beneath.transform, image, parameters, 0)
            made.append([as_tensor(one) for one in (result if isinstance(result, tuple) else (result,))])
        return [
            Strip(
                beneath.name,
                f"[{number}]" if len(made[0]) > 1 else "",
                tuple(
                    Tile(f"{beneath.name}, epoch {epoch}", _seen(images[number], beneath))
                    for epoch, images in enumerate(made)
                ),
            )
            for number in range(len(made[0]))
        ]


@dataclass(frozen=True, slots=True)
class _Reference:
    """What is shown beneath; ``transform`` is ``None`` where there is nothing."""

    name: Literal["torchvision", "reference"]
    transform: Callable[[Any], Any] | None
    plan: Plan
    notes: tuple[str, ...] = ()


def _seen(image: torch.Tensor, beneath: _Reference) -> Any:
    leaf = ImageLeaf("", False, Undoing(beneath.plan, ""))
    return as_pixels(arrays_of(image)["output"], leaf)


def _own_strips(
    epochs: Sequence[Mapping[str, Any]], drawable: Drawable, originals: _Originals, known: str
) -> list[Strip]:
    several = len(drawable.images) > 1
    tiles = [tiles_of(sample, drawable, originals.names, originals.target_names) for sample in epochs]
    strips: list[Strip] = []
    for number, image in enumerate(drawable.images):
        output = image.path if several else ""
        labels = [f"{f'{output} ' if several else 'gpufeed, '}epoch {epoch}" for epoch in range(len(tiles))]
        # the class is in the caption; beneath a view it is of interest where it is another one
        row = [
            replace(one[number], label=label, text="" if one[number].text == known else one[number].text)
            for label, one in zip(labels, tiles, strict=True)
        ]
        strips.append(Strip("gpufeed", output, tuple(row)))
    return strips


def _woven(own: Sequence[Strip], theirs: Sequence[Strip]) -> list[Strip]:
    """The reference's images beneath those that they belong to: one by one, further ones at the end."""
    pairs = [(one, theirs[number]) if number < len(theirs) else (one,) for number, one in enumerate(own)]
    return [*(strip for pair in pairs for strip in pair), *theirs[len(own) :]]


def _values(subject: Any) -> str:
    if not isinstance(subject, Pipeline) or not subject.values:
        return ""
    return f"({', '.join(f'{name}={value!r}' for name, value in subject.values.items())})"


def _lines(drawable: Drawable, samples: Sequence[Mapping[str, Any]], beneath: _Reference) -> list[str]:
    """How values were made visible."""
    lines: list[str] = []
    grouped: dict[str, list[str]] = {}
    for image in drawable.images:
        values = [sample[image.path] for sample in samples]
        shown = f"{_shape(values)} {values[0].dtype}; {image.undoing.words}"
        grouped.setdefault(shown, []).append(image.path)
    for shown, paths in grouped.items():
        several = f" {', '.join(paths)}" if len(drawable.images) > 1 else ""
        lines.append(f"gpufeed{several}: {shown}")
    if beneath.transform is not None:
        undoing = normalized_by(beneath.plan, "its")
        undone = "" if undoing is None else f"; {undoing.words}"
        lines.append(f"{beneath.name}: the same draws{undone}")
    for box in drawable.boxes:
        scale = "shares of the image's sides" if box.hint.normalized else "pixels"
        lines.append(f"boxes {box.path}: {box.hint.format} in {scale}")
    if drawable.undrawn:
        lines.append(f"not drawn: {', '.join(drawable.undrawn)}")
    return lines


def _shape(values: Sequence[Any]) -> str:
    """The shape of arrays, a dimension in which they differ as a star."""
    sides = [str(same[0]) if len(set(same)) == 1 else "*" for same in zip(*(v.shape for v in values), strict=True)]
    return f"({', '.join(sides)})"


def _class_names(dataset: object, attributes: Sequence[str]) -> dict[int, str]:
    """The names of classes, where the dataset, or one that it wraps, has one of the attributes."""
    seen: Any = dataset
    while seen is not None:
        for attribute in attributes:
            found = getattr(seen, attribute, None)
            if isinstance(found, Mapping):
                return {int(number): str(name) for number, name in cast("Mapping[Any, Any]", found).items()}
            if isinstance(found, (list, tuple)):
                return {number: str(name) for number, name in enumerate(cast("Sequence[Any]", found))}
        seen = getattr(seen, "dataset", None)
    return {}


@dataclass(frozen=True, slots=True, eq=False)
class _Originals:
    """The samples as they lie on disk, with the source's fields."""

    images: Mapping[int, PIL.Image.Image | None]
    reasons: Mapping[int, str]
    samples: Mapping[int, Mapping[str, Any]]
    drawable: Drawable
    names: Mapping[int, str]
    target_names: Mapping[int, str]

    @classmethod
    def of(
        cls, source: Source, indices: Sequence[int], names: Mapping[int, str], target_names: Mapping[int, str]
    ) -> _Originals:
        opened = {index: open_as_torchvision(source.name_of(index)) for index in indices}
        images = {index: image for index, image in opened.items() if not isinstance(image, str)}
        reasons = {index: reason for index, reason in opened.items() if isinstance(reason, str)}
        fields = source.fields(indices)
        samples: dict[int, dict[str, Any]] = {}
        for row, index in enumerate(indices):
            samples[index] = {}
            for name, values in fields.items():
                held = arrays_of(values[row])
                samples[index][name] = held.get("output", values[row])
            if index in images:
                samples[index][_IMAGE] = np.asarray(images[index])
        leaf = ImageLeaf(_IMAGE, True, Undoing(Plan(()), ""))
        complete = [samples[index] for index in indices if index in images]
        drawable = found_in(complete, hints_of_fields(source), images=[leaf]) if complete else Drawable(())
        return cls({index: images.get(index) for index in indices}, reasons, samples, drawable, names, target_names)

    @property
    def notes(self) -> tuple[str, ...]:
        """Which can't be shown."""
        return tuple(f"sample {index} has no original: {reason}" for index, reason in self.reasons.items())

    def class_of(self, index: int) -> str:
        """A sample's class in words; empty where it has none."""
        target = self.drawable.target
        return "" if target is None else class_text(self.samples[index][target], self.target_names)

    def caption(self, index: int, source: Source) -> str:
        """File, size and class."""
        image = self.images[index]
        size = "" if image is None else f"{image.width} x {image.height} pixels"
        parts = (Path(source.name_of(index)).name, f"sample {index}", size, self.class_of(index))
        return ",  ".join(filter(None, parts))

    def tile(self, index: int) -> Tile:
        """The original, with its labels."""
        if self.images[index] is None:
            return Tile("original", None, text="Pillow can't read it")
        (tile,) = tiles_of(self.samples[index], self.drawable, self.names, self.target_names)
        return replace(tile, label="original", text="")


_IMAGE = "(image)"
"""The path of the original among a source's fields, none of which can have this name."""
