"""Does a training starve? Constructed looks at it, and constructed trainings that really run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from gpufeed.errors import ArgumentError
from gpufeed.inspect.doctor.findings import Finding
from gpufeed.inspect.doctor.gpus import GpuReading
from gpufeed.inspect.doctor.training import Training, judge, training_findings
from gpufeed.inspect.doctor.watch import Moment, ProcessLook, Watched, arguments_of, running, started, watch

TRAIN = ("python", "train.py")
SPAWNED = ("python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()", "--multiprocessing-fork")
SERVER = ("python", "-c", "from multiprocessing.forkserver import main; main()")
TRACKER = ("python", "-c", "from multiprocessing.resource_tracker import main; main(5)")

# A process: parent's place in the list, command, CPUs of its first thread, of all its threads, share in the queue.
Made = tuple[int, Sequence[str], float, float, float]
MAIN_IDLE: Made = (-1, TRAIN, 0.05, 0.05, 0.0)
MAIN_BUSY: Made = (-1, TRAIN, 0.98, 0.98, 0.0)
WORKER_IDLE: Made = (0, TRAIN, 0.01, 0.01, 0.0)
WORKER_BUSY: Made = (0, TRAIN, 0.95, 0.95, 0.0)


def _watched(
    *made: Made,
    gpu: int | None = None,
    gpu_pids: Sequence[int] = (100,),
    on_disk: Sequence[int] = (),
    disk_bytes: int | None = 0,
    num_looks: int = 9,
) -> Watched:
    """Looks half a second apart; the n-th process has the id 100 + n."""
    moments: list[Moment] = []
    for number in range(num_looks):
        at_s = number / 2
        looks = [
            ProcessLook(
                pid=100 + place,
                parent=100 + parent if parent >= 0 else 1,
                command=tuple(command),
                cpu_s=50 + whole * at_s,
                main_thread_s=20 + first * at_s,
                main_thread_queued_s=queued * at_s,
                disk_bytes=None if disk_bytes is None else round(disk_bytes * at_s),
                num_threads=3,
                waits_for_disk=place in on_disk,
            )
            for place, (parent, command, first, whole, queued) in enumerate(made)
        ]
        gpus = (
            () if gpu is None else (GpuReading(0, gpu, None, frozenset(gpu_pids)), GpuReading(1, 3, None, frozenset()))
        )
        moments.append(Moment(1000 + at_s, tuple(looks), gpus))
    return Watched(100, "python train.py", started_here=False, moments=tuple(moments))


def _judged(watched: Watched) -> Training:
    return judge(watched, usable_cpus=8)


def _verdict_of(training: Training) -> Finding:
    return next(one for one in training_findings(training) if one.topic == "verdict")


@pytest.mark.parametrize(
    ("watched", "verdict", "level", "words"),
    [
        (_watched(MAIN_IDLE, WORKER_BUSY, WORKER_BUSY), "loader", "problem", "It starves"),
        (_watched(MAIN_BUSY, WORKER_IDLE, WORKER_IDLE), "step", "ok", "It doesn't starve"),
        (_watched(MAIN_BUSY, WORKER_BUSY, WORKER_BUSY), "balanced", "note", "both busy"),
        (
            _watched((-1, TRAIN, 0.3, 0.3, 0.5), (0, TRAIN, 0.5, 0.5, 0.5), (0, TRAIN, 0.5, 0.5, 0.5)),
            "contended",
            "note",
            "more than the CPUs they get",
        ),
        (_watched((-1, TRAIN, 0.05, 3.0, 0.0)), "loader", "problem", "the main process's threads work"),
        (_watched(MAIN_IDLE, WORKER_IDLE, on_disk=[1]), "storage", "problem", "waiting for the disk"),
        (_watched(MAIN_IDLE, WORKER_IDLE), "unknown", "note", "neither CPU nor disk"),
        (_watched(MAIN_BUSY), "unknown", "note", "has no workers"),
        (_watched(MAIN_IDLE, WORKER_BUSY, num_looks=2), "unknown", "note", "too few"),
        (_watched(MAIN_BUSY, WORKER_BUSY, gpu=97), "fed", "ok", "nearly all the time"),
        (_watched(MAIN_IDLE, WORKER_BUSY, gpu=30), "loader", "problem", "The GPU waits 70 % of the time"),
        (_watched(MAIN_IDLE, WORKER_BUSY, gpu=80), "loader", "note", "The GPU waits 20 % of the time"),
        (_watched(MAIN_BUSY, WORKER_IDLE, gpu=30), "host", "note", "nothing else is"),
        (_watched(MAIN_IDLE, WORKER_IDLE, gpu=30, on_disk=[0, 1]), "storage", "problem", "100 % of the looks"),
    ],
)
def test_verdicts(watched: Watched, verdict: str, level: str, words: str) -> None:
    training = _judged(watched)
    finding = _verdict_of(training)
    assert (training.verdict, finding.level) == (verdict, level)
    assert words in finding.what


def test_what_is_not_known_without_a_gpu_is_said() -> None:
    without = training_findings(_judged(_watched(MAIN_IDLE, WORKER_BUSY)))
    assert any("No GPU can be seen" in one.what and "can't be known" in one.meaning for one in without)
    with_gpu = training_findings(_judged(_watched(MAIN_IDLE, WORKER_BUSY, gpu=50)))
    assert not any("No GPU can be seen" in one.what for one in with_gpu)


def test_the_numbers() -> None:
    training = _judged(_watched(MAIN_IDLE, WORKER_BUSY, WORKER_IDLE, disk_bytes=1_000_000))
    assert (training.watched_s, training.num_looks, training.num_workers, training.active_workers) == (4.0, 9, 2, 1)
    assert training.main_busy == pytest.approx(0.05)
    assert training.worker_busy == pytest.approx(0.95)
    assert training.worker_cpus == pytest.approx(0.96)
    assert training.total_cpus == pytest.approx(1.01)
    assert training.disk_bytes_per_s == pytest.approx(3_000_000)
    assert training.num_threads == 9
    assert _judged(_watched(MAIN_IDLE, disk_bytes=None)).disk_bytes_per_s is None


def test_of_several_gpus_those_that_it_uses_count() -> None:
    its = _judged(_watched(MAIN_IDLE, WORKER_BUSY, gpu=60))
    assert (its.gpu_busy, its.num_gpus, its.gpus_are_its) == (pytest.approx(0.6), 1, True)
    other = _judged(_watched(MAIN_IDLE, WORKER_BUSY, gpu=60, gpu_pids=[4242]))  # ids of another namespace
    assert (other.gpu_busy, other.num_gpus, other.gpus_are_its) == (pytest.approx(0.6), 1, False)
    assert any("the driver doesn't say which" in one.what for one in training_findings(other))


@pytest.mark.parametrize(
    ("made", "mains", "workers"),
    [
        ([(-1, ("bash", "run.sh"), 0, 0, 0), (0, TRAIN, 0.9, 0.9, 0), (1, TRAIN, 0, 0, 0)], 1, 1),
        ([MAIN_IDLE, (0, SPAWNED, 0.9, 0.9, 0), (0, TRACKER, 0, 0, 0)], 1, 1),
        ([MAIN_IDLE, (0, SERVER, 0, 0, 0), (1, SERVER, 0.9, 0.9, 0), (1, SERVER, 0.9, 0.9, 0)], 1, 2),
        # Two ranks, spawned, with two workers each.
        (
            [MAIN_IDLE, *[(0, SPAWNED, 0.1, 0.1, 0)] * 2, *[(1, SPAWNED, 0, 0, 0)] * 2, *[(2, SPAWNED, 0, 0, 0)] * 2],
            2,
            4,
        ),
        ([(-1, ("torchrun", "train.py"), 0, 0, 0), (0, TRAIN, 0.9, 0.9, 0), (1, ("nvidia-smi",), 0, 0, 0)], 1, 0),
    ],
    ids=["launched", "spawned", "fork server", "ranks", "other programs"],
)
def test_who_is_a_worker(made: list[Made], mains: int, workers: int) -> None:
    training = _judged(_watched(*made))
    assert (training.num_mains, training.num_workers) == (mains, workers)


def test_a_rank_is_told_from_a_worker_by_its_gpu() -> None:
    made: list[Made] = [MAIN_IDLE, (0, SPAWNED, 0.9, 0.9, 0), (0, SPAWNED, 0.9, 0.9, 0)]
    training = _judged(_watched(*made, gpu=30, gpu_pids=[101, 102]))
    assert (training.num_mains, training.num_workers, training.verdict) == (2, 0, "host")


def test_the_start_is_left_out_of_what_was_started_here() -> None:
    early, late = _watched(MAIN_BUSY, WORKER_IDLE).moments, _watched(MAIN_IDLE, WORKER_BUSY, num_looks=30).moments
    offset_s = early[-1].at_s - 999.5
    later = [replace(moment, at_s=moment.at_s + offset_s) for moment in late]
    watched = Watched(100, "python train.py", started_here=True, moments=(*early, *later))
    assert judge(watched, 8).verdict == "loader"
    assert judge(watched, 8).watched_s < later[-1].at_s - early[0].at_s - 4


def test_a_reused_process_id_counts_from_zero() -> None:
    moments = list(_watched(MAIN_IDLE, WORKER_BUSY).moments)
    fresh = replace(moments[5].processes[1], cpu_s=0.0, main_thread_s=0.0)
    moments[5] = replace(moments[5], processes=(moments[5].processes[0], fresh))
    assert _judged(Watched(100, "x", started_here=False, moments=tuple(moments[:6]))).worker_cpus >= 0


def test_other_programs_on_the_machine_are_told() -> None:
    crowded = _judged(_watched(MAIN_IDLE, (0, TRAIN, 0.3, 0.3, 0.7)))
    assert crowded.verdict == "loader"
    assert any("other programs have the rest" in one.what for one in training_findings(crowded))


def test_a_training_that_failed_is_a_problem() -> None:
    failed = replace(_watched(MAIN_IDLE, num_looks=1), ended=True, exit_code=-9, started_here=True)
    finding = training_findings(_judged(failed))[0]
    assert (finding.level, finding.what) == ("problem", "The training ended by itself, with signal 9.")
    done = replace(_watched(MAIN_IDLE), ended=True, exit_code=0)
    assert training_findings(_judged(done))[0].level == "note"
    assert _judged(replace(failed, moments=())).verdict == "unknown"


# Real processes -------------------------------------------------------------------------------------------------------

TEXT = """
import multiprocessing, os, signal, sys, threading

def spin():
    while True: pass

def wait():
    threading.Event().wait()

if __name__ == "__main__":
    main, worker = (spin if name == "spin" else wait for name in sys.argv[1:3])
    for _ in range(2):
        multiprocessing.Process(target=worker, daemon=True).start()
    main()
"""


@pytest.fixture
def training_file(tmp_path: Path) -> str:
    path = tmp_path / "training.py"
    path.write_text(TEXT)
    return str(path)


def _really_watched(command: str, seconds: float) -> Watched:
    with started(command) as process:
        return watch(running(process.pid), seconds, lambda: (), popen=process, command=command, interval_s=0.2)


@pytest.mark.slow
@pytest.mark.parametrize(("main", "worker", "verdict"), [("wait", "spin", "loader"), ("spin", "wait", "step")])
def test_who_waits_for_whom_in_a_training_that_runs(main: str, worker: str, verdict: str, training_file: str) -> None:
    watched = _really_watched(f"{sys.executable} {training_file} {main} {worker}", 3.0)
    training = judge(watched, 2)
    assert (training.verdict, training.num_workers, training.ended) == (verdict, 2, False)
    assert all(_ends(look.pid) for look in watched.moments[-1].processes)


def _ends(pid: int) -> bool:
    """Whether a process that was killed is gone soon, or waits to be reaped by whoever adopted it."""
    deadline_s = time.monotonic() + 30
    while time.monotonic() < deadline_s:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        os.sched_yield()
    return False


def test_it_is_watched_until_it_ends() -> None:
    command = f"{sys.executable} -c 'import sys; sys.exit(3)'"
    with started(command) as process:
        watched = watch(
            running(process.pid), 1e9, lambda: (), popen=process, command=command, wait=lambda _: _wait_for(process.pid)
        )
    assert (watched.exit_code, watched.ended, watched.started_here, watched.interrupted) == (3, True, True, False)


def _wait_for(pid: int) -> None:
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


SLEEPER = "import signal; print(flush=True); signal.pause()"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else's that does nothing."""
    with subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_ctrl_c_ends_the_watching_and_keeps_what_was_seen(sleeper: subprocess.Popen[bytes]) -> None:
    looks: list[float] = []

    def wait(interval_s: float) -> None:
        looks.append(interval_s)
        if len(looks) == 3:
            raise KeyboardInterrupt

    watched = watch(running(sleeper.pid), 1e9, lambda: (), wait=wait)
    assert (watched.interrupted, len(watched.moments), watched.ended) == (True, 3, False)
    assert sleeper.poll() is None
    look = watched.moments[0].processes[0]
    assert (look.pid, look.parent) == (sleeper.pid, os.getpid())
    assert look.command[-1] == SLEEPER
    assert watched.command.startswith(sys.executable)


def test_a_running_one_that_ends_is_told(sleeper: subprocess.Popen[bytes]) -> None:
    def end(_: float) -> None:
        sleeper.kill()
        sleeper.wait()

    watched = watch(running(sleeper.pid), 1e9, lambda: (), wait=end)
    assert (watched.ended, watched.exit_code, watched.interrupted) == (True, None, False)


def test_cpu_time_is_that_of_the_process(sleeper: subprocess.Popen[bytes]) -> None:
    sleeping = watch(running(sleeper.pid), 1e9, lambda: (), wait=_once()).moments
    assert sleeping[1].processes[0].cpu_s == sleeping[0].processes[0].cpu_s

    burned = watch(running(os.getpid()), 1e9, lambda: (), wait=_once(_burn)).moments
    first, last = burned[0].processes[0], burned[1].processes[0]
    assert last.main_thread_s - first.main_thread_s > 0.15
    assert last.cpu_s - first.cpu_s >= last.main_thread_s - first.main_thread_s - 0.02


def _burn() -> None:
    until_s = time.thread_time() + 0.2
    while time.thread_time() < until_s:
        pass


def _once(act: Callable[[], None] = lambda: None) -> Callable[[float], None]:
    """Acts between the first and the second look, and stops after that."""
    calls: list[float] = []

    def wait(interval_s: float) -> None:
        calls.append(interval_s)
        if len(calls) == 2:
            raise KeyboardInterrupt
        act()

    return wait


def test_what_outlives_its_parent_is_ended_with_the_group(tmp_path: Path) -> None:
    note = tmp_path / "child"
    child_text = "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()"
    text = (
        "import subprocess, sys, pathlib\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child_text!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        f"pathlib.Path({str(note)!r}).write_text(str(child.pid))\n"
    )
    (tmp_path / "parent.py").write_text(text)
    with started(f"{sys.executable} {tmp_path / 'parent.py'}") as process:
        _wait_for(process.pid)
        child = psutil.Process(int(note.read_text()))
        assert child.is_running()
    assert _ends(child.pid)


def test_kept_is_left_running_in_a_group_of_its_own() -> None:
    with started(f"{sys.executable} -c '{SLEEPER}'", keep=True) as process:
        pass
    assert process.poll() is None
    assert os.getpgid(process.pid) == process.pid
    process.kill()
    process.wait()


def test_sigterm_ends_what_was_started() -> None:
    code = (
        "import os, signal, sys\n"
        "from gpufeed.inspect.doctor.watch import started\n"
        "with started(sys.executable + ' -c \"import signal; signal.pause()\"') as process:\n"
        "    print(process.pid, flush=True)\n"
        "    signal.pause()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as doctor:
        assert doctor.stdout is not None
        training = int(doctor.stdout.readline())
        doctor.send_signal(signal.SIGTERM)
        assert doctor.wait(30) == 128 + signal.SIGTERM
    assert _ends(training)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("python 'train.py", "can't be split into words .*; close the quotation"),
        ("  ", "--train needs a command, got an empty text"),
        ("CUDA_VISIBLE_DEVICES=0 python train.py", "run without a shell, which .*; put env before it"),
    ],
)
def test_commands_that_are_none(command: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        arguments_of(command)
    assert arguments_of("python train.py --name 'a b' x=1") == ["python", "train.py", "--name", "a b", "x=1"]


def test_what_cannot_be_started_or_watched_is_said() -> None:
    with (
        pytest.raises(ArgumentError, match="can't start 'no-such-program' \\(No such file"),
        started("no-such-program"),
    ):
        pass
    for pid in (-1, 2**31 - 1, 2**70):
        with pytest.raises(ArgumentError, match=f"--pid must be a running process's id, got {pid}"):
            running(pid)
