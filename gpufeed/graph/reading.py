"""Stage 1, read: file names to encoded bytes on the host, with what their headers say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpufeed.graph.untyped import ONE_BATCH_A_RUN, fn, pipeline_def, types
from gpufeed.sources.base import Paths

__all__ = ["HEADER_BYTES", "Encoded", "ReadGraph"]

HEADER_BYTES = 32
"""As many leading bytes of each file as tell its format and bit depth."""


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A batch of encoded images on the host.

    Attributes:
        content: DALI's list of B one-dimensional uint8 tensors; it owns the bytes.
        header: (B, HEADER_BYTES) uint8, padded with zeros.
        sizes_hw: (B, 2) int64 height and width as they will be decoded, orientation applied if asked for.
    """

    content: Any
    header: NDArray[np.uint8]
    sizes_hw: NDArray[np.int64]


class ReadGraph:
    """Reads batches of files in DALI's threads.

    Args:
        max_batch_size: most files in one batch.
        num_threads: DALI's threads for it.
        apply_exif: whether sizes are those after the EXIF orientation.
    """

    def __init__(self, max_batch_size: int, num_threads: int, apply_exif: bool) -> None:
        self._pipe = _read_graph(
            apply_exif, batch_size=max_batch_size, num_threads=num_threads, device_id=None, **ONE_BATCH_A_RUN
        )
        self._pipe.build()

    def read(self, paths: Paths) -> Encoded:
        """Read a batch; waits for it.

        Raises:
            RuntimeError: DALI's, where a file is missing, empty or no image; the graph stays usable.
        """
        self._pipe.feed_input("paths", paths.matrix)
        self._pipe.schedule_run()
        content, header, shapes = self._pipe.outputs()
        sizes = np.array(shapes.as_array()[:, :2], dtype=np.int64)
        return Encoded(content, np.array(header.as_array()), sizes)


@pipeline_def
def _read_graph(apply_exif: bool) -> tuple[Any, Any, Any]:
    paths = fn.external_source(name="paths", ndim=1, dtype=types.UINT8, batch=True)
    # Reading into memory is as fast as mapping, and a file that shrinks meanwhile is an error, not a SIGBUS.
    content = fn.io.file.read(paths, dont_use_mmap=True)
    header = fn.slice(content, 0, HEADER_BYTES, axes=[0], out_of_bounds_policy="pad", fill_values=0)
    return content, header, fn.peek_image_shape(content, adjust_orientation=apply_exif)
