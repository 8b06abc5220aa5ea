"""``gpufeed verify``: torchvision's transform and gpufeed on the same files with the same draws."""

from __future__ import annotations

from gpufeed.inspect.verify.verification import (
    Request,
    verify,
)

__all__ = [
    "Request",
    "verify",
]
