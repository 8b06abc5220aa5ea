"""`replay`: the same few batches over and over, to see what a training loop does when loading costs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

from gpufeed.errors import ArgumentError

__all__ = ["Replay", "replay"]


def replay(loader: Any, batches: int = 20) -> Replay:
    """Take a loader's first batches once, and yield them over and over in its place.

    What a training loop reaches with this is what it can reach with any loader: the difference to the real one is what
    loading costs. The batches are taken here and now, not when the loop begins.

    Args:
        loader: any iterable of batches; what is taken of it is what its next epoch begins with.
        batches: how many to take, at least 1; fewer where the loader has no more. All are kept, on the device that
            they are on.

    Raises:
        ArgumentError: for a wrong value, and where the loader has no batch.
        BaseException: what the loader raises.
    """
    _check_arguments(loader, batches)
    taken: tuple[Any, ...] = tuple(islice(iter(loader), batches))
    if not taken:
        raise ArgumentError(f"{type(loader).__name__} has no batch to replay; look at its dataset and drop_last")
    return Replay(loader, taken)


def _check_arguments(loader: object, batches: object) -> None:
    if isinstance(batches, bool) or not isinstance(batches, int) or batches < 1:
        raise ArgumentError(f"batches must be an integer of at least 1, got {batches!r}")
    if not hasattr(type(loader), "__iter__") and not hasattr(type(loader), "__getitem__"):
        raise ArgumentError(f"loader must be an iterable of batches, got {loader!r}")


class Replay:
    """Batches of a loader, over and over: what `replay` returns.

    Each epoch has as many batches as one of the loader, or no end where that has no ``len()``. The same objects are
    yielded each time: a loop that changes them in place changes what comes later. Their order is always the same, and
    a short last batch of the loader comes only if it was among those that were taken. Whatever else is read of this
    object is the loader's: ``dataset``, ``batch_size``, ``sampler``; setting an epoch there changes nothing here.

    Args:
        loader: whose batches they are.
        batches: at least one.
    """

    def __init__(self, loader: Any, batches: tuple[Any, ...]) -> None:
        self._loader = loader
        self._batches = batches

    @property
    def dataset(self) -> Any:
        """The loader's."""
        return self._loader.dataset

    @property
    def batches(self) -> tuple[Any, ...]:
        """What was taken."""
        return self._batches

    def __len__(self) -> int:
        """The loader's.

        Raises:
            TypeError: where it has none.
        """
        return len(self._loader)

    def __bool__(self) -> bool:
        """Always true, also where there is no length."""
        return True

    def __iter__(self) -> Iterator[Any]:
        try:
            length = len(self)
        except TypeError:
            return cycle(self._batches)
        return islice(cycle(self._batches), length)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_loader", "_batches"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._loader, name)
