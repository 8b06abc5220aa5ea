"""A small image folder, and contenders from ``fake_contenders.py``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gpufeed.bench.contenders import Contender

_FAKES = Path(__file__).with_name("fake_contenders.py")


@pytest.fixture(scope="session")
def fake() -> Callable[..., Contender]:
    """Makes contenders from ``fake_contenders.py`` by their function's name."""

    def make(name: str, *, as_name: str | None = None, leave_out_rank: int | None = None) -> Contender:
        return Contender(as_name or name, f"{_FAKES}:{name}", "for tests", leave_out_rank=leave_out_rank)

    return make


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eleven JPEGs of different sizes in two of three class folders; the third is empty."""
    root = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for name in ("ant", "bee", "cow"):
        (root / name).mkdir()
    for index in range(11):
        height, width = rng.integers(40, 90, size=2)
        coarse = rng.integers(0, 256, size=(5, 5, 3), dtype=np.uint8)
        image = Image.fromarray(coarse).resize((int(width), int(height)), Image.Resampling.BICUBIC)
        image.save(root / ("ant", "cow")[index % 2] / f"{index}.jpg", quality=92)
    return root
