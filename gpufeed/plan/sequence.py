"""The Plan itself: the sequence of ops."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from gpufeed.plan.op import Op, described
from gpufeed.spec import ImageSpec

__all__ = ["DECODED", "Plan"]

DECODED = ImageSpec()
"""What a plan begins with: an image decoded to 8-bit RGB, of any size."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens to a sample after it is decoded to 8-bit RGB.

    Attributes:
        ops: in order.
        input: the decoded image.
    """

    ops: tuple[Op, ...]
    input: ImageSpec = DECODED

    def __post_init__(self) -> None:
        for _ in self.specs():  # every op must take its input
            pass

    def specs(self) -> Iterator[ImageSpec]:
        """The input of each op in order, then the output: ``len(ops) + 1`` specs."""
        spec = self.input
        yield spec
        for op in self.ops:
            spec = op.out_spec(spec)
            yield spec

    @property
    def output(self) -> ImageSpec:
        """What comes out at the end."""
        *_, last = self.specs()
        return last

    @property
    def is_random(self) -> bool:
        """Whether any op draws."""
        return any(op.is_random for op in self.ops)

    def canonical_json(self) -> str:
        """The plan as canonical JSON: sorted keys, no spaces."""
        decoded = {name: value for name, value in asdict(self.input).items() if name != "tuple_of"}  # one image it is
        plan = {"input": decoded, "ops": described(self.ops)}
        return json.dumps(plan, sort_keys=True, separators=(",", ":"))

    def fingerprint(self) -> str:
        """SHA-256 of `canonical_json`, in hexadecimal; equal in every process."""
        return hashlib.sha256(self.canonical_json().encode()).hexdigest()

    def __str__(self) -> str:
        lines = [f"{number:2d}  {op}" for number, op in enumerate(self.ops)]
        return "\n".join([f"in  {self.input}", *lines, f"out {self.output}"])
