"""Comparisons whose truth is known, made without measuring anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gpufeed.bench.results import Comparison, ContenderResult, Cost, Epoch, Kind, Measurement, Mode, StepUsed
from gpufeed.bench.tuning.results import Tuned, Tuning

BATCH = 64
NUM_BATCHES = 20
BASELINE = "torch-tuned"


def epoch(images_per_s: float, *, step_s: float = 0.0, wait_s: float | None = None, cores: float = 2.0) -> Epoch:
    """An epoch at this rate. Without a step the consumer does nothing but wait; the first batch takes thrice as long.

    Args:
        images_per_s: of the whole epoch.
        step_s: of each batch. [Unit: second]
        wait_s: for each batch; ``None``: what ``images_per_s`` leaves. [Unit: second]
        cores: that were busy.
    """
    elapsed_s = BATCH * NUM_BATCHES / images_per_s
    wait_s = elapsed_s / NUM_BATCHES - step_s if wait_s is None else wait_s
    share = wait_s * NUM_BATCHES / (NUM_BATCHES + 2)
    return Epoch(
        elapsed_s=elapsed_s,
        first_batch_s=3 * share,
        cpu_s=cores * elapsed_s,
        num_samples=BATCH * NUM_BATCHES,
        num_batches=NUM_BATCHES,
        target_sum=0,
        dtype="float32",
        device="cpu",
        shape=(3, 224, 224),
        waits_s=(3 * share, *(share,) * (NUM_BATCHES - 1)),
        step_s=step_s * NUM_BATCHES,
    )


def result(
    name: str,
    images_per_s: float | Sequence[float],
    *,
    kind: Kind = "loader",
    num_rounds: int = 7,
    noise: float = 0.005,
    step_s: float = 0.0,
    with_step: float | None = None,
    every: int = 1,
    peak_pss_bytes: int | None = 800_000_000,
) -> ContenderResult:
    """A contender; a single rate is spread by ``noise`` over the rounds, differently for each name.

    Args:
        name: the contender's.
        images_per_s: when batches are thrown away; of each round, or of all.
        kind: what it is.
        num_rounds: how many, if one rate is given.
        noise: relative standard deviation.
        step_s: of each batch. [Unit: second]
        with_step: images/s of a training loop; it waits for what the step doesn't take.
        every: it ran in the first of so many rounds.
        peak_pss_bytes: of its processes.
    """
    rng = np.random.default_rng(sum(map(ord, name)))

    def rates(middle: float | Sequence[float]) -> list[float]:
        if not isinstance(middle, (int, float)):
            return list(middle)
        spread = np.sort(rng.normal(0, noise, size=num_rounds))
        return [float(rate) for rate in middle * (1 + rng.permutation(spread - np.median(spread)))]

    def entries(middle: float | Sequence[float], mode: Mode, step: float) -> list[Measurement]:
        return [
            Measurement(index, 0, epoch(rate, step_s=min(step, BATCH / rate)), mode)
            for index, rate in enumerate(rates(middle))
            if index % every == 0
        ]

    measurements = entries(images_per_s, "loader", 0.0)
    if with_step is not None:
        measurements += entries(with_step, "step", step_s)
    first = measurements[0].epoch
    return ContenderResult(name, 0.31, first, peak_pss_bytes, tuple(measurements), kind, f"what {name} is")


def comparison(
    *contenders: ContenderResult,
    costs: Mapping[str, float] | None = None,
    step_s: float | None = None,
    num_threads: int = 2,
    usable_cpus: int = 2,
    baseline: str = BASELINE,
    **others: object,
) -> Comparison:
    """A comparison of these.

    Args:
        contenders: the results.
        costs: of the parts, in one thread. [Unit: second]
        step_s: of a batch on the device. [Unit: second]
        num_threads: of each contender.
        usable_cpus: of the machine.
        baseline: the contender that ratios are taken to.
        others: further attributes.
    """
    given: dict[str, object] = {
        "data": "512 built-in images",
        "root": "/data",
        "num_files": 512,
        "samples_per_round": BATCH * NUM_BATCHES,
        "transform": "train",
        "transform_text": "Compose()",
        "batch_size": BATCH,
        "num_threads": num_threads,
        "device": "cpu",
        "device_name": "",
        "dtype": "float32",
        "seed": 0,
        "baseline": baseline,
        "budget_s": 90.0,
        "elapsed_s": 83.2,
        "interrupted": False,
        "contenders": contenders,
        "environment": {"usable_cpus": usable_cpus, "cpu": "a processor", "packages": {"torch": "2.14"}},
        "costs": tuple(Cost(part, cost_s) for part, cost_s in (costs or {}).items()),
        "step": None if step_s is None else StepUsed("25ms", "a pause of 25 ms", step_s),
        **others,
    }
    return Comparison(**given)  # type: ignore[arg-type]


def tuning(*loaders: Tuned, **others: object) -> Tuning:
    """A tuning of these loaders.

    Args:
        loaders: what was found of each.
        others: further attributes.
    """
    given: dict[str, object] = {
        "data": "photos",
        "transform": "train",
        "parameters": (),
        "batch_size": BATCH,
        "device": "cpu",
        "device_name": "",
        "num_cpus": 2,
        "step": "",
        "budget_s": 120.0,
        "elapsed_s": 99.0,
        "interrupted": False,
        "max_memory_bytes": None,
        "loaders": loaders,
        **others,
    }
    return Tuning(**given)  # type: ignore[arg-type]
