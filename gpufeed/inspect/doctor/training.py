"""What a training's CPU, disk and GPU use says about its loader: does it starve, and what holds it back?

A worker of torch's ``DataLoader`` is a process that runs its parent's command line (forked) or Python's
``multiprocessing``; the main process of a rank is the parent of workers, or one that has a CUDA context.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from gpufeed.inspect.doctor.findings import Finding, Level, bytes_text, counted
from gpufeed.inspect.doctor.watch import Moment, ProcessLook, Watched

__all__ = ["Training", "Verdict", "judge", "training_findings"]

Verdict = Literal["fed", "loader", "storage", "host", "step", "contended", "balanced", "unknown"]
"""What holds it back. ``fed``: the GPU is busy. ``loader``: making batches. ``storage``: reading. ``host``: the main
process, while the GPU waits. ``step``: the main process, on the CPU. ``contended``: main process and workers want more
CPUs than they get. ``balanced``: both are busy, and get them. ``unknown``: it can't be told from outside."""

_WARM_UP_SHARE, _WARM_UP_S = 1 / 3, 20.0  # imports, first batches, cuDNN's choice of algorithms
_LEAST_MOMENTS = 4
_BUSY, _IDLE = 0.7, 0.5  # of the time
_ACTIVE = 0.05  # of the time: a worker below it does nothing
_QUEUED = 0.15  # of the time: from here on the lack of CPUs counts
_OTHERS = 0.7  # of the usable CPUs: if threads wait for a CPU, and the training uses less, others have them
_WAITS_FOR_DISK = 0.2  # of the looks
_FED, _PARTLY_FED = 0.9, 0.7  # of the time


@dataclass(frozen=True, slots=True)
class Training:
    """A watched training in numbers, after its start. Shares are in [0, 1].

    Attributes:
        pid: of the process that was started or named.
        command: its command line.
        watched_s: how long the numbers are about. [Unit: second]
        num_looks: in that time.
        num_mains: main processes, one a rank.
        num_workers: worker processes, of all ranks; the median over the looks.
        num_threads: of all processes; the median over the looks.
        usable_cpus: of this machine or container.
        main_busy: share of the time in which a main process's first thread ran or waited for a CPU; the mean of ranks.
        main_queued: the part of it in which it waited for a CPU; 0 where the kernel doesn't count it.
        main_thread_cpus: CPUs that the main processes' other threads used together.
        worker_busy: as ``main_busy``, of the workers that were busy for at least 5 % of the time.
        worker_queued: as ``main_queued``, of these workers.
        worker_cpus: CPUs that the workers used together.
        active_workers: how many these workers are.
        total_cpus: CPUs that the whole tree used.
        waits_for_disk: share of the looks at main processes and workers that found one waiting for storage.
        disk_bytes_per_s: read from storage, not from the page cache; ``None`` where it isn't told. [Unit: byte/second]
        gpu_busy: share of the time in which a kernel ran, the mean over GPUs; ``None`` without a GPU.
        gpu_jpeg_busy: the same of their JPEG engines; ``None`` where it can't be seen.
        num_gpus: GPUs that this is about.
        gpus_are_its: whether the driver says that the training uses these GPUs; else it is the busiest one.
        ended: whether it ended while it was watched.
        exit_code: if it ended and was started here.
        interrupted: whether Ctrl-C ended the watching.
        verdict: what holds it back.
    """

    pid: int
    command: str
    watched_s: float
    num_looks: int
    num_mains: int
    num_workers: int
    num_threads: int
    usable_cpus: int
    main_busy: float
    main_queued: float
    main_thread_cpus: float
    worker_busy: float
    worker_queued: float
    worker_cpus: float
    active_workers: int
    total_cpus: float
    waits_for_disk: float
    disk_bytes_per_s: float | None
    gpu_busy: float | None
    gpu_jpeg_busy: float | None
    num_gpus: int
    gpus_are_its: bool
    ended: bool
    exit_code: int | None
    interrupted: bool
    verdict: Verdict


def judge(watched: Watched, usable_cpus: int) -> Training:
    """The numbers and the verdict.

    Args:
        watched: what was seen.
        usable_cpus: of this machine or container.
    """
    moments = _after_warm_up(watched)
    roles = _roles(moments)
    time_s = moments[-1].at_s - moments[0].at_s if moments else 0.0
    used = _used(moments)
    per_s = 1 / time_s if time_s else 0.0
    main = _busy(roles.mains, used)
    worker = _busy(roles.workers, used, at_least=_ACTIVE)
    main_threads_s = sum(used.cpu_s[pid] - used.main_thread_s[pid] for pid in roles.mains if pid in used.cpu_s)
    gpus = _gpus(moments, roles.mains)
    num_workers = _median([sum(look.pid in roles.workers for look in moment.processes) for moment in moments])
    numbers = _Numbers(
        main=main,
        main_thread_cpus=max(0.0, main_threads_s) * per_s,
        worker=worker,
        num_workers=num_workers,
        waits_for_disk=_waits_for_disk(moments, roles.mains | roles.workers),
        gpu_busy=gpus.busy,
    )
    enough = len(moments) >= _LEAST_MOMENTS
    return Training(
        pid=watched.pid,
        command=watched.command,
        watched_s=time_s,
        num_looks=len(moments),
        num_mains=len(roles.mains),
        num_workers=num_workers,
        num_threads=_median([sum(look.num_threads for look in moment.processes) for moment in moments]),
        usable_cpus=usable_cpus,
        main_busy=main.share,
        main_queued=main.queued,
        main_thread_cpus=numbers.main_thread_cpus,
        worker_busy=worker.share,
        worker_queued=worker.queued,
        worker_cpus=sum(used.cpu_s.get(pid, 0.0) for pid in roles.workers) * per_s,
        active_workers=worker.count,
        total_cpus=sum(used.cpu_s.values()) * per_s,
        waits_for_disk=numbers.waits_for_disk,
        disk_bytes_per_s=None if used.disk_bytes is None else used.disk_bytes * per_s,
        gpu_busy=gpus.busy,
        gpu_jpeg_busy=gpus.jpeg_busy,
        num_gpus=gpus.count,
        gpus_are_its=gpus.are_its,
        ended=watched.ended,
        exit_code=watched.exit_code,
        interrupted=watched.interrupted,
        verdict=_verdict(numbers) if enough else "unknown",
    )


# Numbers --------------------------------------------------------------------------------------------------------------


def _after_warm_up(watched: Watched) -> Sequence[Moment]:
    """Without the start, of a training that was started here."""
    moments = watched.moments
    if not watched.started_here or not moments:
        return moments
    begin_s, end_s = moments[0].at_s, moments[-1].at_s
    from_s = begin_s + min(_WARM_UP_S, _WARM_UP_SHARE * (end_s - begin_s))
    return [moment for moment in moments if moment.at_s >= from_s]


@dataclass(frozen=True, slots=True)
class _Roles:
    mains: frozenset[int]
    workers: frozenset[int]


def _roles(moments: Sequence[Moment]) -> _Roles:
    """Who is a main process and who a worker; launchers, trackers and other programs are neither."""
    if not moments:
        return _Roles(frozenset(), frozenset())
    looks = {look.pid: look for moment in moments for look in moment.processes}
    on_gpus = {pid for moment in moments for gpu in moment.gpus for pid in gpu.pids}
    alike = {pid for pid, look in looks.items() if _is_like_a_worker(look, looks) and pid not in on_gpus}
    # A process with workers of its own is a rank that was spawned, or the server that forks workers.
    parents = {looks[pid].parent for pid in alike}
    workers = alike - parents
    mains = {main for pid in workers if (main := _main_of(pid, looks)) is not None}
    mains |= on_gpus & looks.keys()
    if not mains:
        used = _used(moments).cpu_s
        others = [pid for pid in looks if pid not in workers]
        mains = {max(others, key=lambda pid: used.get(pid, 0.0))}
    return _Roles(frozenset(mains), frozenset(workers - mains))


def _is_like_a_worker(look: ProcessLook, looks: Mapping[int, ProcessLook]) -> bool:
    line = " ".join(look.command)
    if "resource_tracker" in line:
        return False
    parent = looks.get(look.parent)
    forked = parent is not None and bool(look.command) and look.command == parent.command
    return forked or "multiprocessing.spawn" in line or _is_fork_server(look)


def _is_fork_server(look: ProcessLook) -> bool:
    return "multiprocessing.forkserver" in " ".join(look.command)


def _main_of(pid: int, looks: Mapping[int, ProcessLook]) -> int | None:
    """The nearest process above that isn't the server which forks workers."""
    parent = looks.get(looks[pid].parent)
    while parent is not None and _is_fork_server(parent):
        parent = looks.get(parent.parent)
    return None if parent is None else parent.pid


@dataclass(frozen=True, slots=True)
class _Used:
    """By process, between the first and the last moment, ``seen_s`` how long it was there; of the disk in all."""

    seen_s: Mapping[int, float]
    cpu_s: Mapping[int, float]
    main_thread_s: Mapping[int, float]
    queued_s: Mapping[int, float]
    disk_bytes: int | None


def _used(moments: Sequence[Moment]) -> _Used:
    seen_s: defaultdict[int, float] = defaultdict(float)
    cpu_s: defaultdict[int, float] = defaultdict(float)
    main_thread_s: defaultdict[int, float] = defaultdict(float)
    queued_s: defaultdict[int, float] = defaultdict(float)
    disk_bytes: int | None = None
    for earlier, later in pairwise(moments):
        before = {look.pid: look for look in earlier.processes}
        for look in later.processes:
            last = before.get(look.pid)
            if last is None:
                continue
            seen_s[look.pid] += later.at_s - earlier.at_s
            # A number may be given to a new process, whose counters begin at 0.
            cpu_s[look.pid] += max(0.0, look.cpu_s - last.cpu_s)
            main_thread_s[look.pid] += max(0.0, look.main_thread_s - last.main_thread_s)
            queued_s[look.pid] += max(0.0, look.main_thread_queued_s - last.main_thread_queued_s)
            if look.disk_bytes is not None and last.disk_bytes is not None:
                disk_bytes = (disk_bytes or 0) + max(0, look.disk_bytes - last.disk_bytes)
    return _Used(seen_s, cpu_s, main_thread_s, queued_s, disk_bytes)


@dataclass(frozen=True, slots=True)
class _Busy:
    """First threads of some processes: the mean shares of the time in [0, 1], and how many processes these are."""

    share: float = 0.0
    queued: float = 0.0
    count: int = 0


def _busy(pids: frozenset[int], used: _Used, at_least: float = 0.0) -> _Busy:
    """Of those that ran or waited for a CPU for at least some share of the time that they were there."""
    found: list[tuple[float, float]] = []
    for pid in pids:
        seen_s = used.seen_s.get(pid, 0.0)
        if seen_s:
            queued = min(1.0, used.queued_s[pid] / seen_s)
            share = min(1.0, used.main_thread_s[pid] / seen_s + queued)
            if share >= at_least:
                found.append((share, queued))
    if not found:
        return _Busy()
    count = len(found)
    return _Busy(sum(share for share, _ in found) / count, sum(queued for _, queued in found) / count, count)


def _waits_for_disk(moments: Sequence[Moment], pids: frozenset[int]) -> float:
    looks = [look.waits_for_disk for moment in moments for look in moment.processes if look.pid in pids]
    return sum(looks) / len(looks) if looks else 0.0


def _median(values: Sequence[int]) -> int:
    return sorted(values)[len(values) // 2] if values else 0


@dataclass(frozen=True, slots=True)
class _Gpus:
    busy: float | None = None
    jpeg_busy: float | None = None
    count: int = 0
    are_its: bool = False


def _gpus(moments: Sequence[Moment], mains: frozenset[int]) -> _Gpus:
    """Of the GPUs that the main processes use, or where the driver doesn't say which of the busiest one."""
    readings = [gpu for moment in moments for gpu in moment.gpus]
    if not readings:
        return _Gpus()
    its = {gpu.index for gpu in readings if gpu.pids & mains}
    by_index = {
        index: [gpu for gpu in readings if gpu.index == index] for index in {reading.index for reading in readings}
    }
    busy = {index: sum(gpu.busy_percent for gpu in of) / len(of) / 100 for index, of in by_index.items()}
    chosen = its or {max(busy, key=lambda index: busy[index])}
    jpeg = [gpu.jpeg_percent for gpu in readings if gpu.index in chosen and gpu.jpeg_percent is not None]
    return _Gpus(
        busy=sum(busy[index] for index in chosen) / len(chosen),
        jpeg_busy=sum(jpeg) / len(jpeg) / 100 if jpeg else None,
        count=len(chosen),
        are_its=bool(its),
    )


# Verdict --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Numbers:
    """What the verdict is made from; see `Training`."""

    main: _Busy
    main_thread_cpus: float
    worker: _Busy
    num_workers: int
    waits_for_disk: float
    gpu_busy: float | None


def _verdict(numbers: _Numbers) -> Verdict:
    main, worker = numbers.main, numbers.worker
    if numbers.gpu_busy is not None and numbers.gpu_busy >= _FED:
        return "fed"
    workers_busy = worker.share >= _BUSY
    threads_busy = numbers.main_thread_cpus >= _BUSY and main.share < _IDLE
    if workers_busy and main.share >= _IDLE and max(main.queued, worker.queued) >= _QUEUED:
        return "contended"
    if workers_busy and main.share >= _BUSY:
        return "balanced"
    if workers_busy or threads_busy:
        return "loader"
    if main.share < _BUSY and numbers.waits_for_disk >= _WAITS_FOR_DISK:
        return "storage"
    if main.share >= _BUSY:
        if numbers.gpu_busy is not None:
            return "host"
        # Without workers the loading may be part of what keeps the main process busy.
        return "step" if numbers.num_workers else "unknown"
    return "unknown"


# In words -------------------------------------------------------------------------------------------------------------


def training_findings(training: Training) -> tuple[Finding, ...]:
    """The verdict, what it is made from, and what can't be known."""
    return tuple(finding for look in (_ending, _use, _crowded, _words, _unseen) for finding in look(training))


def _finding(topic: str, level: Level, what: str, meaning: str = "", next_step: str = "") -> Finding:
    return Finding("training", topic, level, what, meaning, next_step)


def _ending(training: Training) -> Iterator[Finding]:
    if training.exit_code:
        how = f"signal {-training.exit_code}" if training.exit_code < 0 else f"exit code {training.exit_code}"
        yield _finding(
            "process",
            "problem",
            f"The training ended by itself, with {how}.",
            next_step=f"Run it alone and read its last words: {training.command}",
        )
    elif training.ended:
        yield _finding(
            "process",
            "note",
            "The training ended while it was watched.",
            "Its end is in the numbers too.",
            "Watch one that runs for longer, or give fewer --seconds",
        )


def _use(training: Training) -> Iterator[Finding]:
    if not training.num_looks:
        return
    ranks = "Main process" if training.num_mains == 1 else f"{training.num_mains} main processes"
    workers = (
        "no worker processes"
        if not training.num_workers
        else f"{counted(training.num_workers, 'worker')}, {_workers(training)}"
    )
    disk = (
        "what it reads can't be seen"
        if training.disk_bytes_per_s is None
        else f"{bytes_text(training.disk_bytes_per_s)} a second from the disk"
    )
    yield _finding(
        "CPU and disk",
        "ok",
        f"{training.watched_s:.0f} s, {training.num_looks} looks. {ranks}: first thread "
        f"{_share_text(training.main_busy, training.main_queued)}, other threads {training.main_thread_cpus:.1f} CPUs; "
        f"{workers}. In all {training.total_cpus:.1f} of "
        f"{counted(training.usable_cpus, 'CPU')}, {counted(training.num_threads, 'thread')}, {disk}.",
    )
    if training.gpu_busy is not None:
        which = (
            counted(training.num_gpus, "GPU")
            if training.gpus_are_its
            else "The busiest GPU (the driver doesn't say which ones the training uses; others may use it too)"
        )
        engines = "" if training.gpu_jpeg_busy is None else f"; its JPEG engines {_percent(training.gpu_jpeg_busy)}"
        yield _finding("GPU", "ok", f"{which}: busy {_percent(training.gpu_busy)} of the time{engines}.")


def _workers(training: Training) -> str:
    if not training.active_workers:
        return "idle"
    are = "" if training.active_workers == training.num_workers else f"{training.active_workers} of them active, "
    return f"{are}{_share_text(training.worker_busy, training.worker_queued)}"


def _share_text(busy: float, queued: float) -> str:
    return f"{_percent(busy)} busy" + (f" ({_percent(queued)} of the time waiting for a CPU)" if queued >= 0.05 else "")


def _crowded(training: Training) -> Iterator[Finding]:
    """Whether other programs have the CPUs that the training waits for."""
    waits = max(training.main_queued, training.worker_queued)
    if waits >= _QUEUED and training.total_cpus < _OTHERS * training.usable_cpus:
        yield _finding(
            "CPU and disk",
            "note",
            f"It waits for a CPU {_percent(waits)} of the time, and uses {training.total_cpus:.1f} of "
            f"{counted(training.usable_cpus, 'CPU')}: other programs have the rest.",
            "Whatever is measured here is slower than it would be alone.",
            "top shows them",
        )


_COMPARE = "gpufeed compare DATA --transform FILE.py:NAME tells what the loader could give"


def _words(training: Training) -> Iterator[Finding]:
    waits = "" if training.gpu_busy is None else f" The GPU waits {_percent(1 - training.gpu_busy)} of the time."
    partly = training.gpu_busy is not None and training.gpu_busy >= _PARTLY_FED
    bad: Level = "note" if partly else "problem"
    match training.verdict:
        case "fed":
            yield _finding(
                "verdict",
                "ok",
                "It doesn't starve: a kernel ran nearly all the time. A faster loader can't help here.",
                "That a kernel runs doesn't say that it uses the whole GPU.",
            )
        case "loader":
            who = "workers" if training.active_workers else "the main process's threads"
            yield _finding(
                "verdict",
                bad,
                f"It starves: the main process waits while {who} work. Loading is what holds it back.{waits}",
                "A faster loader, or more CPUs for this one, makes the training faster.",
                f"from gpufeed import DataLoader; {_COMPARE}",
            )
        case "storage":
            yield _finding(
                "verdict",
                bad,
                f"It starves: {_percent(training.waits_for_disk)} of the looks found it waiting for the disk.{waits}",
                "Storage holds it back; faster decoding won't help before that is mended.",
                "Put the data on a faster or local disk, or into memory; or more workers, if it is a network",
            )
        case "host":
            yield _finding(
                "verdict",
                "note",
                f"The main process is {_percent(training.main_busy)} busy, and nothing else is.{waits}",
                "Either Python and the launching of kernels hold it back, or it waits actively for the GPU, or "
                "num_workers=0 loads in it.",
                f"If num_workers is 0, that is the cause: {_COMPARE}; else py-spy top --pid {training.pid}",
            )
        case "step":
            yield _finding(
                "verdict",
                "ok",
                f"It doesn't starve: the main process is {_percent(training.main_busy)} busy and the workers wait for "
                "it. The step holds it back; a faster loader can't help.",
            )
        case "contended":
            yield _finding(
                "verdict",
                "note",
                f"Main process and workers want more than the CPUs they get.{waits}",
                "They take CPU time from each other. Loading with less of it makes the step faster too.",
                f"Fewer num_workers, or more CPUs; {_COMPARE}",
            )
        case "balanced":
            yield _finding(
                "verdict",
                "note",
                f"Main process and workers are both busy, and neither waits for long.{waits}",
                "Both hold it back: a faster loader helps only as far as the step can follow.",
                _COMPARE,
            )
        case "unknown":
            yield _unknown(training, waits)


def _unknown(training: Training, waits: str) -> Finding:
    if training.num_looks < _LEAST_MOMENTS:
        return _finding(
            "verdict",
            "note",
            f"Not known: {counted(training.num_looks, 'look')} at it {'is' if training.num_looks == 1 else 'are'} too "
            "few.",
            next_step="Watch it for longer: --seconds 60",
        )
    if training.main_busy >= _BUSY:
        return _finding(
            "verdict",
            "note",
            f"Not known: the main process is {_percent(training.main_busy)} busy, and has no workers.",
            "With num_workers=0 loading and training share that process, and only it knows which of them takes longer.",
            f"{_COMPARE}; py-spy top --pid {training.pid} shows where it is",
        )
    return _finding(
        "verdict",
        "note",
        f"Not known: it uses {training.total_cpus:.1f} CPUs, and waits for something that is neither CPU nor disk."
        f"{waits}",
        "A network, a lock, a pause, or a GPU that can't be seen from here.",
        f"py-spy dump --pid {training.pid} shows what it waits for",
    )


def _unseen(training: Training) -> Iterator[Finding]:
    if training.gpu_busy is None and training.num_looks:
        yield _finding(
            "GPU",
            "note",
            "No GPU can be seen from here, so that the verdict is from CPU time alone.",
            "Whether a device waits can't be known, and a main process that waits actively looks busy. Nor can it be "
            "told from outside how long each batch is waited for.",
            "Where the training has a GPU, run this on its machine, in a container with the driver",
        )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
