"""Pipelines that can be named, as tables for people and as JSON."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO, cast, get_args

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpufeed import printing
from gpufeed.pipelines import NamedPipeline, Parameter, Pipeline
from gpufeed.pipelines.definition import Companion, type_name

__all__ = ["SCHEMA", "SCHEMA_VERSION", "render", "render_list", "show", "show_list", "to_json"]

SCHEMA = "gpufeed.pipelines"
SCHEMA_VERSION = 1

_WIDTH = 80  # of plain text
_COMPANIONS = cast("tuple[Companion, ...]", get_args(Companion))
_OWN = "gpufeed"  # what is shipped; that needs no column
_FOLDERS = "an image folder with one sub-folder per class"


# All of them ----------------------------------------------------------------------------------------------------------


def show_list(found: Sequence[NamedPipeline], stream: TextIO) -> None:
    """Print a few lines for each pipeline, in the form that fits the stream."""
    printing.show(lambda _width: _list_parts(found), lambda: render_list(found), stream)


def render_list(found: Sequence[NamedPipeline], width: int = _WIDTH) -> str:
    """The list as plain text of at most ``width`` columns, ending in a newline; names are never broken."""
    return printing.as_text(_list_parts(found), width)


def _list_parts(found: Sequence[NamedPipeline]) -> Iterator[RenderableType]:
    for named in found:
        of = "" if named.origin == _OWN or _of_file(named) else f"  (of {named.origin})"
        yield Text.assemble((named.reference, "bold"), (of, "dim"), no_wrap=True, overflow="ignore")
        summary = Text(named.summary) if named.pipeline else Text("not loaded before it is named", style="dim")
        yield Padding(summary, (0, 0, 0, 4))
        if named.parameters:
            yield Padding(
                Text("\n".join(f"-p {parameter}" for parameter in named.parameters), style="dim"), (0, 0, 0, 4)
            )
        yield Text("")
    if not found:
        yield Text("No pipeline is shipped or installed.")
    yield Text("One in full: gpufeed pipelines NAME. Your own: FILE.py:NAME; gpufeed new NAME writes one.", style="dim")


# One in full ----------------------------------------------------------------------------------------------------------


def show(named: NamedPipeline, stream: TextIO) -> None:
    """Print one pipeline in full, in the form that fits the stream."""
    printing.show(lambda _width: _parts(named, " · "), lambda: render(named), stream)


def render(named: NamedPipeline, width: int = _WIDTH) -> str:
    """One pipeline in full as plain text of at most ``width`` columns, ending in a newline."""
    return printing.as_text(_parts(named, ", "), width)


def _parts(named: NamedPipeline, dot: str) -> Iterable[RenderableType]:
    yield Padding(Text.assemble(("gpufeed pipelines", "bold"), dot, named.reference), (0, 0, 1, 0))
    pipeline = named.pipeline
    if pipeline is None:
        yield Text(f"of {named.origin}, not loaded")
        return
    yield Padding(Text(_docstring(pipeline) or "It has no docstring."), (0, 0, 1, 0))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for what, text in _facts(named, pipeline):
        table.add_row(what, Text(text))
    yield table


def _facts(named: NamedPipeline, pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    yield "parameters", "\n".join(named.parameters) or "none"
    yield "tail", "yes: torch on the device, after the graph" if pipeline.has("tail") else "none"
    yield "reference", _reference(pipeline)
    yield "data", "as the module's source opens it" if pipeline.has("source") else _FOLDERS
    yield "file", f"{pipeline.path}, line {_line(pipeline)}"
    if not _of_file(named):
        yield "from", named.origin
    yield "use", f"DataLoader(..., pipeline={named.reference!r})"


def _of_file(named: NamedPipeline) -> bool:
    """Whether the reference itself tells where it comes from."""
    return named.origin.endswith(".py")


def _reference(pipeline: Pipeline) -> str:
    found: list[str] = []
    if pipeline.has("reference"):
        bound = pipeline.bound
        found.append(f"a transform; pixels within {bound.within_255:g}/255 for {100 * bound.share:g} % of the values")
    if pipeline.has("torch_dataset"):
        found.append("a torch Dataset of its own")
    return "\n".join(found) or "none, so there is nothing to compare it with"


def _docstring(pipeline: Pipeline) -> str:
    return inspect.getdoc(pipeline.function) or ""


def _line(pipeline: Pipeline) -> int:
    return pipeline.function.__code__.co_firstlineno


# JSON -----------------------------------------------------------------------------------------------------------------


def to_json(found: Iterable[NamedPipeline]) -> str:
    """The pipelines as JSON text, with the schema's name and version, ending in a newline."""
    document = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "pipelines": [_described(named) for named in found],
    }
    return json.dumps(document, indent=2) + "\n"


def _described(named: NamedPipeline) -> dict[str, Any]:
    pipeline = named.pipeline
    head = {"reference": named.reference, "from": named.origin, "loaded": pipeline is not None}
    if pipeline is None:
        return head
    return {
        **head,
        "summary": named.summary,
        "docstring": _docstring(pipeline),
        "parameters": [_parameter(parameter) for parameter in pipeline.parameters],
        "companions": [companion for companion in _COMPANIONS if pipeline.has(companion)],
        "file": pipeline.path,
        "line": _line(pipeline),
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    default = None if parameter.required else parameter.default
    return {
        "name": parameter.name,
        "type": type_name(parameter.type),
        "required": parameter.required,
        "default": default,
    }
