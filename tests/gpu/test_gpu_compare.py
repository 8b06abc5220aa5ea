"""`gpufeed compare` on a GPU: the contenders that need one, a training step, and what NVML tells."""

from __future__ import annotations

import time

import numpy as np
import pytest
from PIL import Image

from gpufeed.bench.contenders import BOUNDS, contenders_named
from gpufeed.bench.gpu_figures import gpu_summaries
from gpufeed.bench.images import list_image_folder
from gpufeed.bench.measure import Request, measure
from gpufeed.bench.progress import Silent
from gpufeed.bench.results import Comparison
from gpufeed.bench.verdict import verdict

pytestmark = pytest.mark.gpu

NAMES = ("torch-tuned", "torch-cuda-decode", "torch-uint8", "dali-proxy", "gpufeed")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """One comparison with everything that a GPU adds."""
    root = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for number in range(64):
        path = root / ("ant", "bee")[number % 2] / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        coarse = Image.fromarray(rng.integers(0, 256, size=(9, 12, 3), dtype=np.uint8))
        coarse.resize((480, 360), Image.Resampling.BICUBIC).save(path, quality=90)
    request = Request(
        files=list_image_folder(root),
        data="64 smooth images",
        transform="train",
        contenders=contenders_named(NAMES),
        batch_size=16,
        num_threads=2,
        device="cuda",
        budget_s=600,  # never reached: the rounds are few and short
        max_rounds=7,
        bounds=BOUNDS,
        step="resnet18",
    )
    return measure(request, Silent(), time.monotonic())


def test_every_contender_did_the_same_work(measured: Comparison) -> None:
    assert [found.name for found in measured.loaders] == list(NAMES)
    assert [left for left in measured.left_out if left.name in NAMES] == []
    assert measured.device.startswith("cuda")


def test_the_step_ran_in_bf16(measured: Comparison) -> None:
    assert measured.step is not None
    assert "bf16" in measured.step.what
    assert measured.step.s_per_batch > 0
    assert all(found.in_mode("step") for found in measured.loaders)


def test_nvml_tells_what_the_gpu_did(measured: Comparison) -> None:
    found = {row.name: row for row in gpu_summaries(measured, "step")}
    assert set(found) == set(NAMES)
    for row in found.values():
        assert row.busy_share is None or 0 <= row.busy_share <= 1
        assert row.jpeg_share is None or 0 <= row.jpeg_share <= 1
        assert row.memory_bytes is None or row.memory_bytes > 100e6  # a CUDA context alone is that large
        assert row.pcie_received_bytes_per_s is None or row.pcie_received_bytes_per_s >= 0


def test_there_is_a_verdict(measured: Comparison) -> None:
    assert verdict(measured).kind != "undecided"
