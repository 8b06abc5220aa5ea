"""What a comparison asks of a contender's process, and what it answers. Plain data, pickled over a socket.

A process may hold several loaders at a time, each in a slot of its own: a contender's with another number of samples,
or several contenders'. The slot without a name is there for what is alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from gpufeed.bench.contenders import Contender
from gpufeed.bench.results import Cost, Epoch
from gpufeed.bench.workload import Workload

__all__ = [
    "STEP_SLOT",
    "Answer",
    "Close",
    "Costs",
    "Done",
    "Failure",
    "Fork",
    "Join",
    "Look",
    "MeasureCosts",
    "Open",
    "Prepare",
    "Probe",
    "Probed",
    "Question",
    "RunEpoch",
    "Seen",
    "StepTimed",
    "TimeStep",
]


STEP_SLOT = "/step"
"""Ends the slot of a loader that feeds a training step; its contender is that of the slot without this ending."""


@dataclass(frozen=True, slots=True)
class Prepare:
    """Import the contender's libraries. Answered with :class:`Done`.

    Attributes:
        contender: who lives in this process.
        num_threads: torch's own threads in it: the same thread budget as everywhere.
        slot: whose loaders it makes.
    """

    contender: Contender
    num_threads: int
    slot: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """Run the file that a user names and see what it holds. Answered with :class:`Seen`.

    Attributes:
        transform: see :class:`~gpufeed.bench.workload.Workload`.
        parameters: likewise.
    """

    transform: object
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """What a reference names.

    Attributes:
        is_pipeline: whether it is a pipeline, and not a transform.
        opens_data: whether the pipeline opens its data by a source of its own.
        torch_side: what torch's loaders run for a pipeline, in words; empty for a transform, and where there is none.
    """

    is_pipeline: bool = False
    opens_data: bool = False
    torch_side: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """Find out what only torch knows. Answered with :class:`Probed`.

    Attributes:
        transform: see :class:`~gpufeed.bench.workload.Workload`.
        image_path: an image to run a transform on.
        device: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
        parameters: of a pipeline.
        root: what the pipeline's own source opens; ``None`` where it has none.
    """

    transform: object
    image_path: str
    device: str
    parameters: tuple[str, ...] = ()
    root: str | None = None


@dataclass(frozen=True, slots=True)
class Probed:
    """What a device and a transform or pipeline turn out to be.

    Attributes:
        device: resolved, ``"cpu"`` or ``"cuda:N"``.
        device_name: the GPU's model, empty for the CPU.
        dtype: of the transform's output, torch's name without ``torch.``; empty for a pipeline.
        transform_text: the transform or pipeline as it prints itself.
        cuda_version: that torch was built for, empty without CUDA.
        names: of the samples of the pipeline's own source, for files their paths.
    """

    device: str
    device_name: str
    dtype: str
    transform_text: str
    cuda_version: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Open:
    """Close what is open in the slot and enter its contender with this workload. Answered with :class:`Done`."""

    workload: Workload
    slot: str = ""


@dataclass(frozen=True, slots=True)
class RunEpoch:
    """Run and check one epoch. Answered with an :class:`~gpufeed.bench.results.Epoch`.

    Attributes:
        with_pixels: also look at all pixels; for epochs whose time isn't used.
        slot: whose loader runs.
        step: what each batch feeds, see `gpufeed.bench.steps.check_step`; empty: nothing. It is made at its first use.
    """

    with_pixels: bool = False
    slot: str = ""
    step: str = ""


@dataclass(frozen=True, slots=True)
class TimeStep:
    """Run an epoch of the slot's loader, and time the step on its first batch. Answered with :class:`StepTimed`.

    Attributes:
        step: see :class:`RunEpoch`.
        slot: whose loader gives the batch.
    """

    step: str
    slot: str = ""


@dataclass(frozen=True, slots=True)
class StepTimed:
    """What a step takes.

    Attributes:
        what: it is in words.
        s_per_batch: on a batch that lies on the device, median. [Unit: second]
    """

    what: str
    s_per_batch: float


@dataclass(frozen=True, slots=True)
class MeasureCosts:
    """Time the parts of loading an image, see `gpufeed.bench.costs`. Answered with :class:`Costs`."""

    workload: Workload


@dataclass(frozen=True, slots=True)
class Costs:
    """What they cost."""

    parts: tuple[Cost, ...]


@dataclass(frozen=True, slots=True)
class Fork:
    """Answer what follows in a child that has inherited the imports, until :class:`Join`. Answered with :class:`Done`.

    Attributes:
        contender: who lives in the child.
        num_threads: see :class:`Prepare`.
    """

    contender: Contender
    num_threads: int


@dataclass(frozen=True, slots=True)
class Join:
    """Leave the contender and end the child; its parent goes on. Answered with :class:`Done`."""


@dataclass(frozen=True, slots=True)
class Close:
    """Leave the slot's contender. Answered with :class:`Done`."""

    slot: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """It is done."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The answer to any question that failed.

    Attributes:
        kind: the user's argument is wrong; the contender can't do this workload; it did unequal work; it raised.
        message: for ``"argument"`` and ``"unsupported"`` a sentence, else what follows the contender's name.
    """

    kind: Literal["argument", "unsupported", "unequal", "raised"]
    message: str


Question: TypeAlias = Prepare | Look | Probe | Open | RunEpoch | TimeStep | MeasureCosts | Close | Fork | Join
Answer: TypeAlias = Done | Seen | Probed | Epoch | StepTimed | Costs | Failure
