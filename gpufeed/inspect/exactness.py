"""How equal the pixels are, as Markdown for the README: made from `gpufeed.bounds.TABLE`, so that it can't differ."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import get_args

from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed import plan
from gpufeed.bounds import MEASURED_WITH, TABLE, Bound, Device
from gpufeed.errors import ArgumentError
from gpufeed.plan import BranchOp, Interpolation, Op
from gpufeed.spec import Domain

__all__ = ["BEGIN", "END", "document", "plain_ops", "replace_section", "torchvision_names"]

BEGIN = "<!-- exactness: begin -->"
END = "<!-- exactness: end -->"
"""What stands before and after the section in the README."""

_WIDTH = 120  # of a line of the README

_BECOME: Mapping[str, tuple[str, ...]] = {
    "Convert": ("PILToTensor", "ToImage", "ToPureTensor"),
    "Elastic": ("ElasticTransform",),
    "Erase": ("RandomErasing",),
    "EraseToNoise": ("RandomErasing",),
    "Flip": ("RandomHorizontalFlip", "RandomVerticalFlip"),
    "Jpeg": ("JPEG",),
    "RandomAreaCrop": ("RandomResizedCrop",),
    "Resize": ("Resize", "RandomResizedCrop"),
    "Rotate": ("RandomRotation",),
    "ToDtype": ("ToDtype", "ConvertImageDtype"),
}
"""The classes of torchvision's that become an op, where they aren't called as it is, or that with ``Random`` before."""

_PARTS = {
    "Erase": "`RandomErasing` with a fixed value",
    "EraseToNoise": '`RandomErasing` with `value="random"`',
    "RandomAreaCrop": "the crop of `RandomResizedCrop`",
}
"""What to call an op that is a part of what a class of torchvision's does, and the others aren't as equal."""

_DOMAINS: Mapping[Domain, str] = {
    "pil": "PIL images",
    "uint8": "uint8 tensors",
    "integer": "other integer tensors",
    "float": "float tensors",
}
_TOGETHER: Mapping[tuple[Domain, ...], str] = {
    ("uint8", "integer", "float"): "tensors",
    ("uint8", "integer"): "integer tensors",
}


def torchvision_names(op_class: type[Op]) -> tuple[str, ...]:
    """The torchvision classes that become an op of this class; nothing where none is known."""
    name = op_class.__name__
    if name in _BECOME:
        return _BECOME[name]
    return tuple(one for one in (name, f"Random{name}") if hasattr(v1, one) or hasattr(v2, one))


def plain_ops() -> list[type[Op]]:
    """Every class of ops that hold no others, without those that are only there to be inherited from."""
    found = [getattr(plan, name) for name in plan.__all__]
    ops = [one for one in found if isinstance(one, type) and issubclass(one, Op) and not issubclass(one, BranchOp)]
    return [one for one in ops if not any(other is not one and issubclass(other, one) for other in ops)]


def document() -> str:
    """What is promised, for which versions, and a table for each device; Markdown, ending in a newline."""
    versions = ", ".join(f"{name} {version}" for name, version in MEASURED_WITH.items())
    parts = [
        _paragraph(
            f"Measured with {versions}; the tests hold the bounds with whatever is installed. A bound says how far one "
            "op may be from torchvision's, given torchvision's own input and the same draws, in 1/255 of the full "
            "range. Bounds don't compose: 1/255 before an op that counts values, as equalizing does, may become much "
            "more behind it. A container such as `RandomApply` is as equal as the worst transform in it."
        ),
        "On the CPU:\n",
        _table("cpu"),
        "On CUDA; what is marked as expected was not measured on one yet:\n",
        _table("cuda"),
    ]
    return "\n".join(parts)


def _paragraph(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_on_hyphens=False) + "\n"


_Case = tuple[Domain, Interpolation | None]
"""A kind of input, and an interpolation where that matters to the bound."""


def _cases(op: type[Op], device: Device) -> dict[_Case, Bound]:
    """The bound of an op in each case: that of the first row that holds there."""
    rows = [row for row in TABLE if device in row.devices and issubclass(op, row.ops)]
    cases: dict[_Case, Bound] = {}
    for domain in _DOMAINS:
        fitting = [row for row in rows if domain in row.domains]
        matters = "interpolation" in _field_names(op) and any(row.interpolations for row in fitting)
        for interpolation in get_args(Interpolation) if matters else (None,):
            cases[domain, interpolation] = next(
                row.bound for row in fitting if not row.interpolations or interpolation in row.interpolations
            )
    return cases


def _field_names(op: type[Op]) -> set[str]:
    return {field.name for field in fields(op)}


@dataclass(slots=True)
class _Line:
    """A line of a table: one bound, and all that it holds for.

    Attributes:
        cases: per op those in which it holds; all of an op's cases as nothing.
        reasons: per reason the ops that have it.
    """

    cases: dict[type[Op], tuple[_Case, ...]] = field(default_factory=dict[type[Op], tuple[_Case, ...]])
    reasons: dict[str, list[type[Op]]] = field(default_factory=dict[str, list[type[Op]]])


def _lines(device: Device) -> dict[Bound, _Line]:
    """The lines of a device's table by their bounds without reasons, the most equal first, refusals last."""
    lines: dict[Bound, _Line] = {}
    for op in plain_ops():
        cases = _cases(op, device)
        for bound in dict.fromkeys(cases.values()):
            line = lines.setdefault(replace(bound, reason=""), _Line())
            fitting = tuple(case for case, own in cases.items() if replace(own, reason="") == replace(bound, reason=""))
            line.cases[op] = () if len(fitting) == len(cases) else fitting
            if bound.reason:
                line.reasons.setdefault(bound.reason, []).append(op)
    return dict(sorted(lines.items(), key=lambda item: _distance(item[0])))


def _distance(bound: Bound) -> tuple[bool, float, float, float, bool]:
    largest = 255.0 if bound.largest_255 is None else bound.largest_255
    return bound.refused, bound.usual_255, bound.share_beyond, largest, not bound.measured


def _table(device: Device) -> str:
    shown = ["| how equal | transforms | why |", "|---|---|---|"]
    for bound, line in _lines(device).items():
        shown.append(f"| {_equal(bound)} | {_transforms(line)} | {_why(line)} |")
    return "\n".join(shown) + "\n"


def _equal(bound: Bound) -> str:
    if bound.refused:
        return "refused"
    words = replace(bound, measured=True).words or "equal bit for bit"
    return _cell(words if bound.measured else f"*expected:* {words}")


def _transforms(line: _Line) -> str:
    """The names, those of equal cases together."""
    together: dict[str, list[type[Op]]] = {}
    for op, cases in line.cases.items():
        together.setdefault(_in_words(cases), []).append(op)
    return "; ".join(_names(ops) + (f" on {words}" if words else "") for words, ops in sorted(together.items()))


def _in_words(cases: Iterable[_Case]) -> str:
    """The cases in words; nothing for none."""
    interpolations: dict[Domain, list[Interpolation]] = {}
    for domain, interpolation in cases:
        interpolations.setdefault(domain, []).extend([interpolation] if interpolation else [])
    domains: dict[str, list[Domain]] = {}
    for domain, names in interpolations.items():
        domains.setdefault(_interpolations_in_words(names), []).append(domain)
    return " and ".join(_inputs(inputs) + (f" ({words})" if words else "") for words, inputs in domains.items())


def _interpolations_in_words(names: list[Interpolation]) -> str:
    known: tuple[Interpolation, ...] = get_args(Interpolation)
    others = [name for name in known if name not in names]
    if not names or not others:
        return ""
    return "all but " + ", ".join(others) if len(others) < len(names) else ", ".join(names)


def _inputs(domains: Sequence[Domain]) -> str:
    tensors: tuple[Domain, ...] = tuple(domain for domain in domains if domain != "pil")
    words = [_TOGETHER[tensors]] if tensors in _TOGETHER else [_DOMAINS[domain] for domain in tensors]
    return " and ".join([_DOMAINS["pil"]] * ("pil" in domains) + words)


def _why(line: _Line) -> str:
    ops = list(line.reasons.values())
    alike = all(one == ops[0] for one in ops)
    return _cell("; ".join(reason if alike else f"{_names(own)}: {reason}" for reason, own in line.reasons.items()))


def _names(ops: Iterable[type[Op]]) -> str:
    return ", ".join(sorted({name for op in ops for name in _op_names(op)}, key=str.casefold))


def _op_names(op: type[Op]) -> list[str]:
    if op.__name__ in _PARTS:
        return [_PARTS[op.__name__]]
    return [f"`{name}`" for name in torchvision_names(op) or (op.__name__,)]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def replace_section(readme_text: str) -> str:
    """The README with the current bounds between its two marker comments.

    Raises:
        ArgumentError: the markers aren't there exactly once, in this order.
    """
    before, begin, rest = readme_text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in before + after:
        raise ArgumentError(f"the text must have {BEGIN} and {END} once each, in this order")
    return f"{before}{BEGIN}\n\n{document()}\n{END}{after}"
