"""What the facts about a machine mean for loading images, each with its next step. Nothing is read here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gpufeed.inspect.doctor.environment import DALI_WHEELS, Environment
from gpufeed.inspect.doctor.findings import Finding, Level, bytes_text, counted
from gpufeed.inspect.doctor.gpus import Driver, NoDriver, NvidiaGpu
from gpufeed.inspect.doctor.mounts import FileSystem

__all__ = ["environment_findings", "file_system_findings"]

_MIB, _GIB = 1 << 20, 1 << 30
_TYPICAL_BATCH = 256 * 3 * 224 * 224 * 4  # bytes: 256 float32 images of 224 x 224
_SHM_TIGHT = 8 * _TYPICAL_BATCH  # 4 workers with prefetch_factor=2
_FEW_FILES, _ENOUGH_FILES = 1024, 4096  # descriptors; 1024 is the usual soft limit
_LITTLE_MEMORY = 4 * _GIB
_CPUS_PER_GPU = 4  # fewer can hardly feed one by decoding on the CPU
_PYTORCH_PIP = "pip install torch torchvision --index-url https://download.pytorch.org/whl"


def environment_findings(environment: Environment) -> tuple[Finding, ...]:
    """Everything that is worth saying about the machine and what is installed; the data's file system apart."""
    return tuple(
        finding
        for look in (
            _driver,
            _cuda,
            _jpeg_engines,
            _dali,
            _versions,
            _pillow,
            _cpus,
            _shm,
            _temporary,
            _descriptors,
            _memory,
        )
        for finding in look(environment)
    )


def _finding(topic: str, level: Level, what: str, meaning: str = "", next_step: str = "") -> Finding:
    return Finding("environment", topic, level, what, meaning, next_step)


# GPU and CUDA ---------------------------------------------------------------------------------------------------------


def _driver(environment: Environment) -> Iterator[Finding]:
    driver = environment.driver
    if isinstance(driver, NoDriver):
        yield _no_driver(driver, environment.pci_gpus)
        return
    name = f"NVIDIA's driver {driver.version or 'of unknown version'}"
    if not driver.gpus:
        yield _finding(
            "GPU",
            "problem",
            f"{name} answers, and shows no GPU.",
            "In a container the GPUs have to be handed in; a GPU that fell off the bus isn't shown either.",
            "nvidia-smi -L; docker run --gpus all; dmesg | grep -i xid",
        )
        return
    runs = "" if driver.cuda is None else f", which runs CUDA {_dotted(driver.cuda)}"
    yield _finding("GPU", "ok", f"{_listed(driver.gpus)}; {name}{runs}.")
    if environment.variables.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1", "NoDevFiles"):
        value = environment.variables["CUDA_VISIBLE_DEVICES"]
        yield _finding(
            "GPU",
            "problem",
            f"CUDA_VISIBLE_DEVICES={value!r} hides every GPU from torch and DALI.",
            next_step="unset CUDA_VISIBLE_DEVICES",
        )


def _no_driver(driver: NoDriver, pci_gpus: int) -> Finding:
    if driver.installed:
        return _finding(
            "GPU",
            "problem",
            f"NVIDIA's driver is installed and doesn't answer: {driver.reason}.",
            "Its library and its kernel module don't fit together, or the module isn't loaded; after an update that "
            "needs a restart.",
            "nvidia-smi; then restart the machine, or sudo modprobe nvidia",
        )
    if pci_gpus:
        has = counted(pci_gpus, "NVIDIA GPU")
        return _finding(
            "GPU",
            "problem",
            f"The PCI bus shows {has}, and there is no driver here.",
            "torch and gpufeed use the CPU only.",
            "Install NVIDIA's driver; in a container, start it with docker run --gpus all",
        )
    return _finding("GPU", "ok", "No NVIDIA GPU and no driver: gpufeed decodes and augments on the CPU.")


def _listed(gpus: Sequence[NvidiaGpu]) -> str:
    kinds = Counter(
        gpu.name if gpu.memory_bytes is None else f"{gpu.name} ({bytes_text(gpu.memory_bytes)})" for gpu in gpus
    )
    return ", ".join(kind if count == 1 else f"{count} x {kind}" for kind, count in kinds.items())


def _cuda(environment: Environment) -> Iterator[Finding]:
    if "torch" not in environment.versions:
        return  # the versions say that it is missing
    gpus = environment.driver.gpus if isinstance(environment.driver, Driver) else ()
    built_for = environment.torch_cuda
    if built_for is None and gpus:
        yield _finding(
            "CUDA",
            "problem",
            f"torch {environment.versions['torch']} is a build without CUDA, and this machine has a GPU.",
            "Training runs on the CPU; gpufeed can't hand over batches on the GPU.",
            f"{_PYTORCH_PIP}/cu126",
        )
    elif built_for is not None and not gpus:
        yield _finding(
            "CUDA",
            "note",
            f"torch is a build for CUDA {built_for}, and no GPU can be used here.",
            "That works, on the CPU; its CUDA libraries take some gigabytes of disk for nothing.",
            f"Only if the space matters: {_PYTORCH_PIP}/cpu",
        )
    elif built_for is not None:
        yield from _fits(environment, "torch", built_for)
    if gpus:
        for wheel in environment.dali_wheels:
            yield from _fits(environment, f"DALI ({wheel})", _cuda_of_wheel(wheel))


def _cuda_of_wheel(wheel: str) -> str:
    digits = wheel.rpartition("cuda")[2]
    return f"{digits[:2]}.{digits[2:]}"


def _fits(environment: Environment, whose: str, built_for: str) -> Iterator[Finding]:
    """Whether the driver runs what a library brings: it runs older majors, and minor versions of its own major."""
    driver = environment.driver
    if not isinstance(driver, Driver) or driver.cuda is None:
        return
    runs = _dotted(driver.cuda)
    major, minor = (int(part) for part in (*built_for.split("."), "0")[:2])
    if major > driver.cuda[0]:
        yield _finding(
            "CUDA",
            "problem",
            f"{whose} is built for CUDA {built_for}, and the driver {driver.version} runs up to {runs}.",
            "It finds no usable GPU: a driver runs CUDA up to its own major version.",
            f"Update the driver, or install a build for CUDA {driver.cuda[0]}",
        )
    elif (major, minor) > driver.cuda:
        yield _finding(
            "CUDA",
            "note",
            f"{whose} is built for CUDA {built_for}, and the driver {driver.version} is of {runs}.",
            "That works (minor version compatibility), but kernels that have to be compiled on the spot may fail.",
            "If one does, update the driver",
        )
    else:
        yield _finding("CUDA", "ok", f"{whose} is built for CUDA {built_for}; the driver runs it.")


def _jpeg_engines(environment: Environment) -> Iterator[Finding]:
    gpus = environment.driver.gpus if isinstance(environment.driver, Driver) else ()
    for gpu in {gpu.name: gpu for gpu in gpus}.values():
        engines = gpu.jpeg_engines
        if engines is None:
            yield _finding(
                "JPEG engines",
                "note",
                f"{gpu.name}: whether it has hardware JPEG decoders isn't known here.",
                "The driver doesn't tell, and NVIDIA's documents that gpufeed goes by don't name the model. Without "
                "them DALI decodes on the GPU's cores, with a part on the CPU.",
                "Look for NVJPEG in the GPU's datasheet",
            )
        elif engines.count is None:
            yield _finding(
                "JPEG engines",
                "ok",
                f"{gpu.name}: it has some ({engines.origin}); how many isn't known here. They decode baseline JPEGs.",
            )
        elif engines.count == 0:
            yield _finding(
                "JPEG engines",
                "ok",
                f"{gpu.name}: none ({engines.origin}). JPEGs are decoded on its cores, with a part on the CPU.",
            )
        else:
            yield _finding(
                "JPEG engines",
                "ok",
                f"{gpu.name}: {engines.count} ({engines.origin}; a MIG slice has fewer). They decode baseline JPEGs.",
            )


# What is installed ----------------------------------------------------------------------------------------------------


def _dali(environment: Environment) -> Iterator[Finding]:
    wanted = next((name for name in DALI_WHEELS if name in environment.required), DALI_WHEELS[0])
    wheels = environment.dali_wheels
    if not wheels:
        yield _finding(
            "DALI",
            "problem",
            "DALI isn't installed.",
            "gpufeed decodes with it.",
            f"pip install '{wanted}{environment.required.get(wanted, '')}'",
        )
    elif len(wheels) > 1:
        yield _finding(
            "DALI",
            "problem",
            f"{len(wheels)} wheels of DALI are installed at once: {', '.join(wheels)}.",
            "They hold the same files, so that the one installed last overwrote parts of the other: a mixture.",
            f"pip uninstall -y {' '.join(wheels)} && pip install '{wanted}{environment.required.get(wanted, '')}'",
        )


def _versions(environment: Environment) -> Iterator[Finding]:
    names = ("torch", "torchvision", "pillow", *environment.dali_wheels)
    fine: list[str] = []
    for name in names:
        version = environment.versions.get(name)
        required = environment.required.get(name, "")
        if version is None:
            if name == "pillow" and "pillow-simd" in environment.versions:
                continue
            yield _finding(
                "versions", "problem", f"{name} isn't installed.", next_step=f"pip install '{name}{required}'"
            )
        elif (within := _is_within(version, required)) is None:
            fine.append(f"{name} {version} (needed: {required}; not compared, the package packaging is missing)")
        elif within:
            fine.append(f"{name} {version}")
        else:
            yield _finding(
                "versions",
                "problem",
                f"{name} is {version}, and gpufeed needs {required}.",
                "Other versions weren't tested; pixels, errors and speed may differ.",
                f"pip install '{name}{required}'",
            )
    if fine:
        known = "" if environment.required else " What gpufeed requires isn't known: it isn't installed by pip."
        yield _finding("versions", "ok", f"{', '.join(fine)}.{known}")


def _is_within(version: str, required: str) -> bool | None:
    """By the rules of version specifiers, local parts such as ``+cu130`` and pre-releases included."""
    if not required:
        return True
    try:
        from packaging.specifiers import SpecifierSet
    except ModuleNotFoundError:  # DALI brings it
        return None
    return SpecifierSet(required).contains(version, prereleases=True)


def _pillow(environment: Environment) -> Iterator[Finding]:
    simd = environment.versions.get("pillow-simd")
    if simd is None:
        return
    both = "pillow" in environment.versions
    yield _finding(
        "Pillow",
        "problem" if both else "note",
        f"pillow-simd {simd} is installed{' beside Pillow, whose files it shares' if both else ' in place of Pillow'}.",
        "It is a fork of an old Pillow; gpufeed's bounds were measured against Pillow itself.",
        f"pip uninstall -y pillow-simd{' pillow' if both else ''} && pip install pillow",
    )


# What the system grants -----------------------------------------------------------------------------------------------


def _cpus(environment: Environment) -> Iterator[Finding]:
    usable, logical = environment.usable_cpus, environment.logical_cpus
    threads = environment.variables.get("OMP_NUM_THREADS")
    if usable < logical:
        yield _finding(
            "CPU",
            "note",
            f"This process may use {usable} of {counted(logical, 'CPU')} (its affinity, or a container's quota).",
            f"Libraries that count CPUs may start {logical} threads, which then take turns. gpufeed counts {usable}.",
            f"export OMP_NUM_THREADS={usable}, and at most {usable} num_workers",
        )
    else:
        yield _finding("CPU", "ok", f"{counted(logical, 'CPU')}, all usable.")
    if threads is not None:
        yield from _omp(threads, usable)
    gpus = len(environment.driver.gpus) if isinstance(environment.driver, Driver) else 0
    if gpus and usable < gpus * _CPUS_PER_GPU:
        yield _finding(
            "CPU",
            "note",
            f"{counted(usable, 'CPU')} for {counted(gpus, 'GPU')}: fewer than {_CPUS_PER_GPU} for each.",
            "Decoding on the CPU can hardly feed such a machine; the more is gained by decoding on the GPU.",
            "gpufeed compare DATA --device cuda",
        )


def _omp(threads: str, usable: int) -> Iterator[Finding]:
    if not threads.isdecimal() or int(threads) < 1:
        yield _finding(
            "CPU",
            "note",
            f"OMP_NUM_THREADS={threads!r} is no whole number above 0, and may be ignored.",
            next_step=f"export OMP_NUM_THREADS={usable}",
        )
    elif int(threads) > usable:
        yield _finding(
            "CPU",
            "note",
            f"OMP_NUM_THREADS={threads} is more than the {counted(usable, 'usable CPU')}.",
            "torch's operators on the CPU start so many threads, in each process, and they take turns.",
            f"export OMP_NUM_THREADS={usable}",
        )


def _shm(environment: Environment) -> Iterator[Finding]:
    size = environment.shm_bytes
    batch = bytes_text(_TYPICAL_BATCH)
    if size is not None and size >= _SHM_TIGHT:
        yield _finding("/dev/shm", "ok", f"{bytes_text(size)}. torch's workers need it, gpufeed doesn't.")
        return
    too_small = size is None or size < 2 * _TYPICAL_BATCH
    yield _finding(
        "/dev/shm",
        "problem" if too_small else "note",
        "There is none." if size is None else f"It has {bytes_text(size)}.",
        f"Workers of torch's DataLoader pass batches through it: {batch} for 256 float images of 224 x 224, and "
        f"num_workers x prefetch_factor of them. Without room they die of a bus error. gpufeed needs none of it.",
        "docker run --shm-size=8g (or --ipc=host); elsewhere sudo mount -o remount,size=8G /dev/shm",
    )


def _temporary(environment: Environment) -> Iterator[Finding]:
    why = environment.temporary_too_long
    if why:
        yield _finding("TMPDIR", "problem", f"{why[0].upper()}{why[1:]}.", next_step="export TMPDIR=/tmp")


def _descriptors(environment: Environment) -> Iterator[Finding]:
    soft, hard = environment.open_files
    if soft < 0 or soft >= _ENOUGH_FILES:
        limit = "Unlimited" if soft < 0 else f"{soft:,}"
        yield _finding("descriptors", "ok", f"{limit} open files.")
        return
    can = "" if hard < 0 or hard >= 65536 else f"; the hard limit is {hard:,}, which root can raise"
    wanted = 65536 if hard < 0 else min(65536, hard)
    yield _finding(
        "descriptors",
        "problem" if soft < _FEW_FILES else "note",
        f"This process may have {soft:,} files open{can}.",
        "torch's workers hold one for each tensor in flight; at the limit they fail with 'too many open files'.",
        f"ulimit -n {wanted}" if wanted > soft else "Raise the hard limit in /etc/security/limits.conf",
    )


def _memory(environment: Environment) -> Iterator[Finding]:
    limit, there_is = environment.memory_limit_bytes, environment.memory_bytes
    if limit is None or limit >= there_is:
        yield _finding("memory", "ok", f"{bytes_text(there_is)}.")
        return
    little = limit < _LITTLE_MEMORY
    yield _finding(
        "memory",
        "note" if little else "ok",
        f"The container may use {bytes_text(limit)} of {bytes_text(there_is)}, cached files included.",
        "Each worker process of torch's loader costs some hundred MiB of it; gpufeed has no worker processes."
        if little
        else "",
        "Few num_workers, or docker run --memory with more" if little else "",
    )


# The data's file system -----------------------------------------------------------------------------------------------


def file_system_findings(found: FileSystem) -> tuple[Finding, ...]:
    """What the file system of the data means for reading it."""
    where = f"DATA lies on {found.type or 'a file system without a name'}, mounted at {found.mounted_at or '?'}"
    room = f"{bytes_text(found.free_bytes)} free"
    if found.kind == "network":
        return (
            Finding(
                "data",
                "file system",
                "note",
                f"{where}: a network file system ({room}).",
                "Each small file costs a round trip; many threads or workers hide that only in part.",
                "Copy the data to a local disk, at least for one comparison; or pack it in tar shards",
            ),
        )
    if found.kind == "overlay":
        return (
            Finding(
                "data",
                "file system",
                "note",
                f"{where}: a container's layers ({room}).",
                "Opening a file looks through the layers, and what is written there is gone with the container.",
                "Mount the data: docker run -v /where/it/is:/data:ro",
            ),
        )
    if found.kind == "unknown":
        return (
            Finding(
                "data",
                "file system",
                "note",
                f"{where} ({room}); whether that is local isn't known here.",
                next_step="If it is a network file system, compare with a copy on a local disk",
            ),
        )
    kind = "in memory" if found.kind == "memory" else "local"
    return (Finding("data", "file system", "ok", f"{where}: {kind} ({room})."),)


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
