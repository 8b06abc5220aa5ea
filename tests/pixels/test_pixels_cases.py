"""The cases that every device runs: complete, and within the bounds on the CPU."""

from __future__ import annotations

import pytest
from op_cases import CASES, MIX
from op_oracle import as_input, check, check_whole, pixels
from torchvision.transforms import v2

from gpufeed.plan import each_op
from gpufeed.reference import spec_of
from gpufeed.tail.program import KERNELS
from gpufeed.translation import translate
from gpufeed.translation.registry import RULES

WITHOUT_OPS = {"Identity", "RGB", "ToPureTensor", "UniformTemporalSubsample", "SetClampingMode"}
"""Classes that change no image of three channels, beside those about boxes and key points."""


def test_every_op_has_a_case() -> None:
    found = {
        type(op)
        for transform, domains in CASES.values()
        for domain in domains
        for op in each_op(
            translate(transform, input=spec_of(as_input(pixels("noise", 61, 83, 0), domain))).require().ops
        )
    }
    linear = translate(v2.LinearTransformation(MIX, MIX[0]), input=spec_of(as_input(pixels("noise", 5, 8, 0), "float")))
    found |= {type(op) for op in linear.require().ops}
    elsewhere = {"ToTensor", "Convert", "ToDtype"}  # conversions, which the plans of tests/gpu hold
    assert {op.__name__ for op in KERNELS} - {op.__name__ for op in found} <= elsewhere


def test_every_class_has_a_case() -> None:
    inside = {type(transform).__name__ for transform, _ in CASES.values()}
    without = {name for name in inside if name not in {rule.__name__ for rule in RULES}} - {"Compose"}
    assert without == {"RandomApply", "RandomChoice", "RandomOrder"}
    missing = {
        rule.__name__ for rule in RULES if rule.__module__.endswith(("_color", "_geometry", "_augment"))
    } - inside
    assert missing <= WITHOUT_OPS


@pytest.mark.parametrize("name", CASES)
def test_on_the_cpu(name: str) -> None:
    transform, domains = CASES[name]
    for number, domain in enumerate(domains[:2]):
        check(transform, pixels("natural", 61, 83, number), domain, rows=2)
        check_whole(transform, pixels("noise", 61, 83, number), domain, rows=2)
