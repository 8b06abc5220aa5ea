"""What contenders must have in common, seen from outside. What each does on its own is checked in ``epoch``."""

from __future__ import annotations

from collections.abc import Mapping

from gpufeed.bench.results import Epoch
from gpufeed.errors import BenchmarkError

__all__ = ["check_same_images", "check_same_outputs", "what_was_checked"]

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


def check_same_outputs(reference_name: str, reference: Epoch, name: str, epoch: Epoch) -> None:
    """Refuse a contender whose images and targets aren't like the reference's, for a pipeline.

    Only where both give a pair of tensors: how batches of another structure correspond isn't known.

    Args:
        reference_name: a contender, for the message.
        reference: an epoch of it with pixels.
        name: the contender to check.
        epoch: an epoch of that with pixels, over the same samples.

    Raises:
        BenchmarkError: they differ in dtype or shape, or the images' values on average.
    """
    if not (reference.is_pair and epoch.is_pair):
        return
    if epoch.outputs != reference.outputs:
        raise BenchmarkError(
            f"{name} did unequal work: its batches hold {_listed(epoch)}, {reference_name}'s {_listed(reference)}; "
            "make the pipeline and torch's side of it give the same"
        )
    check_same_images(reference_name, reference, name, epoch)


def what_was_checked(epochs: Mapping[str, Epoch]) -> str:
    """A sentence on what of a pipeline's batches was compared, by an epoch of each contender."""
    if len(epochs) == 1:
        return ""
    if all(epoch.is_pair for epoch in epochs.values()):
        held = _listed(next(iter(epochs.values())))
        return f"All contenders gave the same number of samples, {held}, and images of like mean and spread."
    held_by = list(epochs.items())
    alike = all(epoch.outputs == held_by[0][1].outputs for _, epoch in held_by)
    gives = _listed(held_by[0][1]) if alike else "; ".join(f"{name} gives {_listed(epoch)}" for name, epoch in held_by)
    ending = f"all give {gives}" if alike else gives
    return f"Of these outputs only the number of samples is held to be equal: {ending}."


def _listed(epoch: Epoch) -> str:
    return ", ".join(epoch.outputs)
