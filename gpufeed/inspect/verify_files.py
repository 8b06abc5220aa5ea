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
from gpufeed.inspect.verify_differences import as_tensor
from gpufeed.inspect.verify_results import LeftOutSample

__all__ = ["ChosenFolder", "Loaded", "evenly", "open_as_torchvision"]


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

    def __init__(self, files: ImageFolderFiles, transform: Callable[[Any], Any]) -> None:
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
        left, refused = list(indices), list[LeftOutSample]()
        while left:
            self._batches[:] = [left]
            self._loader.set_epoch(0)
            try:
                (images,) = self._loader
            except SampleError as error:
                left.remove(error.index)
                refused.append(LeftOutSample(error.name, error.cause))
                continue
            return dict(zip(left, [as_tensor(image).cpu() for image in images], strict=True)), refused
        return {}, refused


def _samples(samples: list[tuple[Any, object]]) -> list[Any]:
    return [image for image, _ in samples]


def open_as_torchvision(path: str) -> PIL.Image.Image | str:
    """A file as ``ImageFolder`` reads it, in RGB; or why Pillow can't."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd metadata; they change no pixel
            return pil_loader(path)
    except (OSError, SyntaxError, ValueError, PIL.Image.DecompressionBombError) as error:
        return f"Pillow can't read it ({error}), so there is nothing to compare with"
