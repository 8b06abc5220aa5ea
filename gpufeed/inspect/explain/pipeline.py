"""What becomes of a pipeline on a device: each output's image before the user's operators, then these, and the tail."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gpufeed.bounds import Device
from gpufeed.inspect.explain.explanation import SCHEMA, SCHEMA_VERSION, ExplainedOp, described_op, explain_plan
from gpufeed.inspect.pipeline_graph import UserOperator, line_of_input, output_graph
from gpufeed.parameters import op_numbers
from gpufeed.pipelines import Pipeline
from gpufeed.plan import Op
from gpufeed.recording import HostLeaf, Recorded, record
from gpufeed.recording.structure import leaf_paths
from gpufeed.recording.values import (
    BoxesValue,
    DrawValue,
    EncodedValue,
    FieldValue,
    HostValue,
    ImageValue,
    IndexValue,
    SizeValue,
)

__all__ = [
    "ExplainedDraw",
    "ExplainedImage",
    "ExplainedOutput",
    "ExplainedPipeline",
    "ExplainedTail",
    "explain_pipeline",
    "in_words",
    "pipeline_to_json",
]


@dataclass(frozen=True, slots=True)
class ExplainedImage:
    """An image or a mask up to the first operator of DALI's, or up to the end.

    Attributes:
        name: of which sample, and of which field where it is a mask.
        ops: with their stages and bounds.
    """

    name: str
    ops: tuple[ExplainedOp, ...]


@dataclass(frozen=True, slots=True)
class ExplainedOutput:
    """An output of the pipeline function's.

    Attributes:
        path: its place in what the function returns, such as ``[0]``.
        images: that go into it.
        values: what else goes into the graph for it, in words; or what it is itself where it never enters the graph.
        operators: the user's, in order.
        enters_graph: whether it comes out of DALI's graph; else the host computes it, and it is collated.
        is_field: whether it is a field of the source's that passes by untouched.
        ragged: whether it is always handed over as a list.
    """

    path: str
    images: tuple[ExplainedImage, ...]
    values: tuple[str, ...]
    operators: tuple[UserOperator, ...]
    enters_graph: bool
    is_field: bool
    ragged: bool


@dataclass(frozen=True, slots=True)
class ExplainedDraw:
    """What is drawn for each sample, by its key.

    Attributes:
        number: its place in the order of draws and ops.
        what: in words.
        path: the user's file; empty where it isn't known.
        line: the line there; 0 where it isn't known.
    """

    number: int
    what: str
    path: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class ExplainedTail:
    """The function that ends a batch in torch.

    Attributes:
        name: the function's.
        path: its file.
        line: where it begins.
        draws: whether it takes ``samples``, the batch's keyed draws.
        first_number: of its draws.
    """

    name: str
    path: str
    line: int
    draws: bool
    first_number: int


@dataclass(frozen=True, slots=True)
class ExplainedPipeline:
    """What becomes of a pipeline.

    Attributes:
        subject: what it was called by who asked.
        device: where the result lies.
        name: the function's.
        summary: the first line of its docstring.
        path: its file.
        line: where it begins.
        parameters: with their values.
        outputs: in order.
        draws: of the function, in order; those that nothing uses aren't there.
        native_draws: operators that draw by themselves, with their lines.
        tail: if there is one.
        companions: what else the module has for it, such as ``reference``.
        bound: what its reference promises, in words; empty without one.
    """

    subject: str
    device: Device
    name: str
    summary: str
    path: str
    line: int
    parameters: Mapping[str, object]
    outputs: tuple[ExplainedOutput, ...]
    draws: tuple[ExplainedDraw, ...]
    native_draws: tuple[tuple[str, int], ...]
    tail: ExplainedTail | None
    companions: tuple[str, ...]
    bound: str


def explain_pipeline(pipeline: Pipeline, device: Device, subject: str) -> ExplainedPipeline:
    """Record a pipeline for a device and describe what it became; nothing is built and no device is touched.

    Args:
        pipeline: with its parameters.
        device: ``"cpu"`` or ``"cuda"``.
        subject: what to call it.

    Raises:
        PipelineError: for a mistake of the pipeline's, with its line.
    """
    recorded = record(pipeline, device)
    code = pipeline.function.__code__
    names = ("reference", "torch_dataset", "source")
    bound = pipeline.bound
    return ExplainedPipeline(
        subject=subject,
        device=device,
        name=pipeline.name,
        summary=pipeline.summary,
        path=pipeline.path,
        line=code.co_firstlineno,
        parameters=pipeline.all_values(),
        outputs=tuple(_outputs(recorded, device)),
        draws=tuple(_draws(recorded)),
        native_draws=tuple((draw.operator, draw.line) for draw in recorded.native_draws),
        tail=_tail(pipeline, recorded),
        companions=tuple(name for name in names if pipeline.has(name)),
        bound=f"{100 * bound.share:.6g} % of values within {bound.within_255:g}/255"
        if pipeline.has("reference")
        else "",
    )


def _outputs(recorded: Recorded, device: Device) -> Iterator[ExplainedOutput]:
    for path, leaf in zip(leaf_paths(recorded.outputs), recorded.leaves, strict=True):
        if isinstance(leaf, HostLeaf):
            value = leaf.value
            is_image = isinstance(value, ImageValue)
            images = (_image(value, device),) if isinstance(value, ImageValue) else ()
            values = () if is_image else (in_words(value),)
            yield ExplainedOutput(path, images, values, (), False, isinstance(value, FieldValue), leaf.ragged)
            continue
        graph = output_graph(recorded, leaf.position)
        yield ExplainedOutput(
            path,
            tuple(_image(image, device) for image in graph.images),
            tuple(map(in_words, graph.others)),
            graph.operators,
            True,
            False,
            leaf.ragged,
        )


def _image(image: ImageValue, device: Device) -> ExplainedImage:
    if image.field is not None:
        return ExplainedImage(_of(image.slot, image.field), explain_plan(image.plan, "cpu"))
    return ExplainedImage(_of(image.slot, "the decoded image"), explain_plan(image.plan, device))


def _of(slot: int, name: str) -> str:
    if name == "the decoded image":
        return name if slot == 0 else f"{name} of other sample {slot}"
    return f"sample.{name}" if slot == 0 else f"other sample {slot}'s {name}"


def in_words(value: HostValue) -> str:
    """A value that the host computes, as the user's function has it."""
    match value:
        case DrawValue(kind, _, arguments, shape, _):
            written = [f"{argument:g}" for argument in arguments]
            written = [f"[{', '.join(written)}]"] if kind == "choice" else written
            return f"{kind}({', '.join([*written, *([f'shape={shape}'] if shape else [])])})"
        case FieldValue(slot, name):
            return _of(slot, name)
        case IndexValue(slot):
            return _of(slot, "index")
        case SizeValue(slot):
            return _of(slot, "size_hw")
        case EncodedValue(slot):
            return _of(slot, "encoded")
        case ImageValue(slot, _, _, field):
            return _of(slot, field or "the decoded image")
        case BoxesValue(geometry, boxes, _, _, _, companion):
            return f"{_of(geometry.slot, companion or boxes)} by ops.boxes_like"


def _draws(recorded: Recorded) -> list[ExplainedDraw]:
    found: dict[int, ExplainedDraw] = {}
    for others in recorded.others:
        found[others.number] = ExplainedDraw(others.number, f"others({others.count})")
    names = {value: name for name, value in recorded.inputs.items()}
    images: list[ImageValue] = list(recorded.device_images.values())
    for value in recorded.values():
        if isinstance(value, DrawValue):
            path, line = line_of_input(recorded, names.get(value, ""))
            found[value.number] = ExplainedDraw(value.number, in_words(value), path, line)
        elif isinstance(value, ImageValue):
            images.append(value)
        elif isinstance(value, BoxesValue):
            images.append(value.geometry)
    for image in images:
        for op, number in zip(image.plan.ops, image.numbers, strict=True):
            for inner, own in _random(op, number):
                found.setdefault(own, ExplainedDraw(own, type(inner).__name__))
    return [found[number] for number in sorted(found)]


def _random(op: Op, number: int) -> Iterator[tuple[Op, int]]:
    """An op and those inside of it that draw, with their numbers."""
    if op.is_random:
        yield op, number
    first = number + 1
    for branch in op.branches:
        for inner, own in zip(branch, op_numbers(branch, first), strict=True):
            yield from _random(inner, own)
        first = op_numbers((*branch, op), first)[-1]


def _tail(pipeline: Pipeline, recorded: Recorded) -> ExplainedTail | None:
    if not pipeline.has("tail"):
        return None
    code = pipeline.companion("tail").__code__
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    first = recorded.next_number
    return ExplainedTail(code.co_name, code.co_filename, code.co_firstlineno, "samples" in arguments, first)


def pipeline_to_json(explained: ExplainedPipeline) -> str:
    """The explanation as JSON text, with the schema's name and version, ending in a newline."""
    document = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "kind": "pipeline",
        "subject": explained.subject,
        "device": explained.device,
        "name": explained.name,
        "summary": explained.summary,
        "path": explained.path,
        "line": explained.line,
        "parameters": dict(explained.parameters),
        "outputs": list(map(_described_output, explained.outputs)),
        "draws": [asdict(draw) for draw in explained.draws],
        "native_draws": [{"operator": operator, "line": line} for operator, line in explained.native_draws],
        "tail": None if explained.tail is None else asdict(explained.tail),
        "companions": list(explained.companions),
        "bound": explained.bound,
    }
    return json.dumps(document, indent=2) + "\n"


def _described_output(output: ExplainedOutput) -> dict[str, Any]:
    return {
        **{name: getattr(output, name) for name in ("path", "enters_graph", "is_field", "ragged")},
        "values": list(output.values),
        "images": [{"name": image.name, "ops": list(map(described_op, image.ops))} for image in output.images],
        "operators": [asdict(operator) for operator in output.operators],
    }
