"""Every contender does the same work, in its own process."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from PIL import Image
from torchvision import transforms as tv
from torchvision.transforms import v2

from gpufeed.bench.checks import check_same_images
from gpufeed.bench.contenders import (
    BASELINE,
    CONTENDERS,
    Contender,
    configured,
    contenders_named,
    copy_of,
    custom_contender,
    default_names,
    torch_loaders,
)
from gpufeed.bench.contenders.torch_gpu import split_at_cast
from gpufeed.bench.images import choose, list_image_folder
from gpufeed.bench.measure import explained_epoch
from gpufeed.bench.process import ContenderProcess, end_all
from gpufeed.bench.workload import Workload
from gpufeed.config import Config, GpufeedSettings, TorchSettings
from gpufeed.errors import ArgumentError, BenchmarkError, UnsupportedError

Processes = dict[str, ContenderProcess]

_ON_A_GPU = ("torch-cuda-decode", "torch-uint8", "dali-proxy")
_OPTIONAL = {"torch-stateful": "torchdata", "spdl": "spdl"}
_HERE = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            name in _OPTIONAL and importlib.util.find_spec(_OPTIONAL[name]) is None,
            reason=f"{_OPTIONAL.get(name)} isn't installed",
        ),
    )
    for name in CONTENDERS
    if name not in _ON_A_GPU
]


@pytest.fixture(scope="module")
def processes(fake: Callable[..., Contender]) -> Iterator[Processes]:
    """A prepared process for every contender and for two fakes; they import their libraries at the same time."""
    own = [CONTENDERS[entry.values[0]] for entry in _HERE]
    contenders = [*own, fake("one_short"), fake("dies")]
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


@pytest.mark.parametrize("name", _HERE)
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


@pytest.mark.parametrize("name", _HERE)
@pytest.mark.parametrize("num_samples", [1, 5])
def test_epochs_of_one_or_two_batches_are_whole_too(
    name: str, num_samples: int, processes: Processes, workload: Workload
) -> None:
    few = replace(workload, paths=workload.paths[:num_samples], targets=workload.targets[:num_samples])
    processes[name].open(few)
    for _ in range(3):
        assert processes[name].run_epoch().num_samples == num_samples


@pytest.mark.parametrize("name", [entry for entry in _HERE if entry.values[0] != "dali-handwritten"])
def test_the_evaluation_transform_runs_too(name: str, processes: Processes, workload: Workload) -> None:
    processes[name].open(replace(workload, transform="eval"))
    assert processes[name].run_epoch().shape == (3, 224, 224)


def test_the_handwritten_graph_refuses_another_transform(processes: Processes, workload: Workload) -> None:
    with pytest.raises(UnsupportedError, match=r"dali-handwritten is written for RandomResizedCrop.*this transform is"):
        processes["dali-handwritten"].open(replace(workload, transform="eval"))


@pytest.mark.parametrize("name", _HERE)
def test_leaving_ends_worker_processes(name: str, processes: Processes, workload: Workload) -> None:
    process = processes[name]
    process.open(workload)
    process.run_epoch()
    workers = psutil.Process(process.pid).children(recursive=True)
    has_workers = name.startswith("torch-") and name != "torch-default"
    assert len(workers) == (2 if has_workers else 0)
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


def test_a_process_that_does_nothing_any_more_is_given_up(fake: Callable[..., Contender], workload: Workload) -> None:
    process = ContenderProcess(fake("stalls"), stalled_s=1.0)
    try:
        process.begin_prepare(1)
        process.finish_prepare()  # imports take longer, and work
        process.open(workload)
        with pytest.raises(BenchmarkError, match=r"^stalls stalls: for \d+ s neither .* last words: AF_UNIX path too"):
            process.run_epoch()
    finally:
        process.end()


def test_workers_that_couldnt_hand_over_a_batch_are_refused(
    workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_loaders, "too_long_for_workers", lambda: "the path is too long")
    for name in ("torch_tuned", "torch_prefetch"):
        with (
            pytest.raises(ArgumentError, match="the path is too long; set TMPDIR to a shorter one"),
            getattr(torch_loaders, name)(workload),
        ):
            pass
    with torch_loaders.torch_default(workload):
        pass
    with torch_loaders.torch_tuned(workload, TorchSettings(0)):
        pass


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
        (["ffcv"], "there is no contender 'ffcv'; there are torch-default, torch-tuned"),
        (["gpufeed", "gpufeed"], "the contender 'gpufeed' is named twice"),
        (["", " "], "name at least one contender of torch-default"),
    ],
)
def test_wrong_names_are_refused(names: list[str], problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        contenders_named(names)


@pytest.mark.parametrize("name", _ON_A_GPU)
def test_without_a_gpu_what_needs_one_says_so(name: str, workload: Workload) -> None:
    contender = CONTENDERS[name]
    assert not contender.default
    assert contender.leave_out_rank is not None
    with (
        pytest.raises(UnsupportedError, match="needs an NVIDIA GPU, and batches end on the CPU here"),
        contender.load_factory()(workload),
    ):
        pass


@pytest.mark.parametrize(
    ("name", "module", "sentence"),
    [
        ("torch-stateful", "torchdata", r"it needs torchdata \(.*\); `pip install torchdata` brings it"),
        ("spdl", "spdl", r"it needs SPDL \(.*\); `pip install spdl` brings it"),
    ],
)
def test_what_is_not_installed_is_named(
    name: str, module: str, sentence: str, workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UnsupportedError, match=sentence), CONTENDERS[name].load_factory()(workload):
        pass


_NORMALIZE = ((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


@pytest.mark.parametrize(
    "transform",
    [
        tv.Compose([tv.CenterCrop(9), tv.ToTensor(), tv.Normalize(*_NORMALIZE)]),
        tv.Compose([tv.Compose([tv.CenterCrop(9), tv.PILToTensor()]), tv.ConvertImageDtype(torch.float32)]),
        v2.Compose([v2.CenterCrop(9), v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(*_NORMALIZE)]),
    ],
    ids=["v1", "v1 without Normalize", "v2"],
)
def test_a_transform_split_at_its_cast_gives_the_same(transform: Callable[[object], torch.Tensor]) -> None:
    rng = np.random.default_rng(0)
    images = [Image.fromarray(rng.integers(0, 256, size=(11, 17, 3), dtype=np.uint8)) for _ in range(3)]
    split = split_at_cast(transform)
    uint8 = torch.stack([split.on_host(image) for image in images])
    assert uint8.dtype == torch.uint8
    torch.testing.assert_close(
        split.on_device(uint8), torch.stack([transform(image) for image in images]), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize(
    ("transform", "why"),
    [
        (tv.Compose([tv.CenterCrop(9), tv.PILToTensor()]), "this transform has none"),
        (tv.Compose([tv.ToTensor(), tv.RandomErasing()]), "once for a whole batch, and RandomErasing can't be"),
        (tv.Compose([tv.PILToTensor(), tv.ConvertImageDtype(torch.float16)]), "this transform has none"),
    ],
)
def test_what_cannot_be_split_is_refused(transform: object, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        split_at_cast(transform)


_OWN = """
from contextlib import contextmanager
import torch

def plain(workload):
    return [(torch.zeros(2, 3, 1, 1), torch.tensor([0, 0]))]

@contextmanager
def entered(workload):
    print("entered")
    yield plain(workload)
    print("left")

def fails(workload):
    raise OSError("no licence")

def refuses(workload):
    from gpufeed.errors import UnsupportedError
    raise UnsupportedError("not here")

batch_size = 3
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A file with contenders."""
    path = tmp_path / "own.py"
    path.write_text(_OWN)
    return path


@pytest.mark.parametrize("name", ["plain", "entered"])
def test_a_files_factory_returns_a_loader_or_a_context_manager(
    name: str, own: Path, workload: Workload, capsys: pytest.CaptureFixture[str]
) -> None:
    contender = custom_contender(f"{own}:{name}")
    assert (contender.name, contender.kind) == (name, "loader")
    with contender.load_factory()(workload) as epochs:
        assert len(list(epochs)) == len(list(epochs)) == 1
    assert capsys.readouterr().out == ("entered\nleft\n" if name == "entered" else "")


def test_a_files_contender_must_be_there_and_a_function_of_a_free_name(own: Path) -> None:
    with pytest.raises(ArgumentError, match=r"there is no file gone\.py"):
        custom_contender("gone.py:plain")
    with pytest.raises(ArgumentError, match=r"batch_size is of type int, not a function that takes a workload"):
        custom_contender(f"{own}:batch_size").load_factory()
    with pytest.raises(ArgumentError, match="has the name of one of gpufeed's own; give it another"):
        custom_contender(f"{own}:gpufeed")


def test_a_files_factory_that_raises_is_named_with_how_it_is_called(own: Path, workload: Workload) -> None:
    sentence = r"own\.py:fails fails: OSError: no licence; it is called once with a workload and returns a loader"
    with pytest.raises(ArgumentError, match=sentence), custom_contender(f"{own}:fails").load_factory()(workload):
        pass
    with pytest.raises(UnsupportedError, match=r"^not here$"):
        custom_contender(f"{own}:refuses").load_factory()(workload).__enter__()


def test_the_copy_is_the_baseline_under_another_name_and_goes_first() -> None:
    baseline = CONTENDERS[BASELINE]
    copy = copy_of(baseline)
    assert (copy.name, copy.kind, copy.factory) == ("torch-tuned again", "copy", baseline.factory)
    ranks = [contender.leave_out_rank for contender in CONTENDERS.values() if contender.leave_out_rank is not None]
    assert copy.leave_out_rank is not None
    assert copy.leave_out_rank < min(ranks)


def test_a_files_settings_reach_the_two_that_they_are_for() -> None:
    config = Config(TorchSettings(num_workers=3, prefetch_factor=4), GpufeedSettings(num_threads=5, prefetch_factor=6))
    tuned, ours, other = (configured(CONTENDERS[name], config) for name in (BASELINE, "gpufeed", "torch-default"))
    assert tuned.options == (("settings", config.torch),)
    assert ours.options == (("settings", config.gpufeed),)
    assert (tuned.batches_in_flight(2), ours.batches_in_flight(2)) == (13, 7)
    assert other == CONTENDERS["torch-default"]
    assert configured(tuned, Config()) == tuned
