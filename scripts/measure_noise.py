#!/usr/bin/env python3
"""How often `gpufeed compare` sees a difference where there is none: A/A runs of torch-tuned and its copy.

Run by hand, on a machine with nothing else to do: ``python scripts/measure_noise.py``. Each run measures torch-tuned
and a second process of the same in interleaved rounds on the built-in images, and is judged as any contender without a
copy is: a difference is shown where the 95 % interval of the ratio doesn't hold 1 and the effect is above the least
one. At least 19 of 20 runs must say "no difference shown"; the exit code is 1 if fewer do. A line appears after each
run, and progress within a run on stderr.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace

from gpufeed.bench import synthetic
from gpufeed.bench.contenders import BASELINE, contenders_named, copy_of
from gpufeed.bench.images import ImageFolderFiles, list_image_folder
from gpufeed.bench.measure import Request, measure
from gpufeed.bench.progress import Reporter, reporter
from gpufeed.bench.statistics import Noise, drift_of, median, noise_of, summarize
from gpufeed.cpus import usable_cpus

NEEDED_SHARE = 0.95


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--budget", type=float, default=30.0, help="of each run, in seconds (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=16, help="default: %(default)s")
    options = parser.parse_args()
    with reporter() as progress:
        files = list_image_folder(synthetic.folder(progress))
    print(f"{options.runs} A/A runs of {BASELINE}, {options.budget:.0f} s each, batch {options.batch_size}", flush=True)
    print("run  images/s  ratio  95 %         rounds  verdict", flush=True)
    noises: list[Noise] = []
    for number in range(1, options.runs + 1):
        with reporter() as progress:
            noises.append(run(number, files, options, progress))
    report(noises)


def run(number: int, files: ImageFolderFiles, options: argparse.Namespace, progress: Reporter) -> Noise:
    """One comparison with a seed of its own, and its line."""
    (baseline,) = contenders_named([BASELINE])
    progress.budget(options.budget)
    request = Request(
        files=files,
        data=synthetic.DESCRIPTION,
        transform="train",
        contenders=(baseline, replace(copy_of(baseline), leave_out_rank=None)),  # it never goes for lack of time
        batch_size=options.batch_size,
        num_threads=usable_cpus(),
        budget_s=options.budget,
        seed=number,
    )
    comparison = measure(request, progress, time.monotonic())
    noise = noise_of(comparison)
    if noise is None:
        sys.exit(f"run {number} was interrupted before both had a round")
    ratio = noise.ratio
    interval = "too few     " if ratio.low is None else f"{ratio.low:.3f}-{ratio.high:.3f}"
    drift = drift_of(comparison)
    drifted = "" if drift is None else f"; the baseline drifted by {100 * drift.relative:+.0f} %"
    said = "no difference shown" if noise.difference == "none" else noise.difference
    rate = next(row.images_per_s for row in summarize(comparison) if row.name == BASELINE)
    print(
        f"{number:3}  {rate:8,.0f}  {ratio.median:.3f}  {interval}  {ratio.num_rounds:6}  {said}{drifted}", flush=True
    )
    return noise


def report(noises: list[Noise]) -> None:
    """The sum of all runs, and the exit code."""
    quiet = sum(noise.difference == "none" for noise in noises)
    print(
        f'{quiet} of {len(noises)} runs said "no difference shown"; the noise that a run states is '
        f"{100 * median([noise.relative for noise in noises]):.1f} % (median)"
    )
    if quiet < NEEDED_SHARE * len(noises):
        sys.exit(1)


if __name__ == "__main__":
    main()
