"""What a comparison measured, raw and immutable, and its JSON form."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from gpufeed import result_files
from gpufeed.errors import ArgumentError

__all__ = [
    "SCHEMA",
    "SCHEMA_VERSION",
    "Comparison",
    "ContenderResult",
    "Cost",
    "Epoch",
    "GpuUse",
    "Kind",
    "LeftOut",
    "Measurement",
    "Mode",
    "StepUsed",
    "check_json_target",
    "from_json",
    "to_json",
    "write_json",
]

SCHEMA = "gpufeed.compare"
SCHEMA_VERSION = 2
_NUMBERS = ("elapsed_s", "first_batch_s", "cpu_s", "num_samples", "num_batches", "step_s", "taken_cpu_s")

Kind = Literal["loader", "copy", "bound"]
"""``loader``: a contender; ``copy``: the baseline once more, which shows the machine's noise; ``bound``: what no loader
can exceed."""

Mode = Literal["loader", "step"]
"""``loader``: batches are fetched and thrown away; ``step``: each feeds a training step."""


@dataclass(frozen=True, slots=True)
class GpuUse:
    """What the GPU did during an epoch, by NVML; what it doesn't tell is ``None``.

    Attributes:
        busy_share: of the time in which a kernel ran, in [0, 1].
        jpeg_share: of the time in which its JPEG engines were busy.
        memory_bytes: the most that was in use. [Unit: byte]
        pcie_received_bytes: what went from the host to it. [Unit: byte]
    """

    busy_share: float | None = None
    jpeg_share: float | None = None
    memory_bytes: int | None = None
    pcie_received_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """What one part of loading an image costs a single thread.

    Attributes:
        part: ``read``, ``decode``, or a transform as it prints itself, in the order in which they run.
        s_per_image: mean over some images, the fastest and slowest few left out: what is applied to a part of
            the images costs its part. [Unit: second]
    """

    part: str
    s_per_image: float


@dataclass(frozen=True, slots=True)
class StepUsed:
    """The training step that was fed.

    Attributes:
        name: as it was asked for: ``resnet18``, ``25ms``, ``FILE.py:NAME``.
        what: it is in words.
        s_per_batch: of a batch that lies on the device already, median. [Unit: second]
    """

    name: str
    what: str
    s_per_batch: float


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch of one contender, as its own process saw it.

    Attributes:
        elapsed_s: from ``iter()`` until the last batch was on the device and ready. [Unit: second]
        first_batch_s: from ``iter()`` until the first batch was. [Unit: second]
        cpu_s: user and system time of the contender's process and its children, on the host. [Unit: second]
        num_samples: samples that arrived.
        num_batches: batches that arrived.
        target_sum: the sum of all targets that arrived; 0 for a pipeline.
        dtype: of the images, torch's name without ``torch.``; empty where a pipeline gives no tensor of samples.
        device: where the images were.
        shape: of the first sample's image, (C, H, W).
        mean: of all values of all images, where it was asked for.
        std: their standard deviation, where it was asked for.
        outputs: of a pipeline: each output of the first batch in words, as `gpufeed.bench.outputs.outputs_of` has them.
        is_pair: of a pipeline: whether every batch was two tensors, as images and targets are.
        waits_s: how long ``next()`` took for each batch, in order. [Unit: second]
        step_s: how long the training steps took together; 0 without. [Unit: second]
        gpu: what the GPU did; ``None`` without one.
        taken_cpu_s: CPU time that other programs took from it, see `gpufeed.bench.others`. [Unit: second]
    """

    elapsed_s: float
    first_batch_s: float
    cpu_s: float
    num_samples: int
    num_batches: int
    target_sum: int
    dtype: str
    device: str
    shape: tuple[int, ...]
    mean: float | None = None
    std: float | None = None
    outputs: tuple[str, ...] = ()
    is_pair: bool = False
    waits_s: tuple[float, ...] = ()
    step_s: float = 0.0
    gpu: GpuUse | None = None
    taken_cpu_s: float = 0.0

    @property
    def wait_share(self) -> float:
        """Share of the time in which the consumer waited for batches, in [0, 1]."""
        return sum(self.waits_s) / self.elapsed_s

    @property
    def images_per_s(self) -> float:
        """Throughput. [Unit: image/second]"""
        return self.num_samples / self.elapsed_s


@dataclass(frozen=True, slots=True)
class Measurement:
    """A contender's epoch in a round.

    Attributes:
        round_index: which round, from 0; equal indices of two contenders were measured one after the other.
        place: the contender's place in that round's order, from 0.
        epoch: what was measured.
        mode: what the batches were for.
    """

    round_index: int
    place: int
    epoch: Epoch
    mode: Mode = "loader"


@dataclass(frozen=True, slots=True)
class ContenderResult:
    """Everything that was measured of one contender.

    Attributes:
        name: the contender's.
        first_batch_s: from the first ``iter()`` in a fresh process to the first batch; libraries were imported before.
            [Unit: second]
        warm_up: the discarded epoch before the first round.
        peak_pss_bytes: the largest memory of its process and children in warm-up and rounds, pages shared between
            processes counted in parts; ``None`` where the platform doesn't tell. [Unit: byte]
        measurements: one per round and mode, in order; fewer where the run was interrupted.
        kind: what it is.
        summary: what it is, in a few words.
    """

    name: str
    first_batch_s: float
    warm_up: Epoch
    peak_pss_bytes: int | None
    measurements: tuple[Measurement, ...]
    kind: Kind = "loader"
    summary: str = ""

    def in_mode(self, mode: Mode) -> tuple[Measurement, ...]:
        """The measurements of one mode, in the order of rounds."""
        return tuple(measurement for measurement in self.measurements if measurement.mode == mode)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A contender that was asked for and isn't in the results, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """One run of ``gpufeed compare``.

    Attributes:
        data: what was measured on, in words.
        root: the image folder.
        num_files: distinct image files in an epoch.
        samples_per_round: samples in an epoch, which is a round.
        transform: the transform's reference.
        transform_text: the transform as it prints itself.
        batch_size: samples per batch.
        num_threads: threads or worker processes that a contender could keep busy.
        device: where batches ended.
        device_name: what it is called, such as the GPU's model; empty for the CPU.
        dtype: of the images.
        seed: of the choice of samples, the orders and the bootstrap.
        baseline: the contender that ratios are taken to.
        budget_s: what the user allowed. [Unit: second]
        elapsed_s: what it took, the one-time making of data apart. [Unit: second]
        interrupted: whether the user stopped it early.
        contenders: the results.
        left_out: who was not measured.
        environment: versions and machine, see ``environment``.
        parameters: of the pipeline, each ``NAME=VALUE``.
        torch_side: what torch's loaders ran for a pipeline, in words; empty for a transform.
        checked: of a pipeline: what of the contenders' batches was held to be equal, in a sentence.
        step: the training step; ``None`` where batches were thrown away only.
        costs: of the parts of loading an image, in one thread; empty where they weren't measured.
        cache: of the files, in a sentence: read before, or dropped from the page cache.
    """

    data: str
    root: str
    num_files: int
    samples_per_round: int
    transform: str
    transform_text: str
    batch_size: int
    num_threads: int
    device: str
    device_name: str
    dtype: str
    seed: int
    baseline: str
    budget_s: float
    elapsed_s: float
    interrupted: bool
    contenders: tuple[ContenderResult, ...]
    left_out: tuple[LeftOut, ...] = ()
    environment: dict[str, Any] = field(default_factory=dict[str, Any])
    parameters: tuple[str, ...] = ()
    torch_side: str = ""
    checked: str = ""
    step: StepUsed | None = None
    costs: tuple[Cost, ...] = ()
    cache: str = ""

    @property
    def bounds(self) -> tuple[ContenderResult, ...]:
        """What no loader can exceed."""
        return tuple(result for result in self.contenders if result.kind == "bound")

    @property
    def loaders(self) -> tuple[ContenderResult, ...]:
        """Who was compared, the copy of the baseline apart."""
        return tuple(result for result in self.contenders if result.kind == "loader")

    @property
    def copy(self) -> ContenderResult | None:
        """The baseline's copy."""
        return next((result for result in self.contenders if result.kind == "copy"), None)

    @property
    def num_rounds(self) -> int:
        """Rounds that at least one contender finished."""
        rounds = ({entry.round_index for entry in result.measurements} for result in self.contenders)
        return max((len(indices) for indices in rounds), default=0)


def to_json(comparison: Comparison) -> str:
    """The comparison as JSON text, with the schema's name and version, ending in a newline."""
    document = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, **asdict(comparison)}
    return json.dumps(document, indent=2) + "\n"


def from_json(text: str) -> Comparison:
    """The comparison from :func:`to_json`'s text.

    Raises:
        ArgumentError: the text is no such JSON, of another schema version, or damaged.
    """
    document = result_files.result_of(text, SCHEMA)
    if document is None:
        raise ArgumentError("this is not a result of gpufeed compare")
    if document["schema_version"] != SCHEMA_VERSION:
        raise ArgumentError(
            f"schema_version must be {SCHEMA_VERSION}, got {document['schema_version']!r}; "
            "use the gpufeed version that wrote it"
        )
    try:
        return _comparison({key: value for key, value in document.items() if key not in ("schema", "schema_version")})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ArgumentError(f"this result of gpufeed compare is damaged ({why}); measure again") from error


def _comparison(values: dict[str, Any]) -> Comparison:
    values["contenders"] = tuple(_contender(value) for value in values["contenders"])
    values["left_out"] = tuple(LeftOut(**value) for value in values["left_out"])
    values["parameters"] = tuple(values["parameters"])
    values["costs"] = tuple(Cost(**value) for value in values["costs"])
    values["step"] = None if values["step"] is None else StepUsed(**values["step"])
    return Comparison(**values)


def _contender(value: dict[str, Any]) -> ContenderResult:
    measurements = tuple(
        Measurement(entry["round_index"], entry["place"], _epoch(entry["epoch"]), entry["mode"])
        for entry in value["measurements"]
    )
    return ContenderResult(
        name=value["name"],
        first_batch_s=value["first_batch_s"],
        warm_up=_epoch(value["warm_up"]),
        peak_pss_bytes=value["peak_pss_bytes"],
        measurements=measurements,
        kind=value["kind"],
        summary=value["summary"],
    )


def _epoch(value: dict[str, Any]) -> Epoch:
    lists: dict[str, Any] = {key: tuple(value[key]) for key in ("shape", "outputs", "waits_s")}
    for name in _NUMBERS:
        if not isinstance(value.get(name, 0), (int, float)):
            raise TypeError(f"{name} must be a number, got {value[name]!r}")
    if not value["elapsed_s"] > 0:
        raise ValueError(f"elapsed_s must be above 0, got {value['elapsed_s']!r}")
    lists["gpu"] = None if value["gpu"] is None else GpuUse(**value["gpu"])
    return Epoch(**{**value, **lists})


def check_json_target(path: Path) -> None:
    """Refuse a file that the result must not or can't be written to; see `gpufeed.result_files.check_target`."""
    result_files.check_target(path, SCHEMA)


def write_json(comparison: Comparison, path: Path) -> None:
    """Write the comparison whole or not at all; see `gpufeed.result_files.write`."""
    result_files.write(to_json(comparison), path, SCHEMA)
