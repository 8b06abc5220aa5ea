"""Stage 3 on CUDA: one DALI graph, from encoded bytes to as much of the plan as DALI does: the whole at best."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gpufeed.graph.decoding import decoded_windows, window_inputs
from gpufeed.graph.reading import Encoded
from gpufeed.graph.untyped import ONE_BATCH_A_RUN, fn, pipeline_def, types
from gpufeed.graph.windows import Region
from gpufeed.options import Decode
from gpufeed.parameters import BatchParameters
from gpufeed.placement import WINDOWS, Placement, scaling_ops
from gpufeed.plan import CenterCrop, Flip, Normalize, Op, ResizeOp, ToDtype, ToTensor

__all__ = ["DeviceGraph", "device_decoded", "device_pipeline", "graph_inputs", "plan_inputs", "plan_nodes"]

_FILTERS = {
    "bilinear": types.INTERP_LINEAR,
    "bicubic": types.INTERP_CUBIC,
    "lanczos": types.INTERP_LANCZOS3,
}


class DeviceGraph:
    """Runs the DALI part of a placement on a CUDA device, several batches ahead.

    As in `gpufeed.graph.decoding.DecodeGraph`, each `schedule` is one batch, and `result` gives them back in order.

    Args:
        placement: of the plan on ``"cuda"``.
        max_batch_size: most images in one batch.
        num_threads: DALI's CPU threads.
        device_id: the CUDA device's index.
        apply_exif: whether to apply the EXIF orientation; windows are then those of the oriented image.
        decode: where and how to decode.
    """

    def __init__(
        self,
        placement: Placement,
        max_batch_size: int,
        num_threads: int,
        device_id: int,
        apply_exif: bool,
        decode: Decode,
    ) -> None:
        self._placement = placement
        self._pipe = device_pipeline(placement, max_batch_size, num_threads, device_id, apply_exif, decode)
        self._pipe.build()

    def schedule(self, encoded: Encoded, region: Region, parameters: BatchParameters) -> None:
        """Start a batch; returns at once."""
        feeds = graph_inputs(self._placement, region, parameters)
        self._pipe.feed_input("content", encoded.content)
        for name, value in feeds.items():
            self._pipe.feed_input(name, value)
        self._pipe.schedule_run()

    def result(self) -> Any:
        """Wait for the oldest batch scheduled: DALI's list of tensors on the device.

        They are CHW of the plan's dtype if the whole plan is in the graph, else HWC uint8.

        Raises:
            RuntimeError: DALI's, where an image can't be decoded; batches scheduled later are not affected.
        """
        (images,) = self._pipe.outputs()
        return images


def graph_inputs(placement: Placement, region: Region, parameters: BatchParameters) -> dict[str, NDArray[Any]]:
    """The host arrays that a batch's graph takes, by input name; all but the encoded bytes."""
    feeds: dict[str, NDArray[Any]] = {**window_inputs(region.windows)}
    outer = region.relative_to(region.windows) if _reaches_beyond(placement) else None
    return feeds | plan_inputs(placement, outer, parameters)


def plan_inputs(
    placement: Placement, outer: NDArray[np.int64] | None, parameters: BatchParameters, suffix: str = ""
) -> dict[str, NDArray[Any]]:
    """The host arrays that `plan_nodes` takes.

    Args:
        placement: on CUDA.
        outer: (B, 4) windows, top, left, height, width, of what was decoded; ``None`` where it is what is wanted.
        parameters: the batch's.
        suffix: as in `plan_nodes`.
    """
    feeds: dict[str, NDArray[Any]] = {}
    if outer is not None:
        feeds |= window_inputs(outer, f"_outer{suffix}")
    mirrors = _mirrors(placement)
    for position in range(placement.decoded, placement.in_graph):
        op, value = placement.plan.ops[position], parameters.values[position]
        if isinstance(op, WINDOWS):
            feeds |= window_inputs(cast("NDArray[np.int64]", value), f"_{position}{suffix}")
        elif isinstance(op, ResizeOp):
            feeds[f"size_{position}{suffix}"] = np.ascontiguousarray(value, dtype=np.float32)
        elif isinstance(op, Flip) and position not in mirrors:
            feeds[f"flip_{position}{suffix}"] = np.ascontiguousarray(value, dtype=np.int32)
    if mirrors:
        applied = [cast("NDArray[np.bool_]", parameters.values[position]) for position in mirrors]
        feeds[f"mirror{suffix}"] = np.logical_xor.reduce(applied).astype(np.int32)
    return feeds


def _reaches_beyond(placement: Placement) -> bool:
    """Whether a window that the decoder takes may reach beyond the image."""
    return any(isinstance(op, CenterCrop) for op in placement.plan.ops[: placement.decoded])


def _mirrors(placement: Placement) -> list[int]:
    """The horizontal flips that the scaling kernel does."""
    return [position for position in scaling_ops(placement) if isinstance(placement.plan.ops[position], Flip)]


def device_pipeline(
    placement: Placement, max_batch_size: int, num_threads: int, device_id: int, apply_exif: bool, decode: Decode
) -> Any:
    """The DALI pipeline of a placement on CUDA, not built: constructing it touches no device."""
    return _device_graph(
        placement,
        apply_exif,
        decode,
        batch_size=max_batch_size,
        num_threads=num_threads,
        device_id=device_id,
        **ONE_BATCH_A_RUN,
    )


def _vector(name: str) -> Any:
    return fn.external_source(name=name, ndim=1, dtype=types.INT32)


@pipeline_def
def _device_graph(placement: Placement, apply_exif: bool, decode: Decode) -> Any:
    return plan_nodes(placement, device_decoded(apply_exif, decode), cut=_reaches_beyond(placement))


def plan_nodes(placement: Placement, images: Any, suffix: str = "", *, cut: bool) -> Any:
    """The nodes of what DALI does of a placement on CUDA.

    Args:
        placement: on CUDA.
        images: the node that decodes: HWC uint8 on the device.
        suffix: of the inputs' names, where several plans are in one graph.
        cut: whether a window of what was decoded is taken first.

    Returns:
        HWC while the samples would be PIL images or the tail goes on, else CHW.
    """
    ops = placement.plan.ops
    mirrors = _mirrors(placement)
    if cut:
        images = _window(images, f"outer{suffix}")
    for position in range(placement.decoded, placement.in_graph):
        op = ops[position]
        if isinstance(op, WINDOWS):
            images = _window(images, f"{position}{suffix}")
        elif isinstance(op, ResizeOp):
            size = fn.external_source(name=f"size_{position}{suffix}", ndim=1, dtype=types.FLOAT)
            images = fn.resize(
                images, size=size, antialias=True, interp_type=_FILTERS[op.interpolation], dtype=types.UINT8
            )
        elif isinstance(op, Flip) and position not in mirrors:
            applied = fn.external_source(name=f"flip_{position}{suffix}", ndim=0, dtype=types.INT32)
            images = fn.flip(images, **{op.axis: applied, _OTHER_AXIS[op.axis]: 0})
    if scaling_ops(placement):
        return _scaled(images, ops, f"mirror{suffix}" if mirrors else None)
    if placement.in_graph == len(ops) and placement.output.layout == "CHW":
        return fn.transpose(images, perm=[2, 0, 1])
    return images


_OTHER_AXIS = {"horizontal": "vertical", "vertical": "horizontal"}


def device_decoded(apply_exif: bool, decode: Decode, suffix: str = "") -> Any:
    """RGB windows of the encoded images on the device, HWC uint8; inputs as in `decoded_windows`."""
    placement = decode.resolve("cuda")
    options: dict[str, Any] = {}
    if placement == "mixed" and decode.hw_decoder_load is not None:
        options["hw_decoder_load"] = decode.hw_decoder_load
    images = decoded_windows(placement, apply_exif, suffix, **options)
    return images if placement == "mixed" else images.gpu()


def _window(images: Any, name: str) -> Any:
    """A window, with zeros where it reaches beyond the image."""
    return fn.slice(
        images,
        start=_vector(f"start_{name}"),
        shape=_vector(f"shape_{name}"),
        axes=(0, 1),
        out_of_bounds_policy="pad",
        fill_values=0,
    )


def _scaled(images: Any, ops: tuple[Op, ...], mirror_input: str | None) -> Any:
    """Bytes to normalised float32 and HWC to CHW in one kernel: ``(x - 255 mean) / (255 std)``."""
    assert any(isinstance(op, (ToTensor, ToDtype)) for op in ops)
    normalize = next((op for op in ops if isinstance(op, Normalize)), Normalize((0.0,), (1.0,)))
    mirror = 0 if mirror_input is None else fn.external_source(name=mirror_input, ndim=0, dtype=types.INT32)
    return fn.crop_mirror_normalize(
        images,
        mirror=mirror,
        dtype=types.FLOAT,
        output_layout="CHW",
        mean=[255.0 * value for value in normalize.mean],
        std=[255.0 * value for value in normalize.std],
    )
