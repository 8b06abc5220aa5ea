"""What is known of a user's graph before it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from gpufeed.graph.check import operator_faults
from gpufeed.recording.mistakes import at_function, at_operator, made_by, operator_name
from gpufeed.recording.recording import Recording
from gpufeed.recording.user_lines import is_users
from gpufeed.recording.values import EncodedValue, FieldValue

__all__ = [
    "FOREIGN",
    "NativeDraw",
    "build_graph",
    "check_inputs",
    "check_structure",
    "native_draws",
    "short",
]


@dataclass(frozen=True, slots=True)
class NativeDraw:
    """An operator of DALI's that draws by itself: by the sample's place in the batch, not by the sample.

    Attributes:
        operator: as people write it, such as ``fn.random.uniform``.
        path: the user's file.
        line: its number there, from 1.
        code: its text.
    """

    operator: str
    path: str
    line: int
    code: str


_TAKE_BYTES = ("decoders", "Decoder", "ImageDecoder", "PeekImageShape", "Shapes", "Copy", "Audio", "Video")


def build_graph(graph: Any, function: Callable[..., Any]) -> None:
    """Put the graph of the outputs together; refuse operators that don't belong in it."""
    try:
        graph._build_graph()
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise at_function(f"DALI can't make a graph of this: {reason}; {FOREIGN}", function) from None
    own = function.__code__.co_filename
    made = {output.name: operator for operator in graph._ops for output in operator.outputs}
    for operator in graph._ops:
        inputs = [made[edge.name] for edge in operator.inputs if edge.name in made]
        if operator.pipeline is graph and any(one.pipeline is not graph for one in inputs):
            raise at_operator(
                operator, f"{operator_name(operator)} got a handle of an earlier call: {FOREIGN}", function
            )
        schema, places = operator._op.schema.Name(), made_by(operator)
        own_input = schema == "ExternalSource" and bool(places) and is_users(places[-1][0], own)
        if own_input or schema.startswith("readers__"):
            raise at_operator(operator, f"{operator_name(operator)} {_READS}", function)


FOREIGN = (
    "that belongs to another graph; keep no handles outside of the function, and ask the sample for them at every call"
)
"""What is wrong with a handle that was kept."""

_READS = (
    "reads data by itself, in an order of its own; samples come from the loader's source: sample.decode(), "
    "sample.encoded, or a field of the source, such as sample.target"
)


def check_inputs(graph: Any, recording: Recording, function: Callable[..., Any]) -> None:
    """Refuse encoded bytes where pixels are wanted, and fields that hold no numbers."""
    for operator in graph._ops:
        spec, schema = operator.spec, operator._op.schema.Name()
        for position in range(spec.NumInput()):
            name = spec.InputName(position).removesuffix("_cpu").removesuffix("_gpu")
            value = recording.inputs.get(name)
            if isinstance(value, EncodedValue) and not any(part in schema for part in _TAKE_BYTES):
                raise at_operator(
                    operator,
                    f"{operator_name(operator)} got sample.encoded, the bytes of a file that isn't decoded yet; use "
                    "sample.decode(), or give the bytes to an operator of fn.decoders first",
                    function,
                )
            if isinstance(value, FieldValue) and recording.example is not None:
                held = recording.example[value.name]
                if not _is_numeric(held):
                    raise at_operator(
                        operator,
                        f"{operator_name(operator)} got sample.{value.name}, which holds a {type(held).__name__} such "
                        f"as {short(held)}; operators take numbers and numeric arrays only; return the field as it "
                        "is, and it is collated as torch does",
                        function,
                    )


def short(value: object) -> str:
    """A value as people write it, at most 40 characters of it."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _is_numeric(value: object) -> bool:
    try:
        array = np.asarray(cast(Any, value))
    except ValueError:  # a list of unequal lists
        return False
    return array.dtype.kind in "biuf"


def native_draws(graph: Any, function: Callable[..., Any]) -> tuple[NativeDraw, ...]:
    """The operators that draw by themselves."""
    found: list[NativeDraw] = []
    for operator in graph._ops:
        schema = operator._op.schema
        if schema.HasArgument("_random_state") or schema.HasRandomSeedArg():
            place = at_operator(operator, "", function)
            found.append(NativeDraw(operator_name(operator), place.path, place.line, place.code))
    return tuple(found)


def check_structure(graph: Any, function: Callable[..., Any]) -> None:
    """Refuse what can't run on a GPU."""
    for operator, fault in operator_faults(graph):
        raise at_operator(operator, f"{operator_name(operator)} {_way_out(fault)}", function)


def _way_out(fault: str) -> str:
    if "named argument" in fault:
        return (
            "takes a named argument from the host, and got one on the GPU; compute it from draws and fields, which are "
            "on the host"
        )
    if "no implementation" in fault:
        return "has no GPU version; use another operator, or do it in the tail"
    return (
        "takes data from the GPU back to the host, and DALI doesn't go back; leave device= and .cpu() out, or do it in "
        "the tail"
    )
