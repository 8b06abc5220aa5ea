"""torchvision's ``ImageFolder`` and ``DatasetFolder``, and any nesting of ``Subset`` and ``ConcatDataset`` over them.

Nothing is copied: paths and targets are looked up in the dataset's own ``samples`` when a batch needs them, so that a
million files cost no memory here.
"""

from __future__ import annotations

import bisect
import hashlib
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from torch.utils.data import ConcatDataset, Dataset, Subset
from torchvision import get_image_backend
from torchvision.datasets import DatasetFolder
from torchvision.datasets.folder import default_loader, pil_loader

from gpufeed.errors import UnsupportedError
from gpufeed.sources.base import Paths, Source

__all__ = ["FolderSource", "PinnedSamples", "pinned", "resolved", "source_of"]

_CHOICES = (
    "gpufeed reads torchvision.datasets.ImageFolder and DatasetFolder, any nesting of Subset, ConcatDataset and "
    "random_split over them, or a folder's path with pipeline=; otherwise keep torch.utils.data.DataLoader for it"
)


@dataclass(frozen=True, slots=True, eq=False)
class _Folder:
    """What a folder dataset holds when the source is made."""

    samples: Sequence[tuple[str, object]]
    transform: object
    target_transform: Callable[[object], object] | None

    def __len__(self) -> int:
        return len(self.samples)


@dataclass(frozen=True, slots=True, eq=False)
class _Subset:
    indices: Sequence[Any]
    whole: _Tree

    def __len__(self) -> int:
        return len(self.indices)


@dataclass(frozen=True, slots=True, eq=False)
class _Concat:
    ends: Sequence[int]
    parts: Sequence[_Tree]

    def __len__(self) -> int:
        return self.ends[-1]


_Tree = _Folder | _Subset | _Concat
_Sample = tuple[Callable[[object], object] | None, str, object]  # the target's transform, the path, the target


@dataclass(frozen=True, slots=True, eq=False)
class FolderSource:
    """A source over a tree of folder datasets.

    The lists that the datasets hold when the source is made are the ones that it reads, whatever lists the datasets are
    given later: a file and its target always come from the same one.

    Attributes:
        dataset: the root of the tree, never changed.

    Raises:
        UnsupportedError: where a dataset in the tree can't be read exactly as it would read itself.
    """

    dataset: Dataset[Any]
    _tree: _Tree = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tree", _tree_of(self.dataset))

    def __len__(self) -> int:
        return len(self._tree)

    def transforms(self) -> Iterator[object]:
        """The ``transform`` of each folder dataset in the tree, in order; ``None`` where there is none."""
        return (folder.transform for folder in _folders(self._tree))

    def resolve(self, index: int) -> int:
        """An index that may count from the end, as one in [0, len).

        Raises:
            IndexError, ValueError: where it is out of range, as the dataset itself would raise it.
        """
        self._sample(index)
        return index + len(self) if index < 0 else index

    def pinned(self, indices: Sequence[int]) -> PinnedSamples:
        """Some samples as they are now, whatever happens to the dataset's lists before the batch is handed over.

        Raises:
            IndexError: for a sample that the dataset no longer has.
        """
        tree = self._tree
        if isinstance(tree, _Folder):  # the common case, without the walk
            samples, transform = tree.samples, tree.target_transform
            return PinnedSamples(len(tree), {index: (transform, *samples[index]) for index in indices})
        return PinnedSamples(len(self), {index: self._sample(index) for index in indices})

    def read(self, indices: Sequence[int]) -> Paths:
        return self.pinned(indices).read(indices)

    def fields(self, indices: Sequence[int]) -> Mapping[str, Sequence[object]]:
        """The targets, after each dataset's own ``target_transform``."""
        return self.pinned(indices).fields(indices)

    def name_of(self, index: int) -> str:
        return os.fspath(self._sample(index)[1])

    def fingerprint(self) -> str:
        return _fingerprint(map(self._sample, range(len(self))))

    def _sample(self, index: int) -> _Sample:
        """The target transform, path and target of a sample, found as torch finds it, with torch's errors."""
        tree: _Tree = self._tree
        while not isinstance(tree, _Folder):
            if isinstance(tree, _Subset):
                index = operator.index(tree.indices[index])
                tree = tree.whole
                continue
            if index < 0:
                if -index > len(tree):
                    raise ValueError("absolute value of index should not exceed dataset length")
                index += len(tree)
            part = bisect.bisect_right(tree.ends, index)
            if part:
                index -= tree.ends[part - 1]
            tree = tree.parts[part]
        path, target = tree.samples[index]
        return tree.target_transform, path, target


@dataclass(frozen=True, slots=True, eq=False)
class PinnedSamples:
    """A few samples of a `FolderSource`, their files and targets looked up together and once.

    A source itself, of those samples only: between the drawing of a batch and its handing over the dataset may change,
    and a file must never get another one's target.
    """

    length: int
    samples: Mapping[int, _Sample]

    def __len__(self) -> int:
        return self.length

    def read(self, indices: Sequence[int]) -> Paths:
        return Paths.of([self.samples[index][1] for index in indices])

    def fields(self, indices: Sequence[int]) -> Mapping[str, Sequence[object]]:
        """The targets, after each dataset's own ``target_transform``."""
        targets: list[object] = []
        for index in indices:
            transform, _, target = self.samples[index]
            targets.append(target if transform is None else transform(target))
        return {"target": targets}

    def name_of(self, index: int) -> str:
        return os.fspath(self.samples[index][1])

    def fingerprint(self) -> str:
        return _fingerprint(self.samples.values())


def _fingerprint(samples: Iterable[_Sample]) -> str:
    digest = hashlib.sha256()
    for _, path, target in samples:
        name = os.fsencode(path)
        digest.update(len(name).to_bytes(8, "little") + name + repr(target).encode() + b"\0")
    return digest.hexdigest()


def _folders(tree: _Tree) -> Iterator[_Folder]:
    if isinstance(tree, _Folder):
        yield tree
    elif isinstance(tree, _Subset):
        yield from _folders(tree.whole)
    else:
        for part in tree.parts:
            yield from _folders(part)


def _tree_of(dataset: Dataset[Any]) -> _Tree:
    if isinstance(dataset, DatasetFolder):
        _check_own_items(dataset, DatasetFolder)
        _check_loader(dataset)
        folder = cast(Any, dataset)
        return _Folder(folder.samples, folder.transform, folder.target_transform)
    if isinstance(dataset, Subset):
        _check_own_items(dataset, Subset)
        return _Subset(dataset.indices, _tree_of(dataset.dataset))
    if isinstance(dataset, ConcatDataset):
        _check_own_items(dataset, ConcatDataset)
        return _Concat(dataset.cumulative_sizes, [_tree_of(part) for part in dataset.datasets])
    raise UnsupportedError(f"{_name(dataset)} can't be read by gpufeed; {_CHOICES}")


def _check_own_items(dataset: Dataset[Any], base: type) -> None:
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
            f"{_name(dataset)} decodes by the image backend {get_image_backend()!r}, whose pixels gpufeed can't match; "
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


def source_of(dataset: object) -> Source:
    """A source as it is, or the one over a tree of folder datasets.

    Raises:
        UnsupportedError: for a dataset that can't be read exactly as it would read itself.
    """
    is_source = all(callable(getattr(dataset, method, None)) for method in ("read", "fields", "name_of", "fingerprint"))
    return cast(Source, dataset) if is_source else FolderSource(cast("Dataset[Any]", dataset))


def pinned(source: Source, indices: Sequence[int]) -> Source:
    """Some samples as they are now; of another source than folders the source itself, which doesn't change."""
    return source.pinned(indices) if isinstance(source, FolderSource) else source


def resolved(source: Source, index: int) -> int:
    """An index that may count from the end, as one in [0, len).

    Raises:
        IndexError: where it is out of range.
    """
    if isinstance(source, FolderSource):
        return source.resolve(index)
    if not -len(source) <= index < len(source):
        raise IndexError(f"index {index} is out of range for a source of {len(source)} samples")
    return index % len(source)
