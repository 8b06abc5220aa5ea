"""``-p NAME=VALUE``: values for a pipeline's parameters, alike in every command that takes a pipeline."""

from __future__ import annotations

import click

__all__ = ["param_option"]

param_option = click.option(
    "-p",
    "--param",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="A value for a parameter of the pipeline, such as size=160; may be given again for another.",
)
"""The command gets them as ``parameters``, a tuple of texts for `gpufeed.Pipeline.parse`."""
