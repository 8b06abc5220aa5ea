"""``gpufeed new``: a pipeline module to start from."""

from __future__ import annotations

import shlex

import click

from gpufeed.pipelines.starting import TASKS, write_module

__all__ = ["command"]


@click.command(name="new")
@click.argument("name")
@click.option(
    "--task",
    type=click.Choice(list(TASKS)),
    default="classification",
    show_default=True,
    help="What the module is for; ssl is self-supervised learning by two views of each image.",
)
def command(name: str, task: str) -> None:
    """Write a pipeline module to start from, NAME.py, and its test, test_NAME.py.

    NAME is a Python name and may begin with a folder. A file that is there is never overwritten.

    \b
    Examples:
      gpufeed new demo
      gpufeed new experiments/boxes --task detection
    """
    written = write_module(name, task)
    module, test = (shlex.quote(str(path)) for path in (written.module, written.test))
    picture = shlex.quote(str(written.module.with_suffix(".png")))
    click.echo(
        f"wrote {module} and {test}\n\n"
        "Next:\n"
        f"  gpufeed check {module}\n"
        f"  gpufeed preview {module} --out {picture}\n"
        f"  pytest {test}"
    )
