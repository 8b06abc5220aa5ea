"""Why is loading not faster, or why does it fail? The machine, the data and a running training, looked at from outside.

Nothing is changed, no GPU is touched, no image is decoded.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from gpufeed import __version__
from gpufeed.bench.progress import Reporter
from gpufeed.errors import ArgumentError
from gpufeed.inspect.doctor.data import DataSurvey, survey
from gpufeed.inspect.doctor.data_findings import data_findings
from gpufeed.inspect.doctor.environment import Environment, look_at_environment
from gpufeed.inspect.doctor.environment_findings import environment_findings, file_system_findings
from gpufeed.inspect.doctor.findings import Finding
from gpufeed.inspect.doctor.gpus import gpu_meter
from gpufeed.inspect.doctor.training import Training, judge, training_findings
from gpufeed.inspect.doctor.watch import Watched, arguments_of, running, started, watch

__all__ = ["MOST_FILES", "SCHEMA", "SCHEMA_VERSION", "Diagnosis", "Request", "diagnose", "to_json"]

SCHEMA = "gpufeed.doctor"
SCHEMA_VERSION = 1

MOST_FILES = 2000
"""So many headers are looked at; a kind of file that makes up 0.2 % of the data is then met with 98 % probability."""

_SECONDS = (1.0, 3600.0)
_SAID_EVERY_S = 15.0


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for.

    Attributes:
        data: an image folder, if one is to be looked at.
        look_at_all: at every file of it, not at most `MOST_FILES`.
        train: the command of a training to start and to watch.
        pid: the id of a running one to watch.
        seconds: how long to watch. [Unit: second]
        keep: leave the training running that was started.

    Raises:
        ArgumentError: arguments that don't fit together.
    """

    data: Path | None = None
    look_at_all: bool = False
    train: str | None = None
    pid: int | None = None
    seconds: float = 60.0
    keep: bool = False

    def __post_init__(self) -> None:
        if self.train is not None and self.pid is not None:
            raise ArgumentError("expected either --train or --pid, got both")
        if self.look_at_all and self.data is None:
            raise ArgumentError("--all is about the files of DATA, and none is given; give the image folder")
        if self.keep and self.train is None:
            raise ArgumentError("--keep is about what --train starts, and that isn't given; leave it out")
        if not _SECONDS[0] <= self.seconds <= _SECONDS[1]:
            raise ArgumentError(f"--seconds must be in [{_SECONDS[0]:g}, {_SECONDS[1]:g}], got {self.seconds:g}")
        if self.train is not None:
            arguments_of(self.train)  # before anything else takes time


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found.

    Attributes:
        environment: the machine and what is installed.
        data: the image folder, if one was given.
        training: the training, if one was watched.
        findings: what that means, by section; in each in the order in which things are met.
    """

    environment: Environment
    data: DataSurvey | None
    training: Training | None
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that something should be done about."""
        return tuple(finding for finding in self.findings if finding.level == "problem")


def diagnose(
    request: Request,
    progress: Reporter,
    look: Callable[[Path | None], Environment] = look_at_environment,
) -> Diagnosis:
    """Look at everything that was asked for.

    Args:
        request: what that is.
        progress: told what is going on where it takes long.
        look: reads the environment (tests).

    Raises:
        ArgumentError: there is no such folder, process or command.
    """
    root = None if request.pid is None else running(request.pid)
    surveyed = None
    if request.data is not None:
        surveyed = survey(request.data, None if request.look_at_all else MOST_FILES, progress)
    environment = look(None if request.data is None else request.data.expanduser())
    findings = list(environment_findings(environment))
    if surveyed is not None:
        if environment.file_system is not None:
            findings += file_system_findings(environment.file_system)
        findings += data_findings(surveyed, environment)
    training = None
    if request.train is not None or root is not None:
        training = judge(_watched(request, progress), environment.usable_cpus)
        findings += training_findings(training)
    return Diagnosis(environment, surveyed, training, tuple(findings))


def _watched(request: Request, progress: Reporter) -> Watched:
    last_s = 0.0

    def seen(passed_s: float) -> None:
        nonlocal last_s
        progress.detail(f"{passed_s:.0f} of {request.seconds:.0f} s")
        if passed_s - last_s >= _SAID_EVERY_S:
            last_s = passed_s
            progress.say(f"watched for {passed_s:.0f} of {request.seconds:.0f} s")

    with gpu_meter() as meter:
        if request.train is not None:
            progress.say(f"starting {request.train}, and watching it for {request.seconds:.0f} s; Ctrl-C shows it now")
            with started(request.train, keep=request.keep) as process:
                watched = watch(
                    running(process.pid), request.seconds, meter, popen=process, command=request.train, seen=seen
                )
            if request.keep and not watched.ended:
                progress.say(f"left running: kill {watched.pid} ends it")
            return watched
        progress.say(f"watching process {request.pid} for {request.seconds:.0f} s; Ctrl-C shows it now")
        return watch(running(request.pid or 0), request.seconds, meter, seen=seen)


def to_json(diagnosis: Diagnosis) -> str:
    """Everything as JSON text, with the schema's name and version, ending in a newline."""
    document = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "gpufeed": __version__,
        "problems": len(diagnosis.problems),
        "findings": [asdict(finding) for finding in diagnosis.findings],
        "environment": asdict(diagnosis.environment),
        "data": None if diagnosis.data is None else asdict(diagnosis.data),
        "training": None if diagnosis.training is None else asdict(diagnosis.training),
    }
    return json.dumps(document, indent=2) + "\n"
