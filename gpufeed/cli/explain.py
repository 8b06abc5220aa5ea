"""``gpufeed explain``: what becomes of a transform or a pipeline, where it runs, and how equal it is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, TextIO, cast

import click

from gpufeed.cli.parameters import param_option
from gpufeed.cli.streams import stdout_to_stderr
from gpufeed.errors import ArgumentError

if TYPE_CHECKING:
    from gpufeed.bounds import Device
    from gpufeed.pipelines import Pipeline

__all__ = ["command"]

EXIT_REFUSED = 1


@click.command(name="explain")
@click.argument("subject", required=False, metavar="[FILE.py:NAME]")
@click.option("--weights", metavar="NAME", help="The transform of these weights of torchvision's, instead of a file's.")
@param_option
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    help="For which device.  [default: cuda where there is an NVIDIA GPU, else cpu]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def command(
    subject: str | None, weights: str | None, parameters: tuple[str, ...], device: str | None, as_json: bool
) -> None:
    """Show what becomes of a transform or a pipeline, where it runs, and how equal it is to torchvision.

    FILE.py:NAME is a torchvision transform or a gpufeed pipeline in a Python file, which is run to get it; or the name
    of a shipped or installed pipeline. :NAME may be left out where there is only one.

    Of a transform, the first table has each part with the ops that it becomes, the second what runs as one. A part
    that gpufeed can't do is shown with its place, the reason and the way out, and the exit code is 1, as for a
    transform that doesn't end in a tensor. Of a pipeline, each output is shown with its image's ops, the operators of
    DALI's that the module calls with their lines, what is drawn, and the tail. No device is needed, not even for cuda.

    \b
    Examples:
      gpufeed explain transforms.py:train
      gpufeed explain --weights ResNet50_Weights.IMAGENET1K_V2 --device cuda
      gpufeed explain study.py:train -p size=160 --device cuda
    """
    if (subject is None) == (weights is None):
        given = "neither" if subject is None else "both"
        raise ArgumentError(f"expected either FILE.py:NAME or --weights NAME, got {given}")
    with stdout_to_stderr():
        explained = _explained(subject, weights, parameters, device)
    if as_json:
        click.echo(explained.as_json(), nl=False)
    else:
        explained.show(sys.stdout)
    if explained.is_refused:
        sys.exit(EXIT_REFUSED)


@dataclass(frozen=True, slots=True)
class _Explained:
    """An explanation of either kind, ready to be delivered."""

    as_json: Callable[[], str]
    show: Callable[[TextIO], None]
    is_refused: bool = False


def _explained(subject: str | None, weights: str | None, parameters: tuple[str, ...], device: str | None) -> _Explained:
    from gpufeed.pipelines import Pipeline, is_pipeline_reference, split_reference

    if subject is not None and not is_pipeline_reference(subject):
        split_reference(subject)  # before torch is imported
    if parameters and subject is None:
        raise ArgumentError(f"the transform of weights has no parameters; leave out -p {' -p '.join(parameters)}")
    from gpufeed.bench.environment import nvidia_gpus
    from gpufeed.inspect.subjects import subject_of, transform_of_weights

    chosen = cast(Literal["cpu", "cuda"], device or ("cuda" if nvidia_gpus() else "cpu"))
    if subject is None:
        return _of_transform(transform_of_weights(cast(str, weights)), chosen, cast(str, weights))
    found = subject_of(subject, parameters)
    if isinstance(found, Pipeline):
        return _of_pipeline(found, chosen, " ".join((subject, *parameters)))
    return _of_transform(found, chosen, subject)


def _of_transform(transform: object, device: Device, subject: str) -> _Explained:
    from gpufeed.inspect.explain.explanation import explain, to_json
    from gpufeed.inspect.explain.render import show

    explanation = explain(transform, device, subject)
    is_refused = bool(explanation.refused or explanation.unfit)
    return _Explained(partial(to_json, explanation), partial(show, explanation), is_refused)


def _of_pipeline(pipeline: Pipeline, device: Device, subject: str) -> _Explained:
    from gpufeed.inspect.explain.pipeline import explain_pipeline, pipeline_to_json
    from gpufeed.inspect.explain.pipeline_render import show

    explained = explain_pipeline(pipeline, device, subject)
    return _Explained(partial(pipeline_to_json, explained), partial(show, explained))
