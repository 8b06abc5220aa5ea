"""512 JPEGs that cost about as much to decode as ImageNet's, made once in the user's cache folder.

They are dead leaves (discs and boxes that hide each other, with radii after a power law, so that edges and the
spectrum are those of natural images), each with its own colour and amount of 1/f texture, under slow light and with a
little noise. At fine scales power falls with the frequency to the 2.1, in photographs to the 2.2. Sizes are mostly
ImageNet's 500 pixels on the longer side. Written by Pillow as 4:2:0 JPEGs of quality 91 to 93, they have 0.21
megapixels and 117 KB on average.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from gpufeed.bench.progress import Reporter
from gpufeed.cpus import usable_cpus
from gpufeed.errors import BenchmarkError

__all__ = ["DESCRIPTION", "NUM_IMAGES", "folder", "make_image", "power_law_noise", "write_images"]

NUM_IMAGES = 512
DESCRIPTION = f"{NUM_IMAGES} built-in images"

_VERSION = 1  # goes up with any change to what is drawn
_SEED = 2024
_ABANDONED_AFTER_S = 24 * 3600.0
_CLASSES = ("beach", "city", "forest", "garden", "harbour", "meadow", "mountain", "river")
_QUALITIES = (91, 94)
_SIZES_HW = (
    # Half are ImageNet's two usual shapes; the rest are other common ones of the time.
    *((375, 500),) * 8,
    *((500, 375),) * 4,
    *((333, 500),) * 3,
    *((500, 333),) * 2,
    (400, 500),
    (500, 400),
    (500, 500),
    (480, 640),
    (480, 640),
    (600, 800),
    (270, 360),
)
_SIZE_JITTER = 8  # pixels either way, so that sizes vary as they do in a real folder
_NUM_LEAVES = 90
_RADII = (0.035, 0.5)  # of the longer side
_TEXTURE_STD = 29.0  # of 255; with the noise below it sets the file size
_NOISE_STD = 8.5

Pixels = NDArray[np.uint8]
Plane = NDArray[np.float32]


def folder(reporter: Reporter) -> Path:
    """The folder with the images, in ``ImageFolder``'s layout; made first if it isn't there yet.

    It is built beside its final place and renamed when it is complete, so an interrupted or a second run never leaves
    or sees half of it.

    Raises:
        BenchmarkError: the cache folder can't be written to.
    """
    final = _cache_folder() / f"compare-images-v{_VERSION}"
    if final.is_dir():
        return final
    reporter.say(f"making {NUM_IMAGES} images for this and later runs in {final}")
    building = None
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(final)
        building = Path(tempfile.mkdtemp(prefix=f"{final.name}.", suffix=".building", dir=final.parent))
        write_images(building, NUM_IMAGES, reporter.count)
        _rename(building, final)
    except OSError as error:
        raise BenchmarkError(
            f"the built-in images can't be made in {final.parent} ({error.strerror or error}); "
            "set XDG_CACHE_HOME to a folder that can be written to, or give an image folder as DATA"
        ) from error
    finally:
        if building is not None:
            shutil.rmtree(building, ignore_errors=True)
    return final


def _remove_abandoned(final: Path) -> None:
    """Remove what killed runs have left behind; a run takes a minute, so a day is safe."""
    for folder in final.parent.glob(f"{final.name}.*.building"):
        if time.time() - folder.stat().st_mtime > _ABANDONED_AFTER_S:
            shutil.rmtree(folder, ignore_errors=True)


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification: a relative path is to be ignored.
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "gpufeed"


def _rename(building: Path, final: Path) -> None:
    building.chmod(0o755)  # mkdtemp makes it private
    try:
        building.rename(final)
    except OSError:
        if not final.is_dir():  # else another run was faster, and its images are the same
            raise


def write_images(root: Path, num_images: int, count: Callable[[int, int], None]) -> None:
    """Write images ``0`` to ``num_images - 1`` below class folders of ``root``.

    Args:
        root: an existing folder.
        num_images: how many; image ``i`` is the same whatever their number.
        count: is told how many of how many are written.
    """
    for name in _CLASSES:
        (root / name).mkdir()

    def write(index: int) -> None:
        pixels, quality = make_image(index)
        path = root / _CLASSES[index % len(_CLASSES)] / f"{index:04d}.jpg"
        Image.fromarray(pixels).save(path, "JPEG", quality=quality, subsampling="4:2:0")

    # NumPy's transforms and Pillow's encoder release the GIL.
    with ThreadPoolExecutor(usable_cpus()) as pool:
        try:
            for done, _ in enumerate(pool.map(write, range(num_images)), start=1):
                count(done, num_images)
        except BaseException:
            pool.shutdown(cancel_futures=True)  # Ctrl-C: don't draw the rest first
            raise


def make_image(index: int) -> tuple[Pixels, int]:
    """Image ``index``, a pure function of it.

    Returns:
        uint8 pixels (H, W, 3) in RGB, and the JPEG quality to write it with.
    """
    rng = np.random.default_rng([_SEED, index])
    height, width = _SIZES_HW[rng.integers(len(_SIZES_HW))] + rng.integers(-_SIZE_JITTER, _SIZE_JITTER + 1, size=2)
    quality = int(rng.integers(*_QUALITIES))
    colours, roughness = _dead_leaves(rng, int(height), int(width))
    shape = colours.shape[:2]
    luminance = _TEXTURE_STD * roughness * power_law_noise(rng, shape, 1.0)
    luminance += 15 * power_law_noise(rng, shape, 2.0)
    luminance += _NOISE_STD * rng.standard_normal(shape, dtype=np.float32)
    colours += luminance[..., None]
    for channel in (0, 2):  # green alone follows the luminance: chroma varies slowly, as it does in photographs
        colours[..., channel] += 6 * power_law_noise(rng, shape, 1.3)
    return np.clip(colours, 0, 255).astype(np.uint8), quality


def _dead_leaves(rng: np.random.Generator, height: int, width: int) -> tuple[Plane, Plane]:
    """Colours (H, W, 3) in [0, 255] and, per pixel, how rough its leaf is (H, W)."""
    longer = max(height, width)
    colours = np.empty((height, width, 3), dtype=np.float32)
    colours[:] = _colour(rng)
    roughness = np.full((height, width), rng.uniform(0.4, 1.2), dtype=np.float32)
    low, high = _RADII
    for _ in range(_NUM_LEAVES):
        # Inverse transform sampling of the density r**-3, the one with the spectrum of natural images.
        radius = longer * (low**-2 - rng.random() * (low**-2 - high**-2)) ** -0.5
        y, x = rng.uniform(0, height), rng.uniform(0, width)
        top, bottom = max(0, int(y - radius) - 1), min(height, int(y + radius) + 2)
        left, right = max(0, int(x - radius) - 1), min(width, int(x + radius) + 2)
        cover = _leaf(rng, np.arange(top, bottom) - y, np.arange(left, right) - x, radius)
        there = colours[top:bottom, left:right]
        there += cover[..., None] * (_colour(rng) - there)
        rough = roughness[top:bottom, left:right]
        rough += cover * (np.float32(rng.uniform(0.2, 1.7)) - rough)
    return colours, roughness


def _leaf(rng: np.random.Generator, dy: NDArray[np.floating], dx: NDArray[np.floating], radius: float) -> Plane:
    """How much of each pixel a rotated ellipse or box covers, in [0, 1]; ``dy`` and ``dx`` are from its centre."""
    angle, aspect, round_one = rng.uniform(0, np.pi), rng.uniform(0.35, 1), rng.random() < 0.7
    u = dx[None, :] * np.cos(angle) + dy[:, None] * np.sin(angle)
    v = (dy[:, None] * np.cos(angle) - dx[None, :] * np.sin(angle)) / aspect
    distance = np.hypot(u, v) if round_one else np.sqrt(2) * np.maximum(np.abs(u), np.abs(v))
    return np.clip(radius - distance + 0.5, 0, 1).astype(np.float32)


def _colour(rng: np.random.Generator) -> Plane:
    """An RGB colour; mostly not very saturated."""
    return np.clip(rng.uniform(30, 225) + rng.normal(0, 20, size=3), 0, 255).astype(np.float32)


def power_law_noise(rng: np.random.Generator, shape: tuple[int, ...], exponent: float) -> Plane:
    """Noise with zero mean and unit variance whose amplitude falls with the spatial frequency to the ``exponent``."""
    height, width = shape
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None, :]).astype(np.float32)
    frequency[0, 0] = 1
    parts = rng.standard_normal((2, *frequency.shape), dtype=np.float32)
    spectrum = (parts[0] + 1j * parts[1]) * frequency**-exponent
    spectrum[0, 0] = 0
    noise = np.fft.irfft2(spectrum, s=(height, width)).astype(np.float32)
    return noise / noise.std()
