"""What needs a GPU does the same work as the others, seen where it can run on the CPU: in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from gpufeed.bench.checks import check_same_images
from gpufeed.bench.contenders import BASELINE, CONTENDERS, Contender
from gpufeed.bench.images import choose, list_image_folder
from gpufeed.bench.process import ContenderProcess, end_all
from gpufeed.bench.results import Epoch
from gpufeed.bench.workload import Workload

pytestmark = pytest.mark.slow

_ON_CPU = Path(__file__).with_name("gpu_contenders_on_cpu.py")
Measured = Callable[[Contender, Workload], tuple[Epoch, Epoch]]


@pytest.fixture
def workload(photos: Path) -> Workload:
    """26 samples of 11 files: batches of 4, and a short one of 2."""
    files = list_image_folder(photos)
    paths, targets = choose(files, 26, seed=0)
    return Workload(files.root, files.classes, paths, targets, "eval", batch_size=4, num_threads=1)


@pytest.fixture
def measured() -> Iterator[Measured]:
    """Two epochs of a contender, whose counts, targets, dtype and device its process checks; none is left running."""
    processes: list[ContenderProcess] = []

    def run(contender: Contender, workload: Workload) -> tuple[Epoch, Epoch]:
        process = ContenderProcess(contender)
        processes.append(process)
        process.begin_prepare(num_threads=1)
        process.finish_prepare()
        process.open(workload)
        found = process.run_epoch(with_pixels=True), process.run_epoch(with_pixels=True)
        children = psutil.Process(process.pid).children(recursive=True)
        process.close()
        assert psutil.wait_procs(children, timeout=10)[1] == []
        return found

    yield run
    end_all(processes)


@pytest.mark.parametrize(("name", "like"), [("cuda_decode", "torch-tensor"), ("uint8", BASELINE)])
def test_without_random_draws_all_values_add_up_to_the_same(
    name: str, like: str, workload: Workload, measured: Measured
) -> None:
    reference, _ = measured(CONTENDERS[like], workload)
    for epoch in measured(Contender(name, f"{_ON_CPU}:{name}", "for tests"), workload):
        assert epoch.shape == reference.shape
        assert (epoch.mean, epoch.std) == pytest.approx((reference.mean, reference.std), rel=1e-6, abs=1e-6)


def test_dalis_proxy_gives_images_like_the_baselines(workload: Workload, measured: Measured) -> None:
    workload = replace(workload, transform="train")
    reference, _ = measured(CONTENDERS[BASELINE], workload)
    for epoch in measured(Contender("proxy", f"{_ON_CPU}:proxy", "for tests"), workload):
        check_same_images(BASELINE, reference, "proxy", epoch)
