"""``gpufeed verify``: torchvision's transform and gpufeed on the same files with the same draws."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torchvision.transforms import v2

from gpufeed import reference
from gpufeed.bench.environment import describe
from gpufeed.bench.images import ImageFolderFiles
from gpufeed.bench.one_thread import one_torch_thread
from gpufeed.bench.progress import Reporter
from gpufeed.bench.transforms import BUILT_IN, load_transform
from gpufeed.bounds import DECODE_BOUNDS
from gpufeed.devices import resolve_device
from gpufeed.draws import Draws, epoch_key
from gpufeed.errors import ArgumentError, UnsupportedError
from gpufeed.inspect.distributions import compare_draws
from gpufeed.inspect.explain.explanation import ENDS_IN_PIL
from gpufeed.inspect.places import numbers_of_ops
from gpufeed.inspect.side_by_side import Picture, check_save_target, write_pictures
from gpufeed.inspect.subjects import transform_of_file, transform_of_weights
from gpufeed.inspect.verify.device import runner_for
from gpufeed.inspect.verify.differences import as_tensor, full_scales, same_bits
from gpufeed.inspect.verify.files import Loaded, evenly, open_as_torchvision
from gpufeed.inspect.verify.ops import DECODE, OpAt, OpJudge, OpRun, Runner, as_image, batched, ops_at, walk
from gpufeed.inspect.verify.results import DrawCheck, LeftOutSample, OpCheck, Verification, WholeCheck
from gpufeed.inspect.verify.whole import WholeJudge
from gpufeed.parameters import BatchParameters, draw_parameters
from gpufeed.placement import Placement, place
from gpufeed.plan import DECODED, Plan
from gpufeed.reference.values import row_of
from gpufeed.tail import Tail
from gpufeed.translation import Translation, translate

__all__ = ["Request", "verify"]

_CHUNK = 8
"""Samples of a batch: mixed files, and yet whole decoded photographs of eight fit into memory twice."""

_MAX_PICTURES = 8


@dataclass(frozen=True, slots=True)
class Request:
    """What to verify.

    Attributes:
        files: the image folder.
        data: what it is, in words.
        transform: ``train``, ``eval`` or ``FILE.py:NAME``; or torchvision's name of weights.
        num_samples: how many files, evenly over the list.
        device: ``auto``, ``cpu`` or ``cuda``, as `gpufeed.DataLoader` takes it.
        seed: of the draws.
        weights: whether ``transform`` names weights.
        save: a folder for side-by-side pictures; ``None``: none are made.
        loaded: the transform itself, where the file has run already.
    """

    files: ImageFolderFiles
    data: str
    transform: str
    num_samples: int = 256
    device: str = "auto"
    seed: int = 0
    weights: bool = False
    save: Path | None = None
    loaded: Callable[[Any], Any] | None = None


def verify(request: Request, progress: Reporter) -> Verification:
    """Run both on the same files and judge every op, the whole and the draws.

    Ctrl-C ends it early: what was verified until then is returned, ``interrupted``.

    Raises:
        TranslationError: listing every part of the transform that can't be translated.
        UnsupportedError: the device can't do the plan, or the transform doesn't end in a tensor.
        ArgumentError: a wrong value, a file that can't be run, or no file that could be verified.
    """
    started_s = time.monotonic()
    if request.save is not None:
        check_save_target(request.save)
    transform = _transform_of(request)
    translation = translate(transform)
    plan = translation.require()
    if plan.output.container == "pil":
        raise UnsupportedError(ENDS_IN_PIL)
    device = resolve_device(request.device)
    placement = place(plan, "cuda" if device.type == "cuda" else "cpu").require()
    files = evenly(request.files, request.num_samples)
    run = _Run(request, transform, placement, device, files, numbers_of_ops(translation.steps))
    interrupted = False
    draws: tuple[tuple[DrawCheck, ...], tuple[str, ...]] = ((), ())
    pictures: tuple[str, ...] = ()
    try:
        with run.loaders():
            run.pixels(progress)
            if not run.sizes_hw:
                raise ArgumentError(_nothing_left(run.left_out))
            draws = run.draws(translation, progress)
            if request.save is not None:
                progress.say("saving pictures")
                pictures = write_pictures(request.save, list(run.pictures()))
    except KeyboardInterrupt:
        if not run.sizes_hw:
            raise
        interrupted = True
    return Verification(
        data=request.data,
        root=request.files.root,
        num_files=len(request.files),
        num_chosen=len(run.files),
        transform=request.transform,
        transform_text=str(transform),
        plan=str(plan),
        fingerprint=plan.fingerprint(),
        device=str(device),
        device_name=torch.cuda.get_device_name(device) if device.type == "cuda" else "",
        seed=request.seed,
        elapsed_s=time.monotonic() - started_s,
        interrupted=interrupted,
        ops=run.ops(),
        whole=run.whole(),
        draws=draws[0],
        undrawn=draws[1],
        left_out=tuple(run.left_out),
        pictures=pictures,
        environment=describe(),
    )


def _transform_of(request: Request) -> Callable[[Any], Any]:
    if request.loaded is not None:
        return request.loaded
    if request.weights:
        return cast("Callable[[Any], Any]", transform_of_weights(request.transform))
    if request.transform in BUILT_IN:
        return load_transform(request.transform)
    return cast("Callable[[Any], Any]", transform_of_file(request.transform))


def _nothing_left(left_out: list[LeftOutSample]) -> str:
    first = left_out[0]
    return f"none of the {len(left_out)} files could be loaded; the first is {first.file}: {first.reason}"


@dataclass(slots=True, eq=False)
class _Run:
    """What a verification holds while it runs."""

    request: Request
    transform: Callable[[Any], Any]
    placement: Placement
    device: torch.device
    files: ImageFolderFiles
    numbers: Mapping[str, str]
    sizes_hw: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    left_out: list[LeftOutSample] = field(default_factory=list[LeftOutSample])
    _places: dict[str, OpAt] = field(init=False)
    _judges: dict[str, OpJudge] = field(init=False)
    _whole: WholeJudge = field(init=False)
    _runner: Runner = field(init=False)
    _in_a_row: Tail = field(init=False)
    _decoder: Loaded = field(init=False)
    _loader: Loaded = field(init=False)

    def __post_init__(self) -> None:
        plan, device = self.plan, self.placement.device
        scales = full_scales(plan)
        self._places = {at.place: at for at in ops_at(plan, device, self.numbers)}
        decoder = OpJudge(
            DECODE, "the decoder", "the decoder", "decode", DECODED, DECODE_BOUNDS[device], scales[0], resamples=False
        )
        self._judges = {DECODE: decoder, **{name: OpJudge.of(at) for name, at in self._places.items()}}
        self._whole = WholeJudge(scales[-1], on_cpu=device == "cpu")
        self._runner = runner_for(self.placement, self.device)
        self._in_a_row = Tail(place(plan, "cpu", fuse=False))

    @property
    def plan(self) -> Plan:
        return self.placement.plan

    @contextmanager
    def loaders(self) -> Generator[None]:
        """The real loader, twice: with nothing to do but to decode, and with the transform."""
        seed = self.request.seed
        with (
            Loaded(self.files, v2.PILToTensor(), self.device, seed) as self._decoder,
            Loaded(self.files, self.transform, self.device, seed) as self._loader,
        ):
            yield

    def pixels(self, progress: Reporter) -> None:
        """Every op and the whole, on every file."""
        count = len(self.files)
        progress.say(f"comparing the pixels of {count} samples")
        for start in range(0, count, _CHUNK):
            indices = range(start, min(start + _CHUNK, count))
            decoded, refused = self._decoder.load(indices)
            yielded, also_refused = self._loader.load(list(decoded))
            self.left_out += [*refused, *also_refused]
            with one_torch_thread():
                for index in indices:
                    if index in yielded:
                        self._sample(index, decoded[index], yielded[index])
                    progress.count(index + 1, count)

    def _sample(self, index: int, decoded: torch.Tensor, mine: torch.Tensor) -> None:
        file = self.files.paths[index]
        image = open_as_torchvision(file)
        if isinstance(image, str):
            self.left_out.append(LeftOutSample(file, image))
            return
        opened = as_tensor(image)
        parameters = self._parameters(index, image)
        steps = list(walk(self.plan, image, parameters, 0))
        ends: dict[str, torch.Tensor] = {}
        if self._judges[DECODE].add(decoded, opened, index, file):
            ends[DECODE] = self._rest(as_image(decoded[None], image), steps)
        for number, step in enumerate(steps):
            ours = self._ours(step)
            if self._judges[step.place].add(ours, batched(step.after), index, file):
                ends[step.place] = self._rest(as_image(ours, step.after), steps[number + 1 :])
        traced = as_tensor(steps[-1].after if steps else image)
        for where, judge in self._judges.items():
            judge.pass_on(ends.get(where, traced), traced, self._whole.scale)
        theirs = as_tensor(reference.run(self.transform, image, parameters, 0))
        like_ops = True
        if self.device.type == "cpu" and decoded.shape == opened.shape:
            like_ops = same_bits(mine, self._in_a_row.run_one(decoded, parameters, 0))
        like_plan = same_bits(theirs, traced)
        self._whole.add(mine, theirs, index, file, like_ops=like_ops, like_plan=like_plan)
        self.sizes_hw.append((image.height, image.width))

    def _rest(self, image: reference.Image, steps: Sequence[OpRun]) -> torch.Tensor:
        """What torchvision makes of an image with what is left to do."""
        for step in steps:
            image = reference.apply(self._places[step.place].op, image, row_of(step.value, 0))
        return as_tensor(image)

    def _parameters(self, index: int, image: Any) -> BatchParameters:
        """What the loader draws for a sample."""
        draws = Draws(epoch_key(self.request.seed, 0), np.array([index]), np.array([0]))
        return draw_parameters(self.plan, np.array([[image.height, image.width]]), draws)

    def _ours(self, step: OpRun) -> torch.Tensor:
        """Our result of one op on the oracle's input."""
        return self._runner(self._places[step.place], batched(step.before), step.value)

    def draws(self, translation: Translation, progress: Reporter) -> tuple[tuple[DrawCheck, ...], tuple[str, ...]]:
        """The distributions of what is drawn, for files of these sizes; and the leaves that can't be compared."""
        if not self.plan.is_random:
            return (), ()
        progress.say("comparing the distributions of the draws")
        return compare_draws(translation, np.array(self.sizes_hw), self.request.seed)

    def ops(self) -> tuple[OpCheck, ...]:
        """What every op is off, as far as it was verified."""
        return tuple(judge.check() for judge in self._judges.values())

    def whole(self) -> WholeCheck | None:
        """What the whole is off, likewise."""
        return self._whole.check(self.ops())

    def pictures(self) -> Iterator[Picture]:
        """The worst sample of each op that differs, then that of the whole; they are computed once more."""
        checks = [check for check in self.ops() if check.worst is not None and check.worst.largest_255 > 0.0]
        checks.sort(key=lambda check: (not check.exceeded, -check.worst.mean_255 if check.worst else 0.0))
        for check in sorted(checks[: _MAX_PICTURES - 1], key=lambda check: list(self._judges).index(check.place)):
            picture = self._picture_of(check)
            if picture is not None:
                yield picture
        whole = self.whole()
        if whole is not None and whole.worst is not None:
            index = whole.worst.index
            image = open_as_torchvision(whole.worst.file)
            yielded, _ = self._loader.load([index])
            if index in yielded and not isinstance(image, str):
                with one_torch_thread():
                    theirs = as_tensor(reference.run(self.transform, image, self._parameters(index, image), 0))
                yield Picture("whole", whole.worst, theirs, yielded[index], len(self.plan.ops), self.plan)

    def _picture_of(self, check: OpCheck) -> Picture | None:
        worst = check.worst
        assert worst is not None
        image = open_as_torchvision(worst.file)
        if isinstance(image, str):  # it has changed meanwhile
            return None
        if check.place == DECODE:
            decoded, _ = self._decoder.load([worst.index])
            mine = decoded.get(worst.index)
            return None if mine is None else Picture(DECODE, worst, as_tensor(image), mine, 0, self.plan)
        with one_torch_thread():
            for step in walk(self.plan, image, self._parameters(worst.index, image), 0):
                if step.place == check.place:
                    position = int(check.place.partition(".")[0]) + 1
                    title = " ".join(filter(None, ("op", check.number, check.name)))
                    return Picture(title, worst, batched(step.after), self._ours(step), position, self.plan)
        return None
