#!/usr/bin/env python3
"""What settings that articles recommend are worth here: torch's loader, setting by setting, and gpufeed, in a table.

Run by hand, on a machine with nothing else to do: ``python scripts/measure_claims.py``. Each row adds one setting to
the one above it, but for the last three. All of them run interleaved, in two comparisons of the built-in images: one
gives the columns "alone" and "20 ms", the other one, in shorter epochs, a training step of resnet18, which takes
seconds on a CPU. "busy" is the share of the time in which the loop doesn't wait for a batch. It prints Markdown;
progress goes to stderr.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from gpufeed.bench import synthetic
from gpufeed.bench.contenders import CONTENDERS, Contender
from gpufeed.bench.images import ImageFolderFiles, list_image_folder
from gpufeed.bench.measure import Request, measure
from gpufeed.bench.progress import reporter
from gpufeed.bench.results import Comparison, Mode
from gpufeed.bench.statistics import Summary, summarize
from gpufeed.config import TorchSettings
from gpufeed.cpus import usable_cpus

OVER_TUNED_WORKERS = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-size", type=int, default=16, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=7, help="of the first comparison (default: %(default)s)")
    parser.add_argument("--model-rounds", type=int, default=3, help="of the second one (default: %(default)s)")
    options = parser.parse_args()
    with reporter() as progress:
        files = list_image_folder(synthetic.folder(progress))
    short = run(files, options.batch_size, "20ms", options.rounds, batches_in_flight=4)
    long = run(files, options.batch_size, "resnet18", options.model_rounds, batches_in_flight=1)
    show(short, long)


def contenders(batches_in_flight: int) -> tuple[Contender, ...]:
    """The rows. How many batches each is said to have under way decides how long epochs are, here for all alike."""
    cpus = usable_cpus()
    workers = TorchSettings(num_workers=cpus, prefetch_factor=2)
    pinned = replace(workers, pin_memory=True)
    deeper = replace(pinned, prefetch_factor=4)
    persistent = replace(deeper, persistent_workers=True)
    torch = {
        f"+ num_workers={cpus}": workers,
        "+ pin_memory": pinned,
        "+ prefetch_factor=4": deeper,
        "+ persistent_workers": persistent,
        f"num_workers={OVER_TUNED_WORKERS}": replace(persistent, num_workers=OVER_TUNED_WORKERS, prefetch_factor=2),
    }
    tuned = CONTENDERS["torch-tuned"]
    rows = (
        replace(CONTENDERS["torch-default"], name="default"),
        *(replace(tuned, name=name, options=(("settings", settings),)) for name, settings in torch.items()),
        CONTENDERS["torch-prefetch"],
        CONTENDERS["gpufeed"],
    )
    return tuple(
        replace(row, leave_out_rank=None, queued_batches=batches_in_flight, queued_batches_per_thread=0) for row in rows
    )


def run(files: ImageFolderFiles, batch_size: int, step: str, rounds: int, batches_in_flight: int) -> Comparison:
    """One comparison, with as much time as it takes."""
    with reporter() as progress:
        request = Request(
            files=files,
            data=synthetic.DESCRIPTION,
            transform="train",
            contenders=contenders(batches_in_flight),
            batch_size=batch_size,
            num_threads=usable_cpus(),
            budget_s=24 * 3600,
            max_rounds=rounds,
            step=step,
        )
        return measure(request, progress, time.monotonic())


def show(short: Comparison, long: Comparison) -> None:
    """The table, and what it was measured on."""
    print("| | alone, images/s | 20 ms step, images/s | busy | resnet18, images/s | busy | peak memory |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name in [result.name for result in short.contenders]:
        alone = row(short, name, "loader")
        memory = "n/a" if alone.peak_pss_bytes is None else f"{alone.peak_pss_bytes / 1e6:,.0f} MB"
        cells = [rate(alone)]
        for comparison in (short, long):
            fed = row(comparison, name, "step")
            cells += [rate(fed), f"{100 * (1 - fed.wait_share):.0f} %"]
        print(f"| {name} | {' | '.join([*cells, memory])} |")
    print(
        f"\n{short.data}, transform {short.transform}, batch {short.batch_size}, {short.num_threads} CPUs. "
        f"{described(short)}; {described(long)}. Each epoch starts with empty queues. "
        f"The step resnet18 alone takes {long.step.s_per_batch if long.step else 0:.2f} s per batch."
    )


def row(comparison: Comparison, name: str, mode: Mode) -> Summary:
    return next(row for row in summarize(comparison, mode) if row.name == name)


def rate(found: Summary) -> str:
    """Median and half the interquartile range."""
    return f"{found.images_per_s:,.{0 if found.images_per_s >= 100 else 1}f} ± {100 * found.spread:.0f} %"


def described(comparison: Comparison) -> str:
    lengths = {entry.mode: entry.epoch.num_batches for entry in comparison.contenders[0].measurements}
    return (
        f"{comparison.num_rounds} rounds of epochs of {lengths['loader']} and, with a step, {lengths['step']} batches"
    )


if __name__ == "__main__":
    main()
