"""The four stages on CUDA: DALI reads on the host and runs its graph on the GPU, torch does the tail there.

Everything of ours runs on one CUDA stream of the feed's, ahead of the caller's. A batch is complete when that stream
has passed it, so that DALI's memory can be given back; what the caller gets lies in torch's memory.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import torch

from gpufeed.feed import Images, Job
from gpufeed.graph.device import DeviceGraph
from gpufeed.options import Decode
from gpufeed.placement import Placement
from gpufeed.recovery import Prepared
from gpufeed.stages import PlanStages
from gpufeed.stats import Timed
from gpufeed.tail import Tail
from gpufeed.tensors import from_dali

__all__ = ["DeviceStages"]


class DeviceStages(PlanStages):
    """Stages on a CUDA device.

    Args:
        placement: of the plan on ``"cuda"``.
        device: the device, with its index.
        num_threads: CPU threads of each of DALI's graphs.
        apply_exif: whether to apply the EXIF orientation.
        decode: where and how to decode.
    """

    dali_stage: ClassVar[str] = "graph"

    def __init__(
        self, placement: Placement, device: torch.device, num_threads: int, apply_exif: bool, decode: Decode
    ) -> None:
        super().__init__(placement, num_threads, apply_exif)
        self._device = device
        self._decode = decode
        self._tail = Tail(placement)
        self._stream = torch.cuda.Stream(device)
        self._graph: DeviceGraph | None = None

    def _make_graph(self, max_batch_size: int) -> None:
        index = self._device.index
        self._graph = DeviceGraph(
            self._placement, max_batch_size, self._num_threads, index, self._apply_exif, self._decode
        )

    def _drop_graph(self) -> None:
        self._graph = None

    def _schedule(self, prepared: Prepared) -> None:
        assert self._graph is not None
        self._graph.schedule(prepared.encoded, prepared.region, prepared.parameters)

    def _result(self) -> Any:
        assert self._graph is not None
        return self._graph.result()

    def _complete(self, job: Job, result: Any, prepared: Prepared) -> None:
        try:
            with (
                Timed(job.spent_s, "tail"),
                torch.cuda.device(self._device),
                torch.cuda.stream(self._stream),
            ):
                images = self._images(result, prepared)
                self._stream.synchronize()  # only now may DALI use the memory of ``result`` again
        except BaseException as error:  # handed to the iterating thread, which raises it
            job.fail(error)
        else:
            job.complete(images)

    def _images(self, result: Any, prepared: Prepared) -> Images:
        """DALI's result as tensors of the caller's own, after the tail; on the current stream."""
        parameters = prepared.parameters
        size_hw = parameters.uniform_size_hw
        plan = self._placement.plan
        if self._placement.in_graph == len(plan.ops):
            if size_hw is not None:
                return from_dali(result.as_tensor()).clone()
            return [from_dali(result[row]).clone() for row in range(len(result))]
        images = [from_dali(result[row]).permute(2, 0, 1) for row in range(len(result))]
        if size_hw is None:
            return [self._tail.run_one(image, parameters, row).clone() for row, image in enumerate(images)]
        output = self._placement.output
        dtype = cast(torch.dtype, getattr(torch, output.dtype))
        one = () if output.tuple_of is None else (output.tuple_of,)
        out = torch.empty((*one, len(images), output.channels, *size_hw), dtype=dtype, device=self._device)
        out = out if output.tuple_of is None else out.transpose(0, 1)
        self._tail.run_into(out, images, parameters, 0)
        return out
