"""What no loader can exceed: a part of the work done alone, by the fastest way there is, on the workload's threads.

Each factory enters an iterable as `gpufeed.bench.contenders` says. A bound that makes no sense for the workload raises
:class:`~gpufeed.errors.UnsupportedError`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpufeed.bench.workload import Workload
from gpufeed.errors import UnsupportedError

if TYPE_CHECKING:
    from gpufeed.bench.contenders import Batch, Epochs

__all__ = ["cached", "crop_windows", "decode", "region_decode", "storage", "synthetic"]

_IN_FLIGHT = 2  # batches of the decoder's graph: one is always there to begin with
_CACHED_BATCHES = {"cpu": 4, "cuda": 20}  # float32 batches of 64 ImageNet crops take 39 MB each


class _Restarted:
    """Something that begins anew with each ``iter()``."""

    def __init__(self, begin: Callable[[], Iterator[Batch]]) -> None:
        self._begin = begin

    def __iter__(self) -> Iterator[Batch]:
        return self._begin()


# The disk -------------------------------------------------------------------------------------------------------------


@contextmanager
def storage(workload: Workload) -> Generator[Epochs]:
    """Every file is read whole, each thread one at a time, and thrown away.

    Raises:
        UnsupportedError: the samples aren't files.
    """
    _refuse_what_is_no_file(workload)
    with ThreadPoolExecutor(workload.num_threads) as threads:

        def begin() -> Iterator[int]:
            # All are handed to the threads at once: nothing waits for a batch to be complete.
            sizes = threads.map(_read, workload.paths)
            for index in range(workload.num_batches):
                yield sum(1 for _ in islice(sizes, workload.size_of(index)))

        yield _Restarted(begin)


def _read(path: str) -> int:
    with open(path, "rb", buffering=0) as file:
        return len(file.read())


def _refuse_what_is_no_file(workload: Workload) -> None:
    if not os.path.isfile(workload.paths[0]):
        raise UnsupportedError("the samples of this source aren't files")


# The decoder ----------------------------------------------------------------------------------------------------------


@contextmanager
def decode(workload: Workload) -> Generator[Epochs]:
    """Every image is read and decoded whole to RGB by DALI: in threads, or on the GPU where batches end there.

    Raises:
        UnsupportedError: the samples aren't files.
    """
    _refuse_what_is_no_file(workload)
    yield _Decoded(workload, None)


@contextmanager
def region_decode(workload: Workload) -> Generator[Epochs]:
    """As `decode`, but only the window that the transform's crop draws for each image, the same in every epoch.

    Raises:
        UnsupportedError: the samples aren't files, or the transform doesn't begin with a crop.
    """
    _refuse_what_is_no_file(workload)
    if workload.is_pipeline:
        raise UnsupportedError("what a pipeline decodes is its own")
    yield _Decoded(workload, crop_windows(workload.load_transform(), workload.paths))


class _Decoded:
    """An epoch of decoding, with the batches' graph kept from one to the next."""

    def __init__(self, workload: Workload, windows: NDArray[np.int64] | None) -> None:
        from gpufeed.sources.base import Paths

        self._workload = workload
        self._windows = windows
        self._paths = [
            Paths.of(workload.paths[start : start + workload.batch_size])
            for start in range(0, len(workload), workload.batch_size)
        ]
        self._graph: Any = None

    def __iter__(self) -> Iterator[int]:
        if self._graph is None:
            self._graph = _decode_graph(self._workload, has_windows=self._windows is not None)
            self._graph.build()
        scheduled = min(_IN_FLIGHT, len(self._paths))
        for index in range(scheduled):
            self._schedule(index)
        for _ in self._paths:
            (images,) = self._graph.outputs()
            yield len(images)
            if scheduled < len(self._paths):
                self._schedule(scheduled)
                scheduled += 1

    def _schedule(self, index: int) -> None:
        from gpufeed.graph.decoding import window_inputs

        self._graph.feed_input("paths", self._paths[index].matrix)
        if self._windows is not None:
            start = index * self._workload.batch_size
            for name, values in window_inputs(self._windows[start : start + self._workload.batch_size]).items():
                self._graph.feed_input(name, values)
        self._graph.schedule_run()


def _decode_graph(workload: Workload, *, has_windows: bool) -> Any:
    from gpufeed.graph.untyped import ONE_BATCH_A_RUN, fn, pipeline_def, types

    on_gpu = workload.device != "cpu"
    options: dict[str, Any] = {
        "device": "mixed" if on_gpu else "cpu",
        "output_type": types.RGB,
        "adjust_orientation": False,  # as torchvision's folder does
        "jpeg_fancy_upsampling": True,  # as gpufeed and Pillow do
    }

    def define() -> Any:
        paths = fn.external_source(name="paths", ndim=1, dtype=types.UINT8, batch=True)
        content = fn.io.file.read(paths, dont_use_mmap=True)
        if not has_windows:
            return fn.decoders.image(content, **options)
        start, shape = (fn.external_source(name=name, ndim=1, dtype=types.INT32) for name in ("start", "shape"))
        return fn.decoders.image_slice(
            content, start, shape, axes=(0, 1), normalized_anchor=False, normalized_shape=False, **options
        )

    return pipeline_def(define)(
        batch_size=workload.batch_size,
        num_threads=workload.num_threads,
        device_id=torch.device(workload.device).index if on_gpu else None,
        **ONE_BATCH_A_RUN,
    )


def crop_windows(transform: Any, paths: Sequence[str]) -> NDArray[np.int64]:
    """The windows that a transform's first step crops, one draw for each image.

    Args:
        transform: a Compose whose first step is RandomResizedCrop, RandomCrop or CenterCrop, of either generation.
        paths: image files, whose headers are read.

    Returns:
        (len(paths), 4) top, left, height, width in pixels, inside each image.

    Raises:
        UnsupportedError: it begins with something else.
    """
    draw = _window_drawer(_first(transform))
    sizes: dict[str, tuple[int, int]] = {}
    return np.array([draw(_size_of(path, sizes)) for path in paths], dtype=np.int64)


_Window = tuple[int, int, int, int]


def _first(transform: Any) -> Any:
    while type(transform).__name__ == "Compose" and transform.transforms:
        transform = transform.transforms[0]
    return transform


def _window_drawer(step: Any) -> Callable[[tuple[int, int]], _Window]:
    """What draws a window inside an image of a size (height, width), by torchvision's own arithmetic."""
    from torchvision import transforms as tv

    match type(step).__name__:
        case "RandomResizedCrop":
            get = tv.RandomResizedCrop.get_params
            return lambda size_hw: get(_shaped(size_hw), list(step.scale), list(step.ratio))
        case "RandomCrop":
            return lambda size_hw: tv.RandomCrop.get_params(_shaped(size_hw), _inside(size_hw, step.size))
        case "CenterCrop":
            return lambda size_hw: _centred(size_hw, _inside(size_hw, step.size))
        case kind:
            raise UnsupportedError(f"the transform begins with {kind}, not with a crop, so whole images are needed")


def _shaped(size_hw: tuple[int, int]) -> torch.Tensor:
    """A tensor that has this height and width and takes no memory: all that torchvision asks of an image here."""
    return torch.empty(1).expand(3, *size_hw)


def _inside(size_hw: tuple[int, int], wanted_hw: Sequence[int]) -> tuple[int, int]:
    return min(size_hw[0], int(wanted_hw[0])), min(size_hw[1], int(wanted_hw[1]))


def _centred(size_hw: tuple[int, int], window_hw: tuple[int, int]) -> _Window:
    top, left = ((side - window) // 2 for side, window in zip(size_hw, window_hw, strict=True))
    return top, left, *window_hw


def _size_of(path: str, known: dict[str, tuple[int, int]]) -> tuple[int, int]:
    if path not in known:
        from PIL import Image

        with warnings.catch_warnings(), Image.open(path) as image:
            warnings.simplefilter("ignore")
            known[path] = (image.height, image.width)
    return known[path]


# The device -----------------------------------------------------------------------------------------------------------


@contextmanager
def cached(workload: Workload) -> Generator[Epochs]:
    """The first batches of gpufeed's loader, over and over: loading costs nothing, and a step takes what it takes.

    Raises:
        UnsupportedError: gpufeed can't do the workload.
    """
    from gpufeed import replay
    from gpufeed.bench.contenders.gpufeed_loader import gpufeed

    most = _CACHED_BATCHES[torch.device(workload.device).type] * workload.batch_size
    few = replace(
        workload,
        paths=workload.paths[:most],
        targets=workload.targets[:most],
        indices=None if workload.indices is None else workload.indices[:most],
    )
    with gpufeed(few) as epochs:
        batches = replay(epochs, few.num_batches).batches
    yield _Restarted(lambda: islice(cycle(batches), workload.num_batches))


@contextmanager
def synthetic(workload: Workload) -> Generator[Epochs]:
    """One batch of noise on the device, handed out again and again; of the shape that the transform gives.

    Raises:
        UnsupportedError: this is a pipeline, whose outputs may have any structure.
    """
    from torchvision.datasets.folder import default_loader

    if workload.is_pipeline:
        raise UnsupportedError("a pipeline's outputs may have any structure")
    like: torch.Tensor = workload.load_transform()(default_loader(workload.paths[0]))
    shape = (min(workload.batch_size, len(workload)), *like.shape)
    images = torch.rand(shape, generator=torch.Generator().manual_seed(workload.seed)).to(workload.device, like.dtype)
    targets = torch.tensor(workload.targets[: len(images)], device=workload.device)
    yield _Restarted(lambda: iter([(images, targets)] * workload.num_batches))
