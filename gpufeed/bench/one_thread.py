"""torch with one thread: as in its loader's worker processes, and in gpufeed's own pool."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch

__all__ = ["one_torch_thread"]


@contextmanager
def one_torch_thread() -> Generator[None]:
    """Let torch use a single thread. Times depend on the number of threads, and so do sums."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
