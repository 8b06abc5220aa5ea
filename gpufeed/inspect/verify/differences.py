"""How far values are from the wanted ones, over any number of images in fixed memory: histograms, not lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from gpufeed.inspect.verify.results import Spread
from gpufeed.plan import Normalize, Plan, ToDtype, ToTensor
from gpufeed.spec import max_value

__all__ = ["Differences", "Scale", "as_tensor", "full_scales", "ring_and_rest", "same_bits"]

_BINS_PER_255 = 16
"""Resolution of the percentile: 1/16 of 1/255. Whole differences, as between bytes, begin a bin each, and are exact."""
_NUM_BINS = 256 * _BINS_PER_255 + 1  # the last one holds all that is farther off
_PERCENTILE = 0.999

_ROUNDING_255 = 255e-6
"""A millionth of full intensity, in 1/255: bytes that are 1 apart are 1.00002 apart once float32 has scaled them."""

Scale = tuple[float, ...]
"""What full intensity amounts to in the values of each channel, or of all of them: 255 for bytes, 1 / std behind a
``Normalize`` of values in [0, 1]."""


@dataclass(slots=True, eq=False)
class Differences:
    """Gathers differences of many images.

    Attributes:
        usual_255: the difference beyond which values are counted for `Spread.share_beyond`. [Unit: 1/255]
    """

    usual_255: float = 0.0
    _bins: NDArray[np.int64] = field(default_factory=lambda: np.zeros(_NUM_BINS, dtype=np.int64))
    _count: int = 0
    _sum: float = 0.0
    _largest: float = 0.0
    _above_1: int = 0
    _unequal: int = 0
    _beyond: int = 0

    def add(self, mine: torch.Tensor, theirs: torch.Tensor, scale: Scale) -> tuple[float, float]:
        """Take in one image.

        Two values that are both not a number, or the same infinity, are equal; one that only one side has is a
        difference of the full range.

        Args:
            mine: (..., C, H, W) on the host.
            theirs: the same shape and dtype.
            scale: of these values.

        Returns:
            The largest and the mean difference of this image, in 1/255.
        """
        if mine.numel() == 0 or torch.equal(mine, theirs):
            self._bins[0] += mine.numel()
            self._count += mine.numel()
            return 0.0, 0.0
        if mine.dtype == torch.uint8 and scale == (255.0,):
            off = torch.where(mine > theirs, mine - theirs, theirs - mine)
            counts = torch.bincount(off.flatten(), minlength=256).numpy()
            steps = np.arange(256)
            self._bins[: 256 * _BINS_PER_255 : _BINS_PER_255] += counts
            return self._note(
                mine.numel(),
                float((counts * steps).sum()),
                float(np.flatnonzero(counts)[-1]),
                [int(counts[steps > least].sum()) for least in (1.0, 0.0, self.usual_255)],
            )
        unit = torch.tensor([255.0 / full for full in scale], dtype=torch.float64).view(-1, 1, 1)
        equal = (mine == theirs) | ((mine != mine) & (theirs != theirs))
        apart = (mine.double() - theirs.double()).abs_() * unit
        apart = apart.nan_to_num_(nan=255.0, posinf=255.0).masked_fill_(equal, 0.0)
        bins = (apart * _BINS_PER_255).to(torch.int64).clamp_(max=_NUM_BINS - 1)
        self._bins += torch.bincount(bins.flatten(), minlength=_NUM_BINS).numpy()
        rounded = (1.0 + _ROUNDING_255, 0.0, self.usual_255 + _ROUNDING_255)
        beyond = [int((apart > least).sum()) for least in rounded]
        return self._note(mine.numel(), float(apart.sum()), float(apart.max()), beyond)

    def _note(self, count: int, total: float, largest: float, beyond: Sequence[int]) -> tuple[float, float]:
        self._count += count
        self._sum += total
        self._largest = max(self._largest, largest)
        self._above_1 += beyond[0]
        self._unequal += beyond[1]
        self._beyond += beyond[2]
        return largest, total / count

    @property
    def num_values(self) -> int:
        """Values compared so far."""
        return self._count

    @property
    def num_beyond(self) -> int:
        """Values beyond ``usual_255`` so far."""
        return self._beyond

    def spread(self) -> Spread:
        """What was gathered so far."""
        count = max(self._count, 1)
        reached = int(np.searchsorted(np.cumsum(self._bins), _PERCENTILE * self._count))
        return Spread(
            num_values=self._count,
            largest_255=self._largest,
            mean_255=self._sum / count,
            p999_255=min(reached / _BINS_PER_255, self._largest) if self._count else 0.0,
            share_above_1=self._above_1 / count,
            share_unequal=self._unequal / count,
            share_beyond=self._beyond / count,
        )


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether shapes, dtypes and all values are equal; not-a-number equals itself."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one, other) or bool(((one == other) | ((one != one) & (other != other))).all())


def as_tensor(image: object) -> torch.Tensor:
    """An image of the oracle's as the tail holds it: (C, H, W), or (k, C, H, W) for a tuple of k."""
    if isinstance(image, tuple | list):
        return torch.stack([as_tensor(one) for one in image])  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(image, torch.Tensor):
        return image.as_subclass(torch.Tensor)
    array = np.array(image)  # a PIL image; a copy, since its memory is read only
    return torch.from_numpy(array.reshape(*array.shape[:2], -1)).permute(2, 0, 1)  # pyright: ignore[reportUnknownMemberType]


def ring_and_rest(image: torch.Tensor) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """The outermost pixels of (..., C, H, W), as up to four strips, and what lies inside."""
    height, width = image.shape[-2:]
    strips = [image[..., :1, :]]
    if height > 1:
        strips.append(image[..., -1:, :])
    if height > 2:
        strips.append(image[..., 1:-1, :1])
        if width > 1:
            strips.append(image[..., 1:-1, -1:])
    return tuple(strips), image[..., 1:-1, 1:-1]


def full_scales(plan: Plan) -> tuple[Scale, ...]:
    """The scale of each op's input, then of the output: ``len(plan.ops) + 1``.

    ``Normalize`` divides by ``std``, so that a difference behind it counts ``std`` times as much in intensity.
    """
    scale: Scale = (float(max_value(plan.input.dtype)),)
    scales: list[Scale] = [scale]
    for op in plan.ops:
        if isinstance(op, ToTensor):
            scale = (1.0,)
        elif isinstance(op, ToDtype) and op.scale:
            scale = (float(max_value(op.dtype)),)
        elif isinstance(op, Normalize):
            size = max(len(scale), len(op.std))
            full = scale * size if len(scale) == 1 else scale
            std = op.std * size if len(op.std) == 1 else op.std
            scale = tuple(one / abs(by) for one, by in zip(full, std, strict=True))
        scales.append(scale)
    return tuple(_fitting(one, spec.channels) for one, spec in zip(scales, plan.specs(), strict=True))


def _fitting(scale: Scale, channels: int) -> Scale:
    """One value, or one per channel; behind what changes the channels of normalised values their mean."""
    return scale if len(scale) in (1, channels) else (sum(scale) / len(scale),)
