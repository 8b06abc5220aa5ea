"""``gpufeed check``: read the arguments, check the pipelines, show."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpufeed.cli.parameters import param_option
from gpufeed.cli.streams import stdout_to_stderr

if TYPE_CHECKING:
    from gpufeed.inspect.check.checking import Request
    from gpufeed.inspect.check.results import Check

__all__ = ["command"]

_EXIT_FAULT = 1


@click.command(name="check")
@click.argument("module", metavar="MODULE[:NAME]")
@click.argument("data", required=False)
@param_option
@click.option("--batch-size", default=8, show_default=True, help="Samples per batch.")
@click.option("--batches", default=4, show_default=True, help="How many batches.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def command(
    module: str, data: str | None, parameters: tuple[str, ...], batch_size: int, batches: int, as_json: bool
) -> None:
    """Run a pipeline and hold it to what it promises.

    MODULE is a Python file, or what else `gpufeed pipelines` lists; with several pipelines in it each is checked,
    unless one is named. DATA is what the pipeline opens. Without it example images are made.

    The pipeline runs on the CPU for a few batches, and its outputs are listed. Its graph for a GPU is described and
    searched for mistakes; no GPU is needed. The same samples are loaded a second time, in batches of another size and
    by another number of threads, and must be the same bit for bit. The reference, if there is one, is run on an image,
    and batches are timed.

    The exit code is 0 where nothing is wrong, 1 for any fault, and 2 for wrong arguments.

    \b
    Examples:
      gpufeed check study.py
      gpufeed check study.py:train photos -p size=160 --batch-size 32
    """
    with stdout_to_stderr():
        checks = _checks(module, data, parameters, batch_size, batches)
    _deliver(checks, as_json)
    if any(check.faults for check in checks):
        sys.exit(_EXIT_FAULT)


def _checks(module: str, data: str | None, parameters: tuple[str, ...], batch_size: int, batches: int) -> list[Check]:
    from gpufeed.bench.progress import Late, reporter
    from gpufeed.inspect.check.checking import Request, check, pipelines_of

    requests: list[Request] = [
        Request(named.reference, named.pipeline.parse(parameters), data, batch_size, batches)
        for named in pipelines_of(module)
        if named.pipeline is not None
    ]
    with tempfile.TemporaryDirectory(prefix="gpufeed-check-") as folder, reporter() as progress:
        late = Late(progress)
        return [check(request, Path(folder) / str(number), late) for number, request in enumerate(requests)]


def _deliver(checks: list[Check], as_json: bool) -> None:
    from gpufeed.inspect.check.render import show
    from gpufeed.inspect.check.results import to_json

    if as_json:
        click.echo(to_json(checks), nl=False)
        return
    for number, one in enumerate(checks):
        if number:
            click.echo()
        show(one, sys.stdout)
