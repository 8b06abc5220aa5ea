"""Loaders whose cost is known by construction: every part does its work and takes a given time besides.

Named as ``known_contenders.py:NAME``, with the times as the contender's options. [Unit: second, for an image unless it
says otherwise]
"""

from __future__ import annotations

import io
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import torch
from PIL import Image

from gpufeed.bench.workload import Workload

_ONE_DISK = threading.Lock()
_BATCHES_AHEAD = 3


class _Epochs:
    def __init__(self, begin: Callable[[], Iterator[object]]) -> None:
        self._begin = begin

    def __iter__(self) -> Iterator[object]:
        return self._begin()


def _read(path: str, read_s: float, throttled_s: float) -> bytes:
    """``read_s``: each thread waits by itself, as for a far server; ``throttled_s``: one after the other."""
    time.sleep(read_s)
    if throttled_s:
        with _ONE_DISK:
            time.sleep(throttled_s)
    with open(path, "rb") as file:
        return file.read()


@contextmanager
def loader(
    workload: Workload,
    read_s: float = 0.0,
    throttled_s: float = 0.0,
    per_batch_s: float = 0.0,
    decodes: bool = True,
) -> Iterator[_Epochs]:
    """Reads, decodes and transforms in the workload's threads; a batch then takes ``per_batch_s`` in the caller's.

    ``decodes``: if not, a thumbnail of each file is decoded once, before, and takes its place.
    """
    transform = workload.load_transform()

    def thumbnail(path: str) -> Image.Image:
        with Image.open(path) as image:
            image.draft("RGB", (image.width // 8, image.height // 8))
            return image.convert("RGB").resize(image.size)

    thumbnails = {} if decodes else {path: thumbnail(path) for path in set(workload.paths)}

    def load(path: str) -> torch.Tensor:
        content = _read(path, read_s, throttled_s)
        image = Image.open(io.BytesIO(content)).convert("RGB") if decodes else thumbnails[path]
        return transform(image)

    with ThreadPoolExecutor(workload.num_threads) as threads:

        def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
            chosen = [
                slice(start, start + workload.batch_size) for start in range(0, len(workload), workload.batch_size)
            ]
            ahead = deque[list[Future[torch.Tensor]]]()
            for index, batch in enumerate(chosen):
                while len(ahead) < _BATCHES_AHEAD and index + len(ahead) < len(chosen):
                    paths = workload.paths[chosen[index + len(ahead)]]
                    ahead.append([threads.submit(load, path) for path in paths])
                images = torch.stack([image.result() for image in ahead.popleft()])
                time.sleep(per_batch_s)
                yield images, torch.tensor(workload.targets[batch])

        yield _Epochs(batches)


@contextmanager
def storage(workload: Workload, read_s: float = 0.0, throttled_s: float = 0.0) -> Iterator[_Epochs]:
    """The bound of `loader`'s reading."""
    with ThreadPoolExecutor(workload.num_threads) as threads:

        def batches() -> Iterator[int]:
            for start in range(0, len(workload), workload.batch_size):
                paths = workload.paths[start : start + workload.batch_size]
                yield sum(1 for _ in threads.map(lambda path: _read(path, read_s, throttled_s), paths))

        yield _Epochs(batches)


@contextmanager
def paced(workload: Workload, image_s: float = 0.01) -> Iterator[_Epochs]:
    """One image each ``image_s``, by the clock: what a sleep takes too long the next takes less."""

    def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        due_s = time.monotonic()
        images = torch.rand(len(workload), 3, 5, 7, generator=torch.Generator().manual_seed(0))
        targets = torch.tensor(workload.targets)
        for batch in zip(images.split(workload.batch_size), targets.split(workload.batch_size), strict=True):
            due_s += image_s * len(batch[0])
            time.sleep(max(0.0, due_s - time.monotonic()))
            yield batch

    yield _Epochs(batches)
