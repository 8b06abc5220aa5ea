"""The files that are verified, through the real loader and through Pillow."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import PIL.Image
import torch
from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import pil_loader

from gpufeed import DataLoader
from gpufeed.bench.images import ImageFolderFiles
from gpufeed.errors import SampleError
from gpufeed.inspect.verify.differences import as_tensor
from gpufeed.inspect.verify.results import LeftOutSample
from gpufeed.pipelines import Pipeline

__all__ = ["ChosenFolder", "Loaded", "LoadedPipeline", "evenly", "open_as_torchvision"]


def evenly(files: ImageFolderFiles, num_samples: int) -> ImageFolderFiles:
    """Files taken evenly over the list; all of them where there are fewer."""
    count = min(num_samples, len(files))
    chosen = [number * len(files) // count for number in range(count)]
    return ImageFolderFiles(
        files.root,
        files.classes,
        tuple(files.paths[index] for index in chosen),
        tuple(files.targets[index] for index in chosen),
    )


class ChosenFolder(ImageFolder):
    """An ``ImageFolder`` of the chosen files, in their order; nothing below the root is scanned again."""

    def __init__(self, files: ImageFolderFiles, transform: Callable[[Any], Any] | None) -> None:
        self._files = files
        super().__init__(files.root, transform=transform)  # pyright: ignore[reportUnknownMemberType] - untyped

    def find_classes(self, directory: str | Path) -> tuple[list[str], dict[str, int]]:
        """The list's classes, whatever is in ``directory``."""
        classes = list(self._files.classes)
        return classes, {name: target for target, name in enumerate(classes)}

    def make_dataset(self, *_args: object, **_kwargs: object) -> list[tuple[str, int]]:  # type: ignore[override]
        """The list's samples, whatever is on disk."""
        return list(zip(self._files.paths, self._files.targets, strict=True))


class Loaded:
    """Samples through a `gpufeed.DataLoader`, in batches of mixed files; a context manager.

    A sample's draws are those of its index in the list under (seed, epoch 0), whichever batch it comes in.

    Args:
        files: what to load.
        transform: what they go through.
        device: where.
        seed: of the draws.
    """

    def __init__(
        self, files: ImageFolderFiles, transform: Callable[[Any], Any], device: torch.device, seed: int
    ) -> None:
        self._batches: list[list[int]] = []
        self._loader = DataLoader(
            ChosenFolder(files, transform),
            batch_sampler=self._batches,
            collate_fn=_samples,
            device=device,
            seed=seed,
        )

    def __enter__(self) -> Loaded:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loader.close()

    def load(self, indices: Sequence[int]) -> tuple[dict[int, torch.Tensor], list[LeftOutSample]]:
        """Some samples as one batch, on the host; those that can't be loaded are left out, with the reason."""
        loaded, refused = _load(self._loader, self._batches, indices)
        return {index: as_tensor(image).cpu() for index, (image, _) in loaded.items()}, refused


class LoadedPipeline:
    """Samples through a pipeline in a `gpufeed.DataLoader`, as `Loaded`; a context manager.

    Args:
        dataset: a source or Dataset that the pipeline reads.
        pipeline: what they go through.
        device: where.
        seed: of the draws.
    """

    def __init__(self, dataset: Any, pipeline: Pipeline, device: torch.device, seed: int) -> None:
        self._batches: list[list[int]] = []
        self._loader = DataLoader(
            dataset, batch_sampler=self._batches, collate_fn=_samples, pipeline=pipeline, device=device, seed=seed
        )

    def __enter__(self) -> LoadedPipeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loader.close()

    def load(self, indices: Sequence[int]) -> tuple[dict[int, Any], list[LeftOutSample]]:
        """Some samples as one batch, each in the pipeline's structure; those that can't be loaded are left out."""
        return _load(self._loader, self._batches, indices)


def _load(
    loader: DataLoader, batches: list[list[int]], indices: Sequence[int]
) -> tuple[dict[int, Any], list[LeftOutSample]]:
    """Samples of epoch 0 by their indices, and those left out.

    Args:
        loader: whose batches are the lists of samples.
        batches: its batch sampler.
        indices: of the samples.
    """
    left, refused = list(indices), list[LeftOutSample]()
    while left:
        batches[:] = [left]
        loader.set_epoch(0)
        try:
            (samples,) = loader
        except SampleError as error:
            if error.index not in left:  # another one that a sample of the batch is mixed with
                raise
            left.remove(error.index)
            refused.append(LeftOutSample(error.name, error.cause))
            continue
        return dict(zip(left, samples, strict=True)), refused
    return {}, refused


def _samples(samples: list[Any]) -> list[Any]:
    return samples


def open_as_torchvision(path: str) -> PIL.Image.Image | str:
    """A file as ``ImageFolder`` reads it, in RGB; or why Pillow can't."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd metadata; they change no pixel
            return pil_loader(path)
    except (OSError, SyntaxError, ValueError, PIL.Image.DecompressionBombError) as error:
        return f"Pillow can't read it ({error}), so there is nothing to compare with"
