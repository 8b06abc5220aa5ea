"""Running one op of ours as the loader would run it on a device."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from gpufeed.inspect.verify.ops import OpAt, Runner
from gpufeed.parameters import BatchParameters, OpParameters
from gpufeed.placement import Placement, place
from gpufeed.plan import Plan
from gpufeed.tail.program import run_op

__all__ = ["runner_for"]


def runner_for(placement: Placement, device: torch.device) -> Runner:
    """What runs an op where the loader runs it: the tail's kernel, or DALI's graph for what that does on CUDA."""
    if device.type == "cpu":
        return _on_host
    return _OnDevice(placement, device)


def _on_host(at: OpAt, images: torch.Tensor, value: OpParameters) -> torch.Tensor:
    return run_op(images, at.op, at.spec, value)


class _OnDevice:
    """Ops on CUDA: one at a time, each in a DALI graph of its own where DALI does it.

    An op of DALI's gets its input as a PNG, which decodes to the same bytes. Where the graph scales and normalises in
    one kernel, the conversion alone goes through it; ``Normalize`` behind it, whose input isn't bytes, through torch.
    """

    def __init__(self, placement: Placement, device: torch.device) -> None:
        self._placement = placement
        self._device = device
        self._graphs: dict[str, _OneOpGraph] = {}

    def __call__(self, at: OpAt, images: torch.Tensor, value: OpParameters) -> torch.Tensor:
        if self._is_in_graph(at) and images.dtype == torch.uint8 and images.shape[:2] == (1, 3):
            graph = self._graphs.get(at.place)
            if graph is None:
                graph = self._graphs[at.place] = _OneOpGraph(at, self._device)
            if graph.takes_it:
                return graph(images, value)
        return run_op(images.to(self._device), at.op, at.spec, value).cpu()

    def _is_in_graph(self, at: OpAt) -> bool:
        return at.place.isdecimal() and int(at.place) < self._placement.in_graph


class _OneOpGraph:
    """The DALI graph of a plan of one op."""

    def __init__(self, at: OpAt, device: torch.device) -> None:
        from gpufeed.graph.device import DeviceGraph
        from gpufeed.graph.reading import ReadGraph
        from gpufeed.options import Decode

        self._placement = place(Plan((at.op,), at.spec), "cuda")
        self.takes_it = self._placement.in_graph == 1
        self._device = device
        if self.takes_it:
            self._read = ReadGraph(1, 1, False)
            self._graph = DeviceGraph(self._placement, 1, 1, device.index or 0, False, Decode())

    def __call__(self, images: torch.Tensor, value: OpParameters) -> torch.Tensor:
        from gpufeed.graph.windows import compose_windows
        from gpufeed.sources.base import Paths
        from gpufeed.tensors import from_dali

        with tempfile.TemporaryDirectory(prefix="gpufeed-verify-") as folder:
            file = Path(folder) / "input.png"
            pixels = images[0].permute(1, 2, 0).contiguous().numpy()
            Image.fromarray(pixels).save(file, compress_level=1)
            encoded = self._read.read(Paths.of([file]))
        sizes = encoded.sizes_hw
        windows = [np.asarray(value)] if self._placement.decoded else []
        region = compose_windows(sizes, windows)
        self._graph.schedule(encoded, region, BatchParameters((value,), (sizes, sizes), {}))
        return from_dali(self._graph.result()[0]).clone().cpu()[None]
