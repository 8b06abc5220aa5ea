"""``gpufeed preview``: load a few samples, and draw what the model will see."""

from __future__ import annotations

from pathlib import Path

import click

from gpufeed.cli.streams import stdout_to_stderr

__all__ = ["command"]


@click.command(name="preview")
@click.argument("subject", metavar="MODULE|TRANSFORM")
@click.argument("data", required=False)
@click.option("--out", "out_file", required=True, metavar="FILE.png", help="The picture to write.")
@click.option("--samples", default=8, show_default=True, help="How many samples, evenly over the data.")
@click.option("--views", default=6, show_default=True, help="How many epochs of each.")
@click.option("-p", "assignments", multiple=True, metavar="NAME=VALUE", help="A parameter of the pipeline; repeatable.")
@click.option("--seed", default=0, show_default=True, help="Of the draws; equal seeds give equal views.")
@click.option("--device", default="auto", show_default=True, help="Where views are made: auto, cpu, cuda or cuda:N.")
@click.option("--force", is_flag=True, help="Replace the picture if it is there already.")
def command(
    subject: str,
    data: str | None,
    out_file: str,
    samples: int,
    views: int,
    assignments: tuple[str, ...],
    seed: int,
    device: str,
    force: bool,
) -> None:
    """Draw a contact sheet: samples as they are, as the model will see them, and as the reference makes them.

    The first argument is a pipeline, as FILE.py, FILE.py:NAME or gpufeed:imagenet:train, or a torchvision transform as
    FILE.py:NAME. DATA is what the pipeline opens, for a transform an image folder with one sub-folder per class.
    Without it example images are made.

    Each sample has a row: the original, then its view in epoch 0, 1, 2, ... as gpufeed's DataLoader yields it, with its
    boxes and masks. Beneath is what torchvision, or the pipeline's reference, makes of it with the same draws.

    \b
    Examples:
      gpufeed preview study.py --out study.png
      gpufeed preview transforms.py:train photos --out train.png --samples 4 --seed 1
      gpufeed preview study.py:train -p size=160 --out small.png
    """
    from gpufeed.bench.progress import reporter
    from gpufeed.inspect.preview.contact_sheet import check_sheet_target, drawn_sheet, write_sheet
    from gpufeed.inspect.preview.previewing import Request, preview

    path = Path(out_file).expanduser()
    check_sheet_target(path, force=force)
    request = Request(subject, data, assignments, samples, views, seed, device)
    with stdout_to_stderr(), reporter() as progress:
        shown = preview(request, progress)
        progress.say("drawing")
        sheet = drawn_sheet(shown)
        write_sheet(sheet, path, force=force)
    count = f"{len(shown.rows)} sample{'s' * (len(shown.rows) != 1)}"
    click.echo(f"{path}: {sheet.width} x {sheet.height} pixels, {count} with {views} view{'s' * (views != 1)} each")
    for note in shown.notes:
        click.echo(note)
