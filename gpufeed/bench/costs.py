"""What each part of loading an image costs one thread: reading, decoding, and every transform in its order."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from PIL import Image

from gpufeed.bench.one_thread import one_torch_thread
from gpufeed.bench.results import Cost
from gpufeed.bench.workload import Workload
from gpufeed.errors import UnsupportedError
from gpufeed.pipelines import Pipeline

__all__ = ["NUM_IMAGES", "leaves", "measure_costs"]

NUM_IMAGES = 48
_CUT = 20  # one in so many at each end doesn't count: an interruption by something else costs milliseconds

_Part = tuple[str, Callable[[Any], Any]]


def measure_costs(workload: Workload, num_images: int = NUM_IMAGES) -> tuple[Cost, ...]:
    """The costs on torch's side: the file's bytes, Pillow's decoding, and the reference transform's leaves.

    They are measured by running one after the other on some of the images, in the calling thread, with torch's own
    threads off as in a worker process. A part's cost is the mean over the images, so that a transform that is applied
    to a fifth of them costs a fifth; the fastest and the slowest twentieth are left out.

    Args:
        workload: a transform, or a pipeline with a reference; its samples are files.
        num_images: how many are taken, spread over the workload.

    Raises:
        UnsupportedError: the samples aren't files, or the pipeline has no single reference.
    """
    parts = [("read", _read), ("decode", _decode), *_named(leaves(_reference(workload)))]
    if not os.path.isfile(workload.paths[0]):
        raise UnsupportedError("the samples of this source aren't files")
    paths = _spread(workload.paths, num_images)
    with one_torch_thread():
        times_s = np.array([_times_s(path, parts) for path in [paths[0], *paths]][1:])  # the first one warms up
    return tuple(Cost(name, _trimmed_mean(times_s[:, place])) for place, (name, _) in enumerate(parts))


def _reference(workload: Workload) -> Any:
    subject = workload.load_subject()
    if not isinstance(subject, Pipeline):
        return subject
    if not subject.has("reference"):
        raise UnsupportedError(f"the pipeline {subject.name} has no reference whose parts could be timed")
    reference = subject.make_reference()
    if isinstance(reference, (tuple, list)):
        raise UnsupportedError(f"the reference of {subject.name} makes several views of an image")
    return reference


def leaves(transform: Any) -> list[Callable[[Any], Any]]:
    """The transforms inside of nested Compose, in order; anything else is one."""
    if type(transform).__name__ not in ("Compose", "Sequential"):
        return [transform]
    inner = cast("Sequence[Any]", getattr(transform, "transforms", None) or list(transform))
    return [leaf for step in inner for leaf in leaves(step)]


def _named(steps: Sequence[Callable[[Any], Any]]) -> list[_Part]:
    return [(" ".join(str(step).split()), step) for step in steps]


def _spread(paths: Sequence[str], count: int) -> list[str]:
    distinct = list(dict.fromkeys(paths))
    return [distinct[len(distinct) * place // count] for place in range(count)]


def _read(path: Any) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _decode(content: Any) -> Image.Image:
    with Image.open(io.BytesIO(content)) as image:
        return image.convert("RGB")


def _times_s(path: str, parts: Sequence[_Part]) -> list[float]:
    value: Any = path
    times_s: list[float] = []
    for _, part in parts:
        started_s = time.perf_counter()
        value = part(value)
        times_s.append(time.perf_counter() - started_s)
    return times_s


def _trimmed_mean(values: Any) -> float:
    cut = len(values) // _CUT
    return float(np.sort(values)[cut : len(values) - cut].mean())
