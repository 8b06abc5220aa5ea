#!/usr/bin/env python3
"""What each transform costs: gpufeed's tail against torchvision on PIL images and on tensors.

Run by hand: ``python scripts/measure_ops.py``. Every figure is milliseconds per image of 224 x 224 on one thread, for
an 8-bit RGB image in memory: no reading, no decoding. gpufeed takes chunks of 6 images, as its loader does, each with
its own draws; torchvision takes one image after the other. The three take turns, round by round; shown are medians,
and the ratio of gpufeed to torchvision on PIL images (below 1 is quicker) with the middle half of the rounds.

``--simclr`` measures SimCLR's colour part (``RandomApply(ColorJitter)``, ``RandomGrayscale``, ``GaussianBlur``) with
two processes of torchvision on PIL images against two threads of gpufeed, both kept busy.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import PIL.Image
import torch
from torchvision.transforms import v2

from gpufeed import translate
from gpufeed.draws import Draws, epoch_key
from gpufeed.parameters import draw_parameters, rows_of
from gpufeed.placement import place
from gpufeed.spec import ImageSpec
from gpufeed.stages import one_torch_thread
from gpufeed.tail import Tail
from gpufeed.tail.program import run_op
from gpufeed.threads import Pool

SIDE, CHUNK = 224, 6
BICUBIC, NEAREST = v2.InterpolationMode.BICUBIC, v2.InterpolationMode.NEAREST
BILINEAR = v2.InterpolationMode.BILINEAR

TRANSFORMS: dict[str, Callable[[], Any]] = {
    "ColorJitter(0.4, 0.4, 0.4, 0.1)": lambda: v2.ColorJitter(0.4, 0.4, 0.4, 0.1),
    "ColorJitter, brightness alone": lambda: v2.ColorJitter(brightness=0.4),
    "ColorJitter, contrast alone": lambda: v2.ColorJitter(contrast=0.4),
    "ColorJitter, saturation alone": lambda: v2.ColorJitter(saturation=0.4),
    "ColorJitter, hue alone": lambda: v2.ColorJitter(hue=0.1),
    "RandomPhotometricDistort(p=1)": lambda: v2.RandomPhotometricDistort(p=1.0),
    "Grayscale(3)": lambda: v2.Grayscale(3),
    "RandomInvert(1)": lambda: v2.RandomInvert(1.0),
    "RandomPosterize(4, 1)": lambda: v2.RandomPosterize(4, 1.0),
    "RandomSolarize(128, 1)": lambda: v2.RandomSolarize(128, 1.0),
    "RandomAdjustSharpness(2, 1)": lambda: v2.RandomAdjustSharpness(2.0, 1.0),
    "RandomAutocontrast(1)": lambda: v2.RandomAutocontrast(1.0),
    "RandomEqualize(1)": lambda: v2.RandomEqualize(1.0),
    "RandomChannelPermutation": lambda: v2.RandomChannelPermutation(),
    "GaussianBlur(23, (0.1, 2))": lambda: v2.GaussianBlur(23, (0.1, 2.0)),
    "GaussianBlur(5)": lambda: v2.GaussianBlur(5),
    "JPEG((50, 95))": lambda: v2.JPEG((50, 95)),
    "RandomErasing(1)": lambda: v2.RandomErasing(1.0),
    "RandomErasing(1, value='random')": lambda: v2.RandomErasing(1.0, value="random"),
    "ElasticTransform": lambda: v2.ElasticTransform(),
    "RandomRotation(30), nearest": lambda: v2.RandomRotation(30),
    "RandomRotation(30), bilinear": lambda: v2.RandomRotation(30, interpolation=BILINEAR),
    "RandomRotation(30), bicubic": lambda: v2.RandomRotation(30, interpolation=BICUBIC),
    "RandomAffine, bilinear": lambda: v2.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), 10, interpolation=BILINEAR),
    "RandomPerspective(0.5, 1)": lambda: v2.RandomPerspective(0.5, 1.0),
    "RandomZoomOut(p=1)": lambda: v2.RandomZoomOut(p=1.0),
    "RandomResize(160, 320)": lambda: v2.RandomResize(160, 320),
    "Resize(256), bilinear": lambda: v2.Resize((256, 256)),
    "Resize(256), bicubic": lambda: v2.Resize((256, 256), interpolation=BICUBIC),
    "RandomResizedCrop(224)": lambda: v2.RandomResizedCrop(224),
    "RandomCrop(224, padding=16)": lambda: v2.RandomCrop(224, padding=16),
    "RandomHorizontalFlip(1)": lambda: v2.RandomHorizontalFlip(1.0),
    "FiveCrop(128)": lambda: v2.FiveCrop(128),
}

SIMCLR = v2.Compose(
    [
        v2.RandomApply([v2.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8),
        v2.RandomGrayscale(0.2),
        v2.RandomApply([v2.GaussianBlur(23, (0.1, 2.0))], p=0.5),
    ]
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=0.15, help="least time of a round (default: %(default)s)")
    parser.add_argument("--only", default="", help="transforms whose name holds this")
    parser.add_argument("--simclr", action="store_true", help="measure SimCLR's colour part with two workers instead")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    if options.simclr:
        simclr(options.rounds)
        return
    torch.set_num_threads(1)
    found = {
        name: measured(make(), options.rounds, options.seconds, options.json)
        for name, make in TRANSFORMS.items()
        if options.only in name
    }
    if options.json:
        print(json.dumps(found, indent=1))
        return
    header = f"{'ms per image of 224 x 224':34} {'PIL':>7} {'tensor':>7} {'gpufeed':>8}  {'x PIL':>5}  middle half"
    print(header, "-" * len(header), sep="\n")
    for name, row in found.items():
        print(
            f"{name:34} {row['pil']:7.3f} {shown(row['tensor'])} {row['gpufeed']:8.3f}  {row['ratio']:5.2f}  "
            f"{row['low']:.2f}-{row['high']:.2f}"
        )


def shown(value: float | None) -> str:
    return "      -" if value is None else f"{value:7.3f}"


def image() -> np.ndarray:
    """(224, 224, 3) uint8, smooth with noise, as photographs are."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    waves = np.stack([127 + 100 * np.sin(x / (19 + 5 * c) + y / (27 - 4 * c)) for c in range(3)], axis=-1)
    return np.clip(waves + rng.normal(0, 8, waves.shape), 0, 255).astype(np.uint8)


def measured(transform: Any, rounds: int, least_s: float, quiet: bool) -> dict[str, Any]:
    """Medians of the three and the ratio, round by round."""
    pixels = image()
    pil = PIL.Image.fromarray(pixels)
    tensor = torch.from_numpy(pixels).permute(2, 0, 1).contiguous()
    contenders: dict[str, Callable[[], int]] = {
        "pil": lambda: run_torchvision(transform, pil),
        "tensor": lambda: run_torchvision(transform, tensor),
        "gpufeed": ours(transform, pixels),
    }
    try:
        transform(tensor)
    except (TypeError, ValueError, RuntimeError):
        del contenders["tensor"]
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, run in contenders.items():
            taken = per_image_ms(run, least_s)
            if number:  # the first round warms up
                times[name].append(taken)
        if not quiet and sys.stderr.isatty():
            print(f"\r{type(transform).__name__}: round {number} of {rounds}\033[K", end="\r", file=sys.stderr)
    ratios = sorted(mine / theirs for mine, theirs in zip(times["gpufeed"], times["pil"], strict=True))
    return {
        **{name: statistics.median(values) for name, values in times.items()},
        "tensor": statistics.median(times["tensor"]) if "tensor" in times else None,
        "ratio": statistics.median(ratios),
        "low": ratios[len(ratios) // 4],
        "high": ratios[(3 * len(ratios)) // 4],
    }


def per_image_ms(run: Callable[[], int], least_s: float) -> float:
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < least_s:
        done += run()
    return 1000 * (time.perf_counter() - start) / done


def run_torchvision(transform: Any, given: Any) -> int:
    transform(given)
    return 1


def ours(transform: Any, pixels: np.ndarray) -> Callable[[], int]:
    """Chunks of the tail, with new draws for each; the drawing is part of the time."""
    plan = translate(transform).require()
    specs = [spec.with_size(None) for spec in plan.specs()]
    uniform = [ImageSpec(size_hw=(SIDE, SIDE))]
    for op in plan.ops:
        uniform.append(op.out_spec(uniform[-1]))
    images = torch.from_numpy(np.stack([pixels] * CHUNK)).permute(0, 3, 1, 2)
    sizes = np.full((CHUNK, 2), SIDE, dtype=np.int64)
    count = 0

    def run() -> int:
        nonlocal count
        count += CHUNK
        draws = Draws(epoch_key(0, 0), np.arange(count, count + CHUNK), np.zeros(CHUNK, dtype=np.int64))
        parameters = draw_parameters(plan, sizes, draws)
        chunk = images
        for position, op in enumerate(plan.ops):
            value = parameters.values[position]
            if chunk is not None and uniform[position + 1].size_hw is not None:
                chunk = run_op(chunk, op, uniform[position], value)
                continue
            for row in range(CHUNK):  # sizes that vary go one by one
                one = images[row : row + 1]
                for inner in range(position, len(plan.ops)):
                    rows = rows_of(parameters.values[inner], slice(row, row + 1))
                    one = run_op(one, plan.ops[inner], specs[inner], rows)
            break
        return CHUNK

    return run


# SimCLR's colour part, two workers each ---------------------------------------------------------------------------


def simclr(rounds: int) -> None:
    """Two busy processes of torchvision against two busy threads of gpufeed, in turns."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as processes:
        processes.map(pil_worker, [20, 20])
        pool = Pool(2, "measure", one_torch_thread)
        chunk = tail_chunks()
        threads_of_ours(pool, chunk, 4)
        ratios, theirs_ms, ours_ms = [], [], []
        for _ in range(rounds):
            start = time.perf_counter()
            processes.map(pil_worker, [150, 150], chunksize=1)
            theirs = 1000 * (time.perf_counter() - start) / 300
            start = time.perf_counter()
            threads_of_ours(pool, chunk, 50)
            mine = 1000 * (time.perf_counter() - start) / (50 * CHUNK)
            theirs_ms.append(theirs)
            ours_ms.append(mine)
            ratios.append(theirs / mine)
        pool.close()
    print(f"torchvision on PIL, 2 processes   {statistics.median(theirs_ms):.3f} ms per image of wall time")
    print(f"gpufeed, 2 threads                {statistics.median(ours_ms):.3f} ms per image of wall time")
    print(f"gpufeed is {statistics.median(ratios):.2f} times as fast ({min(ratios):.2f}-{max(ratios):.2f})")


def pil_worker(count: int) -> None:
    torch.set_num_threads(1)
    given = PIL.Image.fromarray(image())
    for _ in range(count):
        SIMCLR(given)


def tail_chunks() -> Callable[[int], None]:
    # behind a crop, as in SimCLR: the size is known, and a chunk runs as a batch
    plan = translate(v2.Compose([v2.CenterCrop(SIDE), SIMCLR])).require()
    images = [torch.from_numpy(image()).permute(2, 0, 1)] * CHUNK
    sizes = np.full((CHUNK, 2), SIDE, dtype=np.int64)
    tail = Tail(place(plan, "cpu"))

    def run(number: int) -> None:
        out = torch.empty((CHUNK, 3, SIDE, SIDE), dtype=torch.uint8)
        draws = Draws(epoch_key(0, 0), np.arange(CHUNK) + CHUNK * number, np.zeros(CHUNK, dtype=np.int64))
        parameters = draw_parameters(plan, sizes, draws)
        tail.run_into(out, images, parameters, 0)

    return run


def threads_of_ours(pool: Pool, chunk: Callable[[int], None], count: int) -> None:
    finished = threading.Semaphore(0)

    def task(number: int) -> None:
        chunk(number)
        finished.release()

    for number in range(count):
        pool.submit(task, number)
    for _ in range(count):
        finished.acquire()


if __name__ == "__main__":
    main()
