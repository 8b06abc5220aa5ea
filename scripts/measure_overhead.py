#!/usr/bin/env python3
"""What gpufeed's own Python costs: memory for many paths, CPU time per sample, and the gap between epochs.

Run by hand: ``python scripts/measure_overhead.py``. Each figure is taken in a process of its own, a few times over; the
median is shown with all values.

- **Memory** [Unit: MB]: resident memory that a running epoch of ``gpufeed.DataLoader(shuffle=True)`` over ``--samples``
  entries, which repeat a few real files, adds to what the dataset object and torch's own samplers hold. What a loader
  over 1,000 entries takes, DALI's own memory and the batches, is shown apart.
- **CPU time** [Unit: us per sample]: of the iterating thread and the feed's thread, which run Python; those of the
  pool and of DALI are not counted. At ``--batch-size``, without a ``target_transform``.
- **Gap between epochs** [Unit: batch intervals]: from the last batch of an epoch to the first of the next one, less one
  median interval within epochs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

WARM_UP_EPOCHS = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1_000_000, help="entries for the memory (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=256, help="default: %(default)s")
    parser.add_argument(
        "--batches", type=int, default=40, help="batches per epoch for the times (default: %(default)s)"
    )
    parser.add_argument("--epochs", type=int, default=6, help="epochs for the times (default: %(default)s)")
    parser.add_argument(
        "--images", type=Path, help="an image folder; without it, small photographs-like JPEGs are made"
    )
    parser.add_argument("--repeat", type=int, default=3, help="processes per figure (default: %(default)s)")
    parser.add_argument("--child", choices=sorted(CHILDREN), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(CHILDREN[options.child](options)))
        return
    with tempfile.TemporaryDirectory() as folder:
        if options.images is None:
            options.images = make_images(Path(folder))
        report(options)


def report(options: argparse.Namespace) -> None:
    memory = {kind: measure(options, kind) for kind in ("torch", "gpufeed", "gpufeed few")}
    added = [
        (every["mb"] - few["mb"]) - theirs["mb"]
        for every, few, theirs in zip(memory["gpufeed"], memory["gpufeed few"], memory["torch"], strict=True)
    ]
    show(f"memory added for {options.samples:,} samples", "MB", added)
    show("  dataset and torch's sampler alone", "MB", [each["mb"] for each in memory["torch"]])
    show("  DALI, graphs and batches, 1,000 samples", "MB", [each["mb"] for each in memory["gpufeed few"]])
    times = measure(options, "times")
    for key, unit in (
        ("us per sample, iterating thread", "us"),
        ("us per sample, feed's thread", "us"),
        ("us per sample, both", "us"),
        ("interval between batches", "ms"),
        ("gap between epochs, less one interval", "intervals"),
        ("samples/s", "samples/s"),
    ):
        show(key, unit, [each[key] for each in times])


def show(what: str, unit: str, values: list[float]) -> None:
    every = ", ".join(f"{value:.2f}" for value in values)
    print(f"{what:44} {statistics.median(values):10.2f} {unit}   ({every})")


def measure(options: argparse.Namespace, kind: str) -> list[dict[str, float]]:
    """Run a child ``--repeat`` times, one after the other."""
    command = [sys.executable, __file__, "--child", kind, "--images", str(options.images)]
    for name in ("samples", "batch_size", "batches", "epochs"):
        command += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    return [
        json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
        for _ in range(options.repeat)
    ]


# In the children ---------------------------------------------------------------------------------------------------


def make_images(folder: Path) -> Path:
    """A few JPEGs of 160 x 120, so that Python's share is large."""
    import numpy as np
    from PIL import Image

    (folder / "class").mkdir()
    random = np.random.default_rng(1)
    for number in range(16):
        small = Image.fromarray(random.integers(0, 255, (12, 16, 3), dtype=np.uint8))
        small.resize((160, 120), Image.Resampling.BICUBIC).save(folder / "class" / f"{number}.jpg", quality=85)
    return folder


def dataset_of(options: argparse.Namespace, count: int) -> Any:
    import torch
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    transform = v2.Compose(
        [
            v2.RandomResizedCrop(64, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
        ]
    )
    dataset = ImageFolder(options.images, transform=transform)
    files = [path for path, _ in dataset.samples]
    # A path and a tuple of its own for each entry, as a folder of so many files has.
    dataset.samples = [(f"{files[number % len(files)]}"[:-1] + "g", number % 1000) for number in range(count)]
    return dataset


def resident_mb() -> float:
    import psutil

    return psutil.Process().memory_info().rss / 1e6


def memory(options: argparse.Namespace, with_gpufeed: bool, count: int) -> dict[str, float]:
    """What a dataset and a running epoch over it hold."""
    import gc

    import nvidia.dali  # noqa: F401 - imports are not what is measured
    from torch.utils.data import BatchSampler, RandomSampler

    from gpufeed import DataLoader

    gc.collect()
    before = resident_mb()
    dataset = dataset_of(options, count)
    alive: list[Any] = [dataset]
    if with_gpufeed:
        loader = DataLoader(dataset, batch_size=options.batch_size, shuffle=True)
        for _ in range(2):  # a second epoch begins while nothing of the first one is needed any more
            iterator: Any = iter(loader)
            for _ in range(3):
                next(iterator, None)
        alive += [loader, iterator]
    else:
        batches = BatchSampler(RandomSampler(dataset), options.batch_size, False)
        for _ in range(2):
            order = iter(batches)
            for _ in range(5):
                next(order, None)
        alive += [batches, order]
    gc.collect()
    return {"mb": resident_mb() - before}


def thread_seconds(native_id: int) -> float:
    """CPU time of a thread of this process so far [Unit: second]."""
    return time.clock_gettime(~native_id << 3 | 6)  # Linux: the clock of a thread, as pthread_getcpuclockid makes it


def times(options: argparse.Namespace) -> dict[str, float]:
    from gpufeed import DataLoader

    dataset = dataset_of(options, options.batch_size * options.batches)
    loader = DataLoader(dataset, batch_size=options.batch_size, shuffle=True)
    for _ in range(WARM_UP_EPOCHS):
        for _ in loader:
            pass
    (feed,) = [thread for thread in threading.enumerate() if thread.name == "gpufeed-feed"]
    ids = threading.get_native_id(), feed.native_id or 0
    before = [thread_seconds(each) for each in ids]
    arrivals: list[list[float]] = []
    started = time.perf_counter()
    for _ in range(options.epochs):
        arrivals.append([])
        for _ in loader:
            arrivals[-1].append(time.perf_counter())
    wall_s = time.perf_counter() - started
    used = [thread_seconds(each) - first for each, first in zip(ids, before, strict=True)]
    samples = len(dataset) * options.epochs
    intervals = [b - a for epoch in arrivals for a, b in pairwise(epoch)]
    interval = statistics.median(intervals)
    gaps = [after[0] - epoch[-1] for epoch, after in pairwise(arrivals)]
    loader.close()
    return {
        "us per sample, iterating thread": used[0] / samples * 1e6,
        "us per sample, feed's thread": used[1] / samples * 1e6,
        "us per sample, both": sum(used) / samples * 1e6,
        "interval between batches": interval * 1e3,
        "gap between epochs, less one interval": statistics.median(gaps) / interval - 1,
        "samples/s": samples / wall_s,
    }


CHILDREN: dict[str, Callable[[argparse.Namespace], dict[str, float]]] = {
    "torch": lambda options: memory(options, False, options.samples),
    "gpufeed": lambda options: memory(options, True, options.samples),
    "gpufeed few": lambda options: memory(options, True, 1000),
    "times": times,
}

if __name__ == "__main__":
    main()
