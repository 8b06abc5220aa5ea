"""What is gathered while a pipeline function is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gpufeed.errors import PipelineError
from gpufeed.graph.device import device_decoded, plan_nodes
from gpufeed.graph.untyped import fn, types
from gpufeed.options import Decode
from gpufeed.parameters import op_count
from gpufeed.placement import place
from gpufeed.plan import Op
from gpufeed.recording.nodes import Node
from gpufeed.recording.values import (
    BoxesValue,
    DrawValue,
    EncodedValue,
    FieldValue,
    HostValue,
    ImageValue,
    IndexValue,
    OthersDraw,
    SizeValue,
    all_whole,
)

__all__ = ["Recording"]


@dataclass(slots=True, eq=False)
class Recording:
    """The state of one recording; alive only while the pipeline function runs.

    Attributes:
        device: where the graph will run.
        decode: how images are decoded on CUDA.
        apply_exif: whether to apply the EXIF orientation.
        example: the fields of one sample of the source; ``None`` where it has no sample.
        inputs: input name to what is fed there.
        device_images: for CUDA, the suffix of a plan's inputs in the graph to the image.
        others: which slots are other samples, and what draws them.
        slots: how many there are, the sample itself included.
        next_number: of the next draw or op.
        open: whether the function is still running.
    """

    device: Literal["cpu", "cuda"]
    decode: Decode
    apply_exif: bool
    example: Mapping[str, object] | None
    inputs: dict[str, HostValue] = field(default_factory=dict[str, HostValue])
    device_images: dict[str, ImageValue] = field(default_factory=dict[str, ImageValue])
    others: list[OthersDraw] = field(default_factory=list[OthersDraw])
    slots: int = 1
    next_number: int = 0
    open: bool = True
    _decoded: dict[int, Any] = field(default_factory=dict[int, Any])

    def check_open(self, what: str) -> None:
        """Refuse what is asked for after the function has returned."""
        if not self.open:
            raise PipelineError(
                f"{what} was asked for after the pipeline function had returned: a sample describes the graph only "
                "while the function runs; draw in the function, or, in a tail, from its keyword argument samples"
            )

    def take_number(self) -> int:
        """The number of a draw."""
        self.next_number += 1
        return self.next_number - 1

    def take_numbers(self, ops: tuple[Op, ...]) -> tuple[int, ...]:
        """The number of each op; those inside an op come right behind its own."""
        numbers: list[int] = []
        for op in ops:
            numbers.append(self.next_number)
            self.next_number += op_count(op)
        return tuple(numbers)

    def node(self, value: HostValue) -> Node:
        """The handle of a value."""
        if isinstance(value, ImageValue):
            return self._device_image(value) if self.device == "cuda" and value.field is None else self._image(value)
        return self._input(_name(value), value, **_kind(value))

    def _input(self, name: str, value: HostValue, **kind: Any) -> Node:
        unique = f"{name}_{len(self.inputs)}"
        self.inputs[unique] = value
        return Node(fn.external_source(name=unique, **kind), value, self)

    def _image(self, value: ImageValue) -> Node:
        spec = value.plan.output
        if value.field is not None:
            return self._input("mask", value, layout="HW", ndim=2, dtype=types.UINT8, no_copy=True)
        dtype = types.UINT8 if spec.dtype == "uint8" else types.FLOAT
        return self._input("image", value, layout=spec.layout, ndim=3, dtype=dtype, no_copy=True)

    def _device_image(self, value: ImageValue) -> Node:
        """The nodes of the image's whole plan; DALI drops those that nothing uses."""
        decoded = self._decoded.get(value.slot)
        if decoded is None:
            decoded = device_decoded(self.apply_exif, self.decode, f"_slot{value.slot}")
            self._decoded[value.slot] = decoded
        suffix = f"_image{len(self.device_images)}"
        self.device_images[suffix] = value
        return Node(plan_nodes(place(value.plan, "cuda"), decoded, suffix, cut=True), value, self)


def _name(value: HostValue) -> str:
    match value:
        case DrawValue():
            return value.kind
        case FieldValue():
            return value.name
        case _:
            return type(value).__name__.removesuffix("Value").lower()


def _kind(value: HostValue) -> dict[str, Any]:
    """What is known of an input before there is any."""
    match value:
        case IndexValue():
            return {"ndim": 0, "dtype": types.INT64}
        case SizeValue():
            return {"ndim": 1, "dtype": types.INT64}
        case EncodedValue():
            return {"ndim": 1, "dtype": types.UINT8}
        case DrawValue(kind, _, choices, shape, _):
            whole = kind in ("coin", "integers", "permutation") or (kind == "choice" and all_whole(choices))
            ndim = 1 if kind == "permutation" else len(shape)
            return {"ndim": ndim, "dtype": types.INT32 if whole else types.FLOAT}
        case BoxesValue(companion=None):
            return {"ndim": 2, "dtype": types.FLOAT}
        case _:
            return {}
