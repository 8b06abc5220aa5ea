"""The process that one contender lives in: ``python -m gpufeed.bench.serve SOCKET LIFELINE``.

A process of its own makes a contender's CPU time and memory its own, keeps its threads away from other contenders'
forks, and lets a crash be told from an error. It answers the questions that come over the file descriptor ``SOCKET``,
and ends when that closes or, at once, when the pipe ``LIFELINE`` does: that happens however its parent ends.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from gpufeed.bench.contenders import Batch, Factory
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
from gpufeed.bench.results import Epoch, Kind
from gpufeed.bench.workload import Workload
from gpufeed.errors import ArgumentError, BenchmarkError, PipelineError, UnsupportedError
from gpufeed.pipelines import Pipeline

if TYPE_CHECKING:
    import torch

    from gpufeed.bench.steps import Step

__all__ = ["look", "main", "probe"]


@dataclass
class _Opened:
    """What a slot holds between questions."""

    stack: ExitStack
    epochs: Iterable[Batch]
    workload: Workload
    is_bound: bool


class _Server:
    """Holds the contenders between questions."""

    def __init__(self) -> None:
        self._factories: dict[str, Factory] = {}
        self._kinds: dict[str, Kind] = {}
        self._opened: dict[str, _Opened] = {}
        self._steps: dict[str, Step] = {}

    def answer(self, question: Question) -> Answer:
        try:
            return self._do(question)
        except (ArgumentError, PipelineError) as error:
            return Failure("argument", str(error))
        except UnsupportedError as error:
            return Failure("unsupported", str(error))
        except BenchmarkError as error:
            return Failure("unequal", str(error))
        except Exception as error:  # not swallowed: the parent raises it with the contender's name
            return Failure("raised", _sentence(error))

    def _do(self, question: Question) -> Answer:
        match question:
            case Prepare():
                self._prepare(question)
            case Look():
                return look(question)
            case Probe():
                return probe(question)
            case Open():
                self._open(question)
            case RunEpoch():
                return self._run_epoch(question)
            case TimeStep():
                return self._time_step(question)
            case MeasureCosts():
                from gpufeed.bench.costs import measure_costs

                return Costs(measure_costs(question.workload))
            case Close():
                self._close(question.slot)
            case Fork() | Join():
                raise RuntimeError("a fork is begun and joined by the process, not by its server")
        return Done()

    def _prepare(self, question: Prepare) -> None:
        import torch

        torch.set_num_threads(question.num_threads)
        self._factories[question.slot] = question.contender.load_factory()
        self._kinds[question.slot] = question.contender.kind

    def _open(self, question: Open) -> None:
        slot, workload = question.slot, question.workload
        self._close(slot)
        home = slot.removesuffix(STEP_SLOT)
        if home not in self._factories:
            raise RuntimeError("Prepare comes before Open")
        with ExitStack() as stack:
            epochs = stack.enter_context(self._factories[home](workload))
            self._opened[slot] = _Opened(stack.pop_all(), epochs, workload, self._kinds[home] == "bound")

    def _in(self, slot: str) -> _Opened:
        if slot not in self._opened:
            raise RuntimeError("Open comes before an epoch")
        return self._opened[slot]

    def _run_epoch(self, question: RunEpoch) -> Epoch:
        from gpufeed.bench.epoch import check_epoch, run_epoch

        opened = self._in(question.slot)

        def feed(batch: Batch) -> None:
            if question.step not in self._steps:  # the first batch of a warm-up
                from gpufeed.bench.steps import make_step

                self._steps[question.step] = make_step(question.step, opened.workload, batch)
            self._steps[question.step].run(batch)

        epoch = run_epoch(
            opened.epochs,
            opened.workload,
            with_pixels=question.with_pixels,
            step=feed if question.step else None,
            is_bound=opened.is_bound,
        )
        check_epoch(epoch, opened.workload, is_bound=opened.is_bound)
        return epoch

    def _time_step(self, question: TimeStep) -> StepTimed:
        import torch

        from gpufeed.bench.epoch import waiter
        from gpufeed.bench.steps import make_step, time_step

        opened = self._in(question.slot)
        first, *_ = opened.epochs  # to its end, so that the next epoch begins with empty queues
        step = make_step(question.step, opened.workload, first)
        self._steps[question.step] = step
        return StepTimed(step.what, time_step(step, first, waiter(torch.device(opened.workload.device))))

    def _close(self, slot: str) -> None:
        opened = self._opened.pop(slot, None)
        if opened is not None:
            stack = opened.stack
            del opened
            stack.close()

    def close(self) -> None:
        for slot in list(self._opened):
            self._close(slot)


def _sentence(error: Exception) -> str:
    """An exception in one line; of what torch brings from a worker, the line after the traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if "Original Traceback" in str(error):
        return lines[-1]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def look(question: Look) -> Seen:
    """Load what a reference names.

    Raises:
        ArgumentError: it names nothing, or neither a transform nor a pipeline; or parameters are wrong.
    """
    from gpufeed.bench.transforms import subject_of

    subject = subject_of(question.transform, question.parameters)
    if not isinstance(subject, Pipeline):
        return Seen()
    names: tuple[Literal["torch_dataset", "reference"], ...] = ("torch_dataset", "reference")
    torch_side = next((f"@{subject.name}.{name}" for name in names if subject.has(name)), "")
    return Seen(True, subject.has("source"), torch_side)


def probe(question: Probe) -> Probed:
    """Resolve the device, and run the transform on one image, or open the pipeline's own source.

    Raises:
        ArgumentError: the device isn't there; the transform fails or doesn't end in a tensor; or the source can't be
            opened or is empty.
    """
    import torch

    from gpufeed.bench.transforms import subject_of

    device = _resolve(question.device)
    subject = subject_of(question.transform, question.parameters)
    if isinstance(subject, Pipeline):
        dtype, text, names = "", f"{subject} of {subject.path}", _names(subject, question.root)
    else:
        dtype, text, names = _dtype(subject, question), str(subject), ()
    return Probed(
        device=str(device),
        device_name=torch.cuda.get_device_name(device) if device.type == "cuda" else "",
        dtype=dtype,
        transform_text=text,
        cuda_version=torch.version.cuda or "",
        names=names,
    )


def _names(pipeline: Pipeline, root: str | None) -> tuple[str, ...]:
    if root is None:
        return ()
    from gpufeed.sources.folders import source_of

    try:
        source = source_of(pipeline.make_source(root))
    except OSError as error:
        raise ArgumentError(f"{root} can't be opened as the source of {pipeline.name}: {error}") from error
    if not len(source):
        raise ArgumentError(f"the source that @{pipeline.name}.source opens at {root} holds no samples")
    return tuple(map(source.name_of, range(len(source))))


def _dtype(transform: Callable[[Any], Any], question: Probe) -> str:
    import torch
    from torchvision.datasets.folder import default_loader

    try:
        output: Any = transform(default_loader(question.image_path))
    except Exception as error:
        raise ArgumentError(
            f"the transform {question.transform} fails on {question.image_path}: {_sentence(error)}"
        ) from error
    if not isinstance(output, torch.Tensor):
        raise ArgumentError(
            f"the transform {question.transform} must end in a tensor, got {type(output).__name__}; add ToTensor()"
        )
    return str(output.dtype).removeprefix("torch.")


def _resolve(device: str) -> torch.device:
    import torch

    count = torch.cuda.device_count() if device != "cpu" and torch.cuda.is_available() else 0
    if device == "cpu" or (device == "auto" and not count):
        return torch.device("cpu")
    index = None if device == "auto" else torch.device(device).index
    if index is None and count:
        index = torch.cuda.current_device()
    if index is None or index >= count:
        raise ArgumentError(f"there is no device {device}: torch finds {count} CUDA devices; use --device cpu")
    return torch.device("cuda", index)


def _end_with(lifeline: int) -> None:
    os.read(lifeline, 1)  # returns when the other end is closed, and nobody writes
    os.kill(os.getpid(), signal.SIGTERM)


class _Ended(BaseException):
    """Raised in the main thread by SIGTERM: contexts are left, so worker processes end."""


def _end(_signal: int, _frame: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not interrupt the cleaning up
    raise _Ended


def _serve(server: _Server, socket: int, lifeline: int) -> None:
    with Connection(socket) as connection:
        try:
            while True:
                question = connection.recv()
                forks = isinstance(question, Fork)
                connection.send(_forked(connection, lifeline, question) if forks else server.answer(question))
        except (EOFError, BrokenPipeError):
            pass  # the parent has closed its end: it is over


def _forked(connection: Connection, lifeline: int, question: Fork) -> Answer:
    """Let a child answer until it is told to join, or dies; what it answers to its last question.

    The libraries are imported already, which takes seconds, and nothing has run yet: no threads of theirs, no CUDA.
    """
    child = os.fork()
    if child == 0:
        _end_when_done(_Server(), lambda server: _serve_forked(server, connection, question), lifeline)
    try:
        _, status = os.waitpid(child, 0)
    except _Ended:
        os.waitpid(child, 0)  # it ends by itself, as the same pipe tells it to
        raise
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return Done()
    return Failure("raised", f"its process ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}")


def _serve_forked(server: _Server, connection: Connection, question: Fork) -> None:
    try:
        connection.send(server.answer(Prepare(question.contender, question.num_threads)))
        while not isinstance(asked := connection.recv(), Join):
            connection.send(server.answer(asked))
    except (EOFError, BrokenPipeError):
        pass


def main() -> None:
    """Answer questions until there are no more."""
    socket, lifeline = (int(argument) for argument in sys.argv[1:])
    _end_when_done(_Server(), lambda server: _serve(server, socket, lifeline), lifeline)


def _end_when_done(server: _Server, serve: Callable[[_Server], None], lifeline: int) -> NoReturn:
    """Serve, close what is open, and end this process; from now on it ends when the lifeline does."""
    signal.signal(signal.SIGTERM, _end)
    threading.Thread(target=_end_with, args=(lifeline,), name="gpufeed-lifeline", daemon=True).start()
    try:
        serve(server)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except _Ended:
        pass  # wherever it struck
    server.close()
    # The contender has left; what remains is taking torch apart object by object, which takes seconds and helps nobody.
    os._exit(0)


if __name__ == "__main__":
    main()
