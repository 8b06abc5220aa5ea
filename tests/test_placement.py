"""Where ops run, how equal they are, and what fusion may not change."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np
import pytest
import torch

from gpufeed.draws import Draws, epoch_key
from gpufeed.errors import ArgumentError, UnsupportedError
from gpufeed.graph.windows import compose_windows
from gpufeed.parameters import draw_parameters
from gpufeed.placement import Placement, place
from gpufeed.plan import (
    BranchOp,
    CenterCrop,
    Convert,
    Erase,
    EraseToNoise,
    Flip,
    Grayscale,
    Invert,
    Normalize,
    Op,
    Pad,
    Plan,
    RandomApply,
    RandomAreaCrop,
    RandomCrop,
    RandomGrayscale,
    Resize,
    ResizeOp,
    ToDtype,
    ToTensor,
    Warp,
)
from gpufeed.tail import Tail
from gpufeed.tail.geometry import crop

AREA = RandomAreaCrop((0.08, 1.0), (3 / 4, 4 / 3))
SCALE = (ToTensor(), Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)))
TRAIN = Plan((AREA, Resize((24, 20)), Flip("horizontal"), *SCALE))
EVAL = Plan((Resize((32,)), CenterCrop((28, 28)), *SCALE))
TENSOR = Plan((Convert("tv_image"), Resize((24, 20)), ToDtype("float32", True), Normalize((0.5,), (0.5,))))
MIXED = Plan((Pad((3, 3, 3, 3)), RandomCrop((9, 9)), Grayscale(3), Resize((15, 17)), Flip("vertical"), *SCALE))
RAGGED = Plan((Resize((19,)), RandomGrayscale(0.5), ToTensor()))
WINDOWS = Plan((CenterCrop((40, 40)), RandomCrop((31, 30)), Flip("horizontal"), CenterCrop((34, 21)), *SCALE))
LATE_FLIP = Plan((CenterCrop((21, 34)), *SCALE, Flip("horizontal", 0.5), Flip("vertical", 0.5)))
ERASED = Plan(
    (
        CenterCrop((33, 34)),
        Invert(),
        *SCALE,
        RandomApply((Erase((0.1, 0.4), (0.3, 3.3), (0.5, -1.0, 2.0)), Flip("vertical", 0.5)), 0.6),
        RandomApply((EraseToNoise((0.1, 0.4), (0.3, 3.3)), Normalize((0.1,), (0.5,))), 0.6),
        Flip("horizontal", 0.5),
    )
)


def stages(placement: Placement) -> list[str]:
    return [placed.stage for placed in placement.placed]


@pytest.mark.parametrize(
    ("plan", "device", "wanted"),
    [
        (TRAIN, "cpu", ["decode", "tail", "tail", "tail", "tail"]),
        (TRAIN, "cuda", ["decode", "graph", "graph", "graph", "graph"]),
        (EVAL, "cpu", ["tail"] * 4),
        (EVAL, "cuda", ["graph"] * 4),
        (TENSOR, "cpu", ["tail"] * 4),
        (TENSOR, "cuda", ["graph", "tail", "tail", "tail"]),
        (MIXED, "cuda", ["tail"] * 7),
        (WINDOWS, "cpu", ["decode", "decode", "tail", "tail", "tail", "tail"]),
        (WINDOWS, "cuda", ["decode", "decode", "graph", "graph", "graph", "graph"]),
        (LATE_FLIP, "cuda", ["decode", "graph", "graph", "graph", "graph"]),
    ],
)
def test_stages(plan: Plan, device: Any, wanted: list[str]) -> None:
    assert stages(place(plan, device)) == wanted


def kinds(plan: Plan, device: Any) -> list[str]:
    return [placed.bound.kind for placed in place(plan, device).placed]


def test_bounds_name_what_is_bounded_and_by_what() -> None:
    assert kinds(TRAIN, "cpu") == ["exact", "bounded", "exact", "exact", "exact"]
    assert kinds(TRAIN, "cuda") == ["exact", "bounded", "exact", "bounded", "bounded"]
    assert kinds(TENSOR, "cpu") == ["exact"] * 4
    assert "at most 2/255" in place(TRAIN, "cpu").placed[1].bound.detail
    assert "expected" in place(TRAIN, "cuda").placed[1].bound.detail


@pytest.mark.parametrize("interpolation", ["box", "hamming"])
def test_filters_that_dali_lacks_are_refused_on_cuda_with_a_way_out(interpolation: Any) -> None:
    plan = Plan((Resize((9, 9), interpolation=interpolation), ToTensor()))
    assert kinds(plan, "cpu")[0] == "exact"
    with pytest.raises(UnsupportedError, match="DALI has neither a box nor a hamming filter; use device='cpu' or"):
        place(plan, "cuda").require()


def test_strict_refuses_what_is_not_within_one_step_for_nearly_all_values() -> None:
    place(TRAIN, "cpu").require(strict=True)
    with pytest.raises(UnsupportedError, match=r"isn't promised on cuda for Resize\(.*at most 19/255.*or leave strict"):
        place(TRAIN, "cuda").require(strict=True)
    place(TRAIN, "cuda").require()


def test_a_device_that_is_none_is_refused() -> None:
    for device in ("gpu", None, torch.device("cuda")):
        with pytest.raises(ArgumentError, match="device must be 'cpu' or 'cuda', got"):
            place(TRAIN, device)  # type: ignore[arg-type]


def samples(plan: Plan, sizes: list[tuple[int, int]]) -> tuple[list[torch.Tensor], Any]:
    """Random images and their parameters."""
    rng = np.random.default_rng(5)
    images = [torch.from_numpy(rng.integers(0, 256, (3, *size), dtype=np.uint8)) for size in sizes]
    count = len(sizes)
    draws = Draws(epoch_key(3, 1), np.arange(count), np.zeros(count, dtype=np.int64))
    return images, draw_parameters(plan, np.array(sizes), draws)


def run(placement: Placement, images: list[torch.Tensor], parameters: Any) -> list[torch.Tensor]:
    """The decoder's windows by hand, then the tail."""
    sizes = np.array([image.shape[-2:] for image in images])
    region = compose_windows(sizes, [parameters.values[position] for position in range(placement.decoded)])
    cut = [crop(image[None], window)[0] for image, window in zip(images, region.windows, strict=True)]
    cut = [crop(image[None], region.outer[row])[0] if row in region.outer else image for row, image in enumerate(cut)]
    output = placement.plan.output
    outputs = [
        torch.empty((output.channels, *size.tolist()), dtype=getattr(torch, output.dtype))
        for size in parameters.sizes_hw[-1]
    ]
    if parameters.uniform_size_hw is None:
        for row, image in enumerate(cut):
            outputs[row].copy_(Tail(placement).run_one(image, parameters, row))
        return outputs
    batch = torch.stack(outputs)
    Tail(placement).run_into(batch[:2], cut[:2], parameters, 0)
    Tail(placement).run_into(batch[2:], cut[2:], parameters, 2)
    return list(batch)


@pytest.mark.parametrize("plan", [TRAIN, EVAL, TENSOR, MIXED, RAGGED, WINDOWS, LATE_FLIP, ERASED], ids=str)
def test_fused_equals_unfused_bit_for_bit(plan: Plan) -> None:
    images, parameters = samples(plan, [(41, 53), (64, 40), (37, 37), (50, 90), (43, 47)])
    fused = run(place(plan, "cpu"), images, parameters)
    plain = run(place(plan, "cpu", fuse=False), images, parameters)
    assert all(map(torch.equal, fused, plain))


def test_what_erases_behind_the_conversion_works_in_the_batch() -> None:
    assert place(ERASED, "cpu").final == 2
    assert place(Plan((CenterCrop((9, 9)), *SCALE, Grayscale(3))), "cpu").final is None


def test_a_window_never_shows_what_an_earlier_one_cut_off() -> None:
    sizes = np.array([[20, 30]])
    first, second = np.array([[5, 5, 10, 10]]), np.array([[-2, 1, 14, 8]])
    region = compose_windows(sizes, [first, second])
    assert region.windows.tolist() == [[5, 6, 10, 8]]
    assert region.outer[0].tolist() == [-2, 0, 14, 8]


def test_plans_compare_print_and_hash() -> None:
    import pickle

    again = Plan((AREA, Resize((24, 20)), Flip("horizontal"), *SCALE))
    assert again == TRAIN
    assert hash(again) == hash(TRAIN)
    assert pickle.loads(pickle.dumps(TRAIN)) == TRAIN
    assert TRAIN.fingerprint() == again.fingerprint() != EVAL.fingerprint()
    assert str(TRAIN).splitlines() == [
        "in  pil uint8 H x W x 3",
        " 0  RandomAreaCrop(scale=(0.08, 1.0), ratio=(0.75, 1.3333333333333333))",
        " 1  Resize(size=(24, 20), max_size=None, interpolation='bilinear', antialias=True, api='v2')",
        " 2  Flip(axis='horizontal', p=0.5)",
        " 3  ToTensor()",
        " 4  Normalize(mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))",
        "out tensor float32 3 x 24 x 20",
    ]


FINGERPRINT = "63d7d1e921879e5c3fcb631044da459c469c247d4ef67a21a97df23c757ac8cb"


def test_the_fingerprint_is_frozen() -> None:
    assert TRAIN.fingerprint() == FINGERPRINT


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Plan((ToTensor(), ToTensor())), "tensor already"),
        (lambda: Plan((Normalize((0.5,), (0.5,)),)), "does not support PIL images"),
        (lambda: Plan((Convert("tensor"), Normalize((0.5,), (0.5,)))), "needs a float tensor, got uint8"),
        (lambda: Plan((ToTensor(), Normalize((0.5, 0.5), (0.5,)))), "mean must have 1 or 3 values, got 2"),
        (lambda: Plan((CenterCrop((9, 9)), RandomCrop((10, 9)))), "larger than the image size"),
        (lambda: Plan((ToDtype("float32", True),)), "put ToImage"),
        (lambda: Plan((ToTensor(), ToDtype("int64", True))), "can't be scaled to int64"),
        (lambda: Plan((Convert("tensor"), Resize((9, 9), interpolation="box"))), "works on PIL images only"),
    ],
)
def test_ops_refuse_inputs_that_they_can_not_take(make: Any, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Flip("horizontal", 1.5), r"p must be in \[0, 1\], got 1.5"),
        (lambda: RandomCrop((0, 5)), "at least 1 pixel on each side"),
        (lambda: Resize((9,), max_size=9), "max_size must be above the shorter side 9, got 9"),
        (lambda: Resize(None), "max_size must be given"),
        (lambda: Normalize((0.5,), (0.0,)), "std must not have a 0"),
        (lambda: Grayscale(2), "must be 1 or 3, got 2"),
    ],
)
def test_ops_validate_themselves(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_every_op_has_a_torch_implementation_and_a_reference() -> None:
    from gpufeed import plan as plan_module
    from gpufeed.parameters.drawing import DRAWERS
    from gpufeed.reference.running import FUNCTIONS
    from gpufeed.tail.program import KERNELS

    ops = [getattr(plan_module, name) for name in plan_module.__all__]
    concrete = {op for op in ops if type(op) in (type, abc.ABCMeta) and issubclass(op, Op)}
    concrete -= {Op, BranchOp, ResizeOp, Warp}  # what others are made from
    plain = {op for op in concrete if not issubclass(op, BranchOp)}
    assert set(KERNELS) == plain
    assert set(FUNCTIONS) == plain
    assert set(DRAWERS) <= plain
