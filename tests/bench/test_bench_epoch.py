"""One epoch is timed to its end, and unequal work fails loudly."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from gpufeed.bench import epoch as epoch_module
from gpufeed.bench.checks import check_same_images
from gpufeed.bench.epoch import check_epoch, run_epoch
from gpufeed.bench.workload import Workload
from gpufeed.errors import ArgumentError, BenchmarkError

_WORKLOAD = Workload(
    root="/r",
    classes=("a", "b", "c"),
    paths=tuple(f"/r/{i}" for i in range(11)),
    targets=tuple(i % 3 for i in range(11)),
    transform="train",
    batch_size=4,
    num_threads=1,
)
_IMAGES = torch.arange(11 * 3 * 5 * 7, dtype=torch.float32).reshape(11, 3, 5, 7)
_TARGETS = torch.tensor(_WORKLOAD.targets)

Batches = list[tuple[torch.Tensor, torch.Tensor]]


def _batches(images: torch.Tensor = _IMAGES, targets: torch.Tensor = _TARGETS, size: int = 4) -> Batches:
    return list(zip(images.split(size), targets.split(size), strict=True))


def test_a_whole_epoch_is_counted_and_described() -> None:
    epoch = run_epoch(_batches(), _WORKLOAD, with_pixels=True)
    check_epoch(epoch, _WORKLOAD)
    assert (epoch.num_samples, epoch.num_batches, epoch.target_sum) == (11, 3, int(_TARGETS.sum()))
    assert (epoch.dtype, epoch.device, epoch.shape) == ("float32", "cpu", (3, 5, 7))
    assert epoch.mean == pytest.approx(float(_IMAGES.double().mean()))
    assert epoch.std == pytest.approx(float(_IMAGES.double().std(correction=0)))
    assert 0 < epoch.first_batch_s <= epoch.elapsed_s
    assert epoch.images_per_s == pytest.approx(11 / epoch.elapsed_s)


def test_looking_at_pixels_does_not_change_them() -> None:
    images = _IMAGES.clone()
    run_epoch(_batches(images), _WORKLOAD, with_pixels=True)
    assert torch.equal(images, _IMAGES)


@pytest.mark.parametrize(
    ("batches", "problem"),
    [
        pytest.param(_batches()[:-1], "samples per epoch must be 11, got 8", id="a batch missing"),
        pytest.param([*_batches(), *_batches()], "samples per epoch must be 11, got 22", id="two epochs"),
        pytest.param(_batches(targets=_TARGETS + 1), "sum of targets must be 10, got 21", id="other targets"),
        pytest.param(_batches(size=11), "batches per epoch must be 3, got 1", id="larger batches"),
        pytest.param(_batches(_IMAGES.half()), "dtype must be float32, got float16", id="half precision"),
        pytest.param(_batches(_IMAGES.to("meta")), "device must be cpu, got meta", id="not on the device"),
    ],
)
def test_unequal_work_is_refused(batches: Batches, problem: str) -> None:
    with pytest.raises(BenchmarkError, match=f"did unequal work: .*{problem}"):
        check_epoch(run_epoch(batches, _WORKLOAD), _WORKLOAD)


@pytest.mark.parametrize(
    ("batches", "problem"),
    [
        pytest.param([], "gave no batch in an epoch", id="nothing"),
        pytest.param(
            [*_batches()[:2], (_IMAGES[8:].double(), _TARGETS[8:])], "batches of different kinds", id="mixed dtypes"
        ),
        pytest.param(
            [*_batches()[:2], (_IMAGES[8:, :, :3], _TARGETS[8:])], "batches of different kinds", id="mixed sizes"
        ),
    ],
)
def test_batches_that_are_no_epoch_are_refused(batches: Batches, problem: str) -> None:
    with pytest.raises(BenchmarkError, match=problem):
        run_epoch(batches, _WORKLOAD)


@pytest.mark.parametrize(
    ("batch", "held"),
    [(_IMAGES, "Tensor"), ((_IMAGES, _TARGETS, 0), "tuple of Tensor, Tensor, int"), ([_IMAGES, [0]], "list of")],
)
def test_a_batch_that_is_no_pair_of_tensors_is_told(batch: object, held: str) -> None:
    rule = f"^gave a batch that is a {held}.*; each must be a pair of tensors, images and targets$"
    with pytest.raises(BenchmarkError, match=rule):
        run_epoch([batch], _WORKLOAD)


def test_contenders_must_give_images_that_are_alike() -> None:
    normalised = torch.randn(400, 3, 5, 7, generator=torch.Generator().manual_seed(0))
    targets = torch.zeros(400, dtype=torch.int64)

    def look(images: torch.Tensor) -> object:
        return run_epoch(_batches(images, targets), _WORKLOAD, with_pixels=True)

    reference = look(normalised)
    check_same_images("torch-tuned", reference, "other", look(normalised.flip(3) + 0.1))  # type: ignore[arg-type]
    for images in (normalised * 255, normalised + 1, normalised * 0.5):
        with pytest.raises(BenchmarkError, match="other did unequal work: its values have mean"):
            check_same_images("torch-tuned", reference, "other", look(images))  # type: ignore[arg-type]
    with pytest.raises(BenchmarkError, match=r"other did unequal work: its images have the shape \(3, 5, 6\)"):
        check_same_images("torch-tuned", reference, "other", look(normalised[..., :6]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"paths": (), "targets": ()}, "paths must not be empty"),
        ({"targets": (0,)}, "targets must be as many as paths, got 1 for 11"),
        ({"targets": (3,) * 11}, r"targets must be in \[0, 3\)"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"num_threads": 0}, "num_threads must be at least 1, got 0"),
        ({"device": "cuda"}, 'device must be "cpu" or "cuda:N", got \'cuda\''),
    ],
)
def test_a_workload_validates_itself(change: dict[str, object], rule: str) -> None:
    with pytest.raises(ArgumentError, match=rule):
        replace(_WORKLOAD, **change)  # type: ignore[arg-type]


def test_a_workload_knows_what_an_epoch_adds_up_to() -> None:
    assert (len(_WORKLOAD), _WORKLOAD.num_batches, _WORKLOAD.target_sum) == (11, 3, 10)


def test_with_a_step_every_batch_is_fed_and_the_step_is_timed_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(epoch_module.time, "perf_counter", lambda: now[0])
    fed: list[int] = []

    def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for batch in _batches():
            now[0] += 1.0
            yield batch

    def step(batch: tuple[torch.Tensor, torch.Tensor]) -> None:
        fed.append(len(batch[0]))
        now[0] += 0.25

    epoch = run_epoch(batches(), _WORKLOAD, step=step)
    check_epoch(epoch, _WORKLOAD)
    assert fed == [4, 4, 3]
    assert epoch.step_s == 0.75
    assert epoch.waits_s == (1.0, 1.0, 1.0)
    assert epoch.elapsed_s == 3.75
    assert epoch.first_batch_s == 1.0
    assert epoch.wait_share == 0.8


def test_a_bounds_batches_may_be_numbers_and_have_no_targets() -> None:
    epoch = run_epoch([4, 4, 3], _WORKLOAD, is_bound=True)
    check_epoch(epoch, _WORKLOAD, is_bound=True)
    assert (epoch.num_samples, epoch.num_batches, epoch.step_s, epoch.gpu) == (11, 3, 0.0, None)
    with pytest.raises(BenchmarkError, match="samples per epoch must be 11, got 8"):
        check_epoch(run_epoch([4, 4], _WORKLOAD, is_bound=True), _WORKLOAD, is_bound=True)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the unit is another")
def test_looking_at_pixels_takes_the_memory_of_one_image() -> None:
    """Temporary tensors between a loader's own allocations made the heap grow by more than a gigabyte."""
    code = (
        "import resource, torch\n"
        "from gpufeed.bench.epoch import _Pixels\n"
        "def most(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "pixels, images = _Pixels(), torch.rand(64, 3, 224, 224)\n"
        "pixels.add(images[:1])\n"
        "before = most()\n"
        "pixels.add(images)\n"
        "print(most() - before)\n"
    )
    grown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(grown) < 10e6
