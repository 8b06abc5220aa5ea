"""Stage 3 on the host: encoded bytes and windows to pixels."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gpufeed.graph.reading import Encoded
from gpufeed.graph.untyped import ONE_BATCH_A_RUN, fn, pipeline_def, types

__all__ = ["DecodeGraph", "DecodedWindows", "decoded_windows", "window_inputs"]


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
            apply_exif, batch_size=max_batch_size, num_threads=num_threads, device_id=None, **ONE_BATCH_A_RUN
        )
        self._pipe.build()

    def schedule(self, encoded: Encoded, windows: NDArray[np.int64]) -> None:
        """Start decoding a batch; returns at once.

        Args:
            encoded: B images.
            windows: (B, 4) top, left, height, width in pixels, inside each image.
        """
        self._pipe.feed_input("content", encoded.content)
        for name, values in window_inputs(windows).items():
            self._pipe.feed_input(name, values)
        self._pipe.schedule_run()

    def result(self) -> DecodedWindows:
        """Wait for the oldest batch scheduled.

        Raises:
            RuntimeError: DALI's, where an image can't be decoded; batches scheduled later are not affected.
        """
        (images,) = self._pipe.outputs()
        return DecodedWindows(images)


class DecodedWindows:
    """A batch of decoded windows; it holds DALI's memory as long as it, or any array of it, lives.

    Args:
        tensors: DALI's list of B tensors (H, W, 3) uint8 on the host.
    """

    def __init__(self, tensors: Any) -> None:
        self._tensors = tensors

    def __len__(self) -> int:
        return len(self._tensors)

    def pixels(self, rows: range) -> list[NDArray[np.uint8]]:
        """Some of the windows, each (H, W, 3) uint8 in DALI's memory; may be called from several threads at once."""
        return [np.asarray(self._tensors[row]) for row in rows]


@pipeline_def
def _decode_graph(apply_exif: bool) -> Any:
    return decoded_windows("cpu", apply_exif)


def decoded_windows(device: Literal["cpu", "mixed"], apply_exif: bool, suffix: str = "", **options: Any) -> Any:
    """The node that decodes: RGB windows of encoded images, HWC uint8, where ``device`` says.

    Its inputs are ``content``, the encoded bytes, and those of `window_inputs`, all with ``suffix``.
    """
    return fn.decoders.image_slice(
        fn.external_source(name=f"content{suffix}", ndim=1, dtype=types.UINT8, no_copy=True),
        fn.external_source(name=f"start{suffix}", ndim=1, dtype=types.INT32),
        fn.external_source(name=f"shape{suffix}", ndim=1, dtype=types.INT32),
        device=device,
        axes=(0, 1),
        normalized_anchor=False,
        normalized_shape=False,
        output_type=types.RGB,
        adjust_orientation=apply_exif,
        jpeg_fancy_upsampling=True,  # as libjpeg-turbo's default, and so Pillow's
        use_fast_idct=False,
        **options,
    )


def window_inputs(windows: NDArray[np.int64], suffix: str = "") -> dict[str, NDArray[np.int32]]:
    """Windows, (B, 4) top, left, height, width, as DALI's slicing operators take them: ``start`` and ``shape``."""
    return {
        f"start{suffix}": np.ascontiguousarray(windows[:, :2], dtype=np.int32),
        f"shape{suffix}": np.ascontiguousarray(windows[:, 2:], dtype=np.int32),
    }
