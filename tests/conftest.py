"""What holds for all tests: the GPU is visibly missing where it is missing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """An empty folder with a short path, as sockets need it, whatever the tests' own is."""
    with tempfile.TemporaryDirectory(prefix="gf-", dir="/tmp") as folder:
        yield Path(folder)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip GPU tests without a GPU, unless ``GPUFEED_REQUIRE_GPU=1`` wants them to fail instead."""
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    if not gpu_items or os.environ.get("GPUFEED_REQUIRE_GPU") == "1" or has_gpu():
        return
    for item in gpu_items:
        item.add_marker(pytest.mark.skip(reason="no CUDA device; GPUFEED_REQUIRE_GPU=1 makes this a failure"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if "gpu" in report.keywords]
    if skipped:
        terminalreporter.write_line(f"{len(skipped)} GPU tests were skipped: this machine has no CUDA device.")
