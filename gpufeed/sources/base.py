"""The contract of a source: what turns sample indices into encoded bytes, targets and names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Paths", "Source"]


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """A batch of file names for DALI to read.

    Attributes:
        matrix: (B, L) uint8, each row a file name as the file system encodes it, padded with zeros at the end.
    """

    matrix: NDArray[np.uint8]

    @classmethod
    def of(cls, names: Sequence[str | os.PathLike[str]]) -> Paths:
        """Pack file names: one matrix is twenty times cheaper to hand to DALI than a list of arrays.

        Raises:
            ValueError: for a name with a zero in it, as ``open`` does; DALI would stop reading the name there.
        """
        if not names:
            return cls(np.zeros((0, 1), dtype=np.uint8))
        plain = [os.fspath(name) for name in names]
        encoded = os.fsencode("\0".join(plain)).split(b"\0")  # all at once: five times quicker than one by one
        if len(encoded) != len(plain):
            raise ValueError(f"embedded null byte in {next(name for name in plain if chr(0) in name)!r}")
        # DALI takes what begins with file:// as an address; Python, and so torchvision, as a relative path.
        encoded = [b"./" + name if name.startswith(b"file:") else name for name in encoded]
        width = max(map(len, encoded)) + 1
        return cls(np.array(encoded, dtype=f"S{width}").view(np.uint8).reshape(len(encoded), width))

    def names(self) -> list[str]:
        """The file names as Python opens them."""
        return [os.fsdecode(row.tobytes().rstrip(b"\0")) for row in self.matrix]


class Source(Protocol):
    """Where samples come from. Implementations are picklable and may be read from several threads at once.

    Indices are those of the loader's dataset, from 0 to ``len(source) - 1``.
    """

    def __len__(self) -> int:
        """Number of samples."""
        ...

    def read(self, indices: Sequence[int]) -> Paths:
        """What DALI needs to get the samples' encoded bytes."""
        ...

    def fields(self, indices: Sequence[int]) -> Mapping[str, Sequence[object]]:
        """The samples' other fields on the host, in the order of ``indices``; always with ``"target"``."""
        ...

    def name_of(self, index: int) -> str:
        """What names the sample to a person, for files the path."""
        ...

    def fingerprint(self) -> str:
        """A hexadecimal SHA-256 that is equal for equal samples in equal order, in every process."""
        ...
