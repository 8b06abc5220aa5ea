"""When a batch of a pipeline's fails: which sample is to blame."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from gpufeed.draws import Draws
from gpufeed.errors import SampleError
from gpufeed.graph.decoding import DecodeGraph
from gpufeed.graph.reading import ReadGraph
from gpufeed.pipeline_stages.host_batch import HostWork, indices_of, prepare_batch
from gpufeed.recovery import cause_of
from gpufeed.sources.base import Source

__all__ = ["find_bad_sample"]


def find_bad_sample(host: HostWork, source: Source, indices: Sequence[int], draws: Draws, apply_exif: bool) -> None:
    """Read and decode a failed batch again on the host, sample by sample, with the same draws.

    Raises:
        SampleError: for the first bad sample, which may be one of the others that a sample draws.
    """
    read, decode = ReadGraph(1, 1, apply_exif), DecodeGraph(1, 1, apply_exif)
    for row, own_index in enumerate(indices):
        own = draws.take([row])
        slots = indices_of(host, [own_index], own, len(source))
        for index in dict.fromkeys(slots[slot][0] for slot in host.read):
            with _blaming(source, index):
                read.read(source.read([index]))
        batch = prepare_batch(host, read, source, [own_index], own)
        for slot, windows in batch.windows.items():
            with _blaming(source, slots[slot][0]):
                decode.schedule(batch.encoded[slot], windows)
                decode.result()


@contextmanager
def _blaming(source: Source, index: int) -> Generator[None]:
    """DALI's errors inside are this sample's."""
    try:
        yield
    except RuntimeError as error:
        raise SampleError(index, source.name_of(index), cause_of(source.read([index]), error)) from None
