"""The verdict on workloads whose bottleneck is built in, measured from end to end in processes of their own."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from PIL import Image

from gpufeed.bench.contenders import BOUNDS, CONTENDERS, Contender
from gpufeed.bench.images import list_image_folder
from gpufeed.bench.measure import Request, measure
from gpufeed.bench.progress import Silent
from gpufeed.bench.results import Comparison
from gpufeed.bench.statistics import MIN_ROUNDS, summarize
from gpufeed.bench.verdict import verdict

pytestmark = [pytest.mark.slow, pytest.mark.alone]

_KNOWN = Path(__file__).with_name("known_contenders.py")
_TRANSFORMS = '''
import time

from torchvision import transforms


class SlowBlur:
    """Takes 20 ms."""

    def __call__(self, image):
        time.sleep(0.02)
        return image

    def __repr__(self):
        return "SlowBlur()"


light = transforms.Compose([transforms.CenterCrop(16), transforms.ToTensor()])
slow = transforms.Compose([transforms.CenterCrop(16), SlowBlur(), transforms.ToTensor()])
heavy = transforms.Compose([transforms.Resize(224), transforms.ElasticTransform(100.0), transforms.CenterCrop(16),
                            transforms.ToTensor()])
'''


def _known(name: str = "loader", *, as_name: str = "torch-tuned", kind: str = "loader", **options: Any) -> Contender:
    return Contender(
        as_name,
        f"{_KNOWN}:{name}",
        "known by construction",
        kind=kind,  # type: ignore[arg-type]
        options=tuple(options.items()),
        feeds_step=kind == "loader",
    )


def _torch(as_name: str) -> Contender:
    """torch's own loader: in threads of one process Pillow's decoding doesn't scale, in workers it does."""
    return replace(CONTENDERS["torch-tuned"], name=as_name, queued_batches_per_thread=1)


def _decode() -> Contender:
    bound = next(bound for bound in BOUNDS if bound.name == "decode")
    return replace(bound, queued_batches=0)  # so that epochs may be short


@dataclass(frozen=True, slots=True)
class _Case:
    """A workload, and the verdict that it was built for.

    Attributes:
        kind: that verdict.
        torch: options of the loader that plays torch-tuned; ``None``: it is torch-tuned.
        ours: of the one that plays gpufeed, or ``"torch"``: torch-tuned plays it too; ``None``: it doesn't run.
        bounds: of the storage bound.
        transform: a name in the transforms' file.
        large: whether the images are large.
        step: what is fed.
        phrase: in the headline.
    """

    kind: str
    torch: dict[str, Any] | None = field(default_factory=dict)
    ours: dict[str, Any] | Literal["torch"] | None = None
    bounds: dict[str, Any] = field(default_factory=dict)
    transform: str = "light"
    large: bool = False
    step: str = "none"
    phrase: str = ""


_CASES = {
    "a dataset that sleeps": _Case("storage-bound", {"read_s": 0.02}, {"read_s": 0.02}, {"read_s": 0.02}),
    "a throttled reader": _Case(
        "storage-bound", {"throttled_s": 0.01}, {"throttled_s": 0.01}, {"throttled_s": 0.01}, phrase="reading takes"
    ),
    "a transform that sleeps": _Case("transform-bound", transform="slow", phrase="SlowBlur() alone"),
    "a heavy transform": _Case("transform-bound", transform="heavy", phrase="ElasticTransform"),
    "large images": _Case("decode-bound", None, large=True, phrase="gpufeed wasn't measured"),
    "large images that gpufeed needn't decode": _Case("decode-bound", None, {"decodes": False}, large=True),
    "large images for both": _Case("no-difference", None, "torch", large=True),
    "a loader with a pause": _Case("loader-overhead-bound", {"per_batch_s": 0.1}, {"per_batch_s": 0.01}),
    "a slow step": _Case("step-bound", ours={}, step="60ms", phrase="gpufeed can't help"),
    "a fast step": _Case("transform-bound", ours={}, transform="slow", step="5ms", phrase="SlowBlur() alone"),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Twelve JPEGs of 60x50, and twelve of 1200x1000 by whether they are large.

    They are as grainy as photographs: with smooth ones it isn't decoding that takes long but the system, which makes
    new pages for each image.
    """
    made: dict[bool, Path] = {}
    rng = np.random.default_rng(0)
    for large in (False, True):
        root = tmp_path_factory.mktemp("large" if large else "small")
        size = (1200, 1000) if large else (60, 50)
        for index in range(12):
            path = root / ("ant", "bee")[index % 2] / f"{index}.jpg"
            path.parent.mkdir(exist_ok=True)
            coarse = Image.fromarray(rng.integers(60, 196, size=(10, 12, 3), dtype=np.uint8))
            pixels = np.asarray(coarse.resize(size, Image.Resampling.BICUBIC)) + rng.normal(0, 20, (*size[::-1], 3))
            Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(path, quality=92)
        made[large] = root
    return made


def _measured(root: Path, contenders: list[Contender], transform: str, **others: Any) -> Comparison:
    request = Request(
        files=list_image_folder(root),
        data="constructed",
        transform=transform,
        contenders=tuple(contenders),
        batch_size=4,
        num_threads=2,
        device="cpu",
        budget_s=600,  # never reached: the rounds are few and short
        max_rounds=MIN_ROUNDS,
        **others,
    )
    return measure(request, Silent(), time.monotonic())


@pytest.mark.parametrize("name", _CASES)
def test_the_verdict_is_what_the_workload_was_built_for(name: str, folders: dict[bool, Path], tmp_path: Path) -> None:
    case = _CASES[name]
    transforms = tmp_path / "transforms.py"
    transforms.write_text(_TRANSFORMS)
    contenders = [_torch("torch-tuned") if case.torch is None else _known(**case.torch)]
    if case.ours is not None:
        contenders.append(_torch("gpufeed") if case.ours == "torch" else _known(as_name="gpufeed", **case.ours))
    storage = _known("storage", as_name="storage", kind="bound", **case.bounds)
    found = verdict(
        _measured(
            folders[case.large],
            contenders,
            f"{transforms}:{case.transform}",
            step=case.step,
            bounds=(storage, _decode()),
        )
    )
    assert found.kind == case.kind, (found.headline, found.sentences)
    assert case.phrase in found.headline


def test_a_constructed_rate_is_reported_within_5_percent(photos: Path) -> None:
    comparison = _measured(
        photos, [_known("paced", image_s=0.01), _known("paced", as_name="b", image_s=0.004)], "train"
    )
    rows = {row.name: row for row in summarize(comparison)}
    assert rows["torch-tuned"].num_rounds >= MIN_ROUNDS
    assert rows["torch-tuned"].images_per_s == pytest.approx(100, rel=0.05)
    assert rows["b"].images_per_s == pytest.approx(250, rel=0.05)
    ratio = rows["b"].ratio
    assert ratio is not None
    assert ratio.median == pytest.approx(2.5, rel=0.05)
