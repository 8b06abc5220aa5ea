"""torchvision's ``ImageFolder`` and ``DatasetFolder``, and any nesting of ``Subset`` and ``ConcatDataset`` over them.

Nothing is copied: paths and targets are looked up in the dataset's own ``samples`` when a batch needs them, so that a
million files cost no memory here, and edits to the dataset are seen.
"""

from __future__ import annotations

import bisect
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch.utils.data import ConcatDataset, Dataset, Subset
from torchvision import get_image_backend
from torchvision.datasets import DatasetFolder
from torchvision.datasets.folder import default_loader, pil_loader

from gpufeed.errors import UnsupportedError
from gpufeed.sources.base import Paths

__all__ = ["FolderSource"]

_CHOICES = (
    "gpufeed reads torchvision.datasets.ImageFolder and DatasetFolder, any nesting of Subset, ConcatDataset and "
    "random_split over them, or a folder's path with pipeline=; otherwise keep torch.utils.data.DataLoader for it"
)

Locate = Callable[[int], tuple[DatasetFolder, int]]


@dataclass(frozen=True, slots=True)
class FolderSource:
    """A source over a tree of folder datasets.

    Attributes:
        dataset: the root of the tree, never changed.

    Raises:
        UnsupportedError: where a dataset in the tree can't be read exactly as it would read itself.
    """

    dataset: Dataset[object]

    def __post_init__(self) -> None:
        for _ in self.leaves():  # refuses what can't be read
            pass

    def __len__(self) -> int:
        return len(self.dataset)  # pyright: ignore[reportArgumentType, reportUnknownArgumentType] - all kinds here have one

    def leaves(self) -> Iterator[DatasetFolder]:
        """The folder datasets in the tree, in order, each as often as it stands there."""
        return _leaves(self.dataset)

    def locate(self, index: int) -> tuple[DatasetFolder, int]:
        """The folder dataset that holds a sample, and the sample's index in it, found as torch finds it.

        Raises:
            IndexError: where torch would raise one.
        """
        dataset: Dataset[object] = self.dataset
        while True:
            if isinstance(dataset, DatasetFolder):
                return dataset, index
            if isinstance(dataset, Subset):
                index = dataset.indices[index].__index__()
                dataset = dataset.dataset
            else:
                assert isinstance(dataset, ConcatDataset)
                if index < 0:
                    if -index > len(dataset):
                        raise ValueError("absolute value of index should not exceed dataset length")
                    index += len(dataset)
                child = bisect.bisect_right(dataset.cumulative_sizes, index)
                if child:
                    index -= dataset.cumulative_sizes[child - 1]
                dataset = dataset.datasets[child]

    def _sample(self, index: int) -> tuple[DatasetFolder, str, object]:
        folder, local = self.locate(index)
        path, target = folder.samples[local]
        return folder, path, target

    def read(self, indices: Sequence[int]) -> Paths:
        if isinstance(self.dataset, DatasetFolder):  # the common case, without the walk
            samples = self.dataset.samples
            return Paths.of([samples[index][0] for index in indices])
        return Paths.of([self._sample(index)[1] for index in indices])

    def fields(self, indices: Sequence[int]) -> Mapping[str, Sequence[object]]:
        """The targets, after each dataset's own ``target_transform``."""
        targets: list[object] = []
        for index in indices:
            folder, _, target = self._sample(index)
            transform = folder.target_transform
            targets.append(target if transform is None else transform(target))
        return {"target": targets}

    def name_of(self, index: int) -> str:
        return os.fspath(self._sample(index)[1])

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for index in range(len(self)):
            _, path, target = self._sample(index)
            name = os.fsencode(path)
            digest.update(len(name).to_bytes(8, "little") + name + repr(target).encode() + b"\0")
        return digest.hexdigest()


def _leaves(dataset: Dataset[object]) -> Iterator[DatasetFolder]:
    if isinstance(dataset, DatasetFolder):
        _check_own_items(dataset, DatasetFolder)
        _check_loader(dataset)
        yield dataset
    elif isinstance(dataset, Subset):
        _check_own_items(dataset, Subset)
        yield from _leaves(dataset.dataset)
    elif isinstance(dataset, ConcatDataset):
        _check_own_items(dataset, ConcatDataset)
        for child in dataset.datasets:
            yield from _leaves(child)
    else:
        raise UnsupportedError(f"{_name(dataset)} can't be read by gpufeed; {_CHOICES}")


def _check_own_items(dataset: Dataset[object], base: type) -> None:
    """Refuse a subclass that makes its items itself: gpufeed would not run that code."""
    for method in ("__getitem__", "__getitems__"):
        if getattr(type(dataset), method, None) is not getattr(base, method, None) or method in vars(dataset):
            raise UnsupportedError(
                f"{_name(dataset)} overrides {base.__name__}.{method}, which gpufeed would not call; "
                f"move what it does into transform or target_transform. {_CHOICES}"
            )


def _check_loader(dataset: DatasetFolder) -> None:
    loader = dataset.loader
    if loader is pil_loader:
        return
    if loader is default_loader:
        if get_image_backend() == "PIL":
            return
        raise UnsupportedError(
            f"{_name(dataset)} decodes by the image backend {get_image_backend()!r}, whose pixels gpufeed doesn't know; "
            "call torchvision.set_image_backend('PIL')"
        )
    name = getattr(loader, "__qualname__", None) or type(loader).__qualname__
    raise UnsupportedError(
        f"{_name(dataset)} has loader={name}, which gpufeed would not call: it decodes as torchvision's default_loader "
        "does, to 8-bit RGB; leave loader= out, or keep torch.utils.data.DataLoader for this dataset"
    )


def _name(dataset: object) -> str:
    cls = type(dataset)
    return (
        cls.__qualname__ if cls.__module__.startswith(("torch", "__main__")) else f"{cls.__module__}.{cls.__qualname__}"
    )
