"""What ``gpufeed check`` found of a pipeline, immutable, and its JSON form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = [
    "SCHEMA",
    "SCHEMA_VERSION",
    "Check",
    "CheckedOutput",
    "Comparison",
    "Concern",
    "DeviceFit",
    "Fault",
    "ReferenceCheck",
    "Speed",
    "to_json",
]

SCHEMA = "gpufeed.check"
SCHEMA_VERSION = 1

Concern = Literal["cpu", "gpu", "outputs", "exactness", "reference"]
"""What a fault is about."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something to mend.

    Attributes:
        concern: what it is about.
        text: what is wrong and what to do about it.
        path: the user's file; empty where no line is to blame.
        line: its number there, from 1; 0 where no line is to blame.
        code: its text.
    """

    concern: Concern
    text: str
    path: str = ""
    line: int = 0
    code: str = ""


@dataclass(frozen=True, slots=True)
class CheckedOutput:
    """One of the outputs, over all batches that ran.

    Attributes:
        name: its place in what the loader yields, such as ``[1]['boxes']``.
        shape: with the batch; what varies from sample to sample as a letter, from batch to batch as a range.
        dtype: of its values; the type's name where it holds no tensors.
        low: the smallest value; ``None`` where there is none.
        high: the largest.
        device: where it lies; empty where it holds no tensors.
        not_finite: whether it holds NaN or an infinity.
        by_batch: whether a sample's values depend on the other samples of its batch.
    """

    name: str
    shape: str
    dtype: str
    low: float | None
    high: float | None
    device: str
    not_finite: bool = False
    by_batch: bool = False


@dataclass(frozen=True, slots=True)
class DeviceFit:
    """The graph for a GPU, constructed and not built.

    Attributes:
        on_gpu: operators of DALI's that run there, decoding included.
        on_host: those that run on the host.
    """

    on_gpu: int
    on_host: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same samples once more, under another circumstance.

    Attributes:
        circumstance: what was different, in words.
        differing: the names of outputs that were not the same bit for bit, in the same order.
    """

    circumstance: str
    differing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReferenceCheck:
    """Torch's side, on one image.

    Attributes:
        kind: ``reference`` or ``torch_dataset``, as the module calls it.
        shape: of the first image that came out.
        dtype: of it.
    """

    kind: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast batches came, after a warm-up, on this machine's CPU.

    Attributes:
        batch_s: the median time per batch. [Unit: second]
        images_per_s: samples per second at that pace.
        num_batches: how many were timed.
        num_threads: the loader's.
    """

    batch_s: float
    images_per_s: float
    num_batches: int
    num_threads: int


@dataclass(frozen=True, slots=True)
class Check:
    """Everything that was found of one pipeline.

    Attributes:
        pipeline: its name, as it can be written, with the parameters that were given.
        path: the file that defines it.
        data: what it read, in words.
        batch_size: samples per batch.
        num_batches: batches that ran; 0 where none did.
        num_samples: samples in them.
        outputs: what the loader yields, in order.
        gpu: ``None`` where the pipeline doesn't fit a GPU, or could not be described at all.
        comparisons: of the samples with the same ones under other circumstances.
        reference: ``None`` where the module has none, or it failed.
        speed: ``None`` where nothing was timed.
        faults: what is to be mended; none for a good pipeline.
        notes: what to know besides.
    """

    pipeline: str
    path: str
    data: str
    batch_size: int
    num_batches: int = 0
    num_samples: int = 0
    outputs: tuple[CheckedOutput, ...] = ()
    gpu: DeviceFit | None = None
    comparisons: tuple[Comparison, ...] = ()
    reference: ReferenceCheck | None = None
    speed: Speed | None = None
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether order and draws are the same under all circumstances that were tried."""
        return bool(self.comparisons) and not any(fault.concern == "exactness" for fault in self.faults)


def to_json(checks: Sequence[Check]) -> str:
    """The checks as JSON text, with the schema's name and version, ending in a newline."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "checks": [{**asdict(check), "exact": check.exact} for check in checks],
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"
