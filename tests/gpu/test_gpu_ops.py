"""Every op of the tail on a CUDA device: the same test body as on the CPU, with the bounds that are expected there."""

from __future__ import annotations

import pytest
from op_cases import CASES, MIX
from op_oracle import as_input, check, pixels
from torchvision.transforms import v2

from gpufeed.reference import spec_of
from gpufeed.translation import translate

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", CASES)
def test_ops_are_torchvisions_within_the_bound(name: str) -> None:
    transform, domains = CASES[name]
    for domain in domains:
        for kind in ("natural", "noise"):
            check(transform, pixels(kind, 61, 83, 1), domain, device="cuda")
            grey = pixels(kind, 61, 83, 2, channels=1)
            if translate(transform, input=spec_of(as_input(grey, domain))).plan is not None:
                check(transform, grey, domain, device="cuda")


def test_a_linear_transformation() -> None:
    transform = v2.LinearTransformation(MIX, MIX[0])
    check(transform, pixels("noise", 5, 8, 1), "float", device="cuda")
