"""What runs as one: every op in exactly one group, and on CUDA what the DALI graph does in one kernel."""

from __future__ import annotations

from typing import Any

import pytest

from gpufeed.placement import fused, place
from gpufeed.plan import (
    CenterCrop,
    Convert,
    FiveCrop,
    Flip,
    Grayscale,
    Normalize,
    Pad,
    Plan,
    RandomApply,
    RandomAreaCrop,
    RandomCrop,
    RandomGrayscale,
    Resize,
    ToDtype,
    ToTensor,
)

AREA = RandomAreaCrop((0.08, 1.0), (3 / 4, 4 / 3))
SCALE = (ToTensor(), Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)))
PLANS = {
    "train": Plan((AREA, Resize((24, 20)), Flip("horizontal"), *SCALE)),
    "eval": Plan((Resize((32,)), CenterCrop((28, 28)), *SCALE)),
    "tensor": Plan((Convert("tv_image"), Resize((24, 20)), ToDtype("float32", True), Normalize((0.5,), (0.5,)))),
    "mixed": Plan((Pad((3, 3, 3, 3)), RandomCrop((9, 9)), Grayscale(3), Resize((15, 17)), *SCALE)),
    "ragged": Plan((Resize((19,)), RandomGrayscale(0.5), ToTensor())),
    "windows": Plan((CenterCrop((40, 40)), RandomCrop((31, 30)), Flip("horizontal"), CenterCrop((34, 21)), *SCALE)),
    "late flips": Plan((CenterCrop((21, 34)), *SCALE, Flip("horizontal", 0.5), Flip("vertical", 0.5))),
    "bytes": Plan((CenterCrop((21, 34)), Convert("tensor"), Flip("vertical"))),
    "nested": Plan((Resize((9, 9)), RandomApply((Grayscale(3),)), ToTensor())),
    "five": Plan((FiveCrop((5, 5)), Convert("tensor"))),
    "nothing": Plan(()),
}
FUSED: dict[tuple[str, str], list[tuple[str, tuple[int, ...]]]] = {
    ("train", "cpu"): [("decode", (0,)), ("sample", (1,)), ("batch", (2,)), ("write", (3, 4))],
    ("train", "cuda"): [("decode", (0,)), ("operator", (1,)), ("scale", (2, 3, 4))],
    ("eval", "cpu"): [("decode", ()), ("sample", (0, 1)), ("write", (2, 3))],
    ("eval", "cuda"): [("decode", ()), ("operator", (0,)), ("operator", (1,)), ("scale", (2, 3))],
    ("tensor", "cpu"): [("decode", ()), ("sample", (0, 1)), ("write", (2, 3))],
    ("tensor", "cuda"): [("decode", (0,)), ("sample", (1,)), ("write", (2, 3))],
    ("mixed", "cuda"): [("decode", ()), ("sample", (0, 1)), ("batch", (2, 3)), ("write", (4, 5))],
    ("ragged", "cpu"): [("decode", ()), ("sample", (0, 1, 2))],
    ("windows", "cpu"): [("decode", (0, 1)), ("batch", (2, 3)), ("write", (4, 5))],
    ("windows", "cuda"): [("decode", (0, 1)), ("operator", (2,)), ("operator", (3,)), ("scale", (4, 5))],
    ("late flips", "cpu"): [("decode", (0,)), ("write", (1, 2, 3, 4))],
    ("late flips", "cuda"): [("decode", (0,)), ("operator", (4,)), ("scale", (1, 2, 3))],
    ("bytes", "cpu"): [("decode", (0,)), ("batch", (1, 2))],
    ("bytes", "cuda"): [("decode", (0, 1)), ("operator", (2,)), ("layout", ())],
    ("nested", "cpu"): [("decode", ()), ("sample", (0,)), ("batch", (1,)), ("write", (2,))],
    ("five", "cpu"): [("decode", ()), ("sample", (0,)), ("batch", (1,))],
    ("nothing", "cpu"): [("decode", ())],
    ("nothing", "cuda"): [("decode", ()), ("layout", ())],
}


@pytest.mark.parametrize(("name", "device"), FUSED, ids=str)
def test_what_runs_as_one(name: str, device: Any) -> None:
    groups = fused(place(PLANS[name], device))
    assert [(group.kind, group.positions) for group in groups] == FUSED[name, device]


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_every_op_is_in_exactly_one_group(plan: Plan, device: Any, fuse: bool) -> None:
    placement = place(plan, device, fuse=fuse)
    groups = fused(placement)
    assert groups[0].kind == "decode"
    assert sorted(position for group in groups for position in group.positions) == list(range(len(plan.ops)))
    for group in groups:
        stages = {placement.placed[position].stage for position in group.positions}
        allowed = {"tail"} if group.kind in ("sample", "batch", "write") else {"decode", "graph"}
        assert stages <= allowed
