"""Every error that gpufeed raises on purpose.

::

    GpufeedError
    ├── ArgumentError (also ValueError)      an argument has a wrong value
    ├── UnsupportedError (also TypeError)    gpufeed can't do this exactly, and says what to do instead
    │   └── TranslationError                 a transform at a place of the Compose
    ├── PipelineError (also TypeError)       a pipeline function has a mistake at a line of the user's file
    ├── SampleError (also RuntimeError)      a sample could not be read or decoded
    ├── FeedTimeoutError (also RuntimeError) a batch took longer than ``timeout``
    └── BenchmarkError                       a measurement would not be fair or can't be made

Messages hold the value, the rule and the next step. Where torch's ``DataLoader`` raises a certain class for the same
mistake, ours is a subclass of it, so that existing ``except`` clauses go on working.
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "BenchmarkError",
    "FeedTimeoutError",
    "GpufeedError",
    "PipelineError",
    "SampleError",
    "TranslationError",
    "UnsupportedError",
]


class GpufeedError(Exception):
    """The root of all errors that gpufeed raises on purpose."""


class ArgumentError(GpufeedError, ValueError):
    """An argument has a value outside its rule; the message states both."""


class UnsupportedError(GpufeedError, TypeError):
    """gpufeed can't do this exactly; the message says why and which choices are left."""


class TranslationError(UnsupportedError):
    """A transform can't be translated; the message names its place in the Compose and the way out."""


class PipelineError(GpufeedError, TypeError):
    """A pipeline module has a mistake; the message shows the line of the user's file and what is wrong with it.

    Attributes:
        path: the file; empty where no line is to blame.
        line: its number there, from 1; 0 where no line is to blame.
        cause: what is wrong and what to do about it, in words.
    """

    def __init__(self, cause: str, path: str = "", line: int = 0, code: str = "") -> None:
        super().__init__(cause, path, line, code)
        self.cause = cause
        self.path = path
        self.line = line
        self.code = code

    def __str__(self) -> str:
        if not self.path:
            return self.cause
        shown = f"\n    {self.code}\n" if self.code else " "
        return f"{self.path}, line {self.line}:{shown}{self.cause}"


class SampleError(GpufeedError, RuntimeError):
    """A sample could not be read or decoded.

    Attributes:
        index: the sample's index in the dataset.
        name: what names the sample for a person, for files the path.
        cause: what went wrong and what to do about it, in words.
    """

    def __init__(self, index: int, name: str, cause: str) -> None:
        super().__init__(index, name, cause)
        self.index = index
        self.name = name
        self.cause = cause

    def __str__(self) -> str:
        return f"sample {self.index} ({self.name}) could not be loaded: {self.cause}. The loader stays usable."


class FeedTimeoutError(GpufeedError, RuntimeError):
    """A batch took longer than the loader's ``timeout``."""


class BenchmarkError(GpufeedError):
    """A measurement would not be fair, or can't be made at all."""
