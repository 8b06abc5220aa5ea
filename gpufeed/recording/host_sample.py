"""`HostSample`: the draws that a pipeline makes for a sample, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import PIL.Image
from torchvision import tv_tensors

from gpufeed.draws import DRAWS_PER_OP, Draws, epoch_key
from gpufeed.errors import ArgumentError
from gpufeed.parameters import OpDraws, draw_parameters, op_count
from gpufeed.recording.keyed_draws import KeyedDraws
from gpufeed.recording.values import DrawKind, DrawValue, draw
from gpufeed.reference import run_together, spec_of
from gpufeed.translation import translate

__all__ = ["HostSample"]


@dataclass(slots=True, eq=False)
class _Count:
    """The number of the next draw, which a sample and its others share."""

    next: int = 0

    def take(self, count: int = 1) -> int:
        self.next += count
        return self.next - count


class HostSample(KeyedDraws):
    """One sample's draws as plain numbers: those that a pipeline makes for it, asked for in the same order.

    It is for a ``Dataset`` that does in torch and NumPy what a pipeline does on the device, and so has the same pixels.
    The methods of `gpufeed.recording.Sample` that draw are here too, and give ``float`` or ``int``, of ``shape`` arrays
    of float32 or int32. Each call has the next number, so that the order must be the pipeline's: its function's first,
    then its tail's. ``ops.to_chw`` and ``ops.normalize`` of an image that no operator of DALI's has made count like
    ``v2.ToImage`` and what else they stand for: do the same here, or `skip` 1 and 3 numbers.

    Args:
        index: the sample's in the dataset.
        length: the dataset's; what `others` chooses from.
        seed: the loader's.
        epoch: which ``iter()`` of the loader it is, from 0, or what ``set_epoch`` was given.
        occurrence: how often the index stood earlier in the epoch; 0 unless a sampler repeats indices.
    """

    def __init__(self, index: int, *, length: int, seed: int = 0, epoch: int = 0, occurrence: int = 0) -> None:
        if not 0 <= index < length:
            raise ArgumentError(f"index must be in [0, {length}), the dataset's length, got {index}")
        if epoch < 0 or occurrence < 0:
            raise ArgumentError(f"epoch and occurrence must be at least 0, got {epoch} and {occurrence}")
        self.index = index
        self.length = length
        rows = np.array([[index], [occurrence]], dtype=np.int64)
        self._draws = Draws(epoch_key(seed, epoch), rows[0], rows[1])
        self._count = _Count()

    def others(self, count: int) -> list[HostSample]:
        """More samples, drawn by this sample's key: their ``index`` says which. Their draws count on from this one's.

        Args:
            count: how many, at least 1.
        """
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentError(f"others(k) takes how many samples, an integer of at least 1, got {count!r}")
        own = self._own(self._count.take())
        return [self._other(int(own.integers(number, 0, self.length)[0])) for number in range(count)]

    def apply(self, transform: Any, image: Any, *more: Any) -> Any:
        """What torchvision makes of an image with this sample's draws, as ``ops.apply`` and its crops draw them.

        Args:
            transform: of ``torchvision.transforms.v2``, of those that gpufeed translates, or a Compose of them.
            image: a PIL image, or a tensor (C, H, W).
            more: what goes with it, ``tv_tensors.Mask`` or ``tv_tensors.BoundingBoxes``: moved, resized and mirrored
                like the image.

        Returns:
            The image; with ``more`` a tuple of it and them.

        Raises:
            TranslationError: for a transform that gpufeed doesn't translate.
            ArgumentError: for an image that is too small for its crop, and for what isn't an image.
        """
        translation = translate(transform, input=spec_of(image))
        plan = translation.require()
        numbers = [self._count.take(op_count(op)) for op in plan.ops]
        size_hw = (image.height, image.width) if isinstance(image, PIL.Image.Image) else tuple(image.shape[-2:])
        parameters = draw_parameters(plan, np.array([size_hw], dtype=np.int64), self._draws, numbers)
        if 0 in parameters.refused:
            raise ArgumentError(f"{type(transform).__name__}: {parameters.refused[0]}")
        for one in more:
            if not isinstance(one, (tv_tensors.Mask, tv_tensors.BoundingBoxes)):
                raise ArgumentError(
                    f"what goes with an image must be a tv_tensors.Mask or BoundingBoxes, got {type(one).__name__}; "
                    "give each image a call of its own"
                )
        made = run_together(translation, (image, *more), parameters, 0)
        return made if more else made[0]

    def skip(self, count: int = 1) -> None:
        """Leave out draws that the pipeline makes and that are of no use here.

        Args:
            count: how many numbers: one for each draw, and one for each op of a transform.
        """
        if count < 0:
            raise ArgumentError(f"skip(count) needs at least 0, got {count}")
        self._count.take(count)

    def _other(self, index: int) -> HostSample:
        other = HostSample(index, length=self.length)
        other._draws, other._count = self._draws, self._count
        return other

    def _own(self, number: int) -> OpDraws:
        return OpDraws(self._draws, number * DRAWS_PER_OP)

    def _draw(
        self,
        kind: DrawKind,
        arguments: tuple[float, ...],
        shape: tuple[int, ...],
        weights: tuple[float, ...] | None,
    ) -> Any:
        number = self._count.take()
        drawn = draw(DrawValue(kind, number, arguments, shape, weights), self._own(number))[0]
        return drawn.item() if drawn.ndim == 0 else drawn

    def __repr__(self) -> str:
        return f"<the draws of sample {self.index}>"
