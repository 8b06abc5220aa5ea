"""What other programs took of the CPUs meanwhile: a comparison on a machine that does much else says less."""

from __future__ import annotations

import os

import psutil

__all__ = ["BusyCpus"]

_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")  # guests are within user
_FULL = 0.9  # of the CPUs' time: below it there was room for everybody


class BusyCpus:
    """The CPUs that this process may use, from now on; whoever uses them."""

    def __init__(self) -> None:
        self._before_s, self._count = _busy_s()

    def taken_s(self, own_s: float, elapsed_s: float) -> float:
        """CPU time that other programs, or the host of a virtual machine, took away.

        Where the CPUs had time left, nobody took anything.

        Args:
            own_s: CPU time of one's own since then. [Unit: second]
            elapsed_s: since then. [Unit: second]

        Returns:
            Seconds, over all of the CPUs.
        """
        busy_s = _busy_s()[0] - self._before_s
        return max(0.0, busy_s - own_s) if busy_s >= _FULL * self._count * elapsed_s else 0.0


def _busy_s() -> tuple[float, int]:
    """Time for which these CPUs have been busy since the start, and how many they are."""
    times = psutil.cpu_times(percpu=True)
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(len(times)))
    mine = [cpu for number, cpu in enumerate(times) if number in allowed]
    return sum(float(getattr(cpu, name, 0.0)) for cpu in mine for name in _BUSY), len(mine)
