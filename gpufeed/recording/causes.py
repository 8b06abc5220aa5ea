"""What is wrong at a line of a pipeline function or its tail, in words, and what to do instead."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterable
from types import ModuleType

from nvidia.dali.data_node import DataNode

from gpufeed.errors import GpufeedError, PipelineError
from gpufeed.graph.untyped import backend, fn
from gpufeed.recording.user_lines import Place

__all__ = ["cause_at", "first_line"]

_TAIL = "do it in the tail, a function under @NAME.tail, where images are tensors"
_LIBRARIES = {"numpy": "NumPy", "PIL": "Pillow", "cv2": "OpenCV"}
_OF_PYTHON = ("builtins", "math", "")
_EXISTS = "its values exist only when the graph runs"


def cause_at(error: Exception, place: Place) -> str:
    """What is wrong, for people who don't know DALI's words.

    Args:
        error: what the user's code raised.
        place: where.
    """
    if isinstance(error, GpufeedError):
        return _of_ours(error, place)
    for known in (_unfitting, _of_a_name, _of_an_argument, _of_a_handle, _of_the_sample, _of_devices, _of_an_operator):
        cause = known(error, place)
        if cause is not None:
            return cause
    return f"{type(error).__name__}: {first_line(str(error))}"


def first_line(text: str) -> str:
    """The first line of a message that says something, without its full stop."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else "no message"


def _of_ours(error: GpufeedError, place: Place) -> str:
    if place.library == "nvidia" and "the sample has no" in str(error):  # DALI asked it what a node has
        return f"{_called(place)} got the sample itself; {_SAMPLE_HAS}"
    return error.cause if isinstance(error, PipelineError) else str(error)


_SAMPLE_HAS = (
    "its image is sample.decode(), sample.random_resized_crop(size) or sample.center_crop(size), and its fields are "
    "attributes, such as sample.target"
)


def _unfitting(error: Exception, place: Place) -> str | None:
    """Arguments that don't fit the user's function, which is called with what the pipeline returned."""
    called_wrongly = isinstance(error, TypeError) and str(error).startswith(f"{place.function}()")
    if place.in_function or not called_wrongly:
        return None
    return (
        f"the function doesn't take what it is given: {first_line(str(error))}; a tail takes the pipeline's outputs by "
        "position if that returns a tuple, by name if it returns a dict"
    )


# Names ----------------------------------------------------------------------------------------------------------------


def _of_a_name(error: Exception, place: Place) -> str | None:
    """A name that a module doesn't have."""
    if not isinstance(error, AttributeError) or not isinstance(error.obj, ModuleType):
        return None
    module, name = error.obj.__name__, str(error.name)
    if module == "nvidia.dali.fn" or module.startswith("nvidia.dali.fn."):
        return _no_operator(module.removeprefix("nvidia.dali."), name)
    short = module.removeprefix("nvidia.dali.").removeprefix("gpufeed.")
    return f"{module} has no {name}{_guess(name, _public(error.obj), f'{short}.')}"


def _no_operator(module: str, name: str) -> str:
    names = _public(fn)
    for inside in ("decoders", "random", "experimental", "readers", "transforms", "noise", "segmentation", "io"):
        names += [f"{inside}.{known}" for known in _public(getattr(fn, inside, None))]
    asked = f"{module.removeprefix('fn').lstrip('.')}.{name}".lstrip(".")
    return f"DALI has no operator fn.{asked}{_guess(asked, names, 'fn.')}"


def _public(module: object) -> list[str]:
    return [known for known in getattr(module, "__all__", None) or dir(module) if not known.startswith("_")]


def _guess(asked: str, names: Iterable[str], prefix: str = "") -> str:
    near = difflib.get_close_matches(asked, list(names), n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(prefix + name for name in near)}?" if near else ""


# Arguments ------------------------------------------------------------------------------------------------------------


def _of_an_argument(error: Exception, place: Place) -> str | None:
    """An argument that a function or an operator doesn't have, or one that is missing."""
    text = str(error)
    unknown = re.search(r'Argument \\?"(\w+)\\?" is not defined for operator \\?"(\w+)\\?"', text)
    if unknown is not None:
        names = [name for name in backend.GetSchema(unknown[2]).GetArgumentNames() if not name.startswith("_")]
        return f"{_called(place)} has no argument {unknown[1]}{_guess(unknown[1], names)}"
    unexpected = re.search(r"got an unexpected keyword argument '(\w+)'", text)
    if isinstance(error, TypeError) and unexpected is not None and callable(place.callee):
        try:
            names = list(inspect.signature(place.callee).parameters)
        except (TypeError, ValueError):  # C code without a signature
            names = []
        there = f" (it takes {', '.join(name for name in names if name != 'self')})" if names else ""
        return f"{_called(place)} has no argument {unexpected[1]}{_guess(unexpected[1], names) or there}"
    missing = re.search(r"missing \d+ required .*arguments?: (.*)$", text)
    if isinstance(error, TypeError) and (missing is not None or "positional argument" in text):
        return f"{_called(place)} " + (f"needs {missing[1]}" if missing else f"doesn't fit: {first_line(text)}")
    return None


def _of_an_operator(error: Exception, place: Place) -> str | None:
    """A value that an operator of DALI's doesn't take."""
    if place.library != "nvidia":
        return None
    text = str(error)
    called = _called(place)
    inputs = re.search(r"expects from (\d+) to (\d+) inputs, but received (\d+)", text)
    if inputs is not None:
        wanted = inputs[1] if inputs[1] == inputs[2] else f"{inputs[1]} to {inputs[2]}"
        return f"{called} takes {wanted} input{'' if wanted == '1' else 's'} by position, and got {inputs[3]}"
    kind = re.search(r"Received input `(\d+)` of type '(\w+)'", text)
    if kind is not None:
        return (
            f"{called} got a {kind[2]} as its input {kind[1]}; operators take handles of the sample's, results of "
            "operators, and numbers"
        )
    for frame in reversed(place.inner):
        if frame.f_code.co_name == "_add_spec_args" and {"key", "value"} <= frame.f_locals.keys():
            held = repr(frame.f_locals["value"])
            shown = held if len(held) <= 60 else f"{held[:59]}…"
            return f"{called} got {frame.f_locals['key']}={shown}, which is of a wrong type: {first_line(text)}"
    return None


def _called(place: Place) -> str:
    return place.called or "what is called here"


# Handles --------------------------------------------------------------------------------------------------------------


def _of_a_handle(error: Exception, place: Place) -> str | None:
    """A handle of the graph where a tensor, an array or a number is wanted."""
    text = _text(error)
    named = re.search(r"\b(Data)?Node\b", text) is not None
    if not (named or place.mentions(DataNode) or "sample." in place.expression.partition("(")[2]):
        return None
    if isinstance(error, AttributeError) and isinstance(error.obj, DataNode):
        return (
            f"a handle of the graph has no .{error.name}: it is no tensor and no array; use an operator of fn, or "
            f"{_TAIL}"
        )
    if not isinstance(error, (TypeError, ValueError, AttributeError)):
        return None
    library = place.library
    if library not in (*_OF_PYTHON, "gpufeed", "nvidia") and not isinstance(place.callee, DataNode):
        return _of_a_library(library, place)
    if "conditional context" in text or "truth value" in text:
        return (
            "the function describes the graph of all samples, so it can't branch on one sample's value; give operators "
            "the draw, as in fn.flip(image, horizontal=sample.coin()), multiply by it, or branch in the tail with "
            "torch.where"
        )
    if not named and not isinstance(error, TypeError):
        return None
    return _of_python(text, place) if library != "nvidia" else None


def _text(error: Exception) -> str:
    """The message; DALI raises some in pieces."""
    return "".join(part.__name__ if isinstance(part, type) else str(part) for part in error.args)


def _of_a_library(library: str, place: Place) -> str:
    name = _LIBRARIES.get(library, library)
    instead = f"use an operator of fn, or {_TAIL}"
    if library == "torchvision":
        instead = f"give the transform to ops.apply(..., image, sample), use an operator of fn, or {_TAIL}"
    what = f"{place.called} ({name})" if place.called and not place.called.startswith(name) else place.called or name
    return f"{what} got a handle of the graph, which holds no pixels yet: {_EXISTS}; {instead}"


def _of_python(text: str, place: Place) -> str:
    if ".shape" in place.expression and "subscriptable" in text:
        return (
            "shape is a method of a handle: image.shape() is another handle, (height, width, channels) of each sample, "
            f"and no numbers; {_EXISTS}"
        )
    if "not iterable" in text and not place.called:
        return (
            "a handle of the graph can't be taken apart or looped over, since it is one node for all samples; index "
            "it, as in image.shape()[0]"
        )
    if "not callable" in text:
        return f"{place.called or 'a handle'} is a handle of the graph, not a function; leave the parentheses out"
    what = f"{place.called} got a handle of the graph" if place.called else "a handle of the graph was used"
    instead = "take a parameter or a number" if place.library == "gpufeed" else f"use operators of fn, or {_TAIL}"
    return f"{what} where a number or an array is needed ({_without_types(text)}), and {_EXISTS}; {instead}"


def _without_types(text: str) -> str:
    """The message in the words of this library."""
    return re.sub(r"['`]?\b(?:Data)?Node\b['`]?", "a handle", first_line(text))


def _of_the_sample(error: Exception, place: Place) -> str | None:
    """The sample as a tuple or a dict."""
    if isinstance(error, TypeError) and re.search(r"\bSample\b", str(error)):
        return f"the sample is no tuple, dict or image; {_SAMPLE_HAS}"
    return None


# Devices --------------------------------------------------------------------------------------------------------------


def _of_devices(error: Exception, place: Place) -> str | None:
    """An operator on one device with what lies on the other."""
    if place.library != "nvidia":
        return None
    text = str(error)
    called = _called(place)
    argument = re.search(r"Invalid device \"?gpu\"? for argument '(\w+)'", text)
    if argument is not None:
        return (
            f"{called} takes its named argument {argument[1]} from the host, and got one on the GPU; compute it from "
            f"draws and fields, which are on the host, or {_TAIL}"
        )
    operator = re.search(r'for (cpu|gpu) operator .* incompatible device "(cpu|gpu)"', text, re.DOTALL)
    if operator is None:
        return None
    if operator[1] == "cpu":
        return (
            f"{called} runs on the host and gets data from the GPU, and DALI doesn't go back; leave device= out, do it "
            f"before the image reaches the GPU, or {_TAIL}"
        )
    return (
        f"{called} is told to run on the GPU and gets data from the host; leave device= out: an operator runs where "
        "its input is, and the loader's device= says where that is"
    )
