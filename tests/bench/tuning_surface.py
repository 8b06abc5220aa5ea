"""A machine that is a formula: throughput and memory of each setting, with noise, on a clock of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gpufeed.bench.tuning.search import Visit
from gpufeed.bench.tuning.space import Setting
from gpufeed.config import GpufeedSettings, TorchSettings

Rate = Callable[[Setting], float]

BATCH_SIZE = 64


@dataclass
class Surface:
    """A `Bench`: what it measures is ``rate`` times noise.

    Attributes:
        rate: the true throughput.
        memory: the true memory.
        noise: standard deviation of an epoch's rate, as a share.
        spell: standard deviation of what all epochs of a visit have in common, as a share.
        hiccup: how often an epoch takes half as long again.
        budget_s: until the deadline, on its own clock.
    """

    rate: Rate
    seed: int = 0
    noise: float = 0.03
    hiccup: float = 0.05
    spell: float = 0.0
    budget_s: float = math.inf
    memory: Callable[[Setting], int] = lambda _: 1
    failing: Callable[[Setting], str] = lambda _: ""
    now_s: float = 0.0
    visits: list[tuple[Setting, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def num_samples(self, setting: Setting) -> int:
        batches = 8
        if isinstance(setting, TorchSettings) and setting.num_workers:
            workers = setting.num_workers
            batches = -(-max(8, 2 * workers, setting.batches_in_flight) // workers) * workers
        if isinstance(setting, GpufeedSettings):
            batches = max(8, 2 * setting.prefetch_factor)
        return batches * BATCH_SIZE

    def visit(self, setting: Setting, num_epochs: int) -> Visit:
        self.visits.append((setting, num_epochs))
        failure = self.failing(setting)
        if failure:
            return Visit(failure=failure)
        rates = [self.rate(setting) * math.exp(self._rng.normal(0, self.noise)) for _ in range(num_epochs + 1)]
        rates = [rate / 1.5 if self._rng.random() < self.hiccup else rate for rate in rates]
        if self.spell:
            spell = math.exp(self._rng.normal(0, self.spell))
            rates = [rate * spell for rate in rates]
        self.now_s += sum(self.num_samples(setting) / rate for rate in rates)
        return Visit(tuple(rates[1:]), self.memory(setting))

    def seconds_left(self) -> float:
        return self.budget_s - self.now_s


def torch_rate(knee: float, per_worker: float = 100.0, decline: float = 0.02, depth_gain: float = 0.0) -> Rate:
    """Linear up to the knee, then slowly down; a deeper queue and living workers gain a little."""

    def rate(setting: Setting) -> float:
        assert isinstance(setting, TorchSettings)
        workers = setting.num_workers
        if not workers:
            return 0.9 * per_worker
        # A soft minimum: near the knee both count.
        plain = per_worker * (workers**-4 + knee**-4) ** -0.25
        plain *= 1 - decline * max(0.0, math.log2(workers / knee))
        depth = setting.prefetch_factor or 2
        return plain * (1 + depth_gain * (1 - 1 / depth)) * (1 if setting.persistent_workers else 0.93)

    return rate
