"""Images for pixel tests: odd, prime and extreme sizes, every mode and format, made here from a seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

SIZES_HW = ((1, 1), (17, 11), (11, 17), (97, 1), (1, 89), (61, 83), (83, 61), (128, 128), (211, 307), (487, 643))


def natural(height: int, width: int, seed: int) -> np.ndarray:
    """(H, W, 3) uint8 with smooth areas, edges and a little noise, as photographs have."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    image = np.empty((height, width, 3))
    for channel in range(3):
        fx, fy, phase = rng.uniform(0.01, 0.12, 3)
        image[..., channel] = 127 + 90 * np.sin(fx * x + fy * y + 6 * phase)
    image[(x * 3 + y * 5) % 71 < 23] += rng.uniform(-70, 70, 3)
    image += rng.normal(0, 6, image.shape)
    return np.clip(image, 0, 255).astype(np.uint8)


def noise(height: int, width: int, seed: int) -> np.ndarray:
    """(H, W, 3) uint8 of independent values: the worst case for anything that resamples."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def write_plain(folder: Path) -> list[Path]:
    """JPEGs and PNGs of every size in `SIZES_HW`."""
    paths: list[Path] = []
    for number, (height, width) in enumerate(SIZES_HW):
        pixels = natural(height, width, number)
        paths.append(folder / f"{number:02d}_natural.jpg")
        Image.fromarray(pixels).save(paths[-1], quality=90)
        paths.append(folder / f"{number:02d}_noise.png")
        Image.fromarray(noise(height, width, number)).save(paths[-1])
    return paths


def write_formats(folder: Path) -> list[Path]:
    """One file for each format and mode that has to decode to Pillow's RGB bit for bit."""
    pixels = natural(59, 83, 7)
    rgb = Image.fromarray(pixels)
    alpha = Image.fromarray(noise(59, 83, 3)[..., 0])
    rgba = rgb.copy()
    rgba.putalpha(alpha)
    palette = rgb.quantize(37)
    transparent = palette.copy()
    transparent.info["transparency"] = 3
    la = Image.merge("LA", (rgb.convert("L"), alpha))
    saves: list[tuple[str, Image.Image, dict[str, object]]] = [
        ("jpeg_444", rgb, {"format": "JPEG", "subsampling": 0, "quality": 95}),
        ("jpeg_422", rgb, {"format": "JPEG", "subsampling": 1, "quality": 75}),
        ("jpeg_420", rgb, {"format": "JPEG", "subsampling": 2, "quality": 30}),
        ("jpeg_progressive", rgb, {"format": "JPEG", "progressive": True, "quality": 80}),
        ("jpeg_restart", rgb, {"format": "JPEG", "restart_marker_blocks": 3}),
        ("jpeg_grey", rgb.convert("L"), {"format": "JPEG"}),
        ("jpeg_cmyk", rgb.convert("CMYK"), {"format": "JPEG"}),
        ("png_rgb", rgb, {"format": "PNG"}),
        ("png_rgba", rgba, {"format": "PNG"}),
        ("png_grey", rgb.convert("L"), {"format": "PNG"}),
        ("png_la", la, {"format": "PNG"}),
        ("png_palette", palette, {"format": "PNG"}),
        ("png_palette_transparent", palette, {"format": "PNG", "transparency": 3}),
        ("png_one_bit", rgb.convert("1"), {"format": "PNG"}),
        ("webp_lossless", rgb, {"format": "WEBP", "lossless": True}),
        ("webp_lossy", rgb, {"format": "WEBP", "quality": 60}),
        ("bmp_rgb", rgb, {"format": "BMP"}),
        ("bmp_grey", rgb.convert("L"), {"format": "BMP"}),
        ("ppm", rgb, {"format": "PPM"}),
        ("pgm", rgb.convert("L"), {"format": "PPM"}),
        ("tiff_rgb", rgb, {"format": "TIFF"}),
        ("tiff_lzw", rgb, {"format": "TIFF", "compression": "tiff_lzw"}),
    ]
    extensions = {"JPEG": "jpg", "PNG": "png", "WEBP": "webp", "BMP": "bmp", "PPM": "ppm", "TIFF": "tif"}
    paths: list[Path] = []
    for name, image, options in saves:
        paths.append(folder / f"{name}.{extensions[str(options['format'])]}")
        image.save(paths[-1], **options)
    return paths
