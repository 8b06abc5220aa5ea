"""Two saved runs of ``gpufeed compare``, contender by contender: what has become faster or slower."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO, cast

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpufeed import printing, result_files
from gpufeed.bench.limits import rate_of
from gpufeed.bench.results import Comparison, ContenderResult, Mode, from_json
from gpufeed.bench.statistics import LEAST_EFFECT, Difference, Ratio, difference_of, noise_of, unpaired_ratio
from gpufeed.errors import ArgumentError, BenchmarkError
from gpufeed.printing import UNDERLINED_HEAD

__all__ = ["SCHEMA", "Change", "changes", "load", "load_both", "noise_between", "show_against", "to_json", "unlike"]

SCHEMA = "gpufeed.compare.load"
SCHEMA_VERSION = 1
_WIDTH = 80  # of plain text
_NEXT_STEP = "name a file that gpufeed compare --json wrote"


@dataclass(frozen=True, slots=True)
class Change:
    """What became of a contender from one run to another.

    Attributes:
        name: the contender's, in both runs.
        mode: what its batches were for.
        old_images_per_s: median over the earlier run's rounds. [Unit: image/second]
        new_images_per_s: median over the later run's. [Unit: image/second]
        ratio: later to earlier. Rounds of two runs aren't pairs, so it is the ratio of the medians.
        difference: what that shows.
    """

    name: str
    mode: Mode
    old_images_per_s: float
    new_images_per_s: float
    ratio: Ratio
    difference: Difference


def load(path: Path) -> Comparison:
    """A comparison that ``--json`` wrote.

    Raises:
        ArgumentError: the file can't be read, or holds something else.
    """
    try:
        text = result_files.read_text(path, _NEXT_STEP)
    except UnicodeDecodeError:
        raise ArgumentError(f"{path}: this is not a result of gpufeed compare; {_NEXT_STEP}") from None
    try:
        return from_json(text)
    except ArgumentError as error:
        next_step = "" if ";" in str(error) else f"; {_NEXT_STEP}"
        raise ArgumentError(f"{path}: {error}{next_step}") from None


def unlike(old: Comparison, new: Comparison) -> tuple[str, ...]:
    """What differs between two runs besides gpufeed itself, each as ``what: earlier, then later``.

    Compared are the machine, the versions of everything but gpufeed, the data, and what was done with it.
    """
    before, after = _conditions(old), _conditions(new)
    return tuple(
        f"{what}: {before.get(what) or 'none'}, then {after.get(what) or 'none'}"
        for what in dict.fromkeys((*before, *after))
        if before.get(what) != after.get(what)
    )


def _conditions(comparison: Comparison) -> dict[str, str]:
    environment = comparison.environment
    packages = _mapping(environment.get("packages"))
    return {
        "CPU": str(environment.get("cpu", "")),
        "usable CPUs": str(environment.get("usable_cpus", "")),
        "GPU": comparison.device_name or ", ".join(cast("list[str]", environment.get("gpus") or [])),
        "CUDA": str(environment.get("cuda", "")),
        "Python": str(environment.get("python", "")),
        **{name: str(version) for name, version in packages.items()},
        "data": f"{comparison.data}, {comparison.num_files} files",
        "transform": " ".join((comparison.transform, *comparison.parameters)),
        "what the transform does": comparison.transform_text,
        "batch size": str(comparison.batch_size),
        "threads": str(comparison.num_threads),
        "device": comparison.device,
        "dtype": comparison.dtype,
        "step": "" if comparison.step is None else comparison.step.name,
        "page cache": comparison.cache,
    }


def _mapping(value: object) -> Mapping[str, object]:
    """What a file has as names and values; empty where it has something else."""
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def noise_between(old: Comparison, new: Comparison) -> float:
    """The relative effect below which nothing is shown: the larger of the two runs' noises."""
    noises = [noise.relative for run in (old, new) if (noise := noise_of(run)) is not None]
    return max(LEAST_EFFECT, *noises) if noises else LEAST_EFFECT


def changes(old: Comparison, new: Comparison) -> tuple[Change, ...]:
    """What became of each contender and bound that both runs measured, in the later run's order, mode by mode."""
    earlier = {result.name: result for result in old.contenders}
    modes: tuple[Mode, Mode] = ("loader", "step")
    found = (
        _change(earlier[result.name], result, mode, new.seed, noise_between(old, new))
        for mode in modes
        for result in new.contenders
        if result.name in earlier
    )
    return tuple(change for change in found if change is not None)


def _change(old: ContenderResult, new: ContenderResult, mode: Mode, seed: int, noise: float) -> Change | None:
    before, after = rate_of(old, mode), rate_of(new, mode)
    ratio = unpaired_ratio(_rates(new, mode), _rates(old, mode), seed)
    if before is None or after is None or ratio is None:
        return None
    return Change(new.name, mode, before, after, ratio, difference_of(ratio, noise))


def _rates(result: ContenderResult, mode: Mode) -> list[float]:
    return [entry.epoch.images_per_s for entry in result.in_mode(mode)]


def load_both(old: Path, new: Path, force: bool) -> tuple[Comparison, Comparison]:
    """Two runs that can be compared.

    Args:
        old: the earlier run's JSON.
        new: the later run's.
        force: also where the machine, the versions or the work differ; what differs is then printed.

    Raises:
        ArgumentError: a file is no result of ``gpufeed compare``, or both hold the same run.
        BenchmarkError: the runs differ in what they ran on or did, and ``force`` isn't given; or they have no
            contender in common.
    """
    earlier, later = load(old), load(new)
    if earlier == later:
        raise ArgumentError(f"{old} and {new} hold one and the same run; name two runs, the earlier one first")
    differences = unlike(earlier, later)
    if differences and not force:
        raise BenchmarkError(
            f"{old} and {new} can't be compared: they differ in {'; '.join(differences)}. Repeat one of them as the "
            "other was, or give --force to compare all the same"
        )
    if not changes(earlier, later):
        raise BenchmarkError(f"{old} and {new} have no contender in common; measure the same ones in both")
    return earlier, later


def to_json(earlier: Comparison, later: Comparison) -> str:
    """What became of each contender as JSON, ending in a newline."""
    document = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "differ_in": unlike(earlier, later),
        "noise": noise_between(earlier, later),
        "changes": [asdict(change) for change in changes(earlier, later)],
    }
    return json.dumps(document, indent=2) + "\n"


def show_against(old: Path, new: Path, earlier: Comparison, later: Comparison, stream: TextIO) -> None:
    """Print what became of each contender from one saved run to another.

    Args:
        old: the earlier run's file, for the title.
        new: the later run's.
        earlier: see `load_both`.
        later: see there.
        stream: gets a table, with colours and signs on a terminal, plain elsewhere.
    """

    def plain() -> str:
        return printing.as_text(_parts(old, new, earlier, later, is_plain=True), _WIDTH)

    printing.show(lambda _: _parts(old, new, earlier, later, is_plain=False), plain, stream)


def _parts(old: Path, new: Path, earlier: Comparison, later: Comparison, *, is_plain: bool) -> Iterable[RenderableType]:
    versions = [str(run.environment.get("gpufeed", "?")) for run in (earlier, later)]
    changed = "" if versions[0] == versions[1] else f" (gpufeed {versions[0]}, then {versions[1]})"
    yield Padding(Text.assemble(("gpufeed compare", "bold"), f": {old}, then {new}{changed}"), (0, 0, 1, 0))
    differences = unlike(earlier, later)
    if differences:
        text = f"Compared by force, though they differ in {'; '.join(differences)}."
        yield Padding(Text(text, style="yellow"), (0, 0, 1, 0))
    found = changes(earlier, later)
    for mode, title in (("loader", "loader alone"), ("step", "with the step")):
        rows = [change for change in found if change.mode == mode]
        if rows:
            yield Padding(_table(rows, title, is_plain=is_plain), (0, 0, 1, 0))
    missing = [
        f"{name} in {path.name} only"
        for path, run, other in ((old, earlier, later), (new, later, earlier))
        for name in (result.name for result in run.contenders)
        if name not in {result.name for result in other.contenders}
    ]
    if missing:
        yield Padding(Text(f"Not compared: {', '.join(missing)}."), (0, 0, 1, 0))
    yield Text(
        f"The ratio is of the medians, 95 % its interval; rounds of two runs aren't pairs. Differences up to "
        f"{100 * noise_between(earlier, later):.0f} % aren't shown. A machine may also change from run to run as a "
        "whole: where everything moved alike, that is what it was.",
        style="dim",
    )


def _table(rows: Iterable[Change], title: str, *, is_plain: bool) -> Table:
    table = Table(
        box=UNDERLINED_HEAD if is_plain else box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
    )
    table.add_column(f"{title},\nimages/s", no_wrap=True)
    table.add_column("\nearlier", justify="right", no_wrap=True)
    table.add_column("\nlater", justify="right", no_wrap=True)
    times = "x" if is_plain else "\N{MULTIPLICATION SIGN}"
    table.add_column(f"{times} earlier\nmedian  95 %", no_wrap=True)
    for row in rows:
        table.add_row(
            row.name,
            f"{row.old_images_per_s:,.0f}",
            f"{row.new_images_per_s:,.0f}",
            _ratio(row, "-" if is_plain else "\N{EN DASH}"),
        )
    return table


def _ratio(row: Change, dash: str) -> Text:
    ratio = row.ratio
    if ratio.low is None or ratio.high is None:
        return Text(f"{ratio.median:5.2f}  too few rounds")
    if row.difference == "none":
        return Text("no difference shown", style="dim")
    colour = "green" if row.difference == "faster" else "red"
    return Text.assemble((f"{ratio.median:5.2f}", colour), f"  {ratio.low:.2f}{dash}{ratio.high:.2f}")
