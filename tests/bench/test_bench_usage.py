"""CPU time and memory of process trees."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import chain, repeat

import psutil
import pytest

from gpufeed.bench.usage import MemorySampler, tree_cpu_s, tree_pss_bytes


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


def test_a_process_that_is_gone_has_no_memory_and_used_no_time() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    assert not psutil.pid_exists(child.pid)
    assert tree_pss_bytes(child.pid) is None
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
