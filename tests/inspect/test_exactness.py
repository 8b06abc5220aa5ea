"""The README's section on exactness is made from the table of bounds, says all of it, and is current."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed.bounds import MEASURED_WITH, TABLE, Row, bound_of
from gpufeed.errors import ArgumentError
from gpufeed.inspect.exactness import BEGIN, END, document, plain_ops, replace_section, torchvision_names
from gpufeed.plan import Convert, Flip, Interpolation, Normalize, Op, Resize
from gpufeed.spec import ImageSpec
from gpufeed.translation import translate

README = Path(__file__).parent.parent.parent / "README.md"


def tables() -> dict[Any, list[str]]:
    """The lines of each device's table."""
    parts = document().split("On CUDA")
    return {
        device: [line for line in part.splitlines() if line.startswith("|")][2:]
        for device, part in zip(("cpu", "cuda"), parts, strict=True)
    }


def test_the_readme_is_current() -> None:
    text = README.read_text(encoding="utf-8")
    assert replace_section(text) == text, "run: python scripts/update_exactness.py"


def test_versions_and_the_meaning_are_told() -> None:
    text = " ".join(document().split())
    for name, version in MEASURED_WITH.items():
        assert f"{name} {version}" in text
    assert "Bounds don't compose" in text
    assert "torchvision's own input" in text
    assert all(len(line) <= 120 for line in document().splitlines() if not line.startswith("|"))


RESIZES = [(Resize((9, 9), interpolation=one), one) for one in get_args(Interpolation)]
CASES = [
    *((op, ImageSpec(), f"`Resize`.*PIL images [^;|]*{name}") for op, name in RESIZES),
    (Resize((9, 9)), ImageSpec("tensor", "float32"), "`Resize`.* tensors"),
    (Flip("horizontal"), ImageSpec(), "`RandomHorizontalFlip`"),
    (Normalize((0.5,), (0.5,)), ImageSpec("tensor", "float32"), "`Normalize`"),
    (Convert("tensor"), ImageSpec(), "`ToPureTensor`"),
]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("op", "spec", "shown"), CASES, ids=str)
def test_what_is_said_of_an_op_is_what_its_placement_says(op: Op, spec: ImageSpec, shown: str, device: Any) -> None:
    bound = bound_of(op, spec, device)
    words = "refused" if bound.refused else replace(bound, measured=True).words or "equal bit for bit"
    wanted = words if bound.measured else f"*expected:* {words}"
    (line,) = (line for line in tables()[device] if line.startswith(f"| {wanted} |"))
    names = line.split(" | ")[1]
    excluded = re.search(r"`Resize`[^;]* on PIL images \(all but ([^)]*)\)", names)
    if excluded is None or not isinstance(op, Resize) or spec.container != "pil":
        assert re.search(shown, names)
    else:
        assert op.interpolation not in excluded.group(1).split(", ")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_op_and_every_reason_is_in_the_table(device: Any) -> None:
    text = "".join(tables()[device])
    for op in plain_ops():
        assert all(f"`{name}`" in text for name in torchvision_names(op))
    for row in TABLE:
        if device in row.devices:
            assert row.bound.reason.replace("|", "\\|") in text


def test_a_bound_has_one_line() -> None:
    for lines in tables().values():
        bounds = [line.split(" | ")[0] for line in lines]
        assert len(set(bounds)) == len(bounds)


def test_a_row_has_no_condition_that_the_document_leaves_out() -> None:
    assert {field.name for field in fields(Row)} == {"ops", "bound", "devices", "domains", "interpolations"}


@pytest.mark.parametrize("op", plain_ops(), ids=lambda op: op.__name__)
def test_every_op_is_called_by_the_torchvision_classes_that_become_it(op: type[Op]) -> None:
    names = torchvision_names(op)
    assert names, f"add {op.__name__} to _BECOME in gpufeed/inspect/exactness.py"
    assert all(hasattr(v1, name) or hasattr(v2, name) for name in names)


@pytest.mark.parametrize(
    "transform",
    [
        v2.RandomHorizontalFlip(),
        v1.RandomVerticalFlip(),
        v2.RandomResizedCrop(9),
        v2.Resize(9),
        v2.PILToTensor(),
        v2.ToImage(),
        v2.Compose([v2.ToImage(), v2.ToPureTensor()]),
        v2.Compose([v1.PILToTensor(), v1.ConvertImageDtype(torch.float32)]),
        v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]),
        v1.RandomGrayscale(),
    ],
    ids=lambda transform: str(transform).replace("\n", ""),
)
def test_the_names_are_those_of_the_classes(transform: Any) -> None:
    last = translate(transform).steps[-1]
    for op in last.ops:
        assert last.name.rpartition(".")[2] in torchvision_names(type(op))


def test_what_is_between_the_markers_is_replaced_and_nothing_else() -> None:
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    new = replace_section(text)
    assert new == f"before\n{BEGIN}\n\n{document()}\n{END}\nafter\n"
    assert replace_section(new) == new


@pytest.mark.parametrize("text", ["", BEGIN, END, f"{END}{BEGIN}", f"{BEGIN}{END}{BEGIN}", f"{BEGIN}{END}{END}"])
def test_without_the_markers_nothing_is_replaced(text: str) -> None:
    with pytest.raises(ArgumentError, match="must have <!-- exactness: begin --> and <!-- exactness: end --> once"):
        replace_section(text)
