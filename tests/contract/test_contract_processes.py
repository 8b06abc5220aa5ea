"""What only whole processes show: Ctrl-C, leaving the interpreter in the middle of an epoch, forking."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import gpufeed

HEAD = """
import os, sys, threading
import torch
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2
from gpufeed import DataLoader

def dataset():
    return ImageFolder(sys.argv[1], transform=v2.Compose([v2.CenterCrop(8), v2.PILToTensor()]))

def say(*words):
    print(*words, flush=True)
"""
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(Path(gpufeed.__file__).parents[1]),
    "PYTHONWARNINGS": "error,ignore::DeprecationWarning",
}
PATIENCE_S = 100.0


def start(code: str, root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", HEAD + code, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def run(code: str, root: Path) -> tuple[list[str], str, int]:
    """Output in lines, errors, exit code of a script that ends by itself."""
    process = start(code, root)
    return (*communicate(process), process.returncode)


def communicate(process: subprocess.Popen[str], text: str = "") -> tuple[list[str], str]:
    """Write a line, and wait for the end: the lines that it wrote, and its errors."""
    try:
        output, errors = process.communicate(text, timeout=PATIENCE_S)
    finally:
        process.kill()  # if it hangs
        process.communicate()
    return output.split("\n")[:-1], errors


# A batch that takes as long as the parent wants: it begins by saying so, and goes on when the parent writes a line.
HELD = """
from gpufeed.stages import CpuStages
begin = CpuStages.start
def held(stages, job):
    say("held")
    sys.stdin.readline()
    begin(stages, job)
CpuStages.start = held
"""


def test_ctrl_c_while_waiting_for_a_batch(root: Path) -> None:
    """It comes through while the batch is still under way, and the process ends when that has ended."""
    code = """
try:
    for batch in DataLoader(dataset(), batch_size=4, prefetch_factor=2):
        say("batch")
except KeyboardInterrupt:
    say("interrupted")
"""
    process = start(HELD + code, root)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"  # nothing was written to it yet
    assert (*communicate(process, "\n"), process.returncode) == ([], "", 0)


@pytest.mark.slow
def test_ctrl_c_that_nobody_catches(root: Path) -> None:
    process = start(HELD + "for batch in DataLoader(dataset(), batch_size=4):\n    say('batch')", root)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    process.send_signal(signal.SIGINT)
    output, errors = communicate(process, "\n")
    assert set(output) <= {"held"}  # the next batch may begin before the first has noticed
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert "Fatal" not in errors
    assert process.returncode in (130, -signal.SIGINT)


LEAVING = {
    "live iterator": """
iterator = iter(DataLoader(dataset(), batch_size=1, prefetch_factor=4))
next(iterator)
""",
    "in a generator": """
def batches():
    yield from DataLoader(dataset(), batch_size=1, num_workers=2)
alive = batches()
next(alive)
""",
    "persistent": """
loader = DataLoader(dataset(), batch_size=1, persistent_workers=True)
for batch in loader:
    break
""",
    "uncaught error": """
sys.excepthook = lambda *arguments: None
for batch in DataLoader(dataset(), batch_size=1):
    raise ValueError
""",
    "sys.exit": """
for batch in DataLoader(dataset(), batch_size=1):
    sys.exit(0)
""",
    "another thread iterates": """
going = threading.Event()
def forever():
    loader = DataLoader(dataset(), batch_size=1)
    while True:
        for batch in loader:
            going.set()
threading.Thread(target=forever, daemon=True).start()
going.wait()
""",
    "after an error in a batch": """
loader = DataLoader(dataset(), batch_size=1, sampler=[1, 99])
try:
    list(loader)
except IndexError as error:
    kept = error
""",
    "a cycle": """
class Trainer:
    def __init__(self):
        self.loader = DataLoader(dataset(), batch_size=1)
        self.me = self
        self.iterator = iter(self.loader)
        next(self.iterator)
    def __del__(self):
        self.loader.close()
Trainer()
""",
}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "live iterator" else pytest.mark.slow) for kind in LEAVING]
)
def test_leaving_the_interpreter(root: Path, kind: str) -> None:
    code = LEAVING[kind] + "\nsay('end')\n" * (kind not in ("uncaught error", "sys.exit"))
    output, errors, code_of_exit = run(code, root)
    assert errors == ""
    assert code_of_exit == (1 if kind == "uncaught error" else 0)
    assert output == ([] if kind in ("uncaught error", "sys.exit") else ["end"])


FORK = """
import gc
loader = DataLoader(dataset(), batch_size=4, prefetch_factor=3, num_threads=1)
expected = [images for images, _ in loader]
iterator = iter(loader)
first = next(iterator)

def check(batches):
    assert len(batches) == 4
    assert all(torch.equal(images, wanted) for (images, _), wanted in zip(batches, expected))

def in_child(what):
    pid = os.fork()
    if pid == 0:
        try:
            what()
        except BaseException as error:
            say("child fails", repr(error))
            os._exit(7)
        HOW
    say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

def nothing(): pass
def own_loader(): check(list(DataLoader(dataset(), batch_size=4, num_threads=1)))
def same_loader(): check(list(loader))
def same_iterator():
    try:
        next(iterator)
    except TypeError as error:
        assert "before the process was forked" in str(error)
    else:
        raise AssertionError("no batch can come")
def drops_everything():
    global loader, iterator, first
    del loader, iterator, first
    gc.collect()
def closes(): loader.close()

class Marked(threading.Thread):  # a thread of the parent's that waits for a batch while the process is forked
    def run(self):
        from gpufeed.threads import at_work
        with at_work():
            working.set()
            may_end.wait()
working, may_end = threading.Event(), threading.Event()
Marked().start()
working.wait()
for what in (nothing, own_loader, same_loader, same_iterator, drops_everything, closes):
    in_child(what)
may_end.set()
check([first, *iterator])
check(list(loader))
loader.close()
say("parent ends")
"""


@pytest.mark.parametrize(
    "how", ["os._exit(0)", pytest.param("sys.exit(0)", marks=pytest.mark.slow)], ids=["_exit", "exit"]
)
def test_forking_while_a_loader_is_alive(root: Path, how: str) -> None:
    output, errors, code_of_exit = run(FORK.replace("HOW", how), root)
    assert errors == ""
    assert output == ["0"] * 6 + ["parent ends"]
    assert code_of_exit == 0


@pytest.mark.slow
def test_torchs_own_workers_beside_a_live_loader(root: Path) -> None:
    """torch forks its workers from a process with our threads."""
    code = """
from torch.utils.data import DataLoader as TorchDataLoader
iterator = iter(DataLoader(dataset(), batch_size=4))
first = next(iterator)
theirs = list(TorchDataLoader(dataset(), batch_size=4, num_workers=2))
ours = [first, *iterator]
say(all(torch.equal(a[0], b[0]) for a, b in zip(ours, theirs, strict=True)))
"""
    assert run(code, root) == (["True"], "", 0)
