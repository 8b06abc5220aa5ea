"""What a tuning measured and chose, immutable; its JSON and its file of settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gpufeed.bench.results import LeftOut
from gpufeed.bench.statistics import median
from gpufeed.bench.tuning.space import LoaderName, Setting
from gpufeed.config import Config, GpufeedSettings, TorchSettings

__all__ = ["SCHEMA", "SCHEMA_VERSION", "Trial", "Tuned", "Tuning", "config_of", "to_json"]

SCHEMA = "gpufeed.tune"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Trial:
    """Everything that was measured of one setting.

    Attributes:
        setting: what it is.
        images_per_s: of each short epoch, in order, the discarded first one of a visit apart. [Unit: image/second]
        peak_memory_bytes: the largest memory of its process and children with full queues, shared pages counted once,
            batches that wait in shared memory too; ``None`` where the platform doesn't tell. [Unit: byte]
        failure: why it can't be used, in words; empty where it can.
    """

    setting: Setting
    images_per_s: tuple[float, ...] = ()
    peak_memory_bytes: int | None = None
    failure: str = ""

    @property
    def rate(self) -> float:
        """The median throughput; 0 where nothing was measured. [Unit: image/second]"""
        return median(self.images_per_s) if self.images_per_s else 0.0


@dataclass(frozen=True, slots=True)
class Tuned:
    """What was found out about one loader.

    Attributes:
        loader: whose settings these are.
        best: the chosen one; ``None`` where none can be used.
        start: what the first stage varied.
        trials: in the order in which they were first measured.
        main: settings of the first stage, which differ in the number of workers or threads.
        depths: settings that differ in ``prefetch_factor`` only.
        noise: the standard deviation of a setting's epochs as a share of their median, over all settings; ``None``
            where none was repeated.
        over_memory: settings that were excluded because of ``max_memory_bytes``.
        finished: whether the search came to its end.
    """

    loader: LoaderName
    best: Setting | None
    start: Setting
    trials: tuple[Trial, ...]
    main: tuple[Setting, ...] = ()
    depths: tuple[Setting, ...] = ()
    noise: float | None = None
    over_memory: tuple[Setting, ...] = ()
    finished: bool = True

    def trial(self, setting: Setting) -> Trial | None:
        """What was measured of a setting."""
        return next((trial for trial in self.trials if trial.setting == setting), None)

    @property
    def best_trial(self) -> Trial | None:
        """What was measured of the chosen one."""
        return None if self.best is None else self.trial(self.best)


@dataclass(frozen=True, slots=True)
class Tuning:
    """One run of ``gpufeed tune``.

    Attributes:
        data: what was measured on, in words.
        transform: its reference.
        parameters: of a pipeline, each ``NAME=VALUE``.
        batch_size: samples per batch.
        device: where batches ended.
        device_name: the GPU's model; empty for the CPU.
        num_cpus: that might be used.
        step: the training step that was fed, as it was asked for; empty where batches were thrown away.
        budget_s: what the user allowed. [Unit: second]
        elapsed_s: what it took. [Unit: second]
        interrupted: whether the user stopped it early.
        max_memory_bytes: settings above it were excluded. [Unit: byte]
        loaders: what was found out about each.
        left_out: loaders that can't do this workload, and why.
        environment: versions and machine.
    """

    data: str
    transform: str
    parameters: tuple[str, ...]
    batch_size: int
    device: str
    device_name: str
    num_cpus: int
    step: str
    budget_s: float
    elapsed_s: float
    interrupted: bool
    max_memory_bytes: int | None
    loaders: tuple[Tuned, ...]
    left_out: tuple[LeftOut, ...] = ()
    environment: Mapping[str, Any] = field(default_factory=dict[str, Any])


def to_json(tuning: Tuning) -> str:
    """The tuning as JSON text, with the schema's name and version, ending in a newline."""
    return json.dumps({"schema": SCHEMA, "schema_version": SCHEMA_VERSION, **asdict(tuning)}, indent=2) + "\n"


def config_of(tuning: Tuning) -> Config:
    """The chosen settings, with what they were measured on."""
    best = {tuned.loader: tuned.best for tuned in tuning.loaders}
    measured: dict[str, str | int | float | bool] = {
        "data": tuning.data,
        "transform": " ".join((tuning.transform, *tuning.parameters)),
        "batch_size": tuning.batch_size,
        "device": tuning.device_name or tuning.device,
        "step": tuning.step or "none",
    }
    for tuned in tuning.loaders:
        trial = tuned.best_trial
        if trial is not None:
            measured[f"{tuned.loader}_images_per_s"] = round(trial.rate, 1)
            if trial.peak_memory_bytes is not None:
                measured[f"{tuned.loader}_peak_memory_bytes"] = trial.peak_memory_bytes
        measured[f"{tuned.loader}_settings_tried"] = len(tuned.trials)
        measured[f"{tuned.loader}_search_finished"] = tuned.finished
    measured["elapsed_s"] = round(tuning.elapsed_s, 1)
    measured["cpus"] = tuning.num_cpus
    for name in ("cpu", "python", "platform", "gpufeed"):
        if name in tuning.environment:
            measured[name] = str(tuning.environment[name])
    for name, version in dict(tuning.environment.get("packages", {})).items():
        measured[str(name)] = str(version)
    torch, ours = best.get("torch"), best.get("gpufeed")
    return Config(
        torch if isinstance(torch, TorchSettings) else None,
        ours if isinstance(ours, GpufeedSettings) else None,
        measured,
    )
