"""What other programs took: only where nothing was left of the CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
from constructed import comparison, result

from gpufeed.bench import others
from gpufeed.bench.others import BusyCpus
from gpufeed.bench.render import render
from gpufeed.bench.report.html import html
from gpufeed.bench.results import Comparison, ContenderResult
from gpufeed.bench.statistics import taken_cpus
from gpufeed.bench.time_parts import time_parts
from gpufeed.bench.verdict import verdict


def _cpus(monkeypatch: pytest.MonkeyPatch, *busy_s: Sequence[float]) -> None:
    """psutil's answers, one after the other: for each CPU how long it was busy; half of it in the system."""
    answers = iter(busy_s)

    def cpu_times(percpu: bool) -> list[SimpleNamespace]:
        assert percpu
        return [SimpleNamespace(user=busy / 2, system=busy / 2, idle=1e6, guest=busy / 4) for busy in next(answers)]

    monkeypatch.setattr(others.psutil, "cpu_times", cpu_times)
    monkeypatch.setattr(others.os, "sched_getaffinity", lambda _: {0, 2}, raising=False)


@pytest.mark.parametrize(
    ("after_s", "expected_s"),
    [
        ((9.0, 99.0, 10.0), 12.0),  # 19 of 20 s were busy, 7 of them for this process; CPU 1 isn't its own
        ((5.0, 99.0, 9.0), 0.0),  # 6 s were idle
        ((3.5, 99.0, 3.5), 0.0),
    ],
)
def test_taken_is_what_others_used_of_full_cpus(
    monkeypatch: pytest.MonkeyPatch, after_s: tuple[float, ...], expected_s: float
) -> None:
    _cpus(monkeypatch, (0.0, 0.0, 0.0), after_s)
    assert BusyCpus().taken_s(7.0, 10.0) == expected_s


def test_this_machine_answers() -> None:
    assert BusyCpus().taken_s(1e9, 1e-9) == 0.0


def _with_taken(loader: ContenderResult, cpus: float) -> ContenderResult:
    measurements = tuple(
        replace(entry, epoch=replace(entry.epoch, taken_cpu_s=cpus * entry.epoch.elapsed_s))
        for entry in loader.measurements
    )
    return replace(loader, measurements=measurements)


def _compared(images_per_s: float, taken: float) -> Comparison:
    costs = {"read": 0.0001, "decode": 0.002, "Resize()": 0.001}
    return comparison(_with_taken(result("torch-tuned", images_per_s), taken), costs=costs)


def test_what_was_taken_is_no_overhead_of_the_loader() -> None:
    alone, disturbed = _compared(600, 0.0), _compared(300, 1.0)  # two CPUs, one of them for others
    shares = [time_parts(comparison) for comparison in (alone, disturbed)]
    assert shares[0] is not None
    assert shares[1] is not None
    assert shares[1].other == pytest.approx(shares[0].other, abs=0.01)
    undisturbed = time_parts(_compared(300, 0.0))
    assert undisturbed is not None
    assert undisturbed.other > shares[1].other + 0.4


def test_it_is_told() -> None:
    disturbed = _compared(300, 1.0)
    assert taken_cpus(disturbed) == pytest.approx(1.0)
    assert "Other programs took 1.0 CPUs away meanwhile" in " ".join(render(disturbed).split())
    assert "Other programs took 1.0 CPUs away" in html(disturbed, verdict(disturbed))
    for text in (render(undisturbed := _compared(600, 0.0)), html(undisturbed, verdict(undisturbed))):
        assert "Other programs" not in text
