"""Every contender does the same work, in its own process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from gpufeed.bench.checks import check_same_images
from gpufeed.bench.contenders import BASELINE, CONTENDERS, Contender, contenders_named, default_names
from gpufeed.bench.images import choose, list_image_folder
from gpufeed.bench.measure import explained_epoch
from gpufeed.bench.process import ContenderProcess, end_all
from gpufeed.bench.workload import Workload
from gpufeed.errors import ArgumentError, BenchmarkError, UnsupportedError

Processes = dict[str, ContenderProcess]


@pytest.fixture(scope="module")
def processes(fake: Callable[..., Contender]) -> Iterator[Processes]:
    """A prepared process for every contender and for two fakes; they import their libraries at the same time."""
    contenders = [*CONTENDERS.values(), fake("one_short"), fake("dies")]
    started = {contender.name: ContenderProcess(contender) for contender in contenders}
    try:
        for process in started.values():
            process.begin_prepare(num_threads=2)
        for process in started.values():
            process.finish_prepare()
        yield started
    finally:
        end_all(list(started.values()))


@pytest.fixture(scope="module")
def workload(photos: Path) -> Workload:
    """26 samples of 11 files: batches of 4, and a short one of 2."""
    files = list_image_folder(photos)
    paths, targets = choose(files, 26, seed=0)
    return Workload(files.root, files.classes, paths, targets, "train", batch_size=4, num_threads=2)


@pytest.mark.parametrize("name", CONTENDERS)
def test_each_iter_is_one_whole_epoch_with_images_like_the_baselines(
    name: str, processes: Processes, workload: Workload
) -> None:
    baseline, process = processes[BASELINE], processes[name]
    baseline.open(workload)
    reference = baseline.run_epoch(with_pixels=True)
    process.open(workload)
    for _ in range(3):  # the process checks counts, targets, dtype and device of each
        epoch = process.run_epoch(with_pixels=True)
        assert (epoch.num_samples, epoch.num_batches, epoch.shape) == (26, 7, (3, 224, 224))
    check_same_images(BASELINE, reference, name, epoch)


@pytest.mark.parametrize("name", CONTENDERS)
@pytest.mark.parametrize("num_samples", [1, 5])
def test_epochs_of_one_or_two_batches_are_whole_too(
    name: str, num_samples: int, processes: Processes, workload: Workload
) -> None:
    few = replace(workload, paths=workload.paths[:num_samples], targets=workload.targets[:num_samples])
    processes[name].open(few)
    for _ in range(3):
        assert processes[name].run_epoch().num_samples == num_samples


@pytest.mark.parametrize("name", [name for name in CONTENDERS if name != "dali-handwritten"])
def test_the_evaluation_transform_runs_too(name: str, processes: Processes, workload: Workload) -> None:
    processes[name].open(replace(workload, transform="eval"))
    assert processes[name].run_epoch().shape == (3, 224, 224)


def test_the_handwritten_graph_refuses_another_transform(processes: Processes, workload: Workload) -> None:
    with pytest.raises(UnsupportedError, match=r"dali-handwritten is written for RandomResizedCrop.*this transform is"):
        processes["dali-handwritten"].open(replace(workload, transform="eval"))


@pytest.mark.parametrize("name", CONTENDERS)
def test_leaving_ends_worker_processes(name: str, processes: Processes, workload: Workload) -> None:
    process = processes[name]
    process.open(workload)
    process.run_epoch()
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) == (2 if name in ("torch-tuned", "torch-tensor") else 0)
    process.close()
    assert psutil.wait_procs(workers, timeout=10)[1] == []


def test_unequal_work_names_the_contender(processes: Processes, workload: Workload) -> None:
    processes["one_short"].open(workload)
    with pytest.raises(BenchmarkError, match=r"^one_short did unequal work: samples per epoch must be 26, got 25"):
        processes["one_short"].run_epoch()


def test_a_process_that_dies_leaves_its_last_words(processes: Processes, workload: Workload) -> None:
    processes["dies"].open(workload)
    with pytest.raises(BenchmarkError, match=r"^dies's process ended with signal 9; its last words: out of cheese"):
        processes["dies"].run_epoch()


@pytest.mark.parametrize("name", ["torch-default", "torch-tuned"])
def test_an_image_that_cannot_be_decoded_is_named(
    name: str, processes: Processes, workload: Workload, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(Path(workload.paths[0]).read_bytes()[:-300])
    with_cut = replace(workload, paths=(*workload.paths[:-1], str(cut)))
    processes[name].open(with_cut)
    with pytest.raises(BenchmarkError, match=f"^{name} failed: OSError: .*truncated"):
        processes[name].run_epoch()
    with pytest.raises(ArgumentError, match=r"cut\.jpg can't be decoded \(.*truncated.*\); remove it or repair it"):
        explained_epoch(processes[name], with_cut)


def test_names_choose_in_the_tables_order() -> None:
    assert [contender.name for contender in contenders_named(["gpufeed", " torch-tuned "])] == [
        "torch-tuned",
        "gpufeed",
    ]
    assert default_names() == ("torch-default", "torch-tuned", "torch-tensor", "gpufeed")
    assert CONTENDERS["gpufeed"].leave_out_rank is None
    assert CONTENDERS[BASELINE].leave_out_rank is None


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["spdl"], "there is no contender 'spdl'; there are torch-default, torch-tuned"),
        (["gpufeed", "gpufeed"], "the contender 'gpufeed' is named twice"),
        (["", " "], "name at least one contender of torch-default"),
    ],
)
def test_wrong_names_are_refused(names: list[str], problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        contenders_named(names)
