"""CPU time and memory of process trees."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from itertools import chain, repeat
from pathlib import Path

import psutil
import pytest

from gpufeed.bench.usage import MemorySampler, tree_alone_bytes, tree_cpu_s, tree_pss_bytes


def test_cpu_time_counts_this_process_and_children_that_have_ended() -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass"
    before_s = tree_cpu_s(os.getpid())
    subprocess.run([sys.executable, "-c", burn], check=True)
    own_s = time.process_time()
    while time.process_time() < own_s + 0.2:
        pass
    assert tree_cpu_s(os.getpid()) - before_s > 0.35  # 0.4 less the clock's ticks


def test_cpu_time_counts_children_that_are_running() -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"
    before_s = tree_cpu_s(os.getpid())
    with subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert tree_cpu_s(os.getpid()) - before_s > 0.15
        child.communicate(b"\n")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the proportional set size")
def test_memory_counts_children() -> None:
    alone = tree_pss_bytes(os.getpid())
    hold = "held = bytearray(b'x') * 50_000_000\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        together = tree_pss_bytes(os.getpid())
        child.communicate(b"\n")
    assert alone is not None
    assert together is not None
    assert together > alone + 45_000_000


_HOLD_SEGMENT = """
import mmap, os, sys
segment = {segment}
os.ftruncate(segment, {size})
mapped = mmap.mmap(segment, {size})
for start in range(0, {size}, mmap.PAGESIZE):
    mapped[start] = 1
{then}
print(flush=True)
input()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the proportional set size")
@pytest.mark.parametrize(
    ("segment", "then", "expected"),
    [
        ("os.memfd_create('batch')", "mapped.close()", 50e6),
        ("os.memfd_create('batch')", "copy = os.dup(segment)", 50e6),
        ("os.memfd_create('batch')", "copy = os.dup(segment); mapped.close(); os.fork() or input()", 50e6),
        ("os.memfd_create('batch')", "mapped.close(); os.close(segment)", 0),
        ("os.open('/dev/shm', os.O_TMPFILE | os.O_RDWR)", "mapped.close()", 50e6),
    ],
    ids=["only open", "open and mapped", "open in two", "let go", "in /dev/shm"],
)
def test_memory_counts_shared_segments_once_mapped_or_not(segment: str, then: str, expected: float) -> None:
    code = _HOLD_SEGMENT.format(segment=segment, then=then, size=50_000_000)
    alone = _memory_of(_HOLD_SEGMENT.format(segment=segment, then="mapped.close(); os.close(segment)", size=4096))
    assert _memory_of(code) - alone == pytest.approx(expected, abs=6e6)


def _memory_of(code: str) -> int:
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        memory = tree_pss_bytes(child.pid)
        child.communicate(b"\n\n")
    assert memory is not None
    return memory


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the proportional set size")
def test_a_named_file_in_shared_memory_is_the_users() -> None:
    alone = tree_pss_bytes(os.getpid())
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.write(b"x" * 50_000_000)
        file.flush()
        together = tree_pss_bytes(os.getpid())
    assert alone is not None
    assert together is not None
    assert together - alone < 25_000_000


_HOLD_FILE = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
sum(mapped[start] for start in range(0, len(mapped), mmap.PAGESIZE))
print(flush=True)
input()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the proportional set size")
def test_memory_alone_is_not_less_where_others_map_the_same_files(tmp_path: Path) -> None:
    file = tmp_path / "library"
    file.write_bytes(b"x" * 50_000_000)
    command = [sys.executable, "-c", _HOLD_FILE, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        before, before_pss = tree_alone_bytes(child.pid), tree_pss_bytes(child.pid)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            other.stdout.readline()
            after, after_pss = tree_alone_bytes(child.pid), tree_pss_bytes(child.pid)
            other.communicate(b"\n")
        child.communicate(b"\n")
    assert before is not None
    assert after is not None
    assert before_pss is not None
    assert after_pss is not None
    assert before > 50_000_000
    assert after == pytest.approx(before, abs=2e6)
    assert after_pss < before_pss - 20_000_000


def test_a_process_that_is_gone_has_no_memory_and_used_no_time() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    assert not psutil.pid_exists(child.pid)
    assert tree_pss_bytes(child.pid) is None
    assert tree_alone_bytes(child.pid) is None
    assert tree_cpu_s(child.pid) == 0.0


def test_the_sampler_keeps_the_peak() -> None:
    values = chain([3, 9, None, 4], repeat(1))
    with MemorySampler(0, interval_s=1e9, measure=lambda _: next(values)) as memory:
        for _ in range(4):
            memory.look()
    assert memory.peak_bytes == 9


def test_the_sampler_says_so_where_memory_is_not_told() -> None:
    with MemorySampler(0, interval_s=1e9, measure=lambda _: None) as memory:
        pass
    assert memory.peak_bytes is None
