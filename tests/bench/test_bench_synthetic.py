"""The built-in images: deterministic, of the right kind, and never seen half-made."""

from __future__ import annotations

import itertools
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, JpegImagePlugin

from gpufeed.bench import synthetic
from gpufeed.bench.images import list_image_folder
from gpufeed.bench.progress import Silent
from gpufeed.errors import BenchmarkError

_FEW = 8


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and few images to make in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(synthetic, "NUM_IMAGES", _FEW)
    return tmp_path


def _contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*.jpg"))}


def test_the_same_images_every_time(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    made = _contents(synthetic.folder(Silent()))
    again = tmp_path_factory.mktemp("again")
    synthetic.write_images(again, _FEW, Silent().count)
    assert len(made) == _FEW
    assert _contents(again) == made


def test_images_differ_and_resemble_photographs(cache: Path) -> None:
    files = list_image_folder(synthetic.folder(Silent()))
    assert len(files) == _FEW
    assert len(files.classes) == 8
    sizes = [Path(path).stat().st_size for path in files.paths]
    pixels = []
    for path in files.paths:
        with Image.open(path) as image:
            assert isinstance(image, JpegImagePlugin.JpegImageFile)
            assert image.mode == "RGB"
            assert JpegImagePlugin.get_sampling(image) == 2  # 4:2:0
            pixels.append(image.width * image.height)
    assert len(set(pixels)) > _FEW // 2
    # The whole set's mean is 117 KB and 0.21 megapixels; eight of them are near it.
    assert 70e3 < np.mean(sizes) < 170e3
    assert 0.12e6 < np.mean(pixels) < 0.35e6


def test_the_spectrum_falls_as_that_of_photographs() -> None:
    slopes = [_fine_slope(synthetic.make_image(index)[0]) for index in range(4)]
    # 40 photographs: median -2.2. White noise instead of 1/f texture, edges and all: -1.0.
    assert -2.9 < np.mean(slopes) < -1.6


def _fine_slope(pixels: synthetic.Pixels) -> float:
    """The exponent with which power falls with frequency, from 0.1 to 0.4 cycles per pixel."""
    grey = pixels[:256, :256].mean(axis=2)
    window = np.outer(np.hanning(len(grey)), np.hanning(grey.shape[1]))
    power = np.abs(np.fft.fft2(grey * window)) ** 2
    frequency = np.hypot(np.fft.fftfreq(len(grey))[:, None], np.fft.fftfreq(grey.shape[1])[None, :])
    edges = np.geomspace(0.1, 0.4, 8)
    bands = [power[(low <= frequency) & (frequency < high)].mean() for low, high in itertools.pairwise(edges)]
    return float(np.polyfit(np.log(np.sqrt(edges[1:] * edges[:-1])), np.log(bands), 1)[0])


def test_it_is_made_once(cache: Path) -> None:
    first = synthetic.folder(Silent())
    (first / "marker").touch()
    assert synthetic.folder(Silent()) == first
    assert (first / "marker").exists()
    assert stat.S_IMODE(first.stat().st_mode) == 0o755


def test_what_killed_runs_left_behind_goes_after_a_day(cache: Path) -> None:
    old, young = (cache / "gpufeed" / f"compare-images-v1.{name}.building" for name in ("old", "young"))
    for folder in (old, young):
        folder.mkdir(parents=True)
        (folder / "half.jpg").touch()
    os.utime(old, (0, 0))
    synthetic.folder(Silent())
    assert not old.exists()
    assert (young / "half.jpg").exists()


def test_an_interrupted_run_leaves_nothing_and_the_next_one_starts_over(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(root: Path, *_: object) -> None:
        (root / "half.jpg").touch()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(synthetic, "write_images", interrupted)
        with pytest.raises(KeyboardInterrupt):
            synthetic.folder(Silent())
    assert list((cache / "gpufeed").iterdir()) == []
    assert len(_contents(synthetic.folder(Silent()))) == _FEW


def test_a_run_that_was_slower_than_another_takes_the_others_images(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_images = synthetic.write_images

    def overtaken(root: Path, *arguments: object) -> None:
        with monkeypatch.context() as patch:  # the other run, while this one is still writing
            patch.setattr(synthetic, "write_images", write_images)
            (synthetic.folder(Silent()) / "theirs").touch()
        write_images(root, 1, Silent().count)

    monkeypatch.setattr(synthetic, "write_images", overtaken)
    final = synthetic.folder(Silent())
    assert (final / "theirs").exists()
    assert len(_contents(final)) == _FEW
    assert [entry.name for entry in final.parent.iterdir()] == [final.name]


def test_a_cache_that_cannot_be_written_gives_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    with pytest.raises(BenchmarkError, match="set XDG_CACHE_HOME to a folder that can be written to"):
        synthetic.folder(Silent())


def test_a_relative_cache_folder_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(synthetic, "write_images", lambda *_: None)
    assert synthetic.folder(Silent()).is_relative_to(tmp_path / ".cache" / "gpufeed")
