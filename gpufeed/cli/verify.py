"""``gpufeed verify``: read the arguments, compare with torchvision, show."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpufeed.cli import EXIT_INTERRUPTED
from gpufeed.cli.parameters import param_option
from gpufeed.cli.streams import stdout_to_stderr
from gpufeed.errors import ArgumentError

if TYPE_CHECKING:
    from gpufeed.bench.progress import Reporter
    from gpufeed.inspect.verify.pipeline import PipelineVerification
    from gpufeed.inspect.verify.results import Verification
    from gpufeed.pipelines import Pipeline

__all__ = ["command"]

_EXIT_EXCEEDED = 1
_SEEDS = (-(2**63), 2**63 - 1)  # what DataLoader(seed=) takes


@click.command(name="verify")
@click.argument("data", required=False)
@click.option(
    "--transform",
    metavar="FILE.py:NAME",
    help="A torchvision transform or a gpufeed pipeline in a Python file; or train or eval: ImageNet's usual ones; or "
    "a shipped or installed pipeline, such as gpufeed:imagenet:train.  [default: train]",
)
@param_option
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
    parameters: tuple[str, ...],
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

    Of a pipeline, the images are held to those of its @NAME.reference, within the bound that this declares. Where it
    opens its data by @NAME.source, DATA is what that takes, and without it a few example images are used.

    The exit code is 0 where everything holds, 1 where anything is exceeded, and 2 for wrong usage or a transform that
    gpufeed can't do exactly.

    \b
    Examples:
      gpufeed verify photos --transform transforms.py:train --save worst
      gpufeed verify photos --transform study.py:train -p size=160
    """
    from gpufeed.bench.progress import reporter
    from gpufeed.inspect.side_by_side import check_save_target
    from gpufeed.inspect.verify.results import check_json_target

    if transform is not None and weights is not None:
        raise ArgumentError("expected either --transform or --weights, got both")
    chosen = weights or transform or "train"
    if weights is None:
        from gpufeed.bench.transforms import check_reference

        check_reference(chosen)
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
    wanted = _Wanted(data, chosen, parameters, samples, device, seed, folder)
    with stdout_to_stderr():
        loaded = _loaded(wanted, weights is not None)
    with reporter() as progress:
        found = _verified(wanted, loaded, weights is not None, progress)
    _deliver(found, json_file, json_path)
    if found.interrupted:
        sys.exit(EXIT_INTERRUPTED)
    if found.failures:
        sys.exit(_EXIT_EXCEEDED)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The command's arguments, checked."""

    data: str | None
    transform: str
    parameters: tuple[str, ...]
    samples: int
    device: str
    seed: int
    save: Path | None


def _loaded(wanted: _Wanted, by_weights: bool) -> Any:
    """What the reference names; ``None`` for what is found by its name later. A user's file runs here."""
    from gpufeed.bench.transforms import BUILT_IN
    from gpufeed.inspect.subjects import subject_of

    if not by_weights and wanted.transform not in BUILT_IN:
        return subject_of(wanted.transform, wanted.parameters)
    if wanted.parameters:
        given = " -p ".join(wanted.parameters)
        raise ArgumentError(
            f"{wanted.transform} is no pipeline, and only pipelines have parameters; leave out -p {given}"
        )
    return None


def _verified(
    wanted: _Wanted, loaded: Any, by_weights: bool, progress: Reporter
) -> Verification | PipelineVerification:
    from gpufeed.bench import synthetic
    from gpufeed.bench.images import list_image_folder
    from gpufeed.inspect.verify.verification import Request, verify
    from gpufeed.pipelines import Pipeline

    if isinstance(loaded, Pipeline):
        return _verified_pipeline(wanted, loaded, progress)
    root = synthetic.folder(progress) if wanted.data is None else Path(wanted.data)
    progress.say("reading the list of images")
    request = Request(
        files=list_image_folder(root),
        data=synthetic.DESCRIPTION if wanted.data is None else wanted.data,
        transform=wanted.transform,
        num_samples=wanted.samples,
        device=wanted.device,
        seed=wanted.seed,
        weights=by_weights,
        save=wanted.save,
        loaded=loaded,
    )
    return verify(request, progress)


def _verified_pipeline(wanted: _Wanted, pipeline: Pipeline, progress: Reporter) -> PipelineVerification:
    from gpufeed.bench import synthetic
    from gpufeed.bench.images import list_image_folder
    from gpufeed.inspect.example_data import open_data
    from gpufeed.inspect.verify.files import ChosenFolder
    from gpufeed.inspect.verify.pipeline import PipelineRequest, require_reference, verify_pipeline

    require_reference(pipeline)
    with tempfile.TemporaryDirectory(prefix="gpufeed-") as folder:
        progress.say("opening the data")
        if pipeline.has("source"):
            dataset, data = open_data(pipeline, wanted.data, Path(folder))
        else:
            files = list_image_folder(synthetic.folder(progress) if wanted.data is None else Path(wanted.data))
            dataset = ChosenFolder(files, None)
            data = synthetic.DESCRIPTION if wanted.data is None else wanted.data
        count = min(wanted.samples, len(dataset))
        request = PipelineRequest(
            pipeline=pipeline,
            dataset=dataset,
            indices=[number * len(dataset) // count for number in range(count)],
            data=data,
            subject=" ".join((wanted.transform, *wanted.parameters)),
            device=wanted.device,
            seed=wanted.seed,
            save=wanted.save,
        )
        return verify_pipeline(request, progress)


def _deliver(found: Verification | PipelineVerification, json_file: str | None, json_path: Path | None) -> None:
    """The tables on stdout; or the JSON there, and the tables on stderr."""
    from gpufeed import result_files
    from gpufeed.inspect.verify import pipeline as verify_pipeline
    from gpufeed.inspect.verify import pipeline_render, render, results

    if isinstance(found, verify_pipeline.PipelineVerification):
        text, show = verify_pipeline.pipeline_to_json(found), partial(pipeline_render.show, found)
    else:
        text, show = results.to_json(found), partial(render.show, found)
    if json_file == "-":
        click.echo(text, nl=False)
        show(sys.stderr)
        return
    show(sys.stdout)
    if json_path is not None:
        result_files.write(text, json_path, results.SCHEMA)
        click.echo(f"everything that was found is in {json_path}", err=True)
