"""What is loaded in a measurement: data and a transform or pipeline, as a contender's process finds them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpufeed.bench.images import ImageFolderFiles, check_images, chosen_indices, list_image_folder
from gpufeed.bench.process import ContenderProcess
from gpufeed.bench.protocol import Probe, Probed, Seen
from gpufeed.bench.transforms import BUILT_IN
from gpufeed.bench.workload import Workload
from gpufeed.errors import ArgumentError

__all__ = ["Asked", "Subject"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be loaded, as the user asked for it.

    Attributes:
        files: the images; ``None``: they are listed at ``root``, unless a pipeline opens that by its own source.
        data: what they are, in words.
        transform: its reference, or a pipeline's, see :func:`gpufeed.bench.transforms.subject_of`.
        batch_size: samples per batch.
        device: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
        parameters: of a pipeline, each ``NAME=VALUE``.
        root: the data that the user gave; ``None`` where they gave none.
        example: for a pipeline with its own source where they gave none: makes example data, and returns its root and
            what it is in words.
        seed: of the choice of samples and the orders.
    """

    files: ImageFolderFiles | None
    data: str
    transform: str
    batch_size: int
    device: str = "auto"
    parameters: tuple[str, ...] = ()
    root: str | None = None
    example: Callable[[], tuple[str, str]] | None = None
    seed: int = 0


class Subject:
    """Finds out what was asked for, and cuts it into workloads.

    Attributes:
        data: what the samples are, in words.
        seen: what the reference names; before `open` an ordinary transform.
        probed: what one image showed; before `open` nothing is known.
        read_s: to bring a file into the page cache; 0 where all are there. [Unit: second]
    """

    def __init__(self, asked: Asked) -> None:
        self.data = asked.data
        self.seen = Seen()
        self.probed = Probed(device="cpu", device_name="", dtype="float32", transform_text="", cuda_version="")
        self.read_s = 0.0
        self._asked = asked
        self._files = asked.files
        self._read: set[str] = set()

    @property
    def has_files(self) -> bool:
        """Whether it is known already what there is."""
        return self._files is not None

    @property
    def files(self) -> ImageFolderFiles:
        """What there is.

        Raises:
            ArgumentError: nothing was given, or `open` hasn't found it yet.
        """
        if self._files is None:
            raise ArgumentError("there is nothing to measure on; give DATA, an image folder")
        return self._files

    @property
    def num_read(self) -> int:
        """Files that were read, and are in the page cache."""
        return len(self._read)

    def open(self, process: ContenderProcess, say: Callable[[str], None], num_batches: int) -> None:
        """Let a process load the transform or pipeline and try it on one image, or open the pipeline's own source.

        Args:
            process: has imported its libraries.
            say: is told what is being done.
            num_batches: whose images are read before.

        Raises:
            ArgumentError: the transform, the pipeline, its parameters, the data, the device or an image is wrong.
        """
        asked = self._asked
        if asked.transform not in BUILT_IN or asked.parameters:
            say(f"loading {asked.transform}")
            self.seen = process.look(asked.transform, asked.parameters)
        root = self._own_root(say)
        if root is None:
            self._files = self._files or list_image_folder(Path(asked.root or ""))
            self.read_first(num_batches)
        first = "" if root is not None else self.files.paths[0]
        self.probed = process.probe(Probe(asked.transform, first, asked.device, asked.parameters, root))
        if root is not None:
            names = self.probed.names
            self._files = ImageFolderFiles(root, (), names, ())
            # What isn't a file can't be read ahead here.
            self._read = set() if os.path.isfile(names[0]) else set(names)
            self.read_first(num_batches)

    def _own_root(self, say: Callable[[str], None]) -> str | None:
        """What the pipeline's own source opens; ``None`` where it has none."""
        asked = self._asked
        if not self.seen.opens_data:
            return None
        if asked.root is not None:
            return asked.root
        if asked.example is None:
            raise ArgumentError(f"{asked.transform} opens its data by a source of its own; give DATA, its path")
        say("making example data")
        root, self.data = asked.example()
        return root

    def _indices(self, num_samples: int) -> list[int]:
        return chosen_indices(len(self.files), num_samples, self._asked.seed)

    def read_first(self, num_batches: int) -> None:
        """See `read`, of the first batches."""
        self.read(tuple(self.files.paths[index] for index in self._indices(num_batches * self._asked.batch_size)))

    def read(self, paths: tuple[str, ...]) -> None:
        """Read files that weren't read yet, so that none is broken and none comes from a cold disk.

        Raises:
            ArgumentError: naming one that can't be decoded.
        """
        new = set(paths) - self._read
        if not new:
            return
        started_s = time.monotonic()
        check_images(path for path in paths if path in new)
        self._read |= new
        if len(self._read) < len(self.files):
            self.read_s = (time.monotonic() - started_s) / len(new)

    def is_read(self, paths: tuple[str, ...]) -> bool:
        """Whether all of them were read."""
        return self._read.issuperset(paths)

    def workload(self, num_samples: int, num_threads: int) -> Workload:
        """So many samples, always the same ones, for so many threads."""
        asked, files, seen = self._asked, self.files, self.seen
        indices = self._indices(num_samples)
        return Workload(
            root=files.root,
            classes=files.classes,
            paths=tuple(files.paths[index] for index in indices),
            targets=() if seen.opens_data else tuple(files.targets[index] for index in indices),
            transform=asked.transform,
            batch_size=asked.batch_size,
            num_threads=num_threads,
            device=self.probed.device,
            dtype=self.probed.dtype,
            seed=asked.seed,
            parameters=asked.parameters,
            is_pipeline=seen.is_pipeline,
            indices=tuple(indices) if seen.opens_data else None,
        )
