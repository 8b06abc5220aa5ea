"""``gpufeed compare``: read the arguments, measure, show."""

from __future__ import annotations

import math
import re
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import click

from gpufeed.bench import synthetic
from gpufeed.bench.contenders import contenders_named, default_names
from gpufeed.bench.environment import nvidia_gpus
from gpufeed.bench.images import ImageFolderFiles, list_image_folder
from gpufeed.bench.measure import Request, measure
from gpufeed.bench.progress import reporter
from gpufeed.bench.render import show
from gpufeed.bench.results import Comparison, check_json_target, to_json, write_json
from gpufeed.bench.transforms import BUILT_IN, check_reference
from gpufeed.cli import EXIT_INTERRUPTED
from gpufeed.cli.parameters import param_option
from gpufeed.cpus import usable_cpus
from gpufeed.errors import ArgumentError

__all__ = ["command"]

_NUM_EXAMPLES = 32
_SHORTEST_BUDGET_S = 10.0  # importing torch in several processes takes most of it
_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


@click.command(name="compare")
@click.argument("data", required=False)
@click.option(
    "--transform",
    default="train",
    show_default=True,
    metavar="FILE.py:NAME",
    help=f"A torchvision transform or a gpufeed pipeline in a Python file; or {' or '.join(BUILT_IN)}: ImageNet's "
    "usual ones; or a shipped or installed pipeline, such as gpufeed:imagenet:train.",
)
@param_option
@click.option("--batch-size", default=64, show_default=True, help="Samples per batch.")
@click.option(
    "--num-workers",
    type=int,
    help="torch's worker processes, and gpufeed's threads.  [default: the usable CPUs]",
)
@click.option("--device", default="auto", show_default=True, help="Where batches end: auto, cpu, cuda or cuda:N.")
@click.option(
    "--contenders",
    default=",".join(default_names()),
    show_default=True,
    metavar="A,B,…",
    help="Who is measured; there is also dali-handwritten.",
)
@click.option("--budget", default=90.0, show_default=True, metavar="SECONDS", help="Wall time for the whole command.")
@click.option("--json", "json_file", metavar="FILE", help="Also write every measurement there; - is stdout.")
def command(
    data: str | None,
    transform: str,
    parameters: tuple[str, ...],
    batch_size: int,
    num_workers: int | None,
    device: str,
    contenders: str,
    budget: float,
    json_file: str | None,
) -> None:
    """Measure gpufeed against torch's DataLoader on this machine.

    DATA is an image folder with one sub-folder per class. Without it 512 images that resemble ImageNet's are made
    once, in your cache folder, and used. Every contender gets the same samples, transform, threads and device;
    rounds are interleaved, and each is checked for complete work.

    With a pipeline torch's loaders run what its module has for them: the Dataset of @NAME.torch_dataset, else the
    transform of @NAME.reference. Where it opens its data by @NAME.source, DATA is what that takes, and without it a
    few example images with labels are used.

    \b
    Examples:
      gpufeed compare photos --transform transforms.py:train
      gpufeed compare photos --transform study.py:train -p size=160
      gpufeed compare --transform gpufeed:imagenet:train

    When the budget is short, rounds become shorter (never fewer than 7), then torch-default, torch-tensor and
    dali-handwritten are left out, in this order. Ctrl-C shows what has been measured so far.
    """
    started_s = time.monotonic()
    check_reference(transform)
    if batch_size < 1:
        raise ArgumentError(f"--batch-size must be at least 1, got {batch_size}")
    if num_workers is not None and num_workers < 1:
        raise ArgumentError(f"--num-workers must be at least 1, got {num_workers}; torch-default has none in any case")
    if not _SHORTEST_BUDGET_S <= budget < math.inf:
        raise ArgumentError(f"--budget must be at least {_SHORTEST_BUDGET_S:.0f} seconds, got {budget:g}")
    if not _DEVICE.fullmatch(device):
        raise ArgumentError(f"--device must be auto, cpu, cuda or cuda:N, got {device!r}")
    if device.startswith("cuda") and not nvidia_gpus():
        raise ArgumentError(f"--device {device} needs an NVIDIA GPU, and the driver finds none; use auto or cpu")
    chosen = contenders_named(contenders.split(","))
    json_path = None if json_file in (None, "-") else Path(json_file)
    if json_path is not None:
        check_json_target(json_path)
    with reporter() as progress, tempfile.TemporaryDirectory(prefix="gpufeed-") as folder:
        if data is None:
            root = synthetic.folder(progress)
            started_s = time.monotonic()  # the one-time making of data isn't part of the budget
        else:
            root = Path(data)
        progress.budget(budget)
        progress.say("reading the list of images")
        request = Request(
            files=_files_at(root, transform),
            data=synthetic.DESCRIPTION if data is None else data,
            root=None if data is None else str(Path(data).expanduser()),
            example=partial(_example, Path(folder)),
            parameters=parameters,
            transform=transform,
            contenders=chosen,
            batch_size=batch_size,
            num_threads=num_workers or usable_cpus(),
            device=device,
            budget_s=budget,
        )
        comparison = measure(request, progress, started_s)
    _deliver(comparison, json_file, json_path)
    if comparison.interrupted:
        sys.exit(EXIT_INTERRUPTED)


def _files_at(root: Path, transform: str) -> ImageFolderFiles | None:
    """The images; ``None`` where they are no image folder but a pipeline may open what is there in its own way."""
    try:
        return list_image_folder(root)
    except ArgumentError:
        if transform in BUILT_IN or not root.expanduser().exists():
            raise
        return None


def _example(folder: Path) -> tuple[str, str]:
    """Example data, and what it is in words."""
    from gpufeed.inspect.example_data import example_data

    root = example_data(folder, _NUM_EXAMPLES).objects
    return str(root), f"{_NUM_EXAMPLES} built-in example images"


def _deliver(comparison: Comparison, json_file: str | None, json_path: Path | None) -> None:
    """The table on stdout; or the JSON there, and the table on stderr."""
    if json_file == "-":
        click.echo(to_json(comparison), nl=False)
        show(comparison, sys.stderr)
        return
    show(comparison, sys.stdout)
    if json_path is not None:
        write_json(comparison, json_path)
        click.echo(f"every measurement is in {json_path}", err=True)
