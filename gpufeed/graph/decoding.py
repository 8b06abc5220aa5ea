"""Stage 3 on the host: encoded bytes and windows to pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpufeed.graph.reading import Encoded
from gpufeed.graph.untyped import fn, pipeline_def, types

__all__ = ["DecodeGraph"]


class DecodeGraph:
    """Decodes windows of images to RGB in DALI's threads, several batches ahead.

    DALI's own prefetching is off (depth 1): each `schedule` is one batch, and `result` gives them back in order.

    Args:
        max_batch_size: most images in one batch.
        num_threads: DALI's threads for it.
        apply_exif: whether to apply the EXIF orientation; windows are then those of the oriented image.
    """

    def __init__(self, max_batch_size: int, num_threads: int, apply_exif: bool) -> None:
        self._pipe = _decode_graph(
            apply_exif,
            batch_size=max_batch_size,
            num_threads=num_threads,
            device_id=None,
            prefetch_queue_depth=1,
            exec_dynamic=True,
        )
        self._pipe.build()

    def schedule(self, encoded: Encoded, windows: NDArray[np.int64]) -> None:
        """Start decoding a batch; returns at once.

        Args:
            encoded: B images.
            windows: (B, 4) top, left, height, width in pixels, inside each image.
        """
        self._pipe.feed_input("content", encoded.content)
        self._pipe.feed_input("start", np.ascontiguousarray(windows[:, :2], dtype=np.int32))
        self._pipe.feed_input("shape", np.ascontiguousarray(windows[:, 2:], dtype=np.int32))
        self._pipe.schedule_run()

    def result(self) -> list[NDArray[np.uint8]]:
        """Wait for the oldest batch scheduled: B arrays (H, W, 3) uint8, each owning its share of DALI's memory.

        Raises:
            RuntimeError: DALI's, where an image can't be decoded; batches scheduled later are not affected.
        """
        (images,) = self._pipe.outputs()
        return [np.asarray(images[row]) for row in range(len(images))]


@pipeline_def
def _decode_graph(apply_exif: bool) -> Any:
    content = fn.external_source(name="content", ndim=1, dtype=types.UINT8, no_copy=True)
    start = fn.external_source(name="start", ndim=1, dtype=types.INT32)
    shape = fn.external_source(name="shape", ndim=1, dtype=types.INT32)
    return fn.decoders.image_slice(
        content,
        start,
        shape,
        axes=(0, 1),
        normalized_anchor=False,
        normalized_shape=False,
        output_type=types.RGB,
        adjust_orientation=apply_exif,
        jpeg_fancy_upsampling=True,
        use_fast_idct=False,
    )
