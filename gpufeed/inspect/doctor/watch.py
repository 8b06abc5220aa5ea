"""Watching a training from outside: CPU time, disk, threads of its process tree, and the GPUs. Linux only.

Nothing is traced, stopped or slowed: two looks a second at /proc and at NVML.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

import psutil

from gpufeed.errors import ArgumentError
from gpufeed.inspect.doctor.gpus import GpuReading

__all__ = ["Moment", "ProcessLook", "Watched", "arguments_of", "running", "started", "watch"]

_GRACE_S = 10.0  # to end by itself after SIGTERM
_STDERR = 2


@dataclass(frozen=True, slots=True)
class ProcessLook:
    """A process at a moment.

    Attributes:
        pid: its id.
        parent: its parent's.
        command: its command line.
        cpu_s: CPU time that it has used so far, all threads. [Unit: second]
        main_thread_s: of its first thread, which runs Python's ``__main__``. [Unit: second]
        main_thread_queued_s: how long that thread was ready and waited for a CPU so far; 0 where the kernel doesn't
            count it. [Unit: second]
        disk_bytes: read from storage so far; ``None`` where that is not for us to know. [Unit: byte]
        num_threads: now.
        waits_for_disk: whether its first thread is in the kernel's uninterruptible sleep.
    """

    pid: int
    parent: int
    command: tuple[str, ...]
    cpu_s: float
    main_thread_s: float
    main_thread_queued_s: float
    disk_bytes: int | None
    num_threads: int
    waits_for_disk: bool


@dataclass(frozen=True, slots=True)
class Moment:
    """A process tree and the GPUs at a moment.

    Attributes:
        at_s: of a monotonic clock. [Unit: second]
        processes: the root first.
        gpus: none where there is no driver.
    """

    at_s: float
    processes: tuple[ProcessLook, ...]
    gpus: tuple[GpuReading, ...] = ()


@dataclass(frozen=True, slots=True)
class Watched:
    """What was seen.

    Attributes:
        pid: the root of the tree.
        command: as it was given, or the root's command line.
        started_here: whether gpufeed started it, so that the first moments are its start.
        moments: in order.
        exit_code: where it ended meanwhile and was started here; negative for a signal.
        ended: whether it ended meanwhile.
        interrupted: whether Ctrl-C ended the watching.
    """

    pid: int
    command: str
    started_here: bool
    moments: tuple[Moment, ...]
    exit_code: int | None = None
    ended: bool = False
    interrupted: bool = False


# Starting and ending --------------------------------------------------------------------------------------------------


def arguments_of(command: str) -> list[str]:
    """A command as a shell splits it into words; nothing else of a shell is done.

    Raises:
        ArgumentError: for no command, an open quotation mark, or a variable that only a shell would set.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ArgumentError(f"--train {command!r} can't be split into words ({error}); close the quotation") from error
    if not words:
        raise ArgumentError("--train needs a command, got an empty text; give --train 'python train.py'")
    name, equals, _ = words[0].partition("=")
    if equals and name.isidentifier():
        raise ArgumentError(f"--train is run without a shell, which {words[0]!r} needs; put env before it")
    return words


@contextmanager
def started(command: str, *, keep: bool = False) -> Generator[subprocess.Popen[bytes]]:
    """A training, started in a session and process group of its own; what it prints goes to stderr.

    At the end its group is asked to end (SIGTERM), and killed after 10 s; also when this process is told to end.

    Args:
        command: see `arguments_of`.
        keep: leave it running at the end.

    Raises:
        ArgumentError: it can't be started.
    """
    words = arguments_of(command)
    with _ended_by_sigterm():
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=_STDERR, stderr=_STDERR, start_new_session=True
            )
        except OSError as error:
            raise ArgumentError(
                f"--train can't start {words[0]!r} ({error.strerror or error}); check its name and its path, and give "
                "what needs a shell as --train \"sh -c '...'\""
            ) from error
        try:
            yield process
        finally:
            if not keep:
                _end_group(process)


@contextmanager
def _ended_by_sigterm() -> Generator[None]:
    """SIGTERM raises here, so that what was started is ended; only possible in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Its number is the first process's id, which nobody else gets before that is reaped, at the very end."""
    _signal_group(process.pid, signal.SIGTERM)
    deadline_s = time.monotonic() + _GRACE_S
    while _exit_code(process) is None and time.monotonic() < deadline_s:
        time.sleep(0.02)
    _signal_group(process.pid, signal.SIGKILL)  # also what outlived its parent
    process.wait()


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """As ``Popen.poll``, but the process isn't reaped; ``None`` while it runs."""
    if process.returncode is not None:
        return process.returncode
    status = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if status is None:
        return None
    return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def running(pid: int) -> psutil.Process:
    """A process that runs already.

    Raises:
        ArgumentError: there is none of this id.
    """
    try:
        return psutil.Process(pid)
    except (psutil.NoSuchProcess, ValueError, OverflowError) as error:
        raise ArgumentError(f"--pid must be a running process's id, got {pid}; pgrep -af python lists some") from error


# Looking --------------------------------------------------------------------------------------------------------------


def watch(
    root: psutil.Process,
    seconds: float,
    meter: Callable[[], tuple[GpuReading, ...]],
    *,
    popen: subprocess.Popen[bytes] | None = None,
    command: str = "",
    interval_s: float = 0.5,
    wait: Callable[[float], None] = time.sleep,
    seen: Callable[[float], None] = lambda _passed_s: None,
) -> Watched:
    """Look at a process tree until the time is over, it ends, or Ctrl-C.

    Args:
        root: of the tree.
        seconds: how long. [Unit: second]
        meter: reads the GPUs; see `gpufeed.inspect.doctor.gpus.gpu_meter`.
        popen: where it was started here.
        command: how it was started; else its command line is taken.
        interval_s: between two looks. [Unit: second]
        wait: waits so long (tests).
        seen: told after each look how much time has passed. [Unit: second]
    """
    moments: list[Moment] = []
    interrupted = False
    command = command or shlex.join(_command(root))
    begin_s = time.monotonic()
    try:
        while True:
            moment = _look(root, meter)
            if moment is None:
                break
            moments.append(moment)
            seen(moment.at_s - begin_s)
            if moment.at_s - begin_s >= seconds:
                break
            wait(interval_s)
    except KeyboardInterrupt:
        interrupted = True
    return Watched(
        pid=root.pid,
        command=command,
        started_here=popen is not None,
        moments=tuple(moments),
        exit_code=None if popen is None else _exit_code(popen),
        ended=not _is_alive(root),
        interrupted=interrupted,
    )


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _look(root: psutil.Process, meter: Callable[[], tuple[GpuReading, ...]]) -> Moment | None:
    """``None`` where the root has ended."""
    if not _is_alive(root):
        return None
    try:
        tree = [root, *root.children(recursive=True)]
    except psutil.Error:
        return None
    gpus = meter()
    at_s = time.monotonic()
    looks = [look for process in tree if (look := _look_at(process)) is not None]
    return Moment(at_s, tuple(looks), gpus) if looks and looks[0].pid == root.pid else None


def _look_at(process: psutil.Process) -> ProcessLook | None:
    """``None`` where it ended between the listing and now, or belongs to someone else."""
    try:
        with process.oneshot():
            times = process.cpu_times()
            main_thread_s, state = _main_thread(process.pid)
            return ProcessLook(
                pid=process.pid,
                parent=process.ppid(),
                command=_command(process),
                cpu_s=times.user + times.system,
                main_thread_s=main_thread_s,
                main_thread_queued_s=_queued_s(process.pid),
                disk_bytes=_disk_bytes(process),
                num_threads=process.num_threads(),
                waits_for_disk=state == "D",
            )
    except (psutil.Error, OSError):
        return None


def _command(process: psutil.Process) -> tuple[str, ...]:
    try:
        return tuple(process.cmdline())
    except psutil.Error:
        return ()


def _main_thread(pid: int) -> tuple[float, str]:
    """Its CPU time in seconds and its state: fields 14, 15 and 3 of proc_pid_stat(5)."""
    with open(f"/proc/{pid}/task/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()  # the name before may hold blanks and brackets
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK"), fields[0]


def _queued_s(pid: int) -> float:
    """The second number of the first thread's schedstat, which is in nanoseconds (the kernel's sched-stats.rst)."""
    try:
        with open(f"/proc/{pid}/task/{pid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _disk_bytes(process: psutil.Process) -> int | None:
    try:
        return int(process.io_counters().read_bytes)
    except (psutil.Error, OSError, AttributeError):  # another user's, or a system that doesn't count
        return None
