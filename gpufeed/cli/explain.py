"""``gpufeed explain``: what becomes of a transform, where it runs, and how equal it is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal, cast

import click

from gpufeed.cli.streams import stdout_to_stderr
from gpufeed.errors import ArgumentError

if TYPE_CHECKING:
    from gpufeed.inspect.explain import Explanation

__all__ = ["command"]

EXIT_REFUSED = 1


@click.command(name="explain")
@click.argument("transform", required=False, metavar="[FILE.py:NAME]")
@click.option("--weights", metavar="NAME", help="The transform of these weights of torchvision's, instead of a file's.")
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    help="For which device.  [default: cuda where there is an NVIDIA GPU, else cpu]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def command(transform: str | None, weights: str | None, device: str | None, as_json: bool) -> None:
    """Show what becomes of a transform, where it runs, and how equal it is to torchvision.

    FILE.py:NAME is a torchvision transform in a Python file, which is run to get it. The first table has each
    transform with the ops that it becomes, the second what runs as one. A transform that gpufeed can't do is shown
    with its place, the reason and the way out, and the exit code is 1, as for one that doesn't end in a tensor. No
    device is needed, not even for cuda.

    \b
    Examples:
      gpufeed explain transforms.py:train
      gpufeed explain --weights ResNet50_Weights.IMAGENET1K_V2 --device cuda
    """
    if (transform is None) == (weights is None):
        given = "neither" if transform is None else "both"
        raise ArgumentError(f"expected either FILE.py:NAME or --weights NAME, got {given}")
    with stdout_to_stderr():
        explanation = _explain(transform, weights, device)
    if as_json:
        from gpufeed.inspect.explain import to_json

        click.echo(to_json(explanation), nl=False)
    else:
        from gpufeed.inspect.explain_render import show

        show(explanation, sys.stdout)
    if explanation.refused or explanation.unfit:
        sys.exit(EXIT_REFUSED)


def _explain(transform: str | None, weights: str | None, device: str | None) -> Explanation:
    if transform is not None and not transform.endswith(".py"):
        from gpufeed.pipelines import split_reference

        split_reference(transform)  # before torch is imported
    from gpufeed.bench.environment import nvidia_gpus
    from gpufeed.inspect.explain import explain
    from gpufeed.inspect.subjects import transform_of_file, transform_of_weights

    chosen = device or ("cuda" if nvidia_gpus() else "cpu")
    subject = cast(str, weights if transform is None else transform)
    found = transform_of_weights(subject) if transform is None else transform_of_file(subject)
    return explain(found, cast(Literal["cpu", "cuda"], chosen), subject)
