"""A contender's process, seen from the comparison: start it, ask it, end it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TypeVar

import psutil

from gpufeed.bench.contenders import Contender
from gpufeed.bench.protocol import (
    STEP_SLOT,
    Answer,
    Close,
    Costs,
    Done,
    Failure,
    Fork,
    Join,
    Look,
    MeasureCosts,
    Open,
    Prepare,
    Probe,
    Probed,
    Question,
    RunEpoch,
    Seen,
    StepTimed,
    TimeStep,
)
from gpufeed.bench.results import Epoch
from gpufeed.bench.usage import tree_cpu_s
from gpufeed.bench.workload import Workload
from gpufeed.errors import ArgumentError, BenchmarkError, UnsupportedError

__all__ = ["ContenderProcess", "ContenderRaisedError", "Seat", "end_all"]

_GRACE_S = 5.0  # to end by itself: workers ended, graphs dropped; DALI can't cancel a batch it has begun
_LOOK_S = 10.0  # between two looks at who doesn't answer
_STALLED_S = 60.0  # without an answer and without work, it is given up
_IDLE_SHARE = 0.01  # of one CPU: waiting threads wake up now and then
_LAST_WORDS = 4000  # bytes of a dead process's output that are searched for its last line

_A = TypeVar("_A", bound=Answer)


class ContenderRaisedError(BenchmarkError):
    """A contender's own code raised while it was asked for an epoch; often one of the images is broken."""


class ContenderProcess:
    """Starts a contender in a fresh Python, in a session of its own so that Ctrl-C reaches only the comparison.

    Every question blocks until it is answered; ``prepare`` is split in two so that several processes can import their
    libraries at once. What the process prints goes to a temporary file and is shown only if it dies.

    Raises:
        ArgumentError: from any question, where a user's argument is wrong.
        UnsupportedError: from any question, where the contender can't do exactly this workload.
        BenchmarkError: from any question, naming the contender: it did unequal work, raised, died, or stalls: a minute
            passed in which neither it nor its workers used any CPU time.
    """

    def __init__(self, contender: Contender, stalled_s: float = _STALLED_S) -> None:
        self.contender = contender
        self._stalled_s = stalled_s
        self._below: list[psutil.Process] = []
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  closed in end()
        self._connection, theirs = Pipe()
        their_lifeline, self._lifeline = os.pipe()
        try:
            self._process = _start(theirs, their_lifeline, self._output.fileno())
        finally:
            theirs.close()
            os.close(their_lifeline)

    @property
    def name(self) -> str:
        """The contender's name."""
        return self.contender.name

    @property
    def pid(self) -> int:
        """The process's id, the root of the contender's process tree."""
        return self._process.pid

    def begin_prepare(self, num_threads: int) -> None:
        """Tell it to import its libraries, without waiting."""
        self._send(Prepare(self.contender, num_threads))

    def also(self, contender: Contender, num_threads: int, slot: str) -> None:
        """Let another contender live in this process too, in a slot of its own."""
        self._ask(Prepare(contender, num_threads, slot), Done)

    def finish_prepare(self) -> None:
        """Wait until it has."""
        self._receive(Done)

    def look(self, transform: object, parameters: tuple[str, ...]) -> Seen:
        """See :class:`~gpufeed.bench.protocol.Look`."""
        return self._ask(Look(transform, parameters), Seen)

    def probe(self, question: Probe) -> Probed:
        """See :class:`~gpufeed.bench.protocol.Probe`."""
        return self._ask(question, Probed)

    def open(self, workload: Workload, slot: str = "") -> None:
        """See :class:`~gpufeed.bench.protocol.Open`."""
        self._ask(Open(workload, slot), Done)

    def run_epoch(self, *, with_pixels: bool = False, slot: str = "", step: str = "") -> Epoch:
        """See :class:`~gpufeed.bench.protocol.RunEpoch`."""
        return self._ask(RunEpoch(with_pixels, slot, step), Epoch)

    def time_step(self, step: str, slot: str = "") -> StepTimed:
        """See :class:`~gpufeed.bench.protocol.TimeStep`."""
        return self._ask(TimeStep(step, slot), StepTimed)

    def costs(self, workload: Workload) -> Costs:
        """See :class:`~gpufeed.bench.protocol.MeasureCosts`."""
        return self._ask(MeasureCosts(workload), Costs)

    def fork(self, contender: Contender, num_threads: int) -> None:
        """See :class:`~gpufeed.bench.protocol.Fork`."""
        self._ask(Fork(contender, num_threads), Done)

    def join(self) -> None:
        """See :class:`~gpufeed.bench.protocol.Join`."""
        self._ask(Join(), Done)

    def close(self, slot: str = "") -> None:
        """See :class:`~gpufeed.bench.protocol.Close`."""
        self._ask(Close(slot), Done)

    def _ask(self, question: Question, kind: type[_A]) -> _A:
        self._send(question)
        return self._receive(kind)

    def _send(self, question: Question) -> None:
        try:
            self._connection.send(question)
        except OSError as error:
            raise self._died() from error

    def _receive(self, kind: type[_A]) -> _A:
        try:
            self._wait()
            answer: object = self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error
        if isinstance(answer, Failure):
            raise self._error(answer)
        if not isinstance(answer, kind):
            raise BenchmarkError(f"{self.name} answered {answer!r} where {kind.__name__} was expected")
        return answer

    def _wait(self) -> None:
        """Until there is an answer, or it has died."""
        look_s = min(_LOOK_S, self._stalled_s / 2)
        worked_s = time.monotonic()
        used_s = 0.0
        while not self._connection.poll(look_s):
            before_s, used_s = used_s, tree_cpu_s(self.pid)
            now_s = time.monotonic()
            if used_s - before_s > _IDLE_SHARE * look_s:
                worked_s = now_s
            elif now_s - worked_s > self._stalled_s:
                raise BenchmarkError(
                    f"{self.name} stalls: for {now_s - worked_s:.0f} s neither it nor its workers did anything, and a "
                    f"batch is waited for; its last words: {self._last_words()}"
                )

    def _error(self, failure: Failure) -> Exception:
        match failure.kind:
            case "argument":
                return ArgumentError(failure.message)
            case "unsupported":
                return UnsupportedError(failure.message)
            case "unequal":
                return BenchmarkError(f"{self.name} {failure.message}")
            case "raised":
                return ContenderRaisedError(f"{self.name} failed: {failure.message}")

    def _died(self) -> BenchmarkError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)
        code = self._process.returncode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return BenchmarkError(f"{self.name}'s process ended with {how}; its last words: {self._last_words()}")

    def _last_words(self) -> str:
        self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, self._output.tell() - _LAST_WORDS))
        lines = self._output.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")

    def ask_to_end(self) -> None:
        """Tell it to end, whatever it is doing, without waiting."""
        if self._lifeline >= 0:
            self._below = _descendants(self.pid)
            self._connection.close()
            os.close(self._lifeline)
            self._lifeline = -1

    def end(self, grace_s: float = _GRACE_S) -> None:
        """End it and every process below it: politely, and after ``grace_s`` by force. [Unit: second]"""
        self.ask_to_end()
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._below += _descendants(self.pid)
            self._process.kill()
            self._process.wait()
        # Workers end when their parent tells them to; what is left after a kill can't be told any more.
        _, left = psutil.wait_procs(self._below, timeout=0)
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._output.close()


@dataclass(frozen=True, slots=True)
class Seat:
    """A contender's place: a process of its own, or a slot in one that it shares.

    Attributes:
        contender: who sits there.
        process: where.
        slot: of the process; empty where it is alone.
    """

    contender: Contender
    process: ContenderProcess
    slot: str = ""

    @property
    def name(self) -> str:
        """The contender's name."""
        return self.contender.name

    @property
    def shares(self) -> bool:
        """Whether others live in the same process."""
        return bool(self.slot)

    def open(self, workload: Workload) -> None:
        """See :class:`~gpufeed.bench.protocol.Open`."""
        self.process.open(workload, self.slot)

    def run_epoch(self, *, with_pixels: bool = False) -> Epoch:
        """See :class:`~gpufeed.bench.protocol.RunEpoch`."""
        return self.process.run_epoch(with_pixels=with_pixels, slot=self.slot)

    def open_for_step(self, workload: Workload) -> None:
        """Open the contender once more, with the workload of epochs with a step: both stay open."""
        self.process.open(workload, f"{self.slot}{STEP_SLOT}")

    def run_step_epoch(self, step: str) -> Epoch:
        """An epoch with a step, of what `open_for_step` opened."""
        return self.process.run_epoch(slot=f"{self.slot}{STEP_SLOT}", step=step)

    def close(self) -> None:
        """See :class:`~gpufeed.bench.protocol.Close`."""
        self.process.close(self.slot)

    def end(self) -> None:
        """End the process, unless others live there too."""
        if not self.shares:
            self.process.end()


def _start(connection: Connection, lifeline: int, output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "gpufeed.bench.serve", str(connection.fileno()), str(lifeline)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=(connection.fileno(), lifeline),
        start_new_session=True,
        # It sees the modules that this process sees, also when gpufeed was started from a checkout.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
    )


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def end_all(processes: list[ContenderProcess]) -> None:
    """End all of them at the same time, and wait no longer than for the slowest."""
    for process in processes:
        process.ask_to_end()
    deadline_s = time.monotonic() + _GRACE_S
    for process in processes:
        process.end(max(0.0, deadline_s - time.monotonic()))
