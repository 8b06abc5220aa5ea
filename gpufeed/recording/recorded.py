"""From a pipeline to a graph of DALI's, and to what the host does before, beside and after it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from nvidia.dali.data_node import DataNode

from gpufeed.errors import PipelineError
from gpufeed.graph.untyped import ONE_BATCH_A_RUN, pipeline_of_dali
from gpufeed.options import Decode
from gpufeed.pipelines.definition import Pipeline
from gpufeed.recording.graph_checks import (
    FOREIGN,
    NativeDraw,
    build_graph,
    check_inputs,
    check_structure,
    native_draws,
    short,
)
from gpufeed.recording.mistakes import at_function, at_operator, explained, operator_name
from gpufeed.recording.nodes import Node, plain
from gpufeed.recording.recording import Recording
from gpufeed.recording.sample import Sample
from gpufeed.recording.structure import leaves_of, map_leaves, shape_of
from gpufeed.recording.unkeyed import generator_states, no_modules, watched_lines
from gpufeed.recording.user_lines import code_at
from gpufeed.recording.values import EncodedValue, HostValue, ImageValue, OthersDraw

__all__ = ["GraphLeaf", "HostLeaf", "Leaf", "Recorded", "check_same", "record"]


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

    @property
    def operators(self) -> tuple[str, ...]:
        """DALI's description of each operator of the graph, equal for equal ones."""
        numbers: dict[str, int] = {}

        def numbered(found: re.Match[str]) -> str:
            return f"{found[1]}{numbers.setdefault(found[0], len(numbers))}"

        specs = [] if self.graph is None else [str(operator.spec) for operator in self.graph._ops]
        # names have a running number, and functions an address; lines are the same where the operators are
        without_lines = [
            re.sub(r"^    (_origin_stack_\w+|function_id): .*$", "", text, flags=re.MULTILINE) for text in specs
        ]
        return tuple(re.sub(r"(__\w+?_)\d+", numbered, text) for text in without_lines)

    @property
    def beside_graph(self) -> tuple[object, ...]:
        """What the host does, and what the graph is fed."""
        inputs = (*self.inputs.items(), *self.device_images.items())
        return self.leaves, inputs, self.others, self.next_number

    @property
    def devices(self) -> Counter[str]:
        """How many operators of the graph run on ``"cpu"``, on ``"gpu"`` and, decoding, on both: ``"mixed"``."""
        operators: list[Any] = [] if self.graph is None else self.graph._ops
        return Counter(
            str(operator._op.device) for operator in operators if operator._op.schema.Name() != "ExternalSource"
        )

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
        leaves, nodes = _leaves(returned, function, recording)
        if nodes:
            graph.set_outputs(*nodes)
    numbers = iter(range(len(leaves)))
    used: set[str] = set()
    native: tuple[NativeDraw, ...] = ()
    if nodes:
        build_graph(graph, function)
        used = {operator.name for operator in graph._ops}
        check_inputs(graph, recording, function)
        native = native_draws(graph, function)
        if device == "cuda":
            check_structure(graph, function)
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


def check_same(first: Recorded, again: Recorded) -> None:
    """Refuse a function that describes something else at another call.

    Raises:
        PipelineError: with the line of the first operator that differs, where it is one.
    """
    function = first.pipeline.function
    name = first.pipeline.name
    rule = (
        "a pipeline is described several times, and each must be the same; leave out what changes from call to call, "
        "such as a counter, a condition on something outside, or a generator of random numbers"
    )
    if first.structure != again.structure:
        raise at_function(
            f"the pipeline {name} returned {again.structure} after {first.structure}, each output a *: {rule}", function
        )
    for number, (one, other) in enumerate(zip(first.operators, again.operators, strict=False)):
        if one != other:
            operator = again.graph._ops[number]
            raise at_operator(operator, f"{operator_name(operator)} got something else than before: {rule}", function)
    if first.operators != again.operators or first.beside_graph != again.beside_graph:
        raise at_function(f"the pipeline {name} described something else when it was called again: {rule}", function)


def _called(function: Callable[..., Any], sample: Sample, values: Mapping[str, object], recording: Recording) -> Any:
    before = generator_states()
    try:
        with no_modules():
            returned = function(sample, **values)
        if generator_states() != before:
            _refuse_draws(function, values, recording)
    except Exception as error:
        raise explained(error, function) from (None if isinstance(error, PipelineError) else error)
    finally:
        recording.open = False
    return returned


def _refuse_draws(function: Callable[..., Any], values: Mapping[str, object], recording: Recording) -> None:
    """A second look, line by line, at whether it is the function that draws by itself: other threads may as well."""
    again = Recording(recording.device, recording.decode, recording.apply_exif, recording.example)
    with watched_lines(function.__code__.co_filename) as lines:
        function(Sample(again), **values)
    if lines:
        path, line = lines[0]
        raise PipelineError(
            "a number was drawn by random, numpy.random or torch while the graph was described: it would be the same "
            "for every sample of every epoch; draw it by sample.uniform(), sample.coin() and so on, which are drawn "
            "for each sample",
            path,
            line,
            code_at(path, line),
        )


def _leaves(returned: object, function: Callable[..., Any], recording: Recording) -> tuple[tuple[Leaf, ...], list[Any]]:
    """What comes out, and the outputs of the graph."""
    found = leaves_of(returned)
    if returned is None or not found:
        what = "None: its return is missing" if returned is None else f"{returned!r}, which holds nothing"
        raise at_function(
            f"the pipeline {function.__name__} returned {what}; return an image, or a tuple or dict of outputs",
            function,
        )
    leaves: list[Leaf] = []
    nodes: list[Any] = []
    for leaf in found:
        if not isinstance(leaf, DataNode):
            kind = _kind(cast(object, leaf))
            hint = _OF_NUMPY if isinstance(leaf, np.ndarray) else ""
            raise at_function(
                f"the pipeline {function.__name__} returned {kind} among its outputs; each must be a handle of "
                f"the sample's or a result of an operator, in tuples, lists and dicts{hint}",
                function,
            )
        if isinstance(leaf, Node) and leaf.recording not in (None, recording):
            raise at_function(
                f"the pipeline {function.__name__} returned a handle of an earlier call: {FOREIGN}", function
            )
        value = leaf.value if isinstance(leaf, Node) else None
        ragged = isinstance(leaf, Node) and leaf.ragged
        on_device = isinstance(value, ImageValue) and value.field is None and recording.device == "cuda"
        if value is None or on_device or isinstance(value, EncodedValue):
            leaves.append(GraphLeaf(len(nodes), ragged))
            node = plain(leaf)
            nodes.append(node.gpu() if recording.device == "cuda" and leaf.device == "cpu" else node)
        else:
            leaves.append(HostLeaf(value, ragged))
    return tuple(leaves), nodes


def _kind(leaf: object) -> str:
    if isinstance(leaf, Sample):
        return "the sample itself"
    if leaf is None:
        return "None"
    module, name = type(leaf).__module__.partition(".")[0], type(leaf).__name__
    return f"{short(leaf)}, of type {name}," if module == "builtins" else f"a {module} {name}"


_OF_NUMPY = "; where a handle meets NumPy write the handle first, as in image + array, or use operators of fn"
