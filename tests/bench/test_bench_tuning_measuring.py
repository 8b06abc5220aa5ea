"""Whole tunings of small fakes: each visit in a process of its own, what fails, what is left out, Ctrl-C."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import psutil
import pytest

from gpufeed.bench.contenders import CONTENDERS as COMPARED
from gpufeed.bench.contenders import Contender
from gpufeed.bench.images import list_image_folder
from gpufeed.bench.tuning.curves import curves_of, knee_sentence
from gpufeed.bench.tuning.filling import Filling
from gpufeed.bench.tuning.measuring import contender_for
from gpufeed.bench.tuning.results import Trial, Tuned, Tuning
from gpufeed.bench.tuning.space import LoaderName
from gpufeed.bench.tuning.tune import Request, tune
from gpufeed.config import GpufeedSettings, TorchSettings
from gpufeed.errors import ArgumentError, BenchmarkError, UnsupportedError

_FAKES = Path(__file__).with_name("fake_tuned.py")


class Notes:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.tries: list[tuple[str, Trial]] = []

    def budget(self, seconds: float) -> None: ...

    def say(self, text: str) -> None: ...

    def detail(self, text: str) -> None: ...

    def count(self, done: int, total: int) -> None: ...

    def tried(self, tuned: Tuned, trial: Trial) -> None:
        self.tries.append((tuned.loader, trial))


def _tune(
    photos: Path,
    *,
    torch: str = "",
    ours: str = "",
    notes: Notes | None = None,
    num_cpus: int = 1,
    max_memory_bytes: int | None = None,
    step: str = "",
    budget_s: float = 600,  # never reached
) -> Tuning:
    names: dict[LoaderName, str] = {"torch": torch, "gpufeed": ours}
    request = Request(
        files=list_image_folder(photos),
        data="photos",
        transform="train",
        batch_size=2,
        num_cpus=num_cpus,
        device="cpu",
        budget_s=budget_s,
        step=step,
        max_memory_bytes=max_memory_bytes,
        contenders={
            loader: Contender(loader, f"{_FAKES}:{name}", "for tests") for loader, name in names.items() if name
        },
    )
    try:
        return tune(request, notes or Notes(), time.monotonic())
    finally:
        assert psutil.Process().children(recursive=True) == []


def test_both_loaders_are_searched_and_told_trial_by_trial(photos: Path) -> None:
    notes = Notes()
    tuning = _tune(photos, torch="quick", ours="quick", notes=notes)
    torch, ours = tuning.loaders
    assert (torch.loader, ours.loader) == ("torch", "gpufeed")
    assert isinstance(torch.best, TorchSettings)
    assert isinstance(ours.best, GpufeedSettings)
    assert {_workers(trial) for trial in torch.trials} == {0, 1, 2, 3, 4}
    assert {loader for loader, _ in notes.tries} == {"torch", "gpufeed"}
    assert all(trial.peak_memory_bytes for trial in (*torch.trials, *ours.trials))
    assert torch.finished
    assert ours.finished
    assert (tuning.device, tuning.interrupted, tuning.left_out) == ("cpu", False, ())


def _workers(trial: Trial) -> int:
    assert isinstance(trial.setting, TorchSettings)
    return trial.setting.num_workers


def test_a_process_that_dies_is_a_failed_setting_and_the_next_one_is_measured(photos: Path) -> None:
    tuned = _tune(photos, torch="dies_with_many").loaders[0]
    failed = {_workers(trial) for trial in tuned.trials if trial.failure}
    assert failed == {3, 4}
    assert "3 workers" in next(trial.failure for trial in tuned.trials if _workers(trial) == 3)
    assert "its process ended with signal 9" in next(trial.failure for trial in tuned.trials if trial.failure)
    assert tuned.best is not None
    assert tuned.best not in [trial.setting for trial in tuned.trials if trial.failure]


def test_memory_is_each_settings_own_and_a_limit_is_kept(photos: Path) -> None:
    free = {trial.setting: trial for trial in _tune(photos, ours="hoards").loaders[0].trials}
    peaks = {
        setting.num_threads: free[setting].peak_memory_bytes or 0 for setting in free if setting.batches_in_flight == 2
    }
    for threads in (2, 3, 4):
        assert peaks[threads] - peaks[1] == pytest.approx((threads - 1) * 30e6, abs=12e6)
    limit = (peaks[2] + peaks[3]) // 2
    tuned = _tune(photos, ours="hoards", max_memory_bytes=limit).loaders[0]
    assert isinstance(tuned.best, GpufeedSettings)
    assert tuned.best.num_threads <= 2
    assert {setting.num_threads for setting in tuned.over_memory if isinstance(setting, GpufeedSettings)} == {3, 4}


def test_a_step_is_fed(photos: Path) -> None:
    trials = _tune(photos, ours="quick", step="20ms", budget_s=60).loaders[0].trials
    assert trials
    assert all(rate < 2 / 0.02 for trial in trials for rate in trial.images_per_s)


def test_a_loader_that_cant_is_left_out_with_its_sentence(photos: Path) -> None:
    tuning = _tune(photos, torch="quick", ours="refuses")
    assert [tuned.loader for tuned in tuning.loaders] == ["torch"]
    (left_out,) = tuning.left_out
    assert (left_out.name, left_out.reason) == ("gpufeed", "I don't do this transform")
    with pytest.raises(UnsupportedError, match="gpufeed: I don't do this transform"):
        _tune(photos, ours="refuses")


def test_a_loader_that_fails_with_ordinary_settings_ends_it(photos: Path) -> None:
    with pytest.raises(BenchmarkError, match="out of cheese"):
        _tune(photos, torch="fails")


def test_ctrl_c_keeps_the_best_so_far(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_TUNED_PID", str(os.getpid()))
    tuning = _tune(photos, torch="interrupted", ours="quick")
    assert tuning.interrupted
    (tuned,) = tuning.loaders
    assert tuned.best == TorchSettings(1, 2, persistent_workers=True)
    assert not tuned.finished


def test_a_setting_can_be_given_to_a_contender_of_the_comparison() -> None:
    for name, settings in (("torch-tuned", TorchSettings(3, 2)), ("gpufeed", GpufeedSettings(3))):
        contender = contender_for(COMPARED[name], settings)
        assert (contender.name, contender.options) == (name, (("settings", settings),))
        assert contender.load_factory().keywords == {"settings": settings}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("busy_s", "pause_s"),
    [(0.0, 8.0), (11.0, 11.3), (1e9, 26.0)],
    ids=["at least the depth's time", "until it is idle", "not forever"],
)
def test_the_queues_get_full_in_the_first_epoch_only(busy_s: float, pause_s: float) -> None:
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    class Epochs:
        def __iter__(self) -> object:
            for batch in "ab":
                sleep(2.0)
                yield batch

    epochs = Filling(Epochs(), 4, used_cpu_s=lambda: min(now_s, 2 + busy_s), clock_s=lambda: now_s, sleep=sleep)
    assert list(epochs) == ["a", "b"]
    assert now_s == pytest.approx(4 + pause_s, abs=0.25)
    before_s = now_s
    assert list(epochs) == ["a", "b"]
    assert now_s == pytest.approx(before_s + 4)


def test_a_broken_image_is_named(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    whole = next(photos.rglob("*.jpg")).read_bytes()
    (tmp_path / "a" / "half.jpg").write_bytes(whole[: len(whole) // 2])
    request = Request(
        files=list_image_folder(tmp_path),
        data="photos",
        transform="eval",
        batch_size=2,
        num_cpus=1,
        device="cpu",
        budget_s=600.0,
    )
    with pytest.raises(ArgumentError, match=r"half\.jpg"):
        tune(request, Notes(), time.monotonic())


_THROTTLED = '''
import fcntl, os, time
from torchvision.transforms.functional import pil_to_tensor

class Throttled:
    """A disk that serves one reader at a time, and seeks for each of those that use it."""

    def __call__(self, image):
        folder = {folder!r}
        open(os.path.join(folder, str(os.getpid())), "w").close()
        readers = len([name for name in os.listdir(folder) if name.isdigit() and os.path.exists("/proc/" + name)])
        time.sleep(0.004)  # of the reader's own, beside the others
        with open(os.path.join(folder, "disk"), "w") as disk:
            fcntl.flock(disk, fcntl.LOCK_EX)
            time.sleep(0.002 * (1 + 0.5 * max(0, readers - 2)))
        return pil_to_tensor(image.resize((8, 8))).float()

read = Throttled()
'''


@pytest.mark.slow
@pytest.mark.alone
def test_a_throttled_disk_is_read_by_few_workers(photos: Path, tmp_path: Path) -> None:
    """Two or three readers keep the disk busy; eight spend its time on seeks."""
    file = tmp_path / "throttled.py"
    (tmp_path / "readers").mkdir()
    file.write_text(_THROTTLED.replace("{folder!r}", repr(str(tmp_path / "readers"))))
    request = Request(
        files=list_image_folder(photos),
        data="photos",
        transform=f"{file}:read",
        batch_size=8,
        num_cpus=2,
        device="cpu",
    )
    tuning = tune(request, Notes(), time.monotonic())
    torch = next(tuned for tuned in tuning.loaders if tuned.loader == "torch")
    assert isinstance(torch.best, TorchSettings)
    assert 1 <= torch.best.num_workers <= 4
    rates = {_workers(trial): trial.rate for trial in torch.trials if trial.setting in torch.main}
    assert rates[8] < 0.8 * max(rates.values())
    throughput = next(curve for curve in curves_of(torch) if curve.quantity == "throughput")
    assert [point.value for point in throughput.points if point.at == 8] == [rates[8]]
    assert re.search(r"the knee is at num_workers [1-4] with .*; num_workers 8 is \d\d% slower", knee_sentence(torch))
    assert [left.name for left in tuning.left_out] == ["gpufeed"]
