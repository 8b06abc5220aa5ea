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
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from gpufeed.bench.contenders import Batch, Factory
from gpufeed.bench.protocol import (
    Answer,
    Close,
    Done,
    Failure,
    Look,
    Open,
    Prepare,
    Probe,
    Probed,
    Question,
    RunEpoch,
    Seen,
)
from gpufeed.bench.results import Epoch
from gpufeed.bench.workload import Workload
from gpufeed.errors import ArgumentError, BenchmarkError, PipelineError, UnsupportedError
from gpufeed.pipelines import Pipeline

if TYPE_CHECKING:
    import torch

__all__ = ["look", "main", "probe"]


class _Server:
    """Holds the contender between questions."""

    def __init__(self) -> None:
        self._factory: Factory | None = None
        self._opened: ExitStack | None = None
        self._epochs: Iterable[Batch] = ()
        self._workload: Workload | None = None

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
                import torch

                torch.set_num_threads(question.num_threads)
                self._factory = question.contender.load_factory()
            case Look():
                return look(question)
            case Probe():
                return probe(question)
            case Open():
                self._open(question.workload)
            case RunEpoch():
                return self._run_epoch(question.with_pixels)
            case Close():
                self.close()
        return Done()

    def _open(self, workload: Workload) -> None:
        self.close()
        if self._factory is None:
            raise RuntimeError("Prepare comes before Open")
        with ExitStack() as stack:
            self._epochs = stack.enter_context(self._factory(workload))
            self._opened = stack.pop_all()
        self._workload = workload

    def _run_epoch(self, with_pixels: bool) -> Epoch:
        from gpufeed.bench.epoch import check_epoch, run_epoch

        if self._workload is None:
            raise RuntimeError("Open comes before RunEpoch")
        epoch = run_epoch(self._epochs, self._workload, with_pixels=with_pixels)
        check_epoch(epoch, self._workload)
        return epoch

    def close(self) -> None:
        stack, self._opened, self._epochs, self._workload = self._opened, None, (), None
        if stack is not None:
            stack.close()


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


def _serve(server: _Server, socket: int) -> None:
    with Connection(socket) as connection:
        try:
            while True:
                connection.send(server.answer(connection.recv()))
        except (EOFError, BrokenPipeError):
            pass  # the parent has closed its end: it is over


def main() -> None:
    """Answer questions until there are no more."""
    socket, lifeline = (int(argument) for argument in sys.argv[1:])
    signal.signal(signal.SIGTERM, _end)
    threading.Thread(target=_end_with, args=(lifeline,), name="gpufeed-lifeline", daemon=True).start()
    server = _Server()
    try:
        _serve(server, socket)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except _Ended:
        pass  # wherever it struck
    server.close()
    # The contender has left; what remains is taking torch apart object by object, which takes seconds and helps nobody.
    os._exit(0)


if __name__ == "__main__":
    main()
