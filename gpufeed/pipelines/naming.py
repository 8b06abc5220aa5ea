"""How people name pipelines: a file's, a shipped one, or that of an installed package.

==========================================  ==========================================================================
``study.py:train``, ``study.py``            in a Python file, which runs; alone where it holds one pipeline
``gpufeed:imagenet:train``, ``gpufeed:ssl``  shipped with gpufeed
``acme``, ``acme:train``                    the entry point ``acme`` in the group ``gpufeed.pipelines`` of an installed
                                            package; it is ``package.module:pipeline``, or a module with pipelines
==========================================  ==========================================================================

A file runs only when it is named. Nothing here imports torch or DALI; what is loaded may.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

import gpufeed
from gpufeed.errors import ArgumentError
from gpufeed.pipelines.definition import Pipeline
from gpufeed.pipelines.loading import load_object
from gpufeed.pipelines.namespaces import guess, is_transform, kind_of, listed, pipeline_names, transform_names

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "ENTRY_POINT_GROUP",
    "NamedPipeline",
    "is_pipeline_reference",
    "load_pipeline",
    "load_subject",
    "named_pipelines",
    "pipelines_named",
    "shipped_folder",
    "shipped_modules",
]

ENTRY_POINT_GROUP = "gpufeed.pipelines"
"""In a package's pyproject.toml: ``[project.entry-points."gpufeed.pipelines"]``, ``acme = "acme.feeding:train"``."""

_SHIPPED = "gpufeed"
"""What references to shipped modules begin with, before a colon."""

_WRITE_ONE = "write @gpufeed.pipeline above a function that takes a sample"


@dataclass(frozen=True, slots=True)
class NamedPipeline:
    """A pipeline as it can be named.

    Attributes:
        reference: what to write, such as ``gpufeed:imagenet:train``.
        origin: where it comes from: ``gpufeed``, a distribution with its version, or a file.
        pipeline: ``None`` for that of an installed package that was not loaded.
    """

    reference: str
    origin: str
    pipeline: Pipeline | None = None

    @property
    def summary(self) -> str:
        """The first line of its docstring; empty where there is none or it was not loaded."""
        return "" if self.pipeline is None else self.pipeline.summary

    @property
    def parameters(self) -> tuple[str, ...]:
        """Its parameters as text, such as ``size: int = 224``; none where it was not loaded."""
        return () if self.pipeline is None else tuple(map(str, self.pipeline.parameters))


# Loading --------------------------------------------------------------------------------------------------------------


def load_pipeline(reference: str) -> Pipeline:
    """The pipeline that a reference names.

    Args:
        reference: ``FILE.py:NAME``, ``gpufeed:MODULE:NAME``, or an entry point's ``NAME`` or ``NAME:PIPELINE``. The
            part after the last colon may be left out where there is one pipeline. A file is relative to the current
            directory.

    Raises:
        ArgumentError: nothing has this name, which is answered with near names and the list; the file or package
            fails while it is loaded; several pipelines are there and none was chosen; or it is no pipeline.
    """
    held = _hold(reference)
    return _pipeline(held, held.name or _only_name(held))


def load_subject(reference: str) -> object:
    """The pipeline that a reference names, or whatever else ``FILE.py:NAME`` is, for commands that take transforms too.

    ``FILE.py`` alone is its only pipeline; where it has none, its only torchvision transform.

    Raises:
        ArgumentError: as for `load_pipeline`, except that an object of ``FILE.py:NAME`` may be of any type.
    """
    if not _is_file(reference):
        return load_pipeline(reference)
    held = _hold(reference)
    pipelines, transforms = pipeline_names(held.namespace), transform_names(held.namespace)
    name = held.name
    if name is None:
        if len(pipelines or transforms) != 1:
            raise ArgumentError(f"{held.label} {_subjects(held.label, pipelines, transforms)}")
        name = (pipelines or transforms)[0]
    if name not in held.namespace:
        near = guess(name, [*pipelines, *transforms])
        instead = near or f"it {_subjects(held.label, pipelines, transforms)}"
        raise ArgumentError(f"{held.label} has no name {name!r}; {instead}")
    return held.namespace[name]


def is_pipeline_reference(reference: str) -> bool:
    """Whether it has the form of a pipeline's name; no file is run, and none needs to be there.

    ``FILE.py`` and ``FILE.py:NAME`` may name a transform as well: `load_subject` tells. A single word is a reference
    where an installed package has an entry point of this name.
    """
    if _is_file(reference):
        return True
    first, colon, rest = reference.partition(":")
    if first == _SHIPPED:
        return bool(colon)
    return (not colon or rest.isidentifier()) and first in {point.name for point in _points()}


@dataclass(frozen=True, slots=True)
class _Held:
    """What a reference's first part names.

    Attributes:
        label: that part, as it was written.
        namespace: its names and objects.
        origin: as for `NamedPipeline`.
        name: the reference's last part, if there was one.
    """

    label: str
    namespace: Mapping[str, object]
    origin: str
    name: str | None


def _hold(reference: str) -> _Held:
    """Load what the reference's first part names."""
    if _is_file(reference):
        label, name = (reference, None) if reference.endswith(".py") else _last_colon(reference)
        name = _identifier(name, reference)  # before the file runs
        return _Held(label, _namespace(label), label, name)
    first, colon, rest = reference.partition(":")
    if first == _SHIPPED:
        module, colon, name = rest.partition(":")
        return _shipped(module, _identifier(name if colon else None, reference))
    return _installed(first, _identifier(rest if colon else None, reference), reference)


def _is_file(reference: str) -> bool:
    return reference.endswith(".py") or _last_colon(reference)[0].endswith(".py")


def _last_colon(reference: str) -> tuple[str, str]:
    first, _, last = reference.rpartition(":")
    return first, last


def _identifier(name: str | None, reference: str) -> str | None:
    if name is None or name.isidentifier():
        return name
    raise ArgumentError(
        f"expected a pipeline's name after the last colon, such as study.py:train, got {reference!r}; "
        "leave out the colon where there is only one"
    )


def _namespace(file: str | os.PathLike[str]) -> dict[str, object]:
    return cast("dict[str, object]", load_object(f"{os.fspath(file)}:__dict__"))


def _shipped(module: str, name: str | None) -> _Held:
    known = shipped_modules()
    if module not in known:
        asked = f"gpufeed ships no pipeline module {module!r}" if module else "expected gpufeed:MODULE:NAME"
        there = f"there {'are' if len(known) > 1 else 'is'} {', '.join(_references(known)) or 'none'}"
        raise ArgumentError("; ".join(filter(None, (asked, guess(module, known), there))))
    label = f"{_SHIPPED}:{module}"
    return _Held(label, _namespace(shipped_folder() / f"{module}.py"), _SHIPPED, name)


def _references(modules: Iterable[str]) -> list[str]:
    return [f"{_SHIPPED}:{module}" for module in modules]


def _installed(point_name: str, name: str | None, reference: str) -> _Held:
    points = [point for point in _points() if point.name == point_name]
    if not points:
        raise ArgumentError(_unknown(reference))
    if len(points) > 1:
        raise ArgumentError(
            f"{point_name!r} is ambiguous: {' and '.join(map(_distribution, points))} both have an entry point of this "
            f"name in the group {ENTRY_POINT_GROUP}; name a file instead, as FILE.py:NAME, or uninstall one"
        )
    (point,) = points
    value = _loaded(point)
    if isinstance(value, ModuleType):
        return _Held(point_name, vars(value), _distribution(point), name)
    if name is not None and isinstance(value, Pipeline):
        raise ArgumentError(f"{point_name} is one pipeline, not a module with several; leave out :{name}")
    return _Held(point_name, {point_name: value}, _distribution(point), point_name)


def _loaded(point: EntryPoint) -> object:
    try:
        return point.load()
    except Exception as error:  # whatever the package raises is the package's error
        raise ArgumentError(
            f"the pipeline {point.name} of {_distribution(point)} ({point.value}) can't be loaded: "
            f"{type(error).__name__}: {error}"
        ) from error


def _points() -> list[EntryPoint]:
    """Those of all installed packages, by name; one that is found twice, as beside an editable install, once."""
    from importlib.metadata import entry_points  # not needed for files

    found = {(point.name, point.value, _distribution(point)): point for point in entry_points(group=ENTRY_POINT_GROUP)}
    return [found[key] for key in sorted(found)]


def _distribution(point: EntryPoint) -> str:
    return "an unknown distribution" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _only_name(held: _Held) -> str:
    names = pipeline_names(held.namespace)
    if not names:
        raise ArgumentError(f"{held.label} {_no_pipeline(held)}")
    if len(names) > 1:
        raise ArgumentError(f"{held.label} holds {listed(names, 'pipeline')}; name one, as in {held.label}:{names[0]}")
    return names[0]


def _pipeline(held: _Held, name: str) -> Pipeline:
    if name not in held.namespace:
        raise ArgumentError(f"{held.label} has no pipeline {name!r}; {_instead(name, held)}")
    value = held.namespace[name]
    if isinstance(value, Pipeline):
        return value
    label = held.label if held.label == name else f"{held.label}:{name}"
    raise ArgumentError(f"{label} is {kind_of(value)}, not a pipeline; {_way_out(name, value)}")


# What is there --------------------------------------------------------------------------------------------------------


def named_pipelines() -> tuple[NamedPipeline, ...]:
    """What can be named without a file: the shipped ones, loaded, then those of installed packages, which are not.

    Raises:
        ArgumentError: a shipped module fails while it is loaded.
    """
    shipped = [named for module in shipped_modules() for named in pipelines_named(f"{_SHIPPED}:{module}")]
    return (*shipped, *(NamedPipeline(point.name, _distribution(point)) for point in _points()))


def pipelines_named(reference: str) -> tuple[NamedPipeline, ...]:
    """The pipeline that a reference names, or where it names a file or module with several all of these.

    Raises:
        ArgumentError: as for `load_pipeline`; also where there is none.
    """
    held = _hold(reference)
    if held.name is not None:
        return (NamedPipeline(reference, held.origin, _pipeline(held, held.name)),)
    names = pipeline_names(held.namespace)
    if not names:
        raise ArgumentError(f"{held.label} {_no_pipeline(held)}")
    return tuple(NamedPipeline(f"{held.label}:{name}", held.origin, _pipeline(held, name)) for name in names)


def shipped_folder() -> Path:
    """Where the shipped modules lie: inside of the installed package, in a checkout beside it."""
    package = Path(gpufeed.__file__).parent
    installed, checkout = package / "shipped", package.parent / "pipelines"
    # Beside an installed package there may be a stranger's `pipelines`.
    in_checkout = not installed.is_dir() and (package.parent / "pyproject.toml").is_file()
    return checkout if in_checkout else installed


def shipped_modules() -> tuple[str, ...]:
    """The names of the shipped modules, sorted, without loading any."""
    return tuple(sorted(path.stem for path in shipped_folder().glob("*.py") if not path.name.startswith("_")))


# Sentences ------------------------------------------------------------------------------------------------------------


def _no_pipeline(held: _Held) -> str:
    transforms = transform_names(held.namespace)
    if not transforms:
        return f"holds no pipeline under a name of its own; {_WRITE_ONE}"
    return (
        f"holds no pipeline but {listed(transforms, 'torchvision transform')}; give a transform to the dataset, as "
        f"ImageFolder(root, transform={transforms[0]}), or {_WRITE_ONE}"
    )


def _instead(name: str, held: _Held) -> str:
    names = pipeline_names(held.namespace)
    there = f"holds {listed(names, 'pipeline')}" if names else _no_pipeline(held)
    return " ".join(filter(None, (guess(name, names), f"it {there}")))


def _way_out(name: str, value: object) -> str:
    if is_transform(value):
        return f"give it to the dataset, as ImageFolder(root, transform={name}), and leave pipeline= out"
    if kind_of(value) == "a plain function":
        return "write @gpufeed.pipeline above it if it takes a sample"
    return "name a function under @gpufeed.pipeline"


def _subjects(label: str, pipelines: list[str], transforms: list[str]) -> str:
    if not pipelines and not transforms:
        return f"holds neither a pipeline nor a transform under a name of its own; give one a name, as in {label}:NAME"
    groups = [listed(names, noun) for names, noun in ((pipelines, "pipeline"), (transforms, "transform")) if names]
    return f"holds {' and '.join(groups)}; name one, as in {label}:{(pipelines or transforms)[0]}"


def _unknown(reference: str) -> str:
    first, colon, rest = reference.partition(":")
    if Path(f"{first}.py").is_file():
        return f"there is no pipeline named {reference!r}; for the file write {first}.py{colon}{rest}"
    known = [*(point.name for point in _points()), *_references(shipped_modules())]
    expected = f"expected FILE.py:NAME, gpufeed:MODULE:NAME or an installed pipeline, got {reference!r}"
    near = guess(first, known) or guess(f"{_SHIPPED}:{first}", known)
    return "; ".join(filter(None, (expected, near, f"known are {', '.join(known)}" if known else "")))
