"""``gpufeed tune``: read the arguments, search, show, and write the settings."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import click

from gpufeed.bench import synthetic
from gpufeed.bench.steps import NO_STEP, check_step
from gpufeed.bench.transforms import check_reference
from gpufeed.bench.tuning.charts import can_draw, check_chart_target, write_chart
from gpufeed.bench.tuning.live import watching
from gpufeed.bench.tuning.render import show
from gpufeed.bench.tuning.results import Tuning, config_of, to_json
from gpufeed.bench.tuning.tune import Request, tune
from gpufeed.cli import EXIT_INTERRUPTED
from gpufeed.cli.parameters import check_not_empty, param_option
from gpufeed.cli.workload import (
    batch_size_option,
    check_batches,
    check_device,
    check_differ,
    check_parameters,
    device_option,
    ended_by_sigterm,
    example,
    files_at,
    transform_option,
)
from gpufeed.config import check_config_target, write_config
from gpufeed.cpus import usable_cpus
from gpufeed.errors import ArgumentError

__all__ = ["command"]

_SHORTEST_BUDGET_S = 20.0  # importing torch twice takes half of it
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)
_MOST_BYTES = 10**15
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


@click.command(name="tune")
@click.argument("data", required=False)
@transform_option
@param_option
@batch_size_option
@device_option
@click.option("--budget", default=120.0, show_default=True, metavar="SECONDS", help="Wall time for the whole command.")
@click.option(
    "--step",
    default=NO_STEP,
    show_default=True,
    help="What each batch feeds, as for gpufeed compare: a model's name, a time such as 25ms, or FILE.py:NAME.",
)
@click.option("--max-memory", metavar="SIZE", help="Exclude settings whose peak memory is above it: 2G, 800M, 1.5GiB.")
@click.option("--out", metavar="FILE", help="Write the settings there, as gpufeed.toml.")
@click.option("--chart", metavar="FILE", help="Draw throughput and memory there, as .svg or .png.")
@click.option("--json", "as_json", is_flag=True, help="Print every measurement as JSON on stdout, the text on stderr.")
def command(
    data: str | None,
    transform: str,
    parameters: tuple[str, ...],
    batch_size: int,
    device: str,
    budget: float,
    step: str,
    max_memory: str | None,
    out: str | None,
    chart: str | None,
    as_json: bool,
) -> None:
    """Find the settings of torch's DataLoader and of gpufeed's that suit this machine and this data.

    DATA is an image folder with one sub-folder per class, or what a pipeline's own source opens; without it built-in
    images are used. Searched are num_workers (from 0 to 4 times the CPUs), prefetch_factor, persistent_workers and
    pin_memory of torch's loader, and gpufeed's num_threads, prefetch_factor and, on a GPU, where images are decoded.

    Among settings within the noise the cheapest is chosen: more workers mean more memory and contention. The file of
    --out is read by gpufeed.DataLoader.from_config and by gpufeed compare --config. Ctrl-C keeps the best so far.

    \b
    Examples:
      gpufeed tune photos --transform transforms.py:train --out gpufeed.toml
      gpufeed tune photos --step 25ms --max-memory 4G
      gpufeed tune --budget 60 --chart workers.svg
    """
    started_s = time.monotonic()
    check_not_empty(data=data, transform=transform, out=out, chart=chart)
    check_reference(transform)
    check_parameters(transform, parameters)
    check_step(step)
    check_batches(batch_size, budget, _SHORTEST_BUDGET_S)
    check_device(device)
    max_memory_bytes = None if max_memory is None else _bytes(max_memory)
    out_path = None if out is None else Path(out)
    chart_path = None if chart is None else Path(chart)
    if out_path is not None:
        check_config_target(out_path)
    if chart_path is not None:
        check_chart_target(chart_path)
    check_differ({"--out": out_path, "--chart": chart_path})
    with ended_by_sigterm(), watching() as watcher, tempfile.TemporaryDirectory(prefix="gpufeed-") as folder:
        if data is None:
            root = synthetic.folder(watcher)
            started_s = time.monotonic()  # the one-time making of data isn't part of the budget
        else:
            root = Path(data)
        watcher.budget(budget)
        request = Request(
            files=files_at(root, transform),
            data=synthetic.DESCRIPTION if data is None else data,
            transform=transform,
            batch_size=batch_size,
            num_cpus=usable_cpus(),
            device=device,
            budget_s=budget,
            step="" if step == NO_STEP else step,
            max_memory_bytes=max_memory_bytes,
            parameters=parameters,
            root=None if data is None else str(Path(data).expanduser()),
            example=partial(example, Path(folder)),
        )
        tuning = tune(request, watcher, started_s)
    _deliver(tuning, out_path, chart_path, as_json)
    if tuning.interrupted:
        sys.exit(EXIT_INTERRUPTED)


def _bytes(size: str) -> int:
    match = _SIZE.fullmatch(size.strip())
    number = 0.0 if match is None else float(match[1]) * (1024 if match[3] else 1000) ** _POWERS[match[2].upper()]
    if not 1 <= number <= _MOST_BYTES:
        raise ArgumentError(
            f"--max-memory must be a size above 0 such as 800M, 2G or 1.5GiB, at most {_MOST_BYTES / 1e12:,.0f}T, "
            f"got {size[:40]!r}"
        )
    return int(number)


def _deliver(tuning: Tuning, out: Path | None, chart: Path | None, as_json: bool) -> None:
    """The settings first: nothing that comes after can lose them."""
    if out is not None:
        write_config(config_of(tuning), out)
    if as_json:
        click.echo(to_json(tuning), nl=False)
    show(tuning, sys.stderr if as_json else sys.stdout)
    if out is not None:
        click.echo(
            f"\nthe settings are in {out}; gpufeed.DataLoader.from_config({str(out)!r}, dataset) reads it", err=True
        )
    if chart is not None and not can_draw(tuning):
        click.echo("there is no chart to draw: too few settings were measured; give a larger --budget", err=True)
    elif chart is not None:
        write_chart(tuning, chart)
        click.echo(f"the charts are in {chart}", err=True)
