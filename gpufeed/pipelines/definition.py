"""`pipeline`: what turns a function into a pipeline, with its parameters and what belongs to it."""

from __future__ import annotations

import difflib
import importlib
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, overload

from gpufeed.errors import ArgumentError
from gpufeed.pipelines.loading import load_object

__all__ = ["Bound", "Companion", "Parameter", "Pipeline", "pipeline", "type_name"]

_F = TypeVar("_F", bound=Callable[..., Any])

Companion = Literal["tail", "reference", "torch_dataset", "source"]
"""What a module may add to a pipeline by decorators of these names."""

_SCALARS = (bool, int, float, str)
"""What a parameter may be on the command line, besides tuples and choices (`Literal`) of these."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A keyword argument of a pipeline function.

    Attributes:
        name: as the function calls it.
        type: its annotation: ``bool``, ``int``, ``float``, ``str``, ``Literal`` of them, ``tuple[...]`` of them, or one
            of these ``| None``.
        default: its value where none is given; ``inspect.Parameter.empty`` where one must be.
    """

    name: str
    type: Any
    default: Any

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is inspect.Parameter.empty

    def check(self, value: object) -> object:
        """The value, an ``int`` for a ``float`` and a list for a tuple made into one.

        Raises:
            ArgumentError: for a value of another type.
        """
        try:
            return _as(self.type, value)
        except ValueError:
            raise ArgumentError(f"{self.name} must be {type_name(self.type)}, got {value!r}") from None

    def parse(self, text: str) -> object:
        """A value from the command line: numbers as Python writes them, ``true`` or ``false``, ``none``, and for a
        tuple its items with commas between.

        Raises:
            ArgumentError: for text that isn't of the parameter's type.
        """
        try:
            return _parsed(self.type, text.strip())
        except ValueError:
            how = ", with commas between" if get_origin(self.type) is tuple else ""
            raise ArgumentError(f"{self.name} must be {type_name(self.type)}{how}, got {text!r}") from None

    def __str__(self) -> str:
        return f"{self.name}: {type_name(self.type)}" + ("" if self.required else f" = {self.default!r}")


@dataclass(frozen=True, slots=True)
class Bound:
    """How far a pipeline's pixels may be from its reference's.

    Attributes:
        within_255: in 1/255 of the full range.
        share: of the values that are within it, in (0, 1].
    """

    within_255: float = 1.0
    share: float = 0.999

    def __post_init__(self) -> None:
        if not self.within_255 >= 0.0:
            raise ArgumentError(f"within_255 must be at least 0, got {self.within_255}")
        if not 0.0 < self.share <= 1.0:
            raise ArgumentError(f"share must be in (0, 1], got {self.share}")


@dataclass(frozen=True, slots=True)
class _Companions:
    """What the decorators of a pipeline add to it; shared by the pipeline and all that is bound from it."""

    functions: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    bounds: dict[str, Bound] = field(default_factory=dict[str, Bound])


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """A function that describes what happens to a sample, with values for its parameters.

    Made by `pipeline`. Called with parameters it gives another one, which has these values: ``train(size=160)``.

    Attributes:
        function: takes the sample, and the parameters by keyword; see `gpufeed.recording.Sample`.
        parameters: the function's keyword arguments, in order.
        values: those that were given; the others have their defaults.
    """

    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    values: Mapping[str, object] = field(default_factory=dict[str, object])
    _companions: _Companions = field(default_factory=_Companions, repr=False)

    def __call__(self, *positional: object, **values: object) -> Pipeline:
        """The pipeline with other values for some of its parameters, all by name.

        Raises:
            ArgumentError: for a parameter that it doesn't have, or a value that isn't of its type.
        """
        if positional:
            example = f"{self.name}({self.parameters[0].name}=...)" if self.parameters else f"pipeline={self.name}"
            raise ArgumentError(
                f"the pipeline {self.name} takes its parameters by name, as {example}, got {positional[0]!r}; its "
                "function is called by the loader"
            )
        checked = {name: self.parameter(name).check(value) for name, value in values.items()}
        return replace(self, values={**self.values, **checked})

    # What belongs to it ----------------------------------------------------------------------------------------------

    def tail(self, function: _F) -> _F:
        """Decorator: torch on the device, on whole batches, after the graph.

        The function takes the pipeline's outputs as batches, by position if it returns a tuple or one output, by name
        if it returns a dict. If it declares ``samples`` as a keyword argument it gets the batch's keyed draws, and
        those of the pipeline's parameters that it declares. What it returns is what the loader yields: tensors whose
        first dimension is the batch's, lists with an entry per sample, and nested tuples, lists and dicts of these.
        """
        plain = type(function) is types.FunctionType
        if not plain or inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise ArgumentError(
                f"@{self.name}.tail goes above a plain function that returns the batch, got {function!r}; call it there"
            )
        self._companions.functions["tail"] = function
        return function

    @overload
    def reference(self, function: _F) -> _F: ...
    @overload
    def reference(self, *, within_255: float = 1.0, share: float = 0.999) -> Callable[[_F], _F]: ...
    def reference(self, function: Any = None, *, within_255: float = 1.0, share: float = 0.999) -> Any:
        """Decorator: torch's side, for `gpufeed compare` and `gpufeed verify`.

        The function takes those of the pipeline's parameters that it declares, by keyword, and returns the torchvision
        transform that does the same as the pipeline to one image. Where it draws in the same order as the pipeline
        does, both can be given the same draws.

        Args:
            function: the function, where the decorator is used without arguments.
            within_255: how far pixels may be apart, in 1/255 of the full range.
            share: of the values that must be within it.
        """
        bound = Bound(within_255, share)

        def register(registered: _F) -> _F:
            self._companions.functions["reference"] = registered
            self._companions.bounds["reference"] = bound
            return registered

        return register if function is None else register(function)

    def torch_dataset(self, function: _F) -> _F:
        """Decorator: a Dataset that does in torch's workers what the pipeline does, where a transform can't say it.

        The function takes the source, and those of the pipeline's parameters that it declares by keyword.
        """
        self._companions.functions["torch_dataset"] = function
        return function

    def source(self, function: _F) -> _F:
        """Decorator: how the pipeline's data is opened, given a path.

        The function takes the path, a ``str``, and those of the pipeline's parameters that it declares by keyword, and
        returns a source or a Dataset. Without it a path is a folder with a sub-folder per class.
        """
        self._companions.functions["source"] = function
        return function

    def has(self, companion: Companion) -> bool:
        """Whether the module defines it."""
        return companion in self._companions.functions

    def companion(self, name: Companion) -> Callable[..., Any]:
        """What a decorator added.

        Raises:
            ArgumentError: where nothing did.
        """
        if name not in self._companions.functions:
            raise ArgumentError(
                f"the pipeline {self.name} has no {name}; write one in its module, under @{self.name}.{name}"
            )
        return self._companions.functions[name]

    def make_reference(self) -> Any:
        """The torchvision transform of the module's reference, for these parameters.

        Raises:
            ArgumentError: where it has none.
        """
        function = self.companion("reference")
        return function(**self.values_for(function))

    def make_torch_dataset(self, source: object) -> Any:
        """The module's own Dataset over ``source``, for these parameters.

        Raises:
            ArgumentError: where it has none.
        """
        function = self.companion("torch_dataset")
        return function(source, **self.values_for(function))

    def make_source(self, root: str) -> Any:
        """The source or Dataset over the data at ``root``: the module's own, else torchvision's ``ImageFolder``."""
        if self.has("source"):
            function = self.companion("source")
            return function(root, **self.values_for(function))
        from torchvision.datasets import ImageFolder

        return cast(Any, ImageFolder)(root)

    @property
    def bound(self) -> Bound:
        """How far its pixels may be from its reference's."""
        return self._companions.bounds.get("reference", Bound())

    # What it is ------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    @property
    def path(self) -> str:
        """The file that defines it."""
        return self.function.__code__.co_filename

    @property
    def summary(self) -> str:
        """The first line of its docstring, empty where there is none."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def parameter(self, name: str) -> Parameter:
        """One of its parameters.

        Raises:
            ArgumentError: naming all of them, where there is none of this name.
        """
        for known in self.parameters:
            if known.name == name:
                return known
        names = [known.name for known in self.parameters]
        near = difflib.get_close_matches(name, names, n=1)
        guess = f"; did you mean {near[0]}?" if near else ""
        listed = f"it has {', '.join(map(str, self.parameters))}" if names else "it has none"
        raise ArgumentError(f"the pipeline {self.name} has no parameter {name!r}{guess} ({listed})")

    def parse(self, assignments: typing.Iterable[str]) -> Pipeline:
        """The pipeline with values from the command line, each ``NAME=VALUE``.

        Raises:
            ArgumentError: for another form, an unknown parameter or an ill-typed value.
        """
        values: dict[str, object] = {}
        for assignment in assignments:
            name, equals, text = assignment.partition("=")
            if not equals:
                raise ArgumentError(f"expected NAME=VALUE, such as size=160, got {assignment!r}")
            values[name.strip()] = self.parameter(name.strip()).parse(text)
        return self(**values)

    def all_values(self) -> dict[str, object]:
        """The value of every parameter.

        Raises:
            ArgumentError: where one without a default has none.
        """
        missing = [str(known) for known in self.parameters if known.required and known.name not in self.values]
        if missing:
            example = f"{self.name}({missing[0].partition(':')[0]}=...)"
            raise ArgumentError(f"the pipeline {self.name} needs a value for {', '.join(missing)}; call {example}")
        return {known.name: self.values.get(known.name, known.default) for known in self.parameters}

    def values_for(self, function: Callable[..., Any]) -> dict[str, object]:
        """The values of those parameters that a function of the module declares."""
        declared = inspect.signature(function).parameters
        takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in declared.values())
        return {name: value for name, value in self.all_values().items() if takes_all or name in declared}

    def __reduce__(self) -> tuple[Any, ...]:
        """By name, as functions are pickled: what unpickles it finds the module, or runs its file again."""
        code = self.function
        return _found_again, (code.__module__, self.path, self.name, dict(self.values))

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.values.items())
        return f"{self.name}({given})" if given else self.name

    def __repr__(self) -> str:
        return f"<gpufeed.Pipeline {self} of {self.path}>"


def _found_again(module: str, path: str, name: str, values: dict[str, object]) -> Pipeline:
    """A pickled pipeline: that of its module, or, where that can't be imported, of its file."""
    try:
        found: object = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        found = load_object(f"{path}:{name}")
    return cast(Pipeline, found)(**values)


def pipeline(function: Callable[..., Any]) -> Pipeline:
    """Decorator: the function describes what happens to a sample.

    The function is called once for each graph that is made of it, with a `gpufeed.recording.Sample`; it must not hold
    Python's own randomness, loops over samples, or anything that is to happen once per sample: what it calls describes
    it. It returns a node, or nested tuples, lists and dicts of nodes; the loader yields batches of the same structure.

    Example::

        @gpufeed.pipeline
        def train(sample, *, size: int = 224):
            image = sample.random_resized_crop(size)
            return ops.normalize(image), sample.target

    Raises:
        ArgumentError: for a function that doesn't take one sample by position, or whose other arguments are not
            annotated keyword arguments.
    """
    if not isinstance(function, types.FunctionType):
        raise ArgumentError(f"@gpufeed.pipeline goes above a function, got {function!r}")
    return Pipeline(function, _parameters(function))


def _parameters(function: types.FunctionType) -> tuple[Parameter, ...]:
    place = f"{function.__code__.co_filename}, line {function.__code__.co_firstlineno}"
    name = function.__name__
    signature = list(inspect.signature(function).parameters.values())
    positional = [one for one in signature if one.kind is not inspect.Parameter.KEYWORD_ONLY]
    if len(positional) != 1 or positional[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise ArgumentError(
            f"{place}: a pipeline takes one argument by position, the sample, and parameters by keyword; write "
            f"def {name}(sample, *, size: int = 224)"
        )
    hints = _hints(function, place)
    found: list[Parameter] = []
    for one in signature:
        if one.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        if one.name not in hints:
            raise ArgumentError(f"{place}: the parameter {one.name} of {name} needs an annotation, as {one.name}: int")
        parameter = Parameter(one.name, hints[one.name], one.default)
        if not _known(parameter.type):
            raise ArgumentError(
                f"{place}: the parameter {one.name} of {name} is {type_name(parameter.type)}; take bool, int, float, "
                "str, Literal or tuple of these, or one of these | None"
            )
        if not parameter.required:
            parameter.check(parameter.default)
        found.append(parameter)
    return tuple(found)


def _hints(function: types.FunctionType, place: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except NameError as error:
        raise ArgumentError(f"{place}: an annotation of {function.__name__} has an unknown name: {error}") from error


# Types ----------------------------------------------------------------------------------------------------------------


def _known(kind: Any) -> bool:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return all(type(choice) in _SCALARS for choice in arguments)
    if origin in (Union, types.UnionType):
        inner = _without_none(arguments)
        return len(inner) == 1 and _known(inner[0])
    if origin is tuple:
        items = arguments[:1] if arguments[-1:] == (Ellipsis,) else arguments
        return bool(items) and all(item in _SCALARS for item in items)
    return kind in _SCALARS


def _without_none(arguments: tuple[Any, ...]) -> list[Any]:
    return [argument for argument in arguments if argument is not types.NoneType]


def _as(kind: Any, value: object) -> object:
    """``value`` as one of ``kind``.

    Raises:
        ValueError: where it isn't.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        if any(value == choice and type(value) is type(choice) for choice in arguments):
            return value
        raise ValueError
    if origin in (Union, types.UnionType):
        return None if value is None else _as(_without_none(arguments)[0], value)
    if origin is tuple:
        if not isinstance(value, (tuple, list)):
            raise ValueError
        items = cast("tuple[object, ...]", tuple(cast(Any, value)))
        kinds = arguments[:1] * len(items) if arguments[-1:] == (Ellipsis,) else arguments
        if len(kinds) != len(items):
            raise ValueError
        return tuple(_as(one, item) for one, item in zip(kinds, items, strict=True))
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is kind:
        return value
    raise ValueError


_FLAGS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}


def _parsed(kind: Any, text: str) -> object:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        for choice in arguments:
            if text == str(choice):
                return choice
        raise ValueError
    if origin in (Union, types.UnionType):
        return None if text.lower() == "none" else _parsed(_without_none(arguments)[0], text)
    if origin is tuple:
        items = [item.strip() for item in text.strip("()").split(",") if item.strip()]
        kinds = arguments[:1] * len(items) if arguments[-1:] == (Ellipsis,) else arguments
        if len(kinds) != len(items):
            raise ValueError
        return tuple(_parsed(one, item) for one, item in zip(kinds, items, strict=True))
    if kind is bool:
        if text.lower() not in _FLAGS:
            raise ValueError
        return _FLAGS[text.lower()]
    return kind(text)


def type_name(kind: Any) -> str:
    """A parameter's type as people write it."""
    if get_origin(kind) is Literal:
        return " or ".join(repr(choice) for choice in get_args(kind))
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind).replace("NoneType", "None")
