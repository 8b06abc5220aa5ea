"""Pictures for people: torchvision's pixels, gpufeed's, and the difference between them, amplified."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from gpufeed.errors import ArgumentError
from gpufeed.inspect.verify.results import Worst
from gpufeed.plan import Normalize, Plan, ToDtype, ToTensor
from gpufeed.spec import max_value

__all__ = ["Picture", "check_save_target", "drawn", "viewable", "write_pictures"]

_SHORTEST, _LONGEST = 224, 512
"""A panel's longer side, in pixels: smaller images are enlarged by whole factors, larger ones shrunk."""

_MARGIN, _LINE = 8, 20  # pixels
_FONT_SIZE = 13
_PAPER, _INK = (250, 250, 250), (20, 20, 20)
_STRANGE = 0.05
"""Where more than this share of the values lies outside of what an image can have, their own range is shown."""

_Pixels = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """One sample at one place of the plan, twice.

    Attributes:
        title: the op's place and class, or ``whole``.
        worst: the file, and how far it is off.
        theirs: torchvision's, (C, H, W), or (N, C, H, W) of which the image that differs most is shown.
        mine: gpufeed's, alike.
        position: how many ops of the plan were done.
        plan: the plan; what it normalised by is undone for viewing.
    """

    title: str
    worst: Worst
    theirs: torch.Tensor
    mine: torch.Tensor
    position: int
    plan: Plan


def viewable(image: torch.Tensor, plan: Plan, position: int) -> _Pixels:
    """Values as brightness: (C, H, W) of any dtype to (C, H, W) float64, where 0 is black and 255 full intensity.

    Args:
        image: behind the first ``position`` ops.
        plan: its ``Normalize`` are undone, last first.
        position: see above.
    """
    full, normalized = float(max_value(plan.input.dtype)), list[Normalize]()
    for op in plan.ops[:position]:
        if isinstance(op, ToTensor) or (isinstance(op, ToDtype) and op.scale):
            full, normalized = (1.0 if isinstance(op, ToTensor) else float(max_value(op.dtype))), []
        elif isinstance(op, Normalize):
            normalized.append(op)
    values = image.to(torch.float64)
    for op in reversed(normalized):
        mean, std = (torch.tensor(one, dtype=torch.float64).view(-1, 1, 1) for one in (op.mean, op.std))
        values = values * std + mean
    return (values * (255.0 / full)).nan_to_num(nan=0.0).numpy()


def drawn(picture: Picture) -> Image.Image:
    """The picture: three panels under one line that says what they are."""
    theirs, mine = _most_different(picture.theirs, picture.mine)
    left = viewable(theirs, picture.plan, picture.position)
    right = viewable(mine, picture.plan, picture.position)
    if left.shape == right.shape:
        apart = np.abs(left - right)
        gain = min(255.0, 255.0 / float(apart.max())) if apart.max() > 0 else 1.0
    else:
        apart, gain = np.zeros_like(left), 1.0
    left, right = _within_range(left, right)
    panels = [_panel(left), _panel(right), _panel(apart * gain, keep_peaks=True)]
    labels = ("torchvision", "gpufeed", _difference_label(apart, gain))
    return _arranged(_caption(picture), panels, labels)


def _most_different(theirs: torch.Tensor, mine: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if theirs.ndim == 3:
        theirs = theirs[None]
    if mine.ndim == 3:
        mine = mine[None]
    if theirs.shape != mine.shape:
        return theirs[0], mine[0]
    apart = (theirs.double() - mine.double()).abs().nan_to_num(nan=0.0, posinf=0.0).flatten(1).sum(dim=1)
    number = int(apart.argmax())
    return theirs[number], mine[number]


def _within_range(left: _Pixels, right: _Pixels) -> tuple[_Pixels, _Pixels]:
    """Both as they are, or both with torchvision's range stretched over all intensities."""
    strange = ((left < -1.0) | (left > 256.0)).mean()
    if strange <= _STRANGE:
        return left, right
    low, high = float(left.min()), float(left.max())
    factor = 255.0 / (high - low) if high > low else 1.0
    return (left - low) * factor, (right - low) * factor


def _difference_label(apart: _Pixels, gain: float) -> str:
    if not apart.any():
        return "no difference"
    return f"difference x {gain:.0f}" if gain >= 10 else f"difference x {gain:.2g}"


def _panel(values: _Pixels, *, keep_peaks: bool = False) -> Image.Image:
    """(C, H, W) brightness to an RGB image of a size to look at.

    Args:
        values: 1 or 3 channels.
        keep_peaks: shrink by the largest of the values that become one, so that none is lost.
    """
    longest = max(values.shape[-2:])
    if longest > _LONGEST and keep_peaks:
        values = _largest_of_blocks(values, -(-longest // _LONGEST))
    pixels = np.clip(np.rint(values), 0, 255).astype(np.uint8).transpose(1, 2, 0)
    image = Image.fromarray(np.ascontiguousarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3))))
    if longest < _SHORTEST:
        factor = max(_SHORTEST // longest, 1)
        return image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
    if longest > _LONGEST and not keep_peaks:
        block = -(-longest // _LONGEST)
        return image.reduce(block)
    return image


def _largest_of_blocks(values: _Pixels, block: int) -> _Pixels:
    channels, height, width = values.shape
    rows, columns = -(-height // block), -(-width // block)
    padded = np.zeros((channels, rows * block, columns * block))
    padded[:, :height, :width] = values
    return padded.reshape(channels, rows, block, columns, block).max(axis=(2, 4))


def _caption(picture: Picture) -> str:
    worst = picture.worst
    name = Path(worst.file).name.encode("ascii", "backslashreplace").decode()
    return f"{name}   {picture.title}   max {worst.largest_255:.4g}/255   mean {worst.mean_255:.3g}/255"


def _arranged(caption: str, panels: Sequence[Image.Image], labels: Sequence[str]) -> Image.Image:
    font = ImageFont.load_default(_FONT_SIZE)
    columns = [max(panel.width, int(font.getlength(label)) + 1) for panel, label in zip(panels, labels, strict=True)]
    width = max(sum(columns) + 2 * _MARGIN, int(font.getlength(caption)) + 1) + 2 * _MARGIN
    height = 2 * _LINE + max(panel.height for panel in panels) + 2 * _MARGIN
    whole = Image.new("RGB", (width, height), _PAPER)
    pen = ImageDraw.Draw(whole)
    pen.text((_MARGIN, _MARGIN), caption, fill=_INK, font=font)
    left = _MARGIN
    for panel, label, column in zip(panels, labels, columns, strict=True):
        pen.text((left, _MARGIN + _LINE), label, fill=_INK, font=font)
        whole.paste(panel, (left, _MARGIN + 2 * _LINE))
        left += column + _MARGIN
    return whole


def check_save_target(folder: Path) -> None:
    """Refuse a folder that the pictures must not or can't be written to; nothing is ever overwritten.

    Raises:
        ArgumentError: it holds something, is no folder, or can't be made.
    """
    if folder.exists() and not folder.is_dir():
        raise ArgumentError(f"{folder} is a file; give --save the name of a folder")
    if folder.is_dir():
        if any(folder.iterdir()):
            raise ArgumentError(
                f"{folder} isn't empty, and --save overwrites nothing; give it a new or an empty folder"
            )
    elif not folder.parent.is_dir():
        raise ArgumentError(f"there is no folder {folder.parent} to make {folder.name} in; make it first")
    if not os.access(folder if folder.is_dir() else folder.parent, os.W_OK):
        raise ArgumentError(f"{folder} can't be written to; give --save another place")


def write_pictures(folder: Path, pictures: Sequence[Picture]) -> tuple[str, ...]:
    """Write each as a PNG into a new or empty folder, under a temporary name first.

    Returns:
        The paths.

    Raises:
        ArgumentError: see `check_save_target`; or the disk is full or the like.
    """
    check_save_target(folder)
    written: list[str] = []
    try:
        folder.mkdir(exist_ok=True)
        for number, picture in enumerate(pictures, start=1):
            stem = f"{number}-{picture.title}-{Path(picture.worst.file).stem}"
            path = folder / (re.sub(r"[^\w.]+", "-", stem)[:120] + ".png")
            _write(drawn(picture), path)
            written.append(str(path))
    except OSError as error:
        raise ArgumentError(f"pictures can't be written to {folder} ({error.strerror or error})") from error
    return tuple(written)


def _write(image: Image.Image, path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".gpufeed-") as folder:
        temporary = Path(folder) / path.name
        image.save(temporary, "PNG")
        temporary.rename(path)
