"""Crops, sizes and conversions, with every kind of attribute value, against torchvision itself (`matrix`)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from matrix import HEIGHT, WIDTH, build, check_against_torchvision, edited
from torch import nn
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode, v2

pytestmark = pytest.mark.filterwarnings("ignore:Anti-alias option is always applied:UserWarning")


def cases() -> list[tuple[str, Any]]:
    both: list[tuple[str, dict[str, Any]]] = [
        *[("Resize", {"size": size}) for size in (19, [19], (19, 29), (HEIGHT, WIDTH), (61, 7))],
        ("Resize", {"size": 19, "max_size": 23}),
        ("Resize", {"size": 19, "max_size": 400}),
        *[("Resize", {"size": (19, 29), "interpolation": mode}) for mode in InterpolationMode],
        *[("Resize", {"size": (19, 29), "interpolation": code}) for code in range(6)],
        *[
            ("Resize", {"size": (19, 29), "interpolation": mode, "antialias": antialias})
            for mode in (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC, InterpolationMode.LANCZOS)
            for antialias in (False, None)
        ],
        *[("CenterCrop", {"size": size}) for size in (11, [11], (12, 7), 22.7, (HEIGHT, WIDTH), (61, 7), 99, 0)],
        *[("RandomCrop", {"size": size}) for size in (11, [11], (12, 7), (HEIGHT, WIDTH), 99, (38, 5))],
        *[("RandomCrop", {"size": 32, "padding": padding}) for padding in (0, 4, (3,), (3, 5), [1, 2, 3, 4], (0, 0))],
        *[
            ("RandomCrop", {"size": (61, 70), "padding": padding, "pad_if_needed": True, "padding_mode": mode})
            for mode in ("constant", "edge", "reflect", "symmetric")
            for padding in (None, 3, (2, -5, 4, 1))
        ],
        *[("RandomCrop", {"size": 32, "padding": 4, "fill": fill}) for fill in (7, 7.9, (7, 8, 9), [7.0], -3, 300)],
        ("RandomCrop", {"size": 70, "pad_if_needed": True, "fill": 9}),
        *[("RandomResizedCrop", {"size": size}) for size in (19, (19, 23), [19])],
        ("RandomResizedCrop", {"size": 19, "scale": (0.5, 0.5), "ratio": [1, 2]}),
        ("RandomResizedCrop", {"size": 19, "scale": (9.0, 9.0)}),
        *[
            ("RandomResizedCrop", {"size": 19, "interpolation": mode, "antialias": antialias})
            for mode in (InterpolationMode.NEAREST, InterpolationMode.BICUBIC)
            for antialias in (True, False)
        ],
        *[
            (name, {"p": p})
            for name in ("RandomHorizontalFlip", "RandomVerticalFlip", "RandomGrayscale")
            for p in (0, 0.5, 1, 1.0)
        ],
        *[("Pad", {"padding": padding}) for padding in (0, 3, [3], (3, 5), (1, 2, 3, 4), (-3, 2, 1, -5))],
        *[
            ("Pad", {"padding": padding, "padding_mode": mode, "fill": fill})
            for mode in ("edge", "reflect", "symmetric")
            for padding, fill in ((5, 0), ((-3, 2, 1, -5), 0), (5, (1, 2, 3)))
        ],
        *[
            ("Pad", {"padding": 2, "fill": fill})
            for fill in (7, 7.9, True, (7, 8, 9), (5,), (5, 5, 5), (1, 2), -3, 300)
        ],
        *[("FiveCrop", {"size": size}) for size in (11, [11], (12, 7), (HEIGHT, WIDTH), (38, 5))],
        *[("TenCrop", {"size": size, "vertical_flip": flip}) for size in (11, (12, 8)) for flip in (False, True)],
        ("Grayscale", {}),
        ("Grayscale", {"num_output_channels": 3}),
        ("PILToTensor", {}),
        *[
            ("ConvertImageDtype", {"dtype": dtype})
            for dtype in (torch.float32, torch.float64, torch.uint8, torch.int16, torch.int64, torch.float16)
        ],
        ("Normalize", {"mean": (0.4, 0.5, 0.6), "std": [0.1, 0.2, 0.3]}),
        ("Normalize", {"mean": (0.4,), "std": (0.1,)}),
        ("Normalize", {"mean": torch.tensor([0.4, 0.5, 0.6]), "std": np.array([0.1, 0.2, 0.3]), "inplace": True}),
        ("Normalize", {"mean": (0.4, 0.5), "std": (0.1, 0.2)}),
        ("Normalize", {"mean": (0.4, 0.5, 0.6), "std": (0.1, 0.0, 0.3)}),
    ]
    found = [build(module, name, **arguments) for module in (v1, v2) for name, arguments in both]
    found += [
        ("v1.ToTensor()", v1.ToTensor()),
        ("v2.ToTensor()", v2.ToTensor()),
        ("nn.Identity()", nn.Identity()),
        build(v2, "Identity"),
        build(v2, "ToImage"),
        build(v2, "ToPureTensor"),
        *[
            build(v2, "ToDtype", dtype=dtype, scale=scale)
            for dtype in (torch.uint8, torch.float32, torch.float64, torch.int16, torch.int32)
            for scale in (False, True)
        ],
        build(v2, "ToDtype", dtype={tv_tensors.Image: torch.float64, torch.Tensor: None, "others": torch.int16}),
        build(v2, "ToDtype", dtype={tv_tensors.Image: torch.float64}, scale=True),
        build(v2, "ToDtype", dtype={tv_tensors.Mask: torch.int64, "others": None}),
        build(v2, "Resize", size=None, max_size=29),
        *[build(v2, "Resize", size=(19, 29), interpolation=mode.value) for mode in InterpolationMode],
        build(v2, "RandomResizedCrop", size=(19, 29), interpolation="bicubic"),
        *[
            build(v2, name, **arguments, fill=fill)
            for name, arguments in (("Pad", {"padding": 2}), ("RandomCrop", {"size": 32, "padding": 4}))
            for fill in (
                None,
                {PIL.Image.Image: 1, torch.Tensor: 2.5, tv_tensors.Image: (3, 4, 5)},
                {tv_tensors.Mask: 1, "others": 6},
                {tv_tensors.Mask: 1},
            )
        ],
    ]
    for module, generation in ((v1, "v1"), (v2, "v2")):
        found += [
            (f"{generation} {name}", transform)
            for name, transform in (
                ("Resize edited to a name", edited(module.Resize((19, 29)), interpolation="bicubic")),
                ("Resize edited to a wrong code", edited(module.Resize((19, 29)), interpolation=6)),
                ("Resize edited to nothing", edited(module.Resize((19, 29)), size=None)),
                ("Resize edited to two sides and a limit", edited(module.Resize((19, 29)), max_size=40)),
                ("Resize edited to a low limit", edited(module.Resize(19), max_size=19)),
                ("Resize edited to a fraction", edited(module.Resize(19), size=(19.5, 20))),
                ("Resize to 0", module.Resize(0)),
                ("CenterCrop edited to a number", edited(module.CenterCrop(9), size=21)),
                ("CenterCrop edited to three", edited(module.CenterCrop(9), size=(21, 22, 23))),
                ("RandomCrop edited to a number", edited(module.RandomCrop(9), size=21)),
                ("RandomCrop edited to a wrong mode", edited(module.RandomCrop(9, padding=2), padding_mode="wrap")),
                ("RandomCrop edited to an idle wrong mode", edited(module.RandomCrop(9), padding_mode="wrap")),
                ("RandomResizedCrop edited to a number", edited(module.RandomResizedCrop(9), size=21)),
                ("RandomResizedCrop edited to one side", edited(module.RandomResizedCrop(9), size=[21])),
                ("RandomResizedCrop edited to a reversed scale", edited(module.RandomResizedCrop(9), scale=(1.0, 0.5))),
                ("RandomHorizontalFlip edited to 2", edited(module.RandomHorizontalFlip(), p=2)),
                ("RandomVerticalFlip edited to -1", edited(module.RandomVerticalFlip(), p=-1.0)),
                ("RandomGrayscale edited to 2", edited(module.RandomGrayscale(), p=2)),
                ("Pad edited to three", edited(module.Pad(2), padding=(1, 2, 3))),
                ("Pad edited to a fraction", edited(module.Pad(2), padding=2.5)),
                ("Pad edited to a wrong mode", edited(module.Pad(2), padding_mode="wrap")),
                ("Grayscale edited to 2", edited(module.Grayscale(), num_output_channels=2)),
                ("Normalize edited to numbers", edited(module.Normalize((0.5,), (0.5,)), mean=0.4, std=0.1)),
                ("Normalize edited to words", edited(module.Normalize((0.5,), (0.5,)), mean="half")),
                ("ConvertImageDtype edited to a name", edited(module.ConvertImageDtype(torch.int16), dtype="int16")),
            )
        ]
    found += [
        ("v1 flips above 1", v1.RandomHorizontalFlip(p=1.5)),
        ("v2 RandomCrop edited to one padding", edited(v2.RandomCrop(32), padding=[1])),
        ("v2 Pad edited fill", edited(v2.Pad(2, fill=3), fill=200)),
        ("v2 Pad edited _fill", edited(v2.Pad(2, fill=3), _fill={"others": 200})),
        ("v2 ToDtype edited to None", edited(v2.ToDtype(torch.float32), dtype=None)),
        ("Compose", v1.Compose([v1.Resize(29), v2.ToImage(), v2.RandomCrop(23, padding=2), v2.ToPureTensor()])),
        ("empty Compose", v1.Compose([])),
        ("empty v2 Compose", edited(v2.Compose([v2.Identity()]), transforms=[])),
        ("Sequential", nn.Sequential(v2.CenterCrop(30), nn.Sequential(v1.Resize(23)), v2.RandomHorizontalFlip())),
    ]
    return found


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # some warn when they are made, such as v2.ToTensor of its deprecation
    CASES = cases()


def test_cases_have_their_own_names() -> None:
    assert len({name for name, _ in CASES}) == len(CASES)


@pytest.mark.parametrize("transform", [transform for _, transform in CASES], ids=[name for name, _ in CASES])
def test_translation_is_what_torchvision_does(transform: Any) -> None:
    check_against_torchvision(transform)
