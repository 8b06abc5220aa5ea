"""Settings of loaders as a TOML file: what ``gpufeed tune`` writes, and `DataLoader.from_config` and others read.

::

    schema = "gpufeed.tune"
    schema_version = 1

    [torch]  # arguments of torch.utils.data.DataLoader
    num_workers = 4
    prefetch_factor = 2
    persistent_workers = true
    pin_memory = false

    [gpufeed]  # arguments of gpufeed.DataLoader; the last two are those of gpufeed.Decode
    num_threads = 4
    prefetch_factor = 2
    placement = "auto"

    [measured]  # figures and environment; for people
    torch_images_per_s = 512.3
"""

from __future__ import annotations

import difflib
import inspect
import json
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from gpufeed import result_files
from gpufeed.errors import ArgumentError
from gpufeed.options import Decode

__all__ = [
    "SCHEMA",
    "SCHEMA_VERSION",
    "Config",
    "GpufeedSettings",
    "TorchSettings",
    "check_config_target",
    "loader_arguments",
    "read_config",
    "to_toml",
    "write_config",
]

SCHEMA = "gpufeed.tune"
SCHEMA_VERSION = 1

Figure = str | int | float | bool

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TorchSettings:
    """What of ``torch.utils.data.DataLoader`` decides its speed and memory.

    Attributes:
        num_workers: processes that load; 0: the calling thread does.
        prefetch_factor: batches under way for each worker; ``None`` without workers.
        persistent_workers: whether workers live on between epochs.
        pin_memory: whether batches are copied to page-locked memory.
    """

    num_workers: int = 0
    prefetch_factor: int | None = None
    persistent_workers: bool = False
    pin_memory: bool = False

    def __post_init__(self) -> None:
        _check_integer("num_workers", self.num_workers, 0)
        _check_flag("persistent_workers", self.persistent_workers)
        _check_flag("pin_memory", self.pin_memory)
        if self.prefetch_factor is not None:
            _check_integer("prefetch_factor", self.prefetch_factor, 1)
        if self.num_workers == 0 and (self.prefetch_factor is not None or self.persistent_workers):
            raise ArgumentError("prefetch_factor and persistent_workers need num_workers of at least 1, got 0")

    @property
    def batches_in_flight(self) -> int:
        """Batches under way at once, at least 1; torch's own ``prefetch_factor`` is 2."""
        return max(1, self.num_workers * (self.prefetch_factor or 2))


@dataclass(frozen=True, slots=True)
class GpufeedSettings:
    """What of ``gpufeed.DataLoader`` decides its speed and memory.

    Attributes:
        num_threads: CPU threads.
        prefetch_factor: batches in flight.
        placement: where images are decoded, see `gpufeed.Decode`.
        hw_decoder_load: see `gpufeed.Decode`.
    """

    num_threads: int
    prefetch_factor: int = 2
    placement: Literal["auto", "cpu", "mixed"] = "auto"
    hw_decoder_load: float | None = None

    def __post_init__(self) -> None:
        _check_integer("num_threads", self.num_threads, 1)
        _check_integer("prefetch_factor", self.prefetch_factor, 1)
        if self.hw_decoder_load is not None and (
            isinstance(self.hw_decoder_load, bool) or not isinstance(self.hw_decoder_load, (int, float))  # pyright: ignore[reportUnnecessaryIsInstance] - from a file
        ):
            raise ArgumentError(f"hw_decoder_load must be a number in [0, 1], got {self.hw_decoder_load!r}")
        self.decode()  # checks what is Decode's

    def decode(self) -> Decode:
        """The loader's ``decode``."""
        return Decode(self.placement, self.hw_decoder_load)

    @property
    def batches_in_flight(self) -> int:
        """Batches under way at once."""
        return self.prefetch_factor


@dataclass(frozen=True, slots=True)
class Config:
    """The content of a file of settings.

    Attributes:
        torch: for torch's loader; ``None`` where the file has none.
        gpufeed: for gpufeed's.
        measured: figures and environment by name, in the file's order.
    """

    torch: TorchSettings | None = None
    gpufeed: GpufeedSettings | None = None
    measured: Mapping[str, Figure] = field(default_factory=dict[str, Figure])


def _check_integer(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ArgumentError(f"{name} must be an integer of at least {least}, got {value!r}")


def _check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ArgumentError(f"{name} must be true or false, got {value!r}")


# Reading --------------------------------------------------------------------------------------------------------------

_TOP = ("schema", "schema_version", "torch", "gpufeed", "measured")


def read_config(path: str | Path) -> Config:
    """Read a file of settings. One written by hand may leave out ``schema``, ``schema_version`` and any table.

    Raises:
        ArgumentError: the file isn't there, is no TOML, is of another schema or version, has a key that isn't known
            (the message lists those that are), or a value outside its rule.
    """
    path = Path(path).expanduser()
    try:
        document = tomllib.loads(result_files.read_text(path, f"gpufeed tune --out {path} writes one"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ArgumentError(f"{path} is no TOML: {error}; gpufeed tune writes a right one") from error
    _check_keys(path, "", document, _TOP)
    if document.get("schema", SCHEMA) != SCHEMA:
        raise ArgumentError(f"{path}: schema must be {SCHEMA!r}, got {document['schema']!r}")
    if document.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        raise ArgumentError(
            f"{path}: schema_version must be {SCHEMA_VERSION}, got {document['schema_version']!r}; use the gpufeed "
            "version that wrote it, or tune again"
        )
    return Config(
        _settings(path, document, "torch", TorchSettings),
        _settings(path, document, "gpufeed", GpufeedSettings),
        _table(path, document, "measured"),
    )


def _settings(path: Path, document: Mapping[str, Any], name: str, kind: Callable[..., _T]) -> _T | None:
    if name not in document:
        return None
    table = _table(path, document, name)
    _check_keys(path, f"[{name}]", table, tuple(entry.name for entry in fields(cast(Any, kind))))
    try:
        return kind(**table)
    except ArgumentError as error:
        raise ArgumentError(f"{path}, [{name}]: {error}") from error
    except TypeError as error:  # one that has no default is missing
        raise ArgumentError(f"{path}, [{name}] needs num_threads; add it") from error


def _table(path: Path, document: Mapping[str, Any], name: str) -> dict[str, Any]:
    table: object = document.get(name, {})
    if not isinstance(table, dict):
        raise ArgumentError(f"{path}: {name} must be a table, got {table!r}; write [{name}] on a line of its own")
    return cast("dict[str, Any]", table)


def _check_keys(path: Path, where: str, table: Mapping[str, object], known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            raise ArgumentError(f"{path}: there is no {f'{where} {key}'.strip()}{_instead(key, known)}")


def _instead(key: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    return f"; {'did you mean ' + close[0] + '? T' if close else 't'}here are {', '.join(known)}"


def loader_arguments(
    path: str | Path, overrides: Mapping[str, object], loader: Callable[..., object]
) -> dict[str, object]:
    """The arguments of a `gpufeed.DataLoader` from a file's ``[gpufeed]``.

    Args:
        path: of the file.
        overrides: other arguments; they replace the file's.
        loader: the class that gets them.

    Raises:
        ArgumentError: see `read_config`; the file has no ``[gpufeed]``; or ``loader`` has no argument of such a name.
    """
    taken = inspect.signature(loader).parameters
    if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in taken.values()):
        for name in overrides:
            if name not in taken:
                known = tuple(known for known in taken if known != "dataset")
                raise ArgumentError(f"the loader has no argument {name!r}{_instead(name, known)}")
    settings = read_config(path).gpufeed
    if settings is None:
        raise ArgumentError(f"{path} has no [gpufeed] table; gpufeed tune writes one where it can do the transform")
    arguments: dict[str, object] = {
        "num_threads": settings.num_threads,
        "prefetch_factor": settings.prefetch_factor,
        "decode": settings.decode(),
    }
    return {**arguments, **overrides}


# Writing --------------------------------------------------------------------------------------------------------------


def to_toml(config: Config) -> str:
    """The file's text; `read_config` gives back an equal `Config`."""
    lines = [
        "# Written by gpufeed tune. Read by gpufeed.DataLoader.from_config and gpufeed compare --config.",
        f"schema = {_value(SCHEMA)}",
        f"schema_version = {SCHEMA_VERSION}",
    ]
    tables: dict[str, Mapping[str, Figure | None]] = {
        "torch": {} if config.torch is None else asdict(config.torch),
        "gpufeed": {} if config.gpufeed is None else asdict(config.gpufeed),
        "measured": config.measured,
    }
    for name, table in tables.items():
        if table:
            lines += ["", f"[{name}]"]
            lines += [f"{_key(key)} = {_value(value)}" for key, value in table.items() if value is not None]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else _value(name)


def _value(value: Figure) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # A TOML basic string is a JSON string, but that it forbids U+007F, which JSON doesn't escape.
        shown = value.encode("utf-8", "replace").decode()  # of a path that is no text
        return json.dumps(shown, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else f"{'-' if value < 0 else ''}inf"
    return repr(value)


def check_config_target(path: Path, option: str = "--out") -> None:
    """Refuse a file that settings must not or can't be written to; one of gpufeed's own may be replaced.

    Args:
        path: of the file.
        option: what the user named it by, for messages.

    Raises:
        ArgumentError: ``path`` holds anything else, or its folder can't be written to.
    """
    result_files.check_place(path, option, SCHEMA, _is_ours)


def _is_ours(content: bytes) -> bool:
    try:
        return tomllib.loads(content.decode()).get("schema") == SCHEMA
    except tomllib.TOMLDecodeError:
        return False


def write_config(config: Config, path: Path) -> None:
    """Write the settings whole or not at all.

    Raises:
        ArgumentError: see `check_config_target`; or the disk is full or the like.
    """
    check_config_target(path)
    result_files.write_whole(to_toml(config).encode(), path)
