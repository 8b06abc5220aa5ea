"""What the driver tells about NVIDIA GPUs, through NVML: no CUDA context is made, and no GPU is woken or set.

Every function takes the module to ask, ``pynvml`` or something with its functions (tests).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import pynvml

__all__ = [
    "NVML",
    "Driver",
    "GpuReading",
    "JpegEngines",
    "NoDriver",
    "NvidiaGpu",
    "gpu_meter",
    "jpeg_engines",
    "nvidia_devices",
    "read_driver",
]

NVML = cast(Any, pynvml)
"""The module that is asked if none is given."""

_NVIDIA_PCI_VENDOR = "0x10de"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class JpegEngines:
    """How many hardware JPEG decoders of a GPU nvJPEG can use, and who says so.

    Attributes:
        count: of one whole GPU, not of a MIG slice of it; 0 where there are none, ``None`` where there are some and
            their number isn't known.
        origin: where that comes from.
    """

    count: int | None
    origin: str


@dataclass(frozen=True, slots=True)
class NvidiaGpu:
    """A GPU as the driver names it. What the driver doesn't tell is ``None``.

    Attributes:
        index: NVML's, in the order of the PCI bus.
        name: the product's name.
        memory_bytes: all of its memory. [Unit: byte]
        compute_capability: major and minor.
        jpeg_engines: ``None`` where not even their presence is known.
    """

    index: int
    name: str
    memory_bytes: int | None
    compute_capability: tuple[int, int] | None
    jpeg_engines: JpegEngines | None


@dataclass(frozen=True, slots=True)
class Driver:
    """A driver that answers.

    Attributes:
        version: the driver's own, such as ``580.65.06``; ``None`` where it doesn't tell.
        cuda: the newest CUDA version that it runs, major and minor.
        gpus: possibly none.
    """

    version: str | None
    cuda: tuple[int, int] | None
    gpus: tuple[NvidiaGpu, ...]


@dataclass(frozen=True, slots=True)
class NoDriver:
    """No driver answers.

    Attributes:
        installed: whether its library is there all the same, and something is wrong with it.
        reason: NVML's words.
    """

    installed: bool
    reason: str


# JPEG engines ---------------------------------------------------------------------------------------------------------

# NVML tells how busy JPEG engines are, not how many there are.
_GUIDE = "NVIDIA's MIG user guide"
"""Its page "Supported MIG Profiles" lists the media engines of each profile; the largest profile is the whole GPU.

That page gives the B200 one engine as a whole, and one to each of seven slices at once: what contradicts itself isn't
taken.
"""
_ENGINES_BY_MODEL = (
    ("A100", 1, f"{_GUIDE}; it has several cores"),
    ("A30", 1, _GUIDE),
    ("H100", 7, _GUIDE),
    ("H200", 7, _GUIDE),
    ("RTX PRO 6000 Blackwell", 4, _GUIDE),
    ("RTX PRO 5000 Blackwell", 1, _GUIDE),
    ("RTX PRO 4500 Blackwell", 2, _GUIDE),
    ("Thor", 2, _GUIDE),
    ("L4", 4, "NVIDIA's product page of the L4"),
)
_NVJPEG = "nvJPEG's documentation"
"""Its section "Hardware Acceleration": of Ampere the A100 and the A30; Hopper, Ada, Blackwell and Jetson Thor."""
_GA100 = (8, 0)
_WITHOUT_ENGINES = ((8, 6), (8, 7))  # GA10x; Jetson Orin, whose own engines nvJPEG doesn't drive
_ADA = (8, 9)
_HOPPER_BLACKWELL_THOR = (9, 10, 11, 12)  # major versions; later ones aren't in that list


def jpeg_engines(name: str, compute_capability: tuple[int, int] | None) -> JpegEngines | None:
    """The hardware JPEG decoders of a model, by tables; ``None`` where they don't tell.

    The numbers are those of NVIDIA's MIG user guide ("Supported MIG Profiles") and, of the L4, of its product page;
    whether an architecture has any is what nvJPEG's documentation says ("Hardware Acceleration").

    Args:
        name: the product's name as the driver gives it, such as ``NVIDIA A100-SXM4-80GB``.
        compute_capability: major and minor, if known.
    """
    words = f" {name.replace('-', ' ')} "
    for model, count, origin in _ENGINES_BY_MODEL:
        if f" {model} " in words and "Laptop" not in words:  # a laptop's GPU of the same name is another chip
            return JpegEngines(count, origin)
    return None if compute_capability is None else _engines_by_architecture(compute_capability)


def _engines_by_architecture(compute_capability: tuple[int, int]) -> JpegEngines | None:
    if compute_capability < _GA100:
        return JpegEngines(0, f"{_NVJPEG}: no GPU before the A100 has any")
    if compute_capability in _WITHOUT_ENGINES:
        return JpegEngines(0, f"{_NVJPEG}: of its generation it uses only the A100's and the A30's")
    if compute_capability == _ADA or compute_capability[0] in _HOPPER_BLACKWELL_THOR:
        return JpegEngines(None, _NVJPEG)
    return None


# The driver -----------------------------------------------------------------------------------------------------------


def read_driver(nvml: Any = NVML) -> Driver | NoDriver:
    """Ask the driver about itself and its GPUs."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        missing = getattr(error, "value", None) == nvml.NVML_ERROR_LIBRARY_NOT_FOUND
        return NoDriver(installed=not missing, reason=str(error))
    try:
        count = _answer(nvml, nvml.nvmlDeviceGetCount) or 0
        gpus = [_gpu(nvml, index) for index in range(count)]
        return Driver(
            version=_text(_answer(nvml, nvml.nvmlSystemGetDriverVersion)),
            cuda=_cuda_version(_answer(nvml, nvml.nvmlSystemGetCudaDriverVersion)),
            gpus=tuple(gpu for gpu in gpus if gpu is not None),
        )
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: Any, index: int) -> NvidiaGpu | None:
    handle = _answer(nvml, nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:  # it may have fallen off the bus
        return None
    name = _text(_answer(nvml, nvml.nvmlDeviceGetName, handle)) or "a GPU without a name"
    memory = _answer(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    capability = _answer(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)
    pair = None if capability is None else (int(capability[0]), int(capability[1]))
    return NvidiaGpu(index, name, None if memory is None else int(memory.total), pair, jpeg_engines(name, pair))


def _answer(nvml: Any, question: Callable[..., _T], *arguments: object) -> _T | None:
    """NVML's answer; ``None`` where this GPU or this driver doesn't know it."""
    try:
        return question(*arguments)
    except nvml.NVMLError:
        return None


def _text(answer: str | bytes | None) -> str | None:
    """Older versions of pynvml give bytes."""
    return answer.decode(errors="replace") if isinstance(answer, bytes) else answer


def _cuda_version(answer: int | None) -> tuple[int, int] | None:
    """``cuda.h``'s number: 1000 times the major and 10 times the minor version."""
    return None if answer is None else (answer // 1000, answer % 1000 // 10)


def nvidia_devices(pci: Path = Path("/sys/bus/pci/devices")) -> int:
    """How many display or 3D controllers of NVIDIA's the PCI bus shows, whether there is a driver or not."""
    found = 0
    for device in pci.glob("*"):
        try:
            vendor, kind = (device / "vendor").read_text().strip(), (device / "class").read_text().strip()
        except OSError:
            continue
        found += vendor == _NVIDIA_PCI_VENDOR and kind.startswith("0x03")  # class 03: display controllers
    return found


# How busy they are ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GpuReading:
    """How busy a GPU is at a moment.

    Attributes:
        index: NVML's.
        busy_percent: share of the driver's last sampling period (up to a second) in which a kernel ran, in [0, 100].
        jpeg_percent: the same of its JPEG engines; ``None`` where the driver doesn't tell.
        pids: processes with a CUDA context on it; in a container the numbers may be the host's, or missing.
    """

    index: int
    busy_percent: int
    jpeg_percent: int | None
    pids: frozenset[int]


@contextmanager
def gpu_meter(nvml: Any = NVML) -> Generator[Callable[[], tuple[GpuReading, ...]]]:
    """Keeps NVML open, and gives a function that reads every GPU; it gives nothing where there is no driver."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        yield lambda: ()
        return
    try:
        count = _answer(nvml, nvml.nvmlDeviceGetCount) or 0
        handles = [_answer(nvml, nvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
        yield lambda: _readings(nvml, handles)
    finally:
        nvml.nvmlShutdown()


def _readings(nvml: Any, handles: Sequence[Any]) -> tuple[GpuReading, ...]:
    found: list[GpuReading] = []
    for index, handle in enumerate(handles):
        rates = None if handle is None else _answer(nvml, nvml.nvmlDeviceGetUtilizationRates, handle)
        if rates is None:  # a MIG device doesn't tell
            continue
        ask_jpeg = getattr(nvml, "nvmlDeviceGetJpgUtilization", None)  # older versions of pynvml lack it
        jpeg = None if ask_jpeg is None else _answer(nvml, ask_jpeg, handle)
        processes = _answer(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()
        pids = frozenset(int(process.pid) for process in processes)
        found.append(GpuReading(index, int(rates.gpu), None if jpeg is None else int(jpeg[0]), pids))
    return tuple(found)
