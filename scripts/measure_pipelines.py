#!/usr/bin/env python3
"""How fast the shipped pipelines are: gpufeed's loader against torch's own with the same work in its workers.

Run by hand: ``python scripts/measure_pipelines.py``. Both load shuffled batches of the built-in images (about 500 x 375
pixels) onto the CPU: gpufeed with two threads; torch with two persistent workers that run the pipeline's reference on
an ``ImageFolder``, or its torch_dataset. The two take turns, round by round, and a round is an epoch; shown are median
images per second and the median of the rounds' ratios (above 1, gpufeed is quicker) with their range. Each pipeline is
measured in a process of its own, and the order within a round alternates.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torchvision.datasets import ImageFolder

from gpufeed import DataLoader
from gpufeed.bench import progress, synthetic
from gpufeed.pipelines import Pipeline, load_pipeline

PIPELINES = (
    "gpufeed:imagenet:train",
    "gpufeed:imagenet:evaluate",
    "gpufeed:ssl_multicrop:simclr",
    "gpufeed:ssl_multicrop:dino",
    "gpufeed:detection_yolo:train",
    "gpufeed:detection_yolo:evaluate",
    "gpufeed:detection_coco:train",
    "gpufeed:detection_coco:evaluate",
    "gpufeed:segmentation:train",
    "gpufeed:segmentation:evaluate",
)
"""What is measured. One with a source of its own gets the built-in images with random boxes and masks."""

NUM_CLASSES = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--images", type=int, default=192, help="of an epoch (default: %(default)s, at most 512)")
    parser.add_argument("--batch-size", type=int, default=32, help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=2, help="of gpufeed, and torch's workers (default: %(default)s)")
    parser.add_argument("--only", default="", help="pipelines whose name holds this")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    with progress.reporter() as reporter:
        images = synthetic.folder(reporter)
    chosen = [name for name in PIPELINES if options.only in name]
    found: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        roots = write_data(images, Path(folder), options.images)
        if not options.json:
            print(f"{'images per second':32} {'gpufeed':>8} {'torch':>7}   ratio  range")
        for name in chosen:
            context = multiprocessing.get_context(
                "spawn"
            )  # a process that DALI hasn't run in: torch's workers are forked
            with ProcessPoolExecutor(1, context) as process:
                arguments = (name, roots, options.batch_size, options.threads, options.rounds)
                found[name] = process.submit(measured, *arguments).result()
            if not options.json:
                print(row(name, found[name]), flush=True)
    if options.json:
        print(json.dumps(found, indent=1))


def row(name: str, rates: Mapping[str, list[float]]) -> str:
    ratios = [ours / theirs for ours, theirs in zip(rates["gpufeed"], rates["torch"], strict=True)]
    ours, theirs = statistics.median(rates["gpufeed"]), statistics.median(rates["torch"])
    spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
    return f"{name:32} {ours:8.1f} {theirs:7.1f}   {statistics.median(ratios):5.2f}  {spread}"


def measured(name: str, roots: Mapping[str, str], batch_size: int, threads: int, rounds: int) -> dict[str, list[float]]:
    """Images per second of each round."""
    pipeline = load_pipeline(name)
    root = roots["objects" if pipeline.has("source") else "folders"]
    loaders = {
        "torch": torch.utils.data.DataLoader(
            torch_dataset(pipeline, root),
            batch_size,
            shuffle=True,
            num_workers=threads,
            persistent_workers=True,
            collate_fn=collated,
            multiprocessing_context="fork" if sys.platform == "linux" else None,
        ),
        "gpufeed": DataLoader(
            root, batch_size, shuffle=True, pipeline=pipeline, num_threads=threads, device="cpu", seed=0
        ),
    }
    rates: dict[str, list[float]] = {loader: [] for loader in loaders}
    for number in range(rounds + 1):
        for loader in sorted(loaders, reverse=number % 2 == 0):  # torch's goes first in the first
            start, count = time.perf_counter(), len(loaders[loader].dataset)
            for _ in loaders[loader]:
                pass
            if number:  # the first round warms up
                rates[loader].append(count / (time.perf_counter() - start))
    return rates


def torch_dataset(pipeline: Pipeline, root: str) -> Any:
    if pipeline.has("torch_dataset"):
        return pipeline.make_torch_dataset(pipeline.make_source(root))
    return ImageFolder(root, transform=pipeline.make_reference())


def collated(samples: list[Any]) -> Any:
    """As torch's ``default_collate``; tensors of unequal shapes stay in a list."""
    first = samples[0]
    if isinstance(first, dict):
        return {key: collated([sample[key] for sample in samples]) for key in first}
    if isinstance(first, (tuple, list)):
        return [collated(list(entries)) for entries in zip(*samples, strict=True)]
    if isinstance(first, (torch.Tensor, np.ndarray)) and len({tuple(sample.shape) for sample in samples}) > 1:
        return samples
    return torch.utils.data.default_collate(samples)


# The data -------------------------------------------------------------------------------------------------------------


def write_data(images: Path, folder: Path, count: int) -> dict[str, str]:
    """The built-in images as class folders, and as ``objects`` in the layout of gpufeed's example data."""
    objects = folder / "objects"
    for name in ("images", "labels", "masks"):
        (objects / name).mkdir(parents=True)
    rng = np.random.default_rng(0)
    coco: dict[str, list[Any]] = {
        "images": [],
        "categories": [{"id": number + 1, "name": str(number)} for number in range(NUM_CLASSES)],
        "annotations": [],
    }
    for number, path in enumerate(sorted(images.glob("*/*.jpg"))[:count], start=1):
        in_class = folder / "folders" / path.parent.name
        in_class.mkdir(parents=True, exist_ok=True)
        for link in (in_class / path.name, objects / "images" / f"{path.stem}.jpg"):
            link.symlink_to(path)
        with Image.open(path) as image:
            width, height = image.size
        coco["images"].append({"id": number, "file_name": f"{path.stem}.jpg", "width": width, "height": height})
        coco["annotations"] += write_objects(objects, path.stem, number, (height, width), rng)
    for number, annotation in enumerate(coco["annotations"], start=1):
        annotation["id"] = number
    (objects / "annotations.json").write_text(json.dumps(coco), encoding="utf-8")
    return {"folders": str(folder / "folders"), "objects": str(objects)}


def write_objects(
    objects: Path, stem: str, image_id: int, size_hw: tuple[int, int], rng: np.random.Generator
) -> list[dict[str, Any]]:
    """One to eight boxes with labels, and a mask of them; as many as COCO's images have on average."""
    height, width = size_hw
    mask = np.zeros(size_hw, dtype=np.uint8)
    lines, annotations = "", []
    for _ in range(rng.integers(1, 9)):
        label, h, w = (
            int(rng.integers(NUM_CLASSES)),
            int(rng.integers(16, height // 2)),
            int(rng.integers(16, width // 2)),
        )
        top, left = int(rng.integers(height - h)), int(rng.integers(width - w))
        mask[top : top + h, left : left + w] = label + 1
        lines += f"{label} {(left + w / 2) / width} {(top + h / 2) / height} {w / width} {h / height}\n"
        box = {"image_id": image_id, "category_id": label + 1, "bbox": [left, top, w, h], "area": w * h, "iscrowd": 0}
        annotations.append(box)
    (objects / "labels" / f"{stem}.txt").write_text(lines, encoding="utf-8")
    Image.fromarray(mask).save(objects / "masks" / f"{stem}.png")
    return annotations


if __name__ == "__main__":
    main()
