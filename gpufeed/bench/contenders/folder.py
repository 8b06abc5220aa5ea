"""The workload's files as the torchvision dataset that every contender but DALI's own reader shares."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import default_loader

from gpufeed.bench.workload import Workload

__all__ = ["WorkloadFolder"]


class WorkloadFolder(ImageFolder):
    """An ``ImageFolder`` that holds the workload's list instead of everything below its root.

    It overrides the two methods that torchvision documents for this, so nothing is scanned again: in a folder of a
    million files that would cost each contender's process many seconds. Reading a sample is ``ImageFolder``'s own.

    Args:
        workload: its paths and targets become ``samples``.
        transform: what a sample's image goes through; ``None`` where a pipeline says it.
        loader: what reads a path; torchvision's own, which gives a PIL image in RGB, if not given.
    """

    def __init__(
        self, workload: Workload, transform: Callable[[Any], Any] | None, loader: Callable[[str], Any] = default_loader
    ) -> None:
        self._workload = workload
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - torchvision has no types
            workload.root, transform=transform, loader=loader
        )

    def find_classes(self, directory: str | Path) -> tuple[list[str], dict[str, int]]:
        """The workload's classes, whatever is in ``directory``."""
        classes = list(self._workload.classes)
        return classes, {name: target for target, name in enumerate(classes)}

    def make_dataset(self, *_args: object, **_kwargs: object) -> list[tuple[str, int]]:  # type: ignore[override]
        """The workload's samples, whatever is on disk."""
        return list(zip(self._workload.paths, self._workload.targets, strict=True))
