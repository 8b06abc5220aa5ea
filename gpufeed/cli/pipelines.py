"""``gpufeed pipelines``: what can be named, and one pipeline in full."""

from __future__ import annotations

import sys

import click

from gpufeed.cli.streams import stdout_to_stderr

__all__ = ["command"]


@click.command(name="pipelines")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def command(name: str | None, as_json: bool) -> None:
    """List the pipelines that can be named, or show one in full.

    Without NAME the pipelines that gpufeed ships are listed, and those of installed packages (entry points of the
    group gpufeed.pipelines), which are not loaded for that. NAME is one of these or FILE.py:NAME, a pipeline in a
    Python file, which is run to get it.

    \b
    Examples:
      gpufeed pipelines
      gpufeed pipelines gpufeed:imagenet:train
      gpufeed pipelines study.py
    """
    from gpufeed.inspect.pipeline_list import show, show_list, to_json
    from gpufeed.pipelines import named_pipelines, pipelines_named

    with stdout_to_stderr():
        found = named_pipelines() if name is None else pipelines_named(name)
    if as_json:
        click.echo(to_json(found), nl=False)
    elif name is not None and len(found) == 1:
        show(found[0], sys.stdout)
    else:
        show_list(found, sys.stdout)
