"""What a recorded pipeline's graph holds, for people: whose operators they are, and in which line of the user's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpufeed
from gpufeed.inspect.explain.explanation import RunsOn
from gpufeed.recording import Recorded
from gpufeed.recording.mistakes import at_operator
from gpufeed.recording.values import HostValue, ImageValue

__all__ = ["OutputGraph", "UserOperator", "line_of_input", "output_graph", "user_operators"]

_PACKAGE = Path(gpufeed.__file__).parent
_OWN = (_PACKAGE / "recording", _PACKAGE / "graph")
"""Where the operators are made that an image's plan and the inputs become; those of `gpufeed.ops` are the user's."""

_RUNS_ON: dict[str, RunsOn] = {"cpu": "cpu", "gpu": "cuda", "mixed": "mixed"}


@dataclass(frozen=True, slots=True)
class UserOperator:
    """An operator of DALI's that the user's function calls.

    Attributes:
        name: as people write it, such as ``fn.rotate``.
        called_as: the function of gpufeed's that called it, such as ``ops.normalize``; empty where the user's did.
        runs_on: where.
        path: the user's file.
        line: the line in it.
    """

    name: str
    called_as: str
    runs_on: RunsOn
    path: str
    line: int

    @property
    def text(self) -> str:
        """Its name, and what called it."""
        return f"{self.called_as} ({self.name})" if self.called_as else self.name


@dataclass(frozen=True, slots=True)
class OutputGraph:
    """What one output of the graph depends on.

    Attributes:
        images: the images and masks that enter it, as described up to there.
        others: the other values that enter it.
        operators: the user's, in order.
    """

    images: tuple[ImageValue, ...]
    others: tuple[HostValue, ...]
    operators: tuple[UserOperator, ...]


def output_graph(recorded: Recorded, position: int) -> OutputGraph:
    """What the graph's output number ``position`` depends on."""
    needed = _needed(recorded.graph, recorded.graph._graph_outputs[position].name)
    names = {operator.name for operator in needed}
    fed = [value for name, value in recorded.inputs.items() if name in names]
    images = [value for value in fed if isinstance(value, ImageValue)]
    images += [image for suffix, image in recorded.device_images.items() if f"start_outer{suffix}" in names]
    return OutputGraph(
        tuple(dict.fromkeys(images)),
        tuple(value for value in fed if not isinstance(value, ImageValue)),
        user_operators(recorded, needed),
    )


def _needed(graph: Any, output: str) -> list[Any]:
    """The operators that an output depends on, in the graph's order."""
    made_by = {
        operator.spec.OutputName(number): operator
        for operator in graph._ops
        for number in range(operator.spec.NumOutput())
    }
    found: dict[int, Any] = {}
    left = [output]
    while left:
        operator = made_by[left.pop()]
        if operator.id not in found:
            found[operator.id] = operator
            left += [operator.spec.InputName(number) for number in range(operator.spec.NumInput())]
    return [operator for operator in graph._ops if operator.id in found]


def user_operators(recorded: Recorded, operators: Sequence[Any] | None = None) -> tuple[UserOperator, ...]:
    """Those of the graph's operators that the user's function calls, in order.

    Args:
        recorded: the pipeline.
        operators: among which; all of the graph's if not given.
    """
    if recorded.graph is None:
        return ()
    found: list[UserOperator] = []
    for operator in recorded.graph._ops if operators is None else operators:
        frames = _frames(operator)
        last = Path(frames[-1][0]) if frames else None
        if operator._op.schema.Name() == "ExternalSource" or last is None or any(map(last.is_relative_to, _OWN)):
            continue
        place = at_operator(operator, "", recorded.pipeline.function)
        found.append(
            UserOperator(
                _name(operator), _called_as(frames, place.path), _RUNS_ON[operator._op.device], place.path, place.line
            )
        )
    return tuple(found)


def line_of_input(recorded: Recorded, name: str) -> tuple[str, int]:
    """The user's file and line that asked for an input of the graph; ``("", 0)`` where the graph has none of it."""
    for operator in recorded.graph._ops if recorded.graph is not None else ():
        if operator.name == name:
            place = at_operator(operator, "", recorded.pipeline.function)
            return place.path, place.line
    return "", 0


def _frames(operator: Any) -> list[tuple[str, str]]:
    """File and function of the calls that made an operator, outermost first; DALI keeps them."""
    text = str(operator.spec)
    files = re.search(r"_origin_stack_filename: \[(.*?), \]\n", text)
    names = re.search(r"_origin_stack_name: \[(.*?), \]\n", text)
    return list(zip(files[1].split(", "), names[1].split(", "), strict=False)) if files and names else []


def _called_as(frames: list[tuple[str, str]], user_path: str) -> str:
    """The function of `gpufeed.ops` behind the user's last call."""
    position = max((number for number, frame in enumerate(frames) if frame[0] == user_path), default=-1)
    behind = frames[position + 1 :]
    return f"ops.{behind[0][1]}" if behind and Path(behind[0][0]) == _PACKAGE / "ops.py" else ""


def _name(operator: Any) -> str:
    text = str(operator.spec)
    module, shown = (re.search(rf"^ *{key}: (.*)$", text, re.MULTILINE) for key in ("_module", "_display_name"))
    if shown is None:
        return operator._op.schema.Name()
    prefix = module[1].removeprefix("nvidia.dali.") if module else "fn"
    return f"{prefix}.{shown[1]}"
