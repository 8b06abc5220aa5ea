"""Arguments that several commands have alike: ``-p NAME=VALUE`` for pipelines, and texts that mustn't be empty."""

from __future__ import annotations

import click

from gpufeed.errors import ArgumentError

__all__ = ["check_not_empty", "param_option"]

param_option = click.option(
    "-p",
    "--param",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="A value for a parameter of the pipeline, such as size=160; may be given again for another.",
)
"""The command gets them as ``parameters``, a tuple of texts for `gpufeed.Pipeline.parse`."""


def check_not_empty(**given: str | None) -> None:
    """Refuse empty texts, as an unset variable of a shell script gives: as paths they would be the current folder.

    Args:
        given: arguments by the names of their options, ``data`` for the argument.

    Raises:
        ArgumentError: naming the first empty one.
    """
    for name, value in given.items():
        if value is not None and not value.strip():
            what = "DATA" if name == "data" else f"--{name}"
            raise ArgumentError(f"{what} is empty; give a path, or leave it out")
