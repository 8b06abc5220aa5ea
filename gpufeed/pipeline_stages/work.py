"""What stages are made for: a pipeline, and what it is recorded with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from gpufeed.options import Decode
from gpufeed.pipelines import Pipeline
from gpufeed.recording import Recorded, record

__all__ = ["PipelineWork"]


@dataclass(frozen=True, slots=True)
class PipelineWork:
    """A pipeline on a device, and what it is recorded with. Compared by the pipeline itself.

    Attributes:
        pipeline: with its parameters.
        device: where batches lie.
        example: the fields of one of the source's samples.
        decode: how images are decoded on CUDA.
        apply_exif: whether to apply the EXIF orientation.
    """

    pipeline: Pipeline
    device: torch.device
    example: Any = field(compare=False)
    decode: Decode
    apply_exif: bool

    def record(self, batch_size: int = 1, num_threads: int = 1) -> Recorded:
        """The pipeline's function called once.

        Raises:
            PipelineError: for a mistake of the function's.
        """
        on_cuda = self.device.type == "cuda"
        return record(
            self.pipeline,
            "cuda" if on_cuda else "cpu",
            example=self.example,
            decode=self.decode,
            apply_exif=self.apply_exif,
            batch_size=batch_size,
            num_threads=num_threads,
            device_id=self.device.index if on_cuda else None,
        )
