"""What a comparison asks of a contender's process, and what it answers. Plain data, pickled over a socket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from gpufeed.bench.contenders import Contender
from gpufeed.bench.results import Epoch
from gpufeed.bench.workload import Workload

__all__ = [
    "Answer",
    "Close",
    "Done",
    "Failure",
    "Look",
    "Open",
    "Prepare",
    "Probe",
    "Probed",
    "Question",
    "RunEpoch",
    "Seen",
]


@dataclass(frozen=True, slots=True)
class Prepare:
    """Import the contender's libraries. Answered with :class:`Done`.

    Attributes:
        contender: who lives in this process.
        num_threads: torch's own threads in it: the same thread budget as everywhere.
    """

    contender: Contender
    num_threads: int


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
    """Close what is open and enter the contender with this workload. Answered with :class:`Done`."""

    workload: Workload


@dataclass(frozen=True, slots=True)
class RunEpoch:
    """Run and check one epoch. Answered with an :class:`~gpufeed.bench.results.Epoch`.

    Attributes:
        with_pixels: also look at all pixels; for epochs whose time isn't used.
    """

    with_pixels: bool = False


@dataclass(frozen=True, slots=True)
class Close:
    """Leave the contender. Answered with :class:`Done`."""


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


Question: TypeAlias = Prepare | Look | Probe | Open | RunEpoch | Close
Answer: TypeAlias = Done | Seen | Probed | Epoch | Failure
