"""Faults of a folder's files, gathered so that one error names them all."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpufeed.errors import ArgumentError

__all__ = ["Faults"]

_SHOWN = 10
"""As many faults as a person reads; a wrong folder would otherwise fill the screen a hundred thousand times."""


@dataclass(slots=True)
class Faults:
    """What is wrong with the files of a source, in the order in which it was found.

    Attributes:
        subject: what was read, as the message begins.
        shown: the first faults, in words; each says where, what is wrong and what to do.
        count: of all faults.
    """

    subject: str
    shown: list[str] = field(default_factory=list[str])
    count: int = 0

    def add(self, fault: str) -> None:
        """Add a fault; only the first few are kept in words."""
        self.count += 1
        if len(self.shown) < _SHOWN:
            self.shown.append(fault)

    def check(self) -> None:
        """Go on if there is no fault.

        Raises:
            ArgumentError: with at most 10 faults, and how many more there are.
        """
        if not self.count:
            return
        lines = [f"{self.subject}: {self.count} fault{'s' * (self.count != 1)}", *self.shown]
        if self.count > len(self.shown):
            lines.append(f"and {self.count - len(self.shown)} more")
        raise ArgumentError("\n  ".join(lines))
