"""The command line: ``gpufeed COMMAND``. Commands are imported when they are used, so that help costs nothing."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, NoReturn

import click

from gpufeed import __version__
from gpufeed.errors import GpufeedError

__all__ = ["EXIT_INTERRUPTED", "main"]

_COMMANDS = {
    "check": "Run a pipeline and hold it to what it promises.",
    "compare": "Measure gpufeed against torch's DataLoader on this machine.",
    "doctor": "Look at this machine, the data and a training: what holds loading back?",
    "explain": "Show what becomes of a transform, and how equal it is.",
    "new": "Write a pipeline module to start from, and its test.",
    "pipelines": "List the pipelines that can be named, or show one.",
    "preview": "Draw what the model will see: a contact sheet of a few samples.",
    "tune": "Find the workers, threads and queues that suit this machine and data.",
    "verify": "Hold gpufeed's pixels and draws on your files to torchvision's.",
}
"""Each command's module is ``gpufeed.cli.NAME`` and holds ``command``; the text is what ``gpufeed --help`` shows."""

EXIT_INTERRUPTED = 130  # what a shell reports for a command that Ctrl-C ended: 128 + SIGINT


class _Commands(click.Group):
    """Imports a command's module when the command is used, and turns gpufeed's errors into one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        return importlib.import_module(f"gpufeed.cli.{cmd_name}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # The usual implementation imports every command for its help text.
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except GpufeedError as error:
            raise _Sentence(str(error)) from error
        except KeyboardInterrupt:
            _exit_interrupted()


class _Sentence(click.ClickException):
    """What went wrong, on stderr."""

    exit_code = 2


def _exit_interrupted() -> NoReturn:
    click.echo("stopped", err=True)
    sys.exit(EXIT_INTERRUPTED)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="gpufeed")
def main() -> None:
    """torch's DataLoader on NVIDIA DALI: one changed import line, the same order, the same pixels."""
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - it was closed
        os.open(os.devnull, os.O_RDONLY)  # takes the free descriptor 0, so that no pipe to a process gets it
