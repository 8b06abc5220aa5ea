"""Training steps: which names are taken, what is called with what, and what they cost."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

from gpufeed.bench import steps
from gpufeed.bench.steps import check_step, given_time_s, make_step, time_step
from gpufeed.bench.workload import Workload
from gpufeed.errors import ArgumentError

_WORKLOAD = Workload("/r", ("a", "b"), ("/r/0", "/r/1"), (0, 1), "train", batch_size=2, num_threads=1)
_BATCH = (torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1]))

_OWN = """
CALLS = []

def no_step(device, images, targets):
    return 3

def failing(device, images, targets):
    def step(images, targets):
        raise RuntimeError("out of cheese\\nand wine")
    return step

def single(device, batch):
    return CALLS.append

number = 7
"""


_NOTING = """
from pathlib import Path

def note(text):
    with Path({log!r}).open("a") as file:
        print(text, file=file)

def make(device, images, targets):
    note(f"make {{device}} {{tuple(images.shape)}}")
    return lambda images, targets: note(f"step {{tuple(images.shape)}} {{targets.tolist()}}")
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A file with steps."""
    path = tmp_path / "own.py"
    path.write_text(_OWN)
    return path


@pytest.mark.parametrize(("name", "seconds"), [("25ms", 0.025), ("0.5s", 0.5), ("2s", 2.0), ("1.5ms", 0.0015)])
def test_a_time_is_a_step(name: str, seconds: float) -> None:
    check_step(name)
    assert given_time_s(name) == pytest.approx(seconds)


@pytest.mark.parametrize("name", ["none", "resnet18", "resnet50", "vit_b_16"])
def test_models_are_steps(name: str) -> None:
    check_step(name)
    assert given_time_s(name) is None


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("resnet101", "the step must be none, resnet18, resnet50, vit_b_16, a time such as 25ms, or FILE.py:NAME"),
        ("25", "got '25'"),
        ("0ms", "a step's time must be above 0, got 0ms"),
        ("gone.py:make", "there is no file gone.py"),
        ("gone.py", "expected FILE.py:NAME"),
    ],
)
def test_what_is_no_step_is_refused(name: str, rule: str) -> None:
    with pytest.raises(ArgumentError, match=rule):
        check_step(name)


def test_a_given_time_pauses_for_that_long(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(steps.time, "sleep", slept.append)
    step = make_step("25ms", _WORKLOAD, _BATCH)
    step.run(_BATCH)
    assert slept == [0.025]
    assert step.what == "a pause of 25 ms, in which the CPU is free"


def test_a_model_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    seen: list[torch.nn.Module] = []
    from torchvision import models

    real = models.resnet18
    monkeypatch.setattr(models, "resnet18", lambda **options: seen.append(real(**options)) or seen[-1])
    step = make_step("resnet18", _WORKLOAD, _BATCH)
    (model,) = seen
    before = [parameter.detach().clone() for parameter in model.parameters()]
    step.run(_BATCH)
    assert all(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    step.run(((255 * _BATCH[0]).to(torch.uint8), _BATCH[1]))  # uint8 is cast
    assert step.what == (
        "a training step of torchvision's resnet18 with SGD, float32 on the CPU, whose cores the loader uses too"
    )


@pytest.mark.parametrize(
    "batch", [_BATCH[0], {"images": _BATCH[0]}, (_BATCH[0][0], _BATCH[1]), (_BATCH[0][:, :1], _BATCH[1])]
)
def test_a_model_refuses_batches_that_are_no_images_and_targets(batch: object) -> None:
    with pytest.raises(ArgumentError, match=r"the step resnet18 takes images \(B, 3, H, W\) and targets"):
        make_step("resnet18", _WORKLOAD, batch)


def test_a_model_that_cannot_take_the_size_says_so() -> None:
    step = make_step("vit_b_16", _WORKLOAD, _BATCH)
    with pytest.raises(ArgumentError, match=r"the step vit_b_16 fails: AssertionError: Wrong image height"):
        step.run(_BATCH)


def test_a_files_step_is_made_once_and_then_called_with_images_and_targets(own: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    own.write_text(_NOTING.format(log=str(log)))
    step = make_step(f"{own}:make", _WORKLOAD, _BATCH)
    step.run(_BATCH)
    step.run(list(_BATCH))
    assert log.read_text().splitlines() == [
        "make cpu (2, 3, 32, 32)",
        "step (2, 3, 32, 32) [0, 1]",
        "step (2, 3, 32, 32) [0, 1]",
    ]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("no_step", "no_step must return a step, a function of a batch's images and targets, got int"),
        ("number", "number is of type int, not a function that makes a step"),
        ("single", r"the step .*single fails: TypeError: single\(\) takes 2 positional arguments but 3 were given"),
    ],
)
def test_a_file_that_gives_no_step_is_refused(own: Path, name: str, problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        make_step(f"{own}:{name}", _WORKLOAD, _BATCH)


def test_a_step_that_raises_is_named_with_the_first_line(own: Path) -> None:
    step = make_step(f"{own}:failing", _WORKLOAD, _BATCH)
    with pytest.raises(ArgumentError, match=r"the step .*own\.py:failing fails: RuntimeError: out of cheese$"):
        step.run(_BATCH)


def test_a_batch_that_is_no_sequence_is_one_argument(own: Path) -> None:
    step = make_step(f"{own}:single", _WORKLOAD, {"image": _BATCH[0]})
    step.run({"image": _BATCH[0]})


def test_timing_takes_the_median_and_leaves_the_first_out(monkeypatch: pytest.MonkeyPatch) -> None:
    durations = iter([50.0, 1.0, 9.0, 2.0])
    now = [0.0]
    monkeypatch.setattr(steps.time, "perf_counter", lambda: now[0])

    def run(_: object) -> None:
        now[0] += next(durations)

    waited: list[float] = []
    step = steps.Step("x", "x", run)
    assert time_step(step, _BATCH, lambda: waited.append(now[0])) == 2.0  # 3 s are over: the fewest, three
    assert len(waited) == 4


def test_timing_of_a_quick_step_ends() -> None:
    step = steps.Step("x", "x", lambda _: None)
    assert 0 <= time_step(step, _BATCH, lambda: None) < time.perf_counter()
