"""`DataLoader.stats`: what is counted, what is timed, and what it says."""

from __future__ import annotations

import contextlib
import json
import pickle
import queue
import threading
from pathlib import Path
from typing import Any

import pytest
from contract_harness import folder
from nvidia.dali import fn

import gpufeed
from gpufeed import DataLoader, LoaderStats, SampleError, stats
from gpufeed.feed import Job
from gpufeed.stages import CpuStages
from gpufeed.stats import EpochRecord, StageClock, Timed

PATIENCE_S = 30.0
STAGES = ["read", "draw", "decode", "tail", "collate"]


class Clock:
    """Stands for ``time.perf_counter``: stands still until it is told to go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(stats.time, "perf_counter", lambda: self.now)

    def go(self, by_s: float) -> float:
        self.now += by_s
        return self.now


@gpufeed.pipeline
def flipped(sample: Any) -> Any:
    return fn.flip(sample.center_crop(8)), sample.target


@gpufeed.pipeline
def cropped(sample: Any) -> Any:
    return sample.center_crop(8), sample.target


def loader_of(root: Path, **arguments: Any) -> DataLoader:
    return DataLoader(folder(root), **{"batch_size": 3, "num_threads": 2, **arguments})


# The loader's --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{}, {"num_workers": 2, "prefetch_factor": 3}, {"persistent_workers": True}])
def test_an_epoch(root: Path, arguments: dict[str, Any]) -> None:
    with loader_of(root, **arguments) as loader:
        assert loader.stats() == LoaderStats()
        for _ in range(2):  # each epoch has figures of its own
            assert sum(len(targets) for _, targets in loader) == 16
            found = loader.stats()
            assert (found.batches, found.samples, found.ended) == (6, 16, True)
            assert 0 < found.wait_p50_s <= found.wait_p95_s <= found.wait_p99_s <= found.wait_max_s < found.epoch_s
            assert 0 < found.wait_share <= 1
            assert 1 <= found.in_flight_mean <= arguments.get("prefetch_factor", 2)
            assert 0 <= found.ready_mean <= found.in_flight_mean
            assert 0 <= found.none_ready <= 6
            assert list(found.stage_s) == STAGES
            assert all(0 < spent_s < found.epoch_s for spent_s in found.stage_s.values())
    assert loader.stats() == found  # also after it was closed


def test_while_an_epoch_is_under_way_and_when_it_was_left(root: Path) -> None:
    with loader_of(root) as loader:
        iterator = iter(loader)
        assert loader.stats().batches == 0
        next(iterator)
        next(iterator)
        found = loader.stats()
        assert (found.batches, found.samples, found.ended) == (2, 6, False)
        del iterator
        assert loader.stats() == found


def test_after_an_error(own_root: Path) -> None:
    (own_root / "class1" / "05.jpg").write_bytes(b"")
    with loader_of(own_root) as loader:
        with pytest.raises(SampleError):
            list(loader)
        found = loader.stats()
        assert (found.batches, found.ended) == (1, True)


def test_without_batching_and_without_samples(root: Path) -> None:
    with loader_of(root, batch_size=None) as loader:
        list(loader)
        assert (loader.stats().batches, loader.stats().samples) == (16, 16)
    with loader_of(root, batch_size=1, batch_sampler=[[], [1, 2]], collate_fn=len) as loader:
        assert list(loader) == [0, 2]
        assert (loader.stats().batches, loader.stats().samples) == (2, 2)


def test_the_stages_of_a_pipeline(root: Path) -> None:
    for pipeline, graph in ((flipped, ["graph"]), (cropped, [])):
        with DataLoader(str(root), batch_size=4, pipeline=pipeline, num_threads=2) as loader:
            list(loader)
            assert list(loader.stats().stage_s) == ["read", "draw", "decode", "compute", *graph, "tail", "collate"]


def test_ready_batches_and_such_that_are_waited_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batch is held until it is waited for; the others are complete before they are asked for."""
    given: queue.SimpleQueue[Job] = queue.SimpleQueue()
    waited = threading.Event()
    start, wait = CpuStages.start, threading.Event.wait

    def held(stages: CpuStages, job: Job) -> None:
        given.put(job)
        assert wait(waited, PATIENCE_S)
        start(stages, job)

    def told(event: threading.Event, timeout: float | None = None) -> bool:
        if threading.current_thread() is threading.main_thread():
            waited.set()
        return wait(event, timeout)

    monkeypatch.setattr(CpuStages, "start", held)
    with loader_of(root, batch_size=4, num_workers=1, prefetch_factor=4) as loader:
        iterator = iter(loader)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Event, "wait", told)
            next(iterator)
        found = loader.stats()
        assert (found.none_ready, found.in_flight_mean, found.ready_mean) == (1, 4, 0)
        assert all(wait(given.get(timeout=PATIENCE_S).done, PATIENCE_S) for _ in range(4))
        list(iterator)
        found = loader.stats()
        assert (found.batches, found.none_ready) == (4, 1)
        assert found.in_flight_mean == (4 + 3 + 2 + 1) / 4
        assert found.ready_mean == (0 + 3 + 2 + 1) / 4


def test_a_pickled_loader_has_none(root: Path) -> None:
    with loader_of(root) as loader:
        list(loader)
        assert pickle.loads(pickle.dumps(loader)).stats() == LoaderStats()


def test_the_clock_is_read_per_batch_and_not_per_sample(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    reads: list[int] = []
    perf_counter = time.perf_counter

    def counted() -> float:
        reads.append(1)
        return perf_counter()

    per_batch: list[float] = []
    monkeypatch.setattr(time, "perf_counter", counted)
    for batch_size in (2, 8):
        with loader_of(root, batch_size=batch_size) as loader:
            reads.clear()
            list(loader)
            per_batch.append((len(reads) - 10) / len(loader))
    assert max(per_batch) <= 14


# What is made of the times -------------------------------------------------------------------------------------------


def test_waits_and_shares_of_a_known_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    record = EpochRecord()
    clock.go(0.5)  # in iter()
    record.begun()
    for number in range(100):
        asked_at = clock.go(0.03)  # the consumer's own step
        clock.go(0.01 * (number + 1))
        record.handed_over(asked_at, {"read": 0.001 * number, "tail": 0.2}, 2, number % 2, number % 2 > 0, 7)
    asked_at = clock.go(0.03)
    clock.go(1.0)
    record.end(asked_at)
    clock.go(100.0)
    record.end(clock.now)
    found = record.stats()
    assert (found.batches, found.samples, found.ended) == (100, 700, True)
    assert found.epoch_s == pytest.approx(0.5 + 101 * 0.03 + 50.5 + 1.0)
    assert found.wait_share == pytest.approx((0.5 + 50.5 + 1.0) / found.epoch_s)
    assert found.wait_p50_s == pytest.approx(0.505)
    assert found.wait_p95_s == pytest.approx(0.9505)
    assert found.wait_p99_s == pytest.approx(0.9901)
    assert found.wait_max_s == pytest.approx(1.0)
    assert (found.in_flight_mean, found.ready_mean, found.none_ready) == (2, 0.5, 50)
    assert found.stage_s == pytest.approx({"read": 0.0495, "tail": 0.2})


def test_percentiles_are_of_the_latest_batches_and_the_maximum_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    record = EpochRecord()
    for number in range(25_000):
        asked_at = clock.now
        clock.go(9.0 if number == 0 else 1.0 if number < 15_000 else 2.0)
        record.handed_over(asked_at, {}, 1, 0, False)
    found = record.stats()
    assert found.batches == found.none_ready == 25_000
    assert (found.wait_p50_s, found.wait_max_s) == pytest.approx((2.0, 9.0))
    assert found.wait_share == pytest.approx(1.0)


def test_a_stage_that_takes_batches_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    stage = StageClock()
    first = clock.now
    second = clock.go(1.0)
    clock.go(2.0)
    assert stage.spent_s(first) == pytest.approx(3.0)
    clock.go(4.0)
    assert stage.spent_s(second) == pytest.approx(4.0)  # it waited for the first one until then
    third = clock.go(5.0)
    clock.go(6.0)
    assert stage.spent_s(third) == pytest.approx(6.0)


def test_blocks_add_up_also_where_they_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    spent_s: dict[str, float] = {}
    with Timed(spent_s, "read"):
        clock.go(1.0)
    with contextlib.suppress(KeyError), Timed(spent_s, "read"):
        clock.go(2.0)
        raise KeyError
    assert spent_s == pytest.approx({"read": 3.0})


# What it says --------------------------------------------------------------------------------------------------------

LARGE = LoaderStats(
    batches=123_456,
    samples=31_604_736,
    ended=True,
    epoch_s=34_567.8,
    wait_p50_s=0.000_000_4,
    wait_p95_s=0.012_3,
    wait_p99_s=0.999_4,
    wait_max_s=123.4,
    wait_share=0.1234,
    in_flight_mean=2.0,
    ready_mean=1.46,
    none_ready=4_321,
    stage_s={
        "read": 0.0012,
        "draw": 0.00031,
        "decode": 0.0404,
        "compute": 0.1,
        "graph": 1.0,
        "tail": 0.0,
        "collate": 9.96,
    },
)


def test_as_text() -> None:
    assert str(LARGE).splitlines() == [
        "epoch: 123,456 batches, 31,604,736 samples in 34,568 s (914 samples/s)",
        "waited: 12.3 % of the time; for a batch: p50 0.40 us, p95 12.3 ms, p99 999 ms,",
        "  max 123 s",
        "in flight: 2.0 batches on average, 1.5 of them ready; not ready when asked for:",
        "  4,321",
        "a batch's time: read 1.20 ms, draw 310 us, decode 40.4 ms, compute 100 ms, graph",
        "  1.00 s, tail 0.00 us, collate 10.0 s",
    ]
    assert str(LoaderStats(batches=1, epoch_s=1.0)).startswith("so far: 1 batches, 0 samples in 1.00 s\n")
    assert str(LoaderStats()) == "no batch yet"


def test_as_a_dict_and_pickled() -> None:
    found = LARGE.as_dict()
    assert json.loads(json.dumps(found)) == found
    assert LoaderStats(**found) == LARGE  # type: ignore[arg-type]
    assert pickle.loads(pickle.dumps(LARGE)) == LARGE
    assert found["stage_s"] is not LARGE.stage_s
