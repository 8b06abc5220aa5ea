"""``gpufeed verify``: read the arguments, compare with torchvision, show."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpufeed.cli import EXIT_INTERRUPTED
from gpufeed.errors import ArgumentError

if TYPE_CHECKING:
    from gpufeed.inspect.verify_results import Verification

__all__ = ["command"]

_EXIT_EXCEEDED = 1
_SEEDS = (-(2**63), 2**63 - 1)  # what DataLoader(seed=) takes


@click.command(name="verify")
@click.argument("data", required=False)
@click.option(
    "--transform",
    metavar="FILE.py:NAME",
    help="A torchvision transform in a Python file, or train or eval: ImageNet's usual ones.  [default: train]",
)
@click.option("--weights", metavar="NAME", help="The transform of these weights of torchvision's, instead of another.")
@click.option("--samples", default=256, show_default=True, help="How many files, evenly over the list.")
@click.option("--device", default="auto", show_default=True, help="Where gpufeed's ops run: auto, cpu, cuda or cuda:N.")
@click.option("--json", "json_file", metavar="FILE", help="Also write everything that was found there; - is stdout.")
@click.option("--save", metavar="DIR", help="Save pictures of the worst samples, side by side, in a new folder.")
@click.option("--seed", default=0, show_default=True, help="Of the draws; equal seeds give equal draws.")
def command(
    data: str | None,
    transform: str | None,
    weights: str | None,
    samples: int,
    device: str,
    json_file: str | None,
    save: str | None,
    seed: int,
) -> None:
    """Run torchvision's transform and gpufeed on your files with the same draws, and judge every difference.

    DATA is an image folder with one sub-folder per class. Without it 512 images that resemble ImageNet's are made
    once, in your cache folder, and used.

    Every op is held to its declared bound on torchvision's own input, the loader's samples to a budget, and everything
    that is drawn to torchvision's distribution of it. Ctrl-C shows what has been verified so far.

    The exit code is 0 where everything holds, 1 where anything is exceeded, and 2 for wrong usage or a transform that
    gpufeed can't do exactly.

    \b
    Example:
      gpufeed verify photos --transform transforms.py:train --save worst
    """
    from gpufeed.bench import synthetic
    from gpufeed.bench.images import list_image_folder
    from gpufeed.bench.progress import reporter
    from gpufeed.inspect.side_by_side import check_save_target
    from gpufeed.inspect.verify import Request, verify
    from gpufeed.inspect.verify_results import check_json_target

    if transform is not None and weights is not None:
        raise ArgumentError("expected either --transform or --weights, got both")
    chosen = weights or transform or "train"
    if weights is None:
        _check_transform(chosen)
    if samples < 1:
        raise ArgumentError(f"--samples must be at least 1, got {samples}")
    if not _SEEDS[0] <= seed <= _SEEDS[1]:
        raise ArgumentError(f"--seed must be in [-2**63, 2**63), got {seed}")
    json_path = None if json_file in (None, "-") else Path(json_file)
    if json_path is not None:
        check_json_target(json_path)
    folder = None if save is None else Path(save)
    if folder is not None:
        check_save_target(folder)
    with reporter() as progress:
        root = synthetic.folder(progress) if data is None else Path(data)
        progress.say("reading the list of images")
        request = Request(
            files=list_image_folder(root),
            data=synthetic.DESCRIPTION if data is None else data,
            transform=chosen,
            num_samples=samples,
            device=device,
            seed=seed,
            weights=weights is not None,
            save=folder,
        )
        verification = verify(request, progress)
    _deliver(verification, json_file, json_path)
    if verification.interrupted:
        sys.exit(EXIT_INTERRUPTED)
    if verification.failures:
        sys.exit(_EXIT_EXCEEDED)


def _check_transform(transform: str) -> None:
    """Refuse what is no reference before anything runs; a file without a name is answered with the names in it."""
    from gpufeed.bench.transforms import BUILT_IN, check_reference

    if ":" in transform or transform in BUILT_IN:
        check_reference(transform)
    elif not transform.endswith(".py"):
        close = difflib.get_close_matches(transform, BUILT_IN, n=1)
        instead = f"; did you mean {close[0]}?" if close else ""
        names = ", ".join(BUILT_IN)
        raise ArgumentError(f"the transform must be one of {names}, or FILE.py:NAME, got {transform!r}{instead}")


def _deliver(verification: Verification, json_file: str | None, json_path: Path | None) -> None:
    """The tables on stdout; or the JSON there, and the tables on stderr."""
    from gpufeed.inspect.verify_render import show
    from gpufeed.inspect.verify_results import to_json, write_json

    if json_file == "-":
        click.echo(to_json(verification), nl=False)
        show(verification, sys.stderr)
        return
    show(verification, sys.stdout)
    if json_path is not None:
        write_json(verification, json_path)
        click.echo(f"everything that was found is in {json_path}", err=True)
