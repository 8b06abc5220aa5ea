"""The structural check: what can be known of a CUDA graph without a device.

The graph is constructed, never built: building needs a driver. A fault is a sentence; no fault, an empty list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpufeed.graph.untyped import backend

__all__ = ["operator_faults", "structural_faults"]


def structural_faults(pipe: Any) -> list[str]:
    """Check a constructed, unbuilt pipeline that is meant for CUDA.

    Args:
        pipe: a ``nvidia.dali.Pipeline``.

    Returns:
        Sentences: an operator without an implementation for its backend, an edge from the GPU to the host, a named
        argument from the GPU, an output on the host.
    """
    pipe._build_graph()
    faults = [fault for _, fault in operator_faults(pipe)]
    faults += [
        f"output {number} ({output.name}) lies on the host, not on the GPU"
        for number, output in enumerate(pipe._graph_outputs)
        if output.device != "gpu"
    ]
    return faults


def operator_faults(pipe: Any) -> Iterator[tuple[Any, str]]:
    """The faults of operators, each with its operator; the graph of ``pipe`` is there."""
    made_on = {
        operator.spec.OutputName(number): operator.spec.OutputDevice(number)
        for operator in pipe._ops
        for number in range(operator.spec.NumOutput())
    }
    for operator in pipe._ops:
        for fault in _faults_of(operator, made_on):
            yield operator, fault


_REGISTERED = {
    "cpu": backend.RegisteredCPUOps,
    "gpu": backend.RegisteredGPUOps,
    "mixed": backend.RegisteredMixedOps,
}


def _faults_of(operator: Any, made_on: dict[str, str]) -> Iterator[str]:
    """Faults of one operator; ``made_on`` is the device of each edge's producer. ``.cpu()`` shows as an edge alone."""
    spec = operator.spec
    name = operator._op.schema.Name()
    device = operator._op.device
    if name not in _REGISTERED[device]():
        yield f"{name} has no implementation for the {device} backend"
    for position in range(spec.NumInput()):
        edge = spec.InputName(position)
        if made_on[edge] != "gpu":
            continue
        if position >= spec.NumRegularInput():
            yield f"{name} takes a named argument from the GPU ({edge}); DALI needs it on the host"
        elif spec.InputDevice(position) != "gpu":
            yield f"{name} takes {edge} from the GPU back to the host"
