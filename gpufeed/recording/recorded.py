"""From a pipeline to a graph of DALI's, and to what the host does before, beside and after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from nvidia.dali.data_node import DataNode

from gpufeed.errors import PipelineError
from gpufeed.graph.check import operator_faults
from gpufeed.graph.untyped import ONE_BATCH_A_RUN, pipeline_of_dali
from gpufeed.options import Decode
from gpufeed.pipelines.definition import Pipeline
from gpufeed.recording.mistakes import at_operator, explained, unkeyed_draws, watched_lines
from gpufeed.recording.nodes import Node, plain
from gpufeed.recording.recording import Recording
from gpufeed.recording.sample import Sample
from gpufeed.recording.structure import leaves_of, map_leaves, shape_of
from gpufeed.recording.values import EncodedValue, FieldValue, HostValue, ImageValue, OthersDraw

__all__ = ["GraphLeaf", "HostLeaf", "Leaf", "NativeDraw", "Recorded", "record"]


@dataclass(frozen=True, slots=True)
class GraphLeaf:
    """An output of the user's graph.

    Attributes:
        position: among the graph's outputs.
        ragged: whether it is always handed over as a list.
    """

    position: int
    ragged: bool = False


@dataclass(frozen=True, slots=True)
class HostLeaf:
    """An output that never enters the graph."""

    value: HostValue
    ragged: bool = False


Leaf = GraphLeaf | HostLeaf


@dataclass(frozen=True, slots=True)
class NativeDraw:
    """An operator of DALI's that draws by itself: by the sample's place in the batch, not by the sample.

    Attributes:
        operator: as people write it, such as ``fn.random.uniform``.
        line: of the user's file.
    """

    operator: str
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """A pipeline function after it was called.

    Attributes:
        pipeline: whose function it was.
        device: where the graph runs.
        graph: DALI's pipeline, constructed and not built; ``None`` where no operator of DALI's is needed.
        inputs: what the graph is fed, by input name: only what it uses.
        device_images: on CUDA, the plans inside the graph, by the suffix of their inputs: only those it uses.
        leaves: what comes out, in the order of ``outputs``.
        outputs: the function's structure, each leaf its number.
        others: the slots that are other samples.
        slots: how many samples go into one.
        next_number: the number of the tail's first draw.
        native_draws: operators that draw by themselves.
    """

    pipeline: Pipeline
    device: Literal["cpu", "cuda"]
    graph: Any
    inputs: Mapping[str, HostValue]
    device_images: Mapping[str, ImageValue]
    leaves: tuple[Leaf, ...]
    outputs: Any
    others: tuple[OthersDraw, ...]
    slots: int
    next_number: int
    native_draws: tuple[NativeDraw, ...]

    @property
    def structure(self) -> str:
        """The outputs' structure in one line, equal for equal ones."""
        return shape_of(self.outputs)

    def values(self) -> tuple[HostValue, ...]:
        """Everything that the host computes, each once."""
        direct = [leaf.value for leaf in self.leaves if isinstance(leaf, HostLeaf)]
        return tuple(dict.fromkeys([*self.inputs.values(), *direct]))


def record(
    pipeline: Pipeline,
    device: Literal["cpu", "cuda"],
    *,
    example: Mapping[str, object] | None = None,
    decode: Decode | None = None,
    apply_exif: bool = False,
    batch_size: int = 1,
    num_threads: int = 1,
    device_id: int | None = None,
) -> Recorded:
    """Call a pipeline's function once and take what it describes; no device is touched, nothing is built.

    Args:
        pipeline: with its parameters.
        device: for which the graph is.
        example: the fields of one of the source's samples, where it has one: the function's are checked against it.
        decode: how images are decoded on CUDA.
        apply_exif: whether to apply the EXIF orientation.
        batch_size: most samples in a batch.
        num_threads: DALI's threads.
        device_id: the CUDA device's index.

    Raises:
        PipelineError: for a mistake of the function's, with its line.
    """
    recording = Recording(device, decode or Decode(), apply_exif, example)
    graph = pipeline_of_dali(
        batch_size=batch_size, num_threads=num_threads, device_id=device_id, seed=0, **ONE_BATCH_A_RUN
    )
    function = pipeline.function
    values = pipeline.all_values()
    with graph:
        returned = _called(function, Sample(recording), values, recording)
        leaves, nodes = _leaves(returned, function, device)
        if nodes:
            graph.set_outputs(*nodes)
    numbers = iter(range(len(leaves)))
    used: set[str] = set()
    native: tuple[NativeDraw, ...] = ()
    if nodes:
        graph._build_graph()
        used = {operator.name for operator in graph._ops}
        _check_inputs(graph, recording, function)
        native = tuple(_native_draws(graph, function))
        if device == "cuda":
            _check_structure(graph, function)
    return Recorded(
        pipeline=pipeline,
        device=device,
        graph=graph if nodes else None,
        inputs={name: value for name, value in recording.inputs.items() if name in used},
        device_images={
            suffix: image for suffix, image in recording.device_images.items() if f"start_outer{suffix}" in used
        },
        leaves=leaves,
        outputs=map_leaves(returned, lambda leaf: next(numbers)),
        others=tuple(recording.others),
        slots=recording.slots,
        next_number=recording.next_number,
        native_draws=native,
    )


def _called(function: Callable[..., Any], sample: Sample, values: Mapping[str, object], recording: Recording) -> Any:
    try:
        with unkeyed_draws(function):
            returned = function(sample, **values)
    except PipelineError as error:
        if error.path:  # a generator outside moved; a second look, line by line, tells where
            raise _with_line(error, function, values, recording) from None
        raise explained(error, function) from None
    except Exception as error:
        raise explained(error, function) from error
    finally:
        recording.open = False
    return returned


def _with_line(
    error: PipelineError, function: Callable[..., Any], values: Mapping[str, object], recording: Recording
) -> PipelineError:
    again = Recording(recording.device, recording.decode, recording.apply_exif, recording.example)
    seen: dict[str, tuple[str, int]] = {}
    with watched_lines(seen):
        function(Sample(again), **values)
    if "line" not in seen:
        return error
    path, line = seen["line"]
    import linecache

    return PipelineError(error.cause, path, line, linecache.getline(path, line).strip())


def _leaves(
    returned: object, function: Callable[..., Any], device: Literal["cpu", "cuda"]
) -> tuple[tuple[Leaf, ...], list[Any]]:
    """What comes out, and the outputs of the graph."""
    code = function.__code__
    found = leaves_of(returned)
    if returned is None or not found:
        what = "None: its return is missing" if returned is None else f"{returned!r}, which holds nothing"
        raise PipelineError(
            f"the pipeline {function.__name__} returned {what}; return an image, or a tuple or dict of outputs",
            code.co_filename,
            code.co_firstlineno,
            f"def {function.__name__}(...)",
        )
    leaves: list[Leaf] = []
    nodes: list[Any] = []
    for leaf in found:
        if not isinstance(leaf, DataNode):
            raise PipelineError(
                f"the pipeline {function.__name__} returned {_kind(leaf)} among its outputs; each must be a handle of "
                "the sample's or a result of an operator, in tuples, lists and dicts",
                code.co_filename,
                code.co_firstlineno,
                f"def {function.__name__}(...)",
            )
        value = leaf.value if isinstance(leaf, Node) else None
        ragged = isinstance(leaf, Node) and leaf.ragged
        on_device = isinstance(value, ImageValue) and value.field is None and device == "cuda"
        if value is None or on_device or isinstance(value, EncodedValue):
            leaves.append(GraphLeaf(len(nodes), ragged))
            node = plain(leaf)
            nodes.append(node.gpu() if device == "cuda" and leaf.device == "cpu" else node)
        else:
            leaves.append(HostLeaf(value, ragged))
    return tuple(leaves), nodes


def _kind(leaf: object) -> str:
    if isinstance(leaf, Sample):
        return "the sample itself"
    return f"a {type(leaf).__module__.partition('.')[0]} {type(leaf).__name__}" if leaf is not None else "None"


# What is known of the graph before it runs ---------------------------------------------------------------------------

_TAKE_BYTES = ("decoders", "Decoder", "ImageDecoder", "PeekImageShape", "Shapes", "Copy", "Audio", "Video")


def _check_inputs(graph: Any, recording: Recording, function: Callable[..., Any]) -> None:
    """Refuse encoded bytes where pixels are wanted, and fields that hold no numbers."""
    for operator in graph._ops:
        spec, schema = operator.spec, operator._op.schema.Name()
        for position in range(spec.NumInput()):
            name = spec.InputName(position).removesuffix("_cpu").removesuffix("_gpu")
            value = recording.inputs.get(name)
            if isinstance(value, EncodedValue) and not any(part in schema for part in _TAKE_BYTES):
                raise at_operator(
                    operator,
                    f"{schema} got sample.encoded, the bytes of a file that isn't decoded yet; use sample.decode(), or "
                    "give the bytes to an operator of fn.decoders first",
                    function,
                )
            if isinstance(value, FieldValue) and recording.example is not None:
                held = recording.example[value.name]
                if not _is_numeric(held):
                    raise at_operator(
                        operator,
                        f"{schema} got sample.{value.name}, which holds {_held(held)}; operators take numbers and "
                        "numeric arrays only; return the field as it is, and it is collated as torch does",
                        function,
                    )


def _is_numeric(value: object) -> bool:
    try:
        array = np.asarray(value)
    except ValueError:  # a list of unequal lists
        return False
    return array.dtype.kind in "biuf"


def _held(value: object) -> str:
    text = repr(value)
    return f"a {type(value).__name__} such as {text if len(text) <= 40 else text[:39] + '…'}"


def _native_draws(graph: Any, function: Callable[..., Any]) -> list[NativeDraw]:
    found: list[NativeDraw] = []
    for operator in graph._ops:
        schema = operator._op.schema
        if schema.HasArgument("_random_state") or schema.HasRandomSeedArg():
            place = at_operator(operator, "", function)
            found.append(NativeDraw(_operator_name(operator), place.line))
    return found


def _operator_name(operator: Any) -> str:
    text = str(operator.spec)
    parts: dict[str, str] = {}
    for key in ("_module", "_display_name"):
        start = text.find(f"    {key}: ")
        parts[key] = text[start + len(key) + 6 :].partition("\n")[0] if start >= 0 else ""
    module = parts["_module"].removeprefix("nvidia.dali.")
    return f"{module}.{parts['_display_name']}" if module else operator._op.schema.Name()


def _check_structure(graph: Any, function: Callable[..., Any]) -> None:
    for operator, fault in operator_faults(graph):
        raise at_operator(operator, f"{fault}: {_way_out(fault)}", function)


def _way_out(fault: str) -> str:
    if "named argument" in fault:
        return "compute it from draws and fields, which are on the host"
    if "no implementation" in fault:
        return "use another operator, or do it in the tail"
    return "leave device= out, or do it in the tail: DALI doesn't go back from the GPU"
