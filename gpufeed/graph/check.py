"""The structural check: what can be known of a CUDA graph without a device.

The graph is constructed, never built: building needs a driver. A fault is a sentence; no fault, an empty list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nvidia.dali import backend

__all__ = ["structural_faults"]


def structural_faults(pipe: Any) -> list[str]:
    """Check a constructed, unbuilt pipeline that is meant for CUDA.

    Args:
        pipe: a ``nvidia.dali.Pipeline``.

    Returns:
        Sentences: an operator without an implementation for its backend, an argument that its schema doesn't have, an edge
        from the GPU to the host, a named argument from the GPU, an output on the host.
    """
    pipe._build_graph()
    faults = [fault for operator in pipe._ops for fault in _operator_faults(operator)]
    faults += [
        f"output {number} ({output.name}) lies on the host, not on the GPU"
        for number, output in enumerate(pipe._graph_outputs)
        if output.device != "gpu"
    ]
    return faults


def _operator_faults(operator: Any) -> Iterator[str]:
    spec = operator.spec
    schema = operator._op.schema
    name = schema.Name()
    device = operator._op.device
    registered = {
        "cpu": backend.RegisteredCPUOps,
        "gpu": backend.RegisteredGPUOps,
        "mixed": backend.RegisteredMixedOps,
    }[device]()
    if name not in registered:
        yield f"{name} has no implementation for the {device} backend"
    regular = spec.NumRegularInput()
    for position in range(spec.NumInput()):
        source = spec.InputDevice(position)
        if position >= regular and source == "gpu":
            yield f"{name} takes a named argument from the GPU ({spec.InputName(position)}); DALI needs it on the host"
        elif position < regular and source == "gpu" and device != "gpu":
            yield f"{name} runs on the host and takes {spec.InputName(position)} from the GPU"
