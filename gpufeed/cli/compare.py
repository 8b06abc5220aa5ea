"""``gpufeed compare``: read the arguments, measure, show."""

from __future__ import annotations

import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource

from gpufeed import result_files
from gpufeed.bench import against, synthetic
from gpufeed.bench.contenders import (
    BOUNDS,
    CONTENDERS,
    Contender,
    asked,
    configured,
    contenders_named,
    custom_contender,
    default_names,
)
from gpufeed.bench.measure import Request, measure
from gpufeed.bench.page_cache import CacheState
from gpufeed.bench.progress import reporter
from gpufeed.bench.render import show
from gpufeed.bench.results import Comparison, check_json_target, to_json, write_json
from gpufeed.bench.steps import NO_STEP, check_step
from gpufeed.bench.transforms import check_reference
from gpufeed.cli import EXIT_INTERRUPTED
from gpufeed.cli.parameters import check_not_empty, param_option
from gpufeed.cli.workload import (
    batch_size_option,
    check_batches,
    check_device,
    check_differ,
    check_ending,
    check_parameters,
    device_option,
    ended_by_sigterm,
    example,
    files_at,
    transform_option,
)
from gpufeed.config import read_config
from gpufeed.cpus import usable_cpus
from gpufeed.errors import ArgumentError

__all__ = ["command"]

_SHORTEST_BUDGET_S = 10.0  # importing torch in several processes takes most of it


@click.command(name="compare")
@click.argument("data", required=False)
@transform_option
@param_option
@batch_size_option
@click.option(
    "--num-workers",
    type=int,
    help="torch's worker processes, and gpufeed's threads.  [default: the usable CPUs]",
)
@device_option
@click.option(
    "--contenders",
    default=",".join(default_names()),
    show_default=True,
    metavar="A,B,…",
    help=f"Who is measured; there are also {', '.join(sorted(CONTENDERS.keys() - set(default_names())))}.",
)
@click.option(
    "--contender",
    "own_contenders",
    multiple=True,
    metavar="FILE.py:NAME",
    help="Measure a loader of your own too, see below. May be given several times.",
)
@click.option(
    "--no-bounds", is_flag=True, help="Don't measure what no loader can exceed: storage, decoding, the device."
)
@click.option(
    "--step",
    default=NO_STEP,
    show_default=True,
    metavar="STEP",
    help="Also feed a training step: resnet18, resnet50 or vit_b_16 (bf16 on a GPU), a time such as 25ms, or "
    "FILE.py:NAME.",
)
@click.option(
    "--cache",
    type=click.Choice(["warm", "cold"]),
    default="warm",
    show_default=True,
    help="Whether files were read before, or are dropped from the page cache before each epoch.",
)
@click.option(
    "--config", "config_file", metavar="FILE", help="Run torch-tuned and gpufeed with what gpufeed tune wrote."
)
@click.option("--budget", default=90.0, show_default=True, metavar="SECONDS", help="Wall time for the whole command.")
@click.option("--json", "json_file", metavar="FILE", help="Also write every measurement there; - is stdout.")
@click.option("--html", "html_file", metavar="FILE", help="Also write a report there: one page that needs no network.")
@click.option("--png", "png_file", metavar="FILE", help="Also draw the throughputs there, as for a README.")
@click.option("--load", "loaded", nargs=2, metavar="OLD NEW", help="Measure nothing; compare two files of --json.")
@click.option("--force", is_flag=True, help="With --load: also where the machines or the work differ.")
def command(
    data: str | None,
    transform: str,
    parameters: tuple[str, ...],
    batch_size: int,
    num_workers: int | None,
    device: str,
    contenders: str,
    own_contenders: tuple[str, ...],
    no_bounds: bool,
    step: str,
    cache: CacheState,
    config_file: str | None,
    budget: float,
    json_file: str | None,
    html_file: str | None,
    png_file: str | None,
    loaded: tuple[str, str] | None,
    force: bool,
) -> None:
    """Measure gpufeed against torch's DataLoader on this machine.

    DATA is an image folder with one sub-folder per class. Without it 512 images that resemble ImageNet's are made
    once, in your cache folder, and used. Every contender gets the same samples, transform, threads and device;
    rounds are interleaved, and each is checked for complete work.

    With a pipeline torch's loaders run what its module has for them: the Dataset of @NAME.torch_dataset, else the
    transform of @NAME.reference. Where it opens its data by @NAME.source, DATA is what that takes, and without it a
    few example images with labels are used.

    Besides the contenders the command measures torch-tuned twice, which shows this machine's noise, and the bounds,
    which show what holds a loader back.

    A loader of your own: NAME is a function that takes a workload (its paths, targets, batch_size, num_threads,
    device, seed, and load_transform()) and returns an iterable. Each iteration over it is one epoch of images and
    targets on the device; or it returns a context manager that gives such an iterable, and ends its workers.

    \b
      def mine(workload):
          data = MyDataset(workload.paths, workload.targets, workload.load_transform())
          return torch.utils.data.DataLoader(data, workload.batch_size, shuffle=True,
                                             num_workers=workload.num_threads)

    A step of your own: NAME is called once as NAME(device, images, targets) with the first batch, and returns the
    function step(images, targets) that does one step.

    \b
    Examples:
      gpufeed compare photos --transform transforms.py:train
      gpufeed compare photos --contender loaders.py:mine --step resnet50
      gpufeed compare photos --html report.html --json today.json
      gpufeed compare --load yesterday.json today.json
      gpufeed compare photos --transform study.py:train -p size=160
      gpufeed compare --transform gpufeed:imagenet:train

    When the budget is short, rounds become shorter (never fewer than 7), then the second torch-tuned, torch-default,
    torch-tensor and the bounds are left out, in this order; never a contender that was named: then the command says
    which budget it takes. Ctrl-C shows what has been measured so far.
    """
    started_s = time.monotonic()
    check_not_empty(data=data, transform=transform, json=json_file, html=html_file, png=png_file, config=config_file)
    if loaded:
        _show_loaded(Path(loaded[0]), Path(loaded[1]), force, json_file)
        return
    if force:
        raise ArgumentError("--force belongs to --load OLD NEW, which compares two earlier runs; leave it out")
    check_reference(transform)
    check_parameters(transform, parameters)
    if num_workers is not None and num_workers < 1:
        raise ArgumentError(f"--num-workers must be at least 1, got {num_workers}; torch-default has none in any case")
    check_batches(batch_size, budget, _SHORTEST_BUDGET_S)
    check_device(device)
    check_step(step)
    chosen = _chosen(contenders, own_contenders, config_file)
    json_path = None if json_file in (None, "-") else Path(json_file)
    if json_path is not None:
        check_json_target(json_path)
    _check_reports(html_file, png_file)
    check_differ({"--json": json_path, "--html": html_file, "--png": png_file})
    with ended_by_sigterm(), reporter() as progress, tempfile.TemporaryDirectory(prefix="gpufeed-") as folder:
        if data is None:
            root = synthetic.folder(progress)
            started_s = time.monotonic()  # the one-time making of data isn't part of the budget
        else:
            root = Path(data)
        progress.budget(budget)
        progress.say("reading the list of images")
        request = Request(
            files=files_at(root, transform),
            data=synthetic.DESCRIPTION if data is None else data,
            root=None if data is None else str(Path(data).expanduser()),
            example=partial(example, Path(folder)),
            parameters=parameters,
            transform=transform,
            contenders=chosen,
            batch_size=batch_size,
            num_threads=num_workers or usable_cpus(),
            device=device,
            budget_s=budget,
            bounds=() if no_bounds else BOUNDS,
            with_copy=True,
            step=step,
            cache=cache,
        )
        comparison = measure(request, progress, started_s)
    _deliver(comparison, json_file, json_path)
    _report(comparison, html_file, png_file)
    if comparison.interrupted:
        sys.exit(EXIT_INTERRUPTED)


def _show_loaded(old: Path, new: Path, force: bool, json_file: str | None) -> None:
    context = click.get_current_context()
    given = [
        option
        for option in context.command.params
        if option.name not in ("loaded", "force", "json_file")
        and context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
    ]
    if given:
        name = given[0].opts[0] if given[0].opts[0].startswith("-") else "DATA"
        raise ArgumentError(f"--load OLD NEW measures nothing, so that {name} means nothing beside it; leave it out")
    json_path = None if json_file in (None, "-") else Path(json_file)
    if json_path is not None:
        result_files.check_target(json_path, against.SCHEMA)
    earlier, later = against.load_both(old, new, force)
    if json_file == "-":
        click.echo(against.to_json(earlier, later), nl=False)
    against.show_against(old, new, earlier, later, sys.stderr if json_file == "-" else sys.stdout)
    if json_path is not None:
        result_files.write(against.to_json(earlier, later), json_path, against.SCHEMA)
        click.echo(f"every change is in {json_path}", err=True)


def _chosen(names: str, own: tuple[str, ...], config_file: str | None) -> tuple[Contender, ...]:
    """Who is measured: those of gpufeed's own, with a file's settings where there is one, and then the user's."""
    chosen = contenders_named(names.split(","))
    if click.get_current_context().get_parameter_source("contenders") is ParameterSource.COMMANDLINE:
        chosen = tuple(asked(contender) for contender in chosen)
    if config_file is not None:
        config = read_config(config_file)
        chosen = tuple(configured(contender, config) for contender in chosen)
    added = [custom_contender(reference) for reference in own]
    for contender in added:
        if [other.name for other in added].count(contender.name) > 1:
            raise ArgumentError(f"two contenders are named {contender.name}; give one of the functions another name")
    return (*chosen, *added)


def _check_reports(html_file: str | None, png_file: str | None) -> None:
    """Refuse before the measuring what can't be written after it."""
    from gpufeed.bench.report import check_html_target, check_png_target

    if html_file is not None:
        check_html_target(Path(html_file))
        check_ending("--html", html_file, (".html", ".htm"))
    if png_file is not None:
        check_png_target(Path(png_file))
        check_ending("--png", png_file, (".png",))


def _report(comparison: Comparison, html_file: str | None, png_file: str | None) -> None:
    from gpufeed.bench.report import write_html, write_png
    from gpufeed.bench.verdict import verdict

    if html_file is not None:
        write_html(comparison, verdict(comparison), Path(html_file))
        click.echo(f"the report is in {html_file}", err=True)
    if png_file is not None:
        write_png(comparison, verdict(comparison), Path(png_file))
        click.echo(f"the picture is in {png_file}", err=True)


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
