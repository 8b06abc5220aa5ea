"""Warps, zooms and drawn sizes, with every kind of attribute value, against torchvision itself (`matrix`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import PIL.Image
import pytest
import torch
from matrix import build, check_against_torchvision, edited
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode, v2

from gpufeed.plan import Affine, Perspective, RandomApply, Rotate, ZoomOut
from gpufeed.spec import ImageSpec
from gpufeed.translation import translate

pytestmark = pytest.mark.filterwarnings("ignore:Anti-alias option is always applied:UserWarning")


@pytest.fixture(autouse=True)
def one_thread_and_seed() -> Iterator[None]:
    """Many threads for tiny images take a hundred times as long on a busy machine. And torchvision's own draws are
    fixed: it takes a wrong fill where RandomZoomOut happens to draw no border, and fails on few strong perspectives."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    yield
    torch.set_num_threads(num_threads)


MODES: tuple[Any, ...] = (*InterpolationMode, *range(6))
FILLS: tuple[Any, ...] = (0, 7, 7.9, True, (7, 8, 9), [5.0], (5, 5, 5), (1, 2), -3, 300, "ab", "abc")
NAN, INF = float("nan"), float("inf")


def both() -> list[tuple[str, dict[str, Any]]]:
    """Of v1 and of v2."""
    return [
        *[("RandomRotation", {"degrees": degrees}) for degrees in (0, 30, [10, 20], (-5.5, 400), (15, 15), 90)],
        *[("RandomRotation", {"degrees": 30, "interpolation": mode}) for mode in MODES],
        *[
            ("RandomRotation", {"degrees": (angle, angle), "interpolation": mode, "expand": expand, "center": center})
            for angle in (0, 90, 180, -270)
            for mode in (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC, InterpolationMode.LANCZOS)
            for expand in (False, True)
            for center in (None, (3, 4))
        ],
        *[("RandomRotation", {"degrees": 70, "expand": True, "center": center}) for center in (None, [3, 4.5], (0, 0))],
        *[
            ("RandomAffine", {"degrees": 20, **more})
            for more in (
                {},
                {"translate": (0.1, 0.0)},
                {"translate": [1, 0.5]},
                {"scale": (0.5, 2)},
                {"scale": [1.0, 1.0]},
                {"shear": 20},
                {"shear": (5, 10)},
                {"shear": [-5, 5, -10, 20]},
                {"center": (0, 0)},
                {"center": [3.5, 60]},
                {"translate": (0.2, 0.3), "scale": (0.8, 1.1), "shear": 3, "center": (9, 9), "fill": 4},
            )
        ],
        *[("RandomAffine", {"degrees": (-5, 5), "interpolation": mode}) for mode in MODES],
        *[("RandomPerspective", {"distortion_scale": scale, "p": 1}) for scale in (0, 0.3, 1)],
        *[("RandomPerspective", {"p": p}) for p in (0, 0.5, 1.0)],
        *[("RandomPerspective", {"p": 1.0, "interpolation": mode}) for mode in MODES],
        *[
            (name, {**arguments, "fill": fill, "interpolation": InterpolationMode.BILINEAR})
            for name, arguments in (
                ("RandomRotation", {"degrees": 40}),
                ("RandomAffine", {"degrees": 40}),
                ("RandomPerspective", {"p": 1.0}),
            )
            for fill in (FILLS if name == "RandomRotation" else FILLS[1:8:2])
            if not (isinstance(fill, str) and name != "RandomRotation")
        ],
    ]


def cases() -> list[tuple[str, Any]]:
    found = [
        build(module, name, **arguments)
        for module in (v1, v2)
        for name, arguments in both()
        if not (module is v2 and isinstance(arguments.get("fill"), str))  # refused at construction
    ]
    fills: tuple[Any, ...] = (
        None,
        {PIL.Image.Image: 1, torch.Tensor: 0.5, tv_tensors.Image: (3, 4, 5)},
        {tv_tensors.Mask: 1, "others": 6},
        {tv_tensors.Mask: 1},
    )
    found += [
        build(v2, name, **arguments, fill=fill)
        for name, arguments in (
            ("RandomRotation", {"degrees": 40, "interpolation": "bilinear"}),
            ("RandomAffine", {"degrees": 40}),
            ("RandomPerspective", {"p": 1.0}),
            ("RandomZoomOut", {"p": 1.0}),
        )
        for fill in fills
    ]
    sized: tuple[tuple[str, dict[str, Any]], ...] = (
        ("RandomResize", {"min_size": 10, "max_size": 30}),
        (
            "ScaleJitter",
            {"target_size": (20, 10), "scale_range": (0.5, 1.0)},
        ),  # never the image's size, which takes any interpolation
        ("RandomShortestSize", {"min_size": [20, 30]}),
    )
    found += [
        *[build(v2, name, **arguments, interpolation=mode) for name, arguments in sized for mode in MODES],
        *[
            build(v2, name, **arguments, antialias=antialias)
            for name, arguments in sized
            for antialias in (False, None)
        ],
        *[build(v2, "RandomResize", min_size=low, max_size=high) for low, high in ((9, 10), (9, 9), (0, 1), (-4, -2))],
        build(v2, "ScaleJitter", target_size=[30.5, 50], scale_range=(0.5, 0.5)),
        build(v2, "ScaleJitter", target_size=(30, 50), scale_range=(2, 0.5)),
        build(v2, "ScaleJitter", target_size=(0, 0)),
        *[build(v2, "RandomShortestSize", min_size=size) for size in (20, (20, 21), [20.5], [], [0])],
        build(v2, "RandomShortestSize", min_size=20, max_size=25),
        build(v2, "RandomShortestSize", min_size=20, max_size=19.5),
        *[build(v2, "RandomZoomOut", side_range=sides, p=1.0) for sides in ((1, 1), (1.5, 2), [1, 4.0])],
        *[build(v2, "RandomZoomOut", fill=fill, p=p) for fill in (3, (1, 2, 3), (1, 2)) for p in (0.0, 1.0)],
    ]
    for module, generation in ((v1, "v1"), (v2, "v2")):
        rotation, affine, perspective = module.RandomRotation, module.RandomAffine, module.RandomPerspective
        found += [
            (f"{generation} {name}", transform)
            for name, transform in (
                ("rotation edited to a name", edited(rotation(30), interpolation="bilinear")),
                ("rotation edited to a wrong name", edited(rotation(30), interpolation="cubic")),
                ("rotation edited to a wrong code", edited(rotation(30), interpolation=6)),
                ("no rotation, edited to a wrong name", edited(rotation(0), interpolation="cubic")),
                ("rotation edited to no degrees", edited(rotation(30), degrees=None)),
                ("rotation edited to swapped degrees", edited(rotation(30), degrees=[5, -5])),
                ("rotation edited to infinite degrees", edited(rotation(30), degrees=[-INF, INF])),
                ("rotation edited to degrees that are no number", edited(rotation(30), degrees=[NAN, NAN])),
                ("rotation edited to ask for growth with a word", edited(rotation(30), expand="yes")),
                ("rotation edited to ask for no growth", edited(rotation(30), expand=0)),
                ("rotation edited to a center of words", edited(rotation(30), center=("a", "b"))),
                ("rotation edited to a number as center", edited(rotation(30), center=3)),
                ("affine edited to nothing", edited(affine(0), degrees=None)),
                ("affine edited to long shifts", edited(affine(0), translate=(3.0, 2))),
                ("affine edited to a negative shift", edited(affine(0), translate=(-0.5, 0.5))),
                ("affine edited to a shift by a word", edited(affine(0), translate=("a", 0.5))),
                ("affine edited to a negative scale", edited(affine(0), scale=(-2, -1))),
                ("affine edited to no scale", edited(affine(0), scale=(0.0, 0.0))),
                ("affine edited to a swapped scale", edited(affine(0), scale=(2, 1))),
                ("affine edited to a swapped shear", edited(affine(0), shear=[2, 1])),
                ("affine edited to a second swapped shear", edited(affine(0), shear=[0, 0, 2, 1])),
                ("affine edited to one number of shear", edited(affine(0), shear=[2])),
                ("affine edited to a name", edited(affine(9), interpolation="bilinear")),
                ("affine edited to a center of a tuple of one", edited(affine(9), center=(3,))),
                ("perspective edited to always", edited(perspective(), p=2.0)),
                ("perspective edited to never", edited(perspective(), p=-1)),
                ("perspective edited to a word of chance", edited(perspective(p=1.0), p="often")),
                ("perspective edited to more than all", edited(perspective(p=1.0), distortion_scale=1.5)),
                ("perspective edited to less than nothing", edited(perspective(p=1.0), distortion_scale=-0.5)),
                ("perspective edited to a word", edited(perspective(p=1.0), distortion_scale="much")),
                ("perspective edited to no number", edited(perspective(p=1.0), distortion_scale=NAN)),
            )
        ]
    return [
        *found,
        ("v1 rotation edited to no fill", edited(v1.RandomRotation(30), fill=None)),
        ("v2 rotation edited to no fill", edited(v2.RandomRotation(30), _fill=None)),
        ("v2 rotation edited to a fill of a word", edited(v2.RandomRotation(30), _fill={"others": "x"})),
        ("v2 rotation edited to a fill in a tuple", edited(v2.RandomRotation(30), _fill={"others": (3,)})),
        ("v2 jitter edited to one side", edited(v2.ScaleJitter((30, 40)), target_size=(30,))),
        ("v2 jitter edited to a word", edited(v2.ScaleJitter((30, 40)), scale_range="ab")),
        ("v2 shortest edited to a word", edited(v2.RandomShortestSize(20), min_size=["a"])),
        ("v2 shortest edited to a negative limit", edited(v2.RandomShortestSize(20), max_size=-4)),
        ("v2 resize edited to a fraction", edited(v2.RandomResize(10, 20), min_size=NAN)),
        ("v2 zoom edited to a word", edited(v2.RandomZoomOut(p=1.0), side_range=("a", "b"))),
        ("v2 zoom edited to no number", edited(v2.RandomZoomOut(p=1.0), side_range=(NAN, NAN))),
        ("v2 zoom edited to zoom in", edited(v2.RandomZoomOut(p=1.0), side_range=(0.3, 0.9))),
        ("v2 zoom edited to a swapped range", edited(v2.RandomZoomOut(p=1.0), side_range=(3.0, 0.5))),
    ]


CASES = cases()


@pytest.mark.parametrize("number", range(len(CASES)), ids=[name for name, _ in CASES])
def test_as_torchvision(number: int) -> None:
    check_against_torchvision(CASES[number][1])


def test_every_value_has_one_form() -> None:
    def op(transform: Any, container: Any = "pil", dtype: str = "uint8") -> Any:
        (only,) = translate(transform, input=ImageSpec(container, dtype)).require().ops
        return only

    assert op(v1.RandomRotation(30, fill=None)) == op(v2.RandomRotation([-30, 30.0], fill=(0, 0, 0)))
    assert op(v2.RandomRotation(30, fill=None)) == Rotate((-30.0, 30.0))
    assert op(v2.RandomRotation(30, fill=None), "tensor").fill is None
    assert op(v1.RandomRotation(30, fill=None), "tensor").fill == (0.0,)
    assert op(v1.RandomRotation(30), "tensor").api == "v1"
    assert op(v2.RandomRotation((180, 180), interpolation="lanczos", fill=9)) == Rotate((180.0, 180.0))
    assert op(v1.RandomAffine(30)) == Affine((-30.0, 30.0), api="v1")  # the matrices differ in the last bits
    assert op(v2.RandomAffine(0, (0, 0), (1, 1), (0, 0))) == Affine((0.0, 0.0))
    assert op(v2.RandomPerspective()) == RandomApply((Perspective(),), 0.5)
    assert op(v2.RandomPerspective(p=1)) == Perspective()
    assert op(v2.RandomZoomOut(p=1.0, fill=(3, 3, 3))) == ZoomOut((1.0, 4.0), (3.0,))
    assert translate(v2.RandomZoomOut(p=0.0)).require().ops == ()


def test_refusals_say_what_to_do() -> None:
    (sentence,) = translate(v2.RandomRotation(30, interpolation="lanczos")).refusals
    assert "torchvision's rotate can't take" in sentence
    (sentence,) = translate(v2.RandomAffine(30, interpolation="bicubic"), input=ImageSpec("tensor")).refusals
    assert "bicubic" in sentence
    (sentence,) = translate(v1.RandomPerspective(), input=ImageSpec("tv_image")).refusals
    assert "use torchvision.transforms.v2.RandomPerspective" in sentence
    (sentence,) = translate(edited(v1.RandomRotation(30), fill=10**400)).refusals
    assert "int too big" in sentence
    (sentence,) = translate(v2.RandomPerspective(), input=ImageSpec(size_hw=(1, 5))).refusals
    assert "at least 2x2 pixels" in sentence
