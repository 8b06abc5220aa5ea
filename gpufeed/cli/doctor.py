"""``gpufeed doctor``: look at the machine, the data and a training, and say what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gpufeed.cli import EXIT_INTERRUPTED
from gpufeed.cli.parameters import check_not_empty

__all__ = ["command"]

_EXIT_PROBLEMS = 1


@click.command(name="doctor")
@click.argument("data", required=False)
@click.option("--all", "look_at_all", is_flag=True, help="Look at every file of DATA, not at 2,000 evenly spread ones.")
@click.option("--train", metavar="COMMAND", help="Start this training, watch it, and end it.")
@click.option("--pid", type=int, metavar="N", help="Watch the running training of this process id.")
@click.option("--seconds", default=60.0, show_default=True, help="How long to watch.")
@click.option("--keep", is_flag=True, help="Leave the training running that --train started.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def command(
    data: str | None,
    look_at_all: bool,
    train: str | None,
    pid: int | None,
    seconds: float,
    keep: bool,
    as_json: bool,
) -> None:
    """Look at this machine, an image folder and a training, and say what holds loading back and what to do.

    DATA is a folder of images at any depth. Only the headers of its files are read: formats, sizes, and files that are
    broken or that gpufeed refuses.

    With --train or --pid the CPU time, the disk and the GPU use of a training and its workers are watched from outside
    for a minute, which tells whether it starves. Ctrl-C ends the watching, and what --train started.

    No GPU is touched, and nothing is changed. The exit code is 0 where nothing is wrong, 1 where there are problems,
    and 2 for wrong usage.

    \b
    Examples:
      gpufeed doctor
      gpufeed doctor photos
      gpufeed doctor photos --train "python train.py --epochs 1"
      gpufeed doctor --pid 4711 --seconds 20
    """
    check_not_empty(data=data, train=train)
    from gpufeed.bench.progress import reporter
    from gpufeed.inspect.doctor.diagnosis import Request, diagnose, to_json

    request = Request(None if data is None else Path(data), look_at_all, train, pid, seconds, keep)
    with reporter() as progress:
        diagnosis = diagnose(request, progress)
    if as_json:
        click.echo(to_json(diagnosis), nl=False)
    else:
        from gpufeed.inspect.doctor.render import show

        show(diagnosis, sys.stdout)
    if diagnosis.training is not None and diagnosis.training.interrupted:
        sys.exit(EXIT_INTERRUPTED)
    if diagnosis.problems:
        sys.exit(_EXIT_PROBLEMS)
