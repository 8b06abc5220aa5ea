"""When a batch fails: find the sample that is to blame, and say why in words.

DALI names the file only where it is missing or empty. The batch is therefore read again, sample by sample, in a graph
of its own, so that the batches in flight are not disturbed. Draws are keyed by sample, so the same comes out again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from gpufeed.draws import Draws
from gpufeed.errors import SampleError
from gpufeed.graph.decoding import DecodeGraph
from gpufeed.graph.formats import describe_format, refused_formats
from gpufeed.graph.reading import HEADER_BYTES, Encoded, ReadGraph
from gpufeed.graph.windows import Region, compose_windows
from gpufeed.parameters import BatchParameters, draw_parameters
from gpufeed.placement import Placement
from gpufeed.sources.base import Paths, Source

__all__ = ["Prepared", "cause_of", "drawn", "find_bad_sample", "prepare"]


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A batch that is read and drawn.

    Attributes:
        encoded: the bytes.
        parameters: of the whole plan.
        region: what to decode.
    """

    encoded: Encoded
    parameters: BatchParameters
    region: Region


def prepare(graph: ReadGraph, source: Source, indices: Sequence[int], draws: Draws, placement: Placement) -> Prepared:
    """Stages 1 and 2 of a batch.

    Raises:
        SampleError: for the first sample that gpufeed refuses by its format or size.
        RuntimeError: DALI's, where a file can't be read; `find_bad_sample` finds out which.
    """
    return drawn(graph.read(source.read(indices)), source, indices, draws, placement)


def drawn(encoded: Encoded, source: Source, indices: Sequence[int], draws: Draws, placement: Placement) -> Prepared:
    """Stage 2 of a batch that is read.

    Raises:
        SampleError: for the first sample that gpufeed refuses by its format or size.
    """
    parameters = draw_parameters(placement.plan, encoded.sizes_hw, draws)
    refused = {**parameters.refused, **refused_formats(encoded)}
    if refused:
        row = min(refused)
        raise SampleError(indices[row], source.name_of(indices[row]), refused[row])
    windows = [cast("NDArray[np.int64]", value) for value in parameters.values[: placement.decoded]]
    return Prepared(encoded, parameters, compose_windows(encoded.sizes_hw, windows))


def find_bad_sample(
    source: Source, indices: Sequence[int], draws: Draws, placement: Placement, apply_exif: bool
) -> None:
    """Read and decode a failed batch again on the host, sample by sample, with the same draws.

    Returns without an error if all samples are fine this time: a network file system may have failed for a moment.

    Raises:
        SampleError: for the first bad sample of the batch.
    """
    read, decode = ReadGraph(1, 1, apply_exif), DecodeGraph(1, 1, apply_exif)
    for row, index in enumerate(indices):
        try:
            prepared = prepare(read, source, [index], draws.take([row]), placement)
            decode.schedule(prepared.encoded, prepared.region.windows)
            decode.result()
        except SampleError:
            raise
        except RuntimeError as error:
            # The cause is in words; DALI's own message, three times as long, would bury it in a traceback.
            raise SampleError(index, source.name_of(index), cause_of(source.read([index]), error)) from None


def cause_of(paths: Paths, error: RuntimeError) -> str:
    """Why DALI could not read or decode one file, in words."""
    name = os.fsdecode(paths.matrix[0].tobytes().rstrip(b"\0"))
    try:
        with open(name, "rb") as file:
            header = file.read(HEADER_BYTES)
    except OSError as os_error:
        return f"{os_error.strerror or os_error}; restore the file, or take it out of the dataset"
    if not header:
        return "the file is empty; replace it, or take it out of the dataset"
    kind = describe_format(header)
    if kind is None:
        return (
            f"it is no image that DALI knows: it begins with {header[:12]!r}; replace it, or take it out of the dataset"
        )
    if kind in ("GIF", "AVIF", "HEIF or a video"):
        return f"it is {kind}, whatever its name says, and DALI doesn't decode that; convert it to JPEG, PNG or WebP"
    reason = _pillow_reason(name)
    if reason is None:
        return f"DALI can't decode this {kind} ({_dali_reason(error)}), and Pillow can; save it anew with Pillow"
    return (
        f"it is damaged or cut short: DALI can't decode this {kind}, and Pillow says: {reason}; "
        "replace it, or take it out of the dataset"
    )


def _pillow_reason(name: str) -> str | None:
    """Why Pillow can't decode a file; its words say more than DALI's. ``None`` where it can."""
    try:
        with Image.open(name) as image:
            image.load()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        return str(error)
    return None


def _dali_reason(error: RuntimeError) -> str:
    """The line of DALI's message that says what failed."""
    lines = [line.strip() for line in str(error).splitlines()]
    after = lines[lines.index("encountered:") + 1 :] if "encountered:" in lines else lines
    return next((line for line in after if line and not line.startswith("C++")), type(error).__name__).rstrip(" :.")
