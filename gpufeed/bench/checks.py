"""What contenders must have in common, seen from outside. What each does on its own is checked in ``epoch``."""

from __future__ import annotations

from gpufeed.bench.results import Epoch
from gpufeed.errors import BenchmarkError

__all__ = ["check_same_images"]

_MEAN_TOLERANCE = 0.25  # of the standard deviation; leaving out a normalisation or a channel order shifts it by more
_STD_TOLERANCE = 0.25
_SMALLEST_STD = 1e-2  # images of one flat colour have none


def check_same_images(reference_name: str, reference: Epoch, name: str, epoch: Epoch) -> None:
    """Refuse a contender whose images aren't like the reference's: other shapes, or other values on average.

    Random crops and flips differ between contenders, so the values agree only within a wide tolerance, widened
    further where there are few samples. It is there to catch a transform that is missing, not a rounding.

    Args:
        reference_name: a contender, for the message.
        reference: an epoch of it with pixels.
        name: the contender to check.
        epoch: an epoch of that with pixels, over the same samples.

    Raises:
        BenchmarkError: they differ.
    """
    if epoch.shape != reference.shape:
        raise BenchmarkError(
            f"{name} did unequal work: its images have the shape {epoch.shape}, {reference_name}'s {reference.shape}"
        )
    if epoch.mean is None or epoch.std is None or reference.mean is None or reference.std is None:
        raise BenchmarkError(f"{name} and {reference_name} must be compared on epochs with pixels")
    few = epoch.num_samples**-0.5
    std = max(reference.std, _SMALLEST_STD)
    if (
        abs(epoch.mean - reference.mean) > (_MEAN_TOLERANCE + few) * std
        or abs(epoch.std - reference.std) > (_STD_TOLERANCE + few) * std
    ):
        raise BenchmarkError(
            f"{name} did unequal work: its values have mean {epoch.mean:.3g} and standard deviation {epoch.std:.3g}, "
            f"{reference_name}'s {reference.mean:.3g} and {reference.std:.3g}"
        )
