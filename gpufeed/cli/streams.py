"""Standard output belongs to a command's result, whatever the files that it runs write."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout

__all__ = ["stdout_to_stderr"]


@contextmanager
def stdout_to_stderr() -> Generator[None]:
    """What the user's file prints goes to stderr, so that stdout holds the result alone; also what C code writes."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
