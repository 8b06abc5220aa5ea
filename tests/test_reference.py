"""The oracle is torchvision: with torchvision's own draws it gives torchvision's own results."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import v2

from gpufeed import reference
from gpufeed.draws import Draws, epoch_key
from gpufeed.errors import ArgumentError, TranslationError
from gpufeed.parameters import BatchParameters, draw_parameters
from gpufeed.plan import Flip, Op, Pad, Plan, RandomCrop, Resize
from gpufeed.spec import ImageSpec
from gpufeed.translation import translate

HEIGHT, WIDTH = 41, 59
BOTH = pytest.mark.parametrize("module", [v1, v2], ids=["v1", "v2"])
SEEDS = range(6)


def pixels(channels: int = 3) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (HEIGHT, WIDTH, channels), dtype=np.uint8)


def pil() -> PIL.Image.Image:
    return PIL.Image.fromarray(pixels())


def tensor() -> torch.Tensor:
    return torch.from_numpy(pixels()).permute(2, 0, 1).contiguous()


IMAGES = pytest.mark.parametrize(
    "image", [pil(), tensor(), tensor().float() / 255], ids=["pil", "uint8 tensor", "float tensor"]
)


def values(image: Any) -> np.ndarray:
    """Pixels as (H, W, C)."""
    if isinstance(image, PIL.Image.Image):
        return np.asarray(image)
    return image.as_subclass(torch.Tensor).permute(1, 2, 0).numpy()


def by_hand(*per_op: Any) -> BatchParameters:
    """The parameters of a batch of one, as torchvision drew them."""
    rows = tuple(None if value is None else np.asarray([value]) for value in per_op)
    sizes = np.asarray([[HEIGHT, WIDTH]])
    return BatchParameters(rows, (sizes,) * (len(rows) + 1), {})


def drawn(transform: Any, rows: int = 3, **spec: Any) -> tuple[Plan, BatchParameters]:
    plan = translate(transform, input=ImageSpec(**spec)).require()
    sizes = np.array([[HEIGHT, WIDTH]] * rows)
    return plan, draw_parameters(plan, sizes, Draws(epoch_key(1, 2), np.arange(rows), np.zeros(rows, dtype=np.int64)))


# With torchvision's own draws ---------------------------------------------------------------------


@BOTH
@IMAGES
def test_random_resized_crop(module: Any, image: Any) -> None:
    crop = module.RandomResizedCrop((13, 17), scale=(0.1, 0.6))
    windows = set()
    for seed in SEEDS:
        torch.manual_seed(seed)
        expected = crop(image)
        torch.manual_seed(seed)
        window = v1.RandomResizedCrop.get_params(image, [0.1, 0.6], [3 / 4, 4 / 3])
        found = reference.run(crop, image, by_hand(window, (13, 17)), 0)
        assert np.array_equal(values(found), values(expected))
        windows.add(window)
    assert len(windows) == len(SEEDS)


@BOTH
@IMAGES
@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_random_crop_pads_by_itself(module: Any, image: Any, mode: Any) -> None:
    crop = module.RandomCrop((50, 30), padding=(1, 2, 3, 4), pad_if_needed=True, padding_mode=mode)
    ops = translate(crop, input=reference.spec_of(image)).require().ops
    pads = [(0, 0, 0, 0)] * (len(ops) - 1)  # not what pads: the class does
    for seed in SEEDS:
        torch.manual_seed(seed)
        expected = crop(image)
        torch.manual_seed(seed)
        # 41 + 2 + 4 is below 50 by 3, which both generations add above and below
        top, left = int(torch.randint(0, 53 - 50 + 1, ())), int(torch.randint(0, 63 - 30 + 1, ()))
        found = reference.run(crop, image, by_hand(*pads, (top, left, 50, 30)), 0)
        assert np.array_equal(values(found), values(expected))


@BOTH
@IMAGES
@pytest.mark.parametrize("name", ["RandomHorizontalFlip", "RandomVerticalFlip", "RandomGrayscale"])
def test_by_chance(module: Any, image: Any, name: str) -> None:
    transform = getattr(module, name)(p=0.5)
    decisions = set()
    for seed in SEEDS:
        torch.manual_seed(seed)
        expected = transform(image)
        torch.manual_seed(seed)
        decision = bool(torch.rand(1) < 0.5)
        found = reference.run(transform, image, by_hand(decision), 0)
        assert np.array_equal(values(found), values(expected))
        decisions.add(decision)
    assert decisions == {True, False}


@BOTH
def test_a_whole_compose(module: Any) -> None:
    compose = module.Compose(
        [
            module.RandomResizedCrop(32),
            module.RandomHorizontalFlip(),
            v1.ToTensor(),
            module.Normalize((0.5, 0.4, 0.3), (0.1, 0.2, 0.3)),
        ]
    )
    image = pil()
    for seed in SEEDS:
        torch.manual_seed(seed)
        expected = compose(image)
        torch.manual_seed(seed)
        window = v1.RandomResizedCrop.get_params(image, [0.08, 1.0], [3 / 4, 4 / 3])
        flip = bool(torch.rand(1) < 0.5)
        assert torch.equal(reference.run(compose, image, by_hand(window, (32, 32), flip, None, None), 0), expected)


# With our draws, against NumPy and Pillow ---------------------------------------------------------


@BOTH
def test_windows_and_flips_are_ours(module: Any) -> None:
    compose = module.Compose([module.RandomCrop((7, 11)), module.RandomVerticalFlip(), module.RandomHorizontalFlip()])
    _, parameters = drawn(compose, rows=8)
    windows, vertical, horizontal = parameters.values
    assert windows is not None
    assert vertical is not None
    assert horizontal is not None
    assert len({*zip(vertical.tolist(), horizontal.tolist(), strict=True)}) == 4
    for row in range(8):
        top, left, height, width = windows[row]
        expected = pixels()[top : top + height, left : left + width]
        expected = expected[::-1] if vertical[row] else expected
        expected = expected[:, ::-1] if horizontal[row] else expected
        assert np.array_equal(values(reference.run(compose, pil(), parameters, row)), expected)


@BOTH
def test_area_crop_is_pillows(module: Any) -> None:
    crop = module.RandomResizedCrop((13, 17), interpolation=module.InterpolationMode.BICUBIC)
    _, parameters = drawn(crop)
    assert parameters.values[0] is not None
    for row, (top, left, height, width) in enumerate(parameters.values[0].tolist()):
        box = (left, top, left + width, top + height)
        expected = pil().crop(box).resize((17, 13), PIL.Image.Resampling.BICUBIC)
        assert np.array_equal(values(reference.run(crop, pil(), parameters, row)), np.asarray(expected))


# Steps and traces ---------------------------------------------------------------------------------


def everything() -> v2.Compose:
    return v2.Compose(
        [
            v2.RandomCrop(30, padding=5, fill=(1, 2, 3)),
            v2.Identity(),
            v2.ToImage(),
            v2.RandomResizedCrop((16, 20)),
            v2.RandomGrayscale(0.5),
            v2.ToDtype(torch.float32, scale=True),
            v2.ToPureTensor(),
            v2.Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)),
        ]
    )


def test_steps_are_the_leaves_with_what_they_made() -> None:
    compose = everything()
    _, parameters = drawn(compose)
    steps = list(reference.run_steps(compose, pil(), parameters, 1))
    assert [step.transform for step, _ in steps] == list(compose.transforms)
    shapes = [values(image).shape for _, image in steps]
    assert shapes == [(30, 30, 3)] * 3 + [(16, 20, 3)] * 5
    kinds = [PIL.Image.Image] * 2 + [tv_tensors.Image] * 4 + [torch.Tensor] * 2
    assert [type(image) for _, image in steps] == kinds
    assert torch.equal(steps[-1][1], reference.run(compose, pil(), parameters, 1))


def test_trace_ends_where_run_does_and_shows_what_is_between() -> None:
    compose = everything()
    plan, parameters = drawn(compose)
    for row in range(3):
        between = list(reference.trace(plan, pil(), parameters, row))
        assert [op for op, _ in between] == list(plan.ops)
        padded = values(between[0][1])
        assert padded.shape == (HEIGHT + 10, WIDTH + 10, 3)
        assert padded[0, 0].tolist() == [1, 2, 3]
        assert np.array_equal(padded[5:-5, 5:-5], pixels())
        assert torch.equal(between[-1][1], reference.run(compose, pil(), parameters, row))


def test_trace_runs_plans_that_no_transform_stands_for() -> None:
    plan = Plan((Flip("vertical", 1.0), Pad((1, 0, 0, 0), fill=(9.0,))), ImageSpec("tensor", "uint8"))
    parameters = draw_parameters(
        plan, np.array([[HEIGHT, WIDTH]]), Draws(epoch_key(0, 0), np.arange(1), np.zeros(1, dtype=np.int64))
    )
    *_, (_, last) = reference.trace(plan, tensor(), parameters, 0)
    assert np.array_equal(values(last)[:, 1:], pixels()[::-1])
    assert (values(last)[:, 0] == 9).all()


# What it leaves alone, and what it refuses --------------------------------------------------------


@BOTH
def test_random_state_is_left_alone(module: Any) -> None:
    compose = module.Compose(
        [module.RandomCrop(30, padding=5), module.RandomResizedCrop(16), module.RandomHorizontalFlip()]
    )
    _, parameters = drawn(compose)
    before = torch.get_rng_state()
    reference.run(compose, pil(), parameters, 0)
    assert torch.equal(torch.get_rng_state(), before)


@BOTH
def test_images_are_left_alone(module: Any) -> None:
    transform = module.Compose([v2.Identity(), module.Normalize((0.5,), (0.5,), inplace=True)])
    _, parameters = drawn(transform, container="tensor", dtype="float32")
    image = torch.full((3, 4, 5), 0.75)
    (_, first), (_, second) = reference.run_steps(transform, image, parameters, 0)
    assert (image == 0.75).all()
    assert (first == 0.75).all()
    assert (second == 0.5).all()


@BOTH
def test_transforms_are_left_alone(module: Any) -> None:
    crop = module.RandomResizedCrop(5)
    before = dict(vars(crop))
    _, parameters = drawn(crop)
    reference.run(crop, pil(), parameters, 0)
    assert vars(crop) == before


def test_parameters_of_another_plan() -> None:
    _, parameters = drawn(v2.CenterCrop(5))
    with pytest.raises(ArgumentError, match="parameters must be drawn for this plan of 2 ops, got those of 1"):
        reference.run(v2.RandomResizedCrop(5), pil(), parameters, 0)
    with pytest.raises(ArgumentError, match="parameters must be drawn for this plan of 0 ops, got those of 1"):
        list(reference.trace(Plan(()), pil(), parameters, 0))


def test_samples_that_were_refused() -> None:
    crop = v2.RandomCrop(50)
    _, parameters = drawn(crop)
    with pytest.raises(ArgumentError, match=r"row 2 was refused when its parameters were drawn: required crop size"):
        reference.run(crop, pil(), parameters, 2)


def test_transforms_that_are_refused() -> None:
    with pytest.raises(TranslationError, match="Lambda"):
        reference.run(v2.Lambda(str), pil(), by_hand(), 0)


def test_images_that_are_none() -> None:
    with pytest.raises(ArgumentError, match="a PIL image must have mode RGB or L here, got CMYK"):
        reference.spec_of(PIL.Image.new("CMYK", (3, 3)))
    with pytest.raises(ArgumentError, match=r"one image of 3 dimensions \(C, H, W\), got shape \(2, 3, 4, 4\)"):
        reference.spec_of(torch.zeros(2, 3, 4, 4))


@pytest.mark.parametrize(
    ("image", "container", "dtype", "channels"),
    [
        (PIL.Image.new("RGB", (3, 3)), "pil", "uint8", 3),
        (PIL.Image.new("L", (3, 3)), "pil", "uint8", 1),
        (torch.zeros(1, 3, 3, dtype=torch.float16), "tensor", "float16", 1),
        (tv_tensors.Image(torch.zeros(3, 3, 3)), "tv_image", "float32", 3),
    ],
)
def test_spec_of(image: Any, container: str, dtype: str, channels: int) -> None:
    spec = reference.spec_of(image)
    assert (spec.container, spec.dtype, spec.channels, spec.size_hw) == (container, dtype, channels, None)


def test_ops_need_their_parameters() -> None:
    for op in (RandomCrop((3, 3)), Pad((1, 1, 1, 1)), Flip("vertical")):
        with pytest.raises(ArgumentError, match="needs its parameters, got None"):
            reference.apply(op, pil(), None)
    assert values(reference.apply(Resize((3, 4)), pil(), None)).shape == (3, 4, 3)
    with pytest.raises(ArgumentError, match="op must be one of those in gpufeed"):
        reference.apply(Op(), pil(), None)


def test_it_never_calls_our_pixel_code() -> None:
    sources = [path.read_text(encoding="utf-8") for path in Path(reference.__file__).parent.glob("*.py")]
    imported = {
        name
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    ours = {".".join(name.split(".")[:2]) for name in imported if name and name.startswith("gpufeed.")}
    # `noise` is the definition in NumPy of what is drawn per pixel, `tensors` only hands over memory
    allowed = {"errors", "noise", "parameters", "plan", "reference", "spec", "tensors", "translation"}
    assert ours <= {f"gpufeed.{name}" for name in allowed}
