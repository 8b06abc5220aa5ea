"""Whole Composes as people write them: the Plans they become, their print, and their fingerprints."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torchvision import transforms as v1
from torchvision.transforms import v2

import gpufeed
from gpufeed.plan import (
    CenterCrop,
    Convert,
    Flip,
    Normalize,
    Op,
    Pad,
    Plan,
    RandomAreaCrop,
    RandomCrop,
    Resize,
    ToDtype,
    ToTensor,
)
from gpufeed.spec import ImageSpec
from gpufeed.translation import translate

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NORMALIZE = Normalize(mean=MEAN, std=STD)
AREA = RandomAreaCrop(scale=(0.08, 1.0), ratio=(0.75, 1.3333333333333333))

IMAGENET_TRAIN_V1 = v1.Compose(
    [v1.RandomResizedCrop(224), v1.RandomHorizontalFlip(), v1.ToTensor(), v1.Normalize(MEAN, STD)]
)
IMAGENET_TRAIN_V2 = v2.Compose(
    [
        v2.ToImage(),
        v2.RandomResizedCrop(224, antialias=True),
        v2.RandomHorizontalFlip(p=0.5),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(mean=MEAN, std=STD),
        v2.ToPureTensor(),
    ]
)
IMAGENET_EVAL_V1 = v1.Compose([v1.Resize(256), v1.CenterCrop(224), v1.ToTensor(), v1.Normalize(MEAN, STD)])
IMAGENET_EVAL_V2 = v2.Compose(
    [
        v2.Resize(256, interpolation=v2.InterpolationMode.BICUBIC),
        v2.CenterCrop(224),
        v2.PILToTensor(),
        v2.ConvertImageDtype(torch.float32),
        v2.Normalize(MEAN, STD),
    ]
)
CIFAR_TRAIN_V1 = v1.Compose([v1.RandomCrop(32, padding=4), v1.RandomHorizontalFlip(), v1.ToTensor()])
CIFAR_TRAIN_V2 = v2.Compose(
    [
        v2.PILToTensor(),
        v2.RandomCrop(32, padding=4, padding_mode="reflect"),
        v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True),
    ]
)

GOLDEN: dict[str, tuple[Any, tuple[Op, ...]]] = {
    "ImageNet train v1": (
        IMAGENET_TRAIN_V1,
        (AREA, Resize(size=(224, 224)), Flip(axis="horizontal", p=0.5), ToTensor(), NORMALIZE),
    ),
    "ImageNet train v2": (
        IMAGENET_TRAIN_V2,
        (
            Convert("tv_image"),
            AREA,
            Resize(size=(224, 224)),
            Flip(axis="horizontal", p=0.5),
            ToDtype("float32", scale=True, api="v2"),
            NORMALIZE,
            Convert("tensor"),
        ),
    ),
    "ImageNet eval v1": (
        IMAGENET_EVAL_V1,
        (Resize(size=(256,)), CenterCrop((224, 224)), ToTensor(), NORMALIZE),
    ),
    "ImageNet eval v2": (
        IMAGENET_EVAL_V2,
        (
            Resize(size=(256,), interpolation="bicubic"),
            CenterCrop((224, 224)),
            Convert("tensor"),
            ToDtype("float32", scale=True, api="v2"),
            NORMALIZE,
        ),
    ),
    "CIFAR train v1": (
        CIFAR_TRAIN_V1,
        (Pad((4, 4, 4, 4)), RandomCrop((32, 32)), Flip(axis="horizontal", p=0.5), ToTensor()),
    ),
    "CIFAR train v2": (
        CIFAR_TRAIN_V2,
        (
            Convert("tensor"),
            Pad((4, 4, 4, 4), mode="reflect"),
            RandomCrop((32, 32)),
            Flip(axis="horizontal", p=0.5),
            ToDtype("float32", scale=True, api="v2"),
        ),
    ),
}


@pytest.mark.parametrize(("transform", "ops"), GOLDEN.values(), ids=GOLDEN)
def test_plan(transform: Any, ops: tuple[Op, ...]) -> None:
    plan = translate(transform).require()
    assert plan == Plan(ops)
    # equal plans in Python (1 == 1.0) could still differ on paper
    assert plan.canonical_json() == Plan(ops).canonical_json()
    assert pickle.loads(pickle.dumps(plan)) == plan


@pytest.mark.parametrize("name", ["ImageNet train v1", "ImageNet train v2"])
def test_output_is_what_a_model_takes(name: str) -> None:
    output = translate(GOLDEN[name][0]).require().output
    assert (output.container, output.dtype, output.channels, output.size_hw) == ("tensor", "float32", 3, (224, 224))


def test_v1_and_v2_on_pil_images_are_one_plan() -> None:
    def train(module: Any, *to_tensor: Any) -> str:
        compose = [
            module.RandomResizedCrop(224, interpolation=module.InterpolationMode.BICUBIC),
            module.RandomCrop(200, padding=2, fill=3),
            module.RandomHorizontalFlip(0.25),
            module.RandomGrayscale(0.5),
            module.Grayscale(3),
            module.Pad((1, 2), padding_mode="edge"),
            module.CenterCrop((100, 50)),
            *to_tensor,
        ]
        return translate(module.Compose(compose)).require().fingerprint()

    assert train(v1, v1.ToTensor()) == train(v2, v1.ToTensor())


IMPORTS = {
    "the attribute first": "import gpufeed; gpufeed.translate(v2.CenterCrop(3)); import gpufeed.translation",
    "the package first": "import gpufeed.translation; gpufeed.translate(v2.CenterCrop(3))",
    "the function first": "from gpufeed import translate",
    "the inner function first": "from gpufeed.translation import translate",
}
PROGRAM = """
import json, sys
from torchvision.transforms import v2

callable_after = {}
for name, statements in json.loads(sys.argv[1]).items():
    for module in [module for module in sys.modules if module.startswith("gpufeed")]:
        del sys.modules[module]
    exec(statements)
    import gpufeed
    from gpufeed import translate
    crop = v2.CenterCrop(3)
    callable_after[name] = [type(gpufeed.translate(crop)) is gpufeed.Translation, str(translate(crop).plan)]

import test_translate_golden as golden
from gpufeed import reference
fingerprints = {name: translate(transform).require().fingerprint() for name, (transform, _) in golden.GOLDEN.items()}
forbidden = [name for name in sys.modules if name.startswith(("nvidia.dali", "gpufeed.graph", "gpufeed.tail"))]
print(json.dumps({"callable": callable_after, "fingerprints": fingerprints, "forbidden": forbidden}))
"""


@pytest.fixture(scope="module")
def elsewhere() -> dict[str, Any]:
    """What `PROGRAM` finds in a process of its own, with another hash seed."""
    paths = [str(Path(__file__).parent), str(Path(gpufeed.__file__).parents[1])]
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(IMPORTS)],
        env={"PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(paths), "PATH": os.environ.get("PATH", "")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return json.loads(output)


def test_fingerprints_are_equal_in_another_process(elsewhere: dict[str, Any]) -> None:
    here = {name: translate(transform).require().fingerprint() for name, (transform, _) in GOLDEN.items()}
    assert elsewhere["fingerprints"] == here
    assert len(set(here.values())) == len(GOLDEN)


def test_translating_and_the_oracle_import_neither_dali_nor_our_pixel_code(elsewhere: dict[str, Any]) -> None:
    assert elsewhere["forbidden"] == []


def test_translate_can_be_called_whatever_is_imported_first(elsewhere: dict[str, Any]) -> None:
    plan = str(translate(v2.CenterCrop(3)).plan)
    assert elsewhere["callable"] == {name: [True, plan] for name in IMPORTS}


def test_input_is_part_of_the_plan() -> None:
    tensor = ImageSpec("tensor", "uint8", 3, (40, 60))
    translation = translate(v2.CenterCrop(32), input=tensor)
    assert translation.require() == Plan((CenterCrop((32, 32)),), tensor)
    assert translation.require().fingerprint() != translate(v2.CenterCrop(32)).require().fingerprint()


def test_prints_each_transform_with_what_it_became() -> None:
    compose = v1.Compose([v1.RandomResizedCrop(8), v2.Identity(), v1.Compose([v1.ToTensor()])])
    assert str(translate(compose)) == "\n".join(
        [
            "in  pil uint8 H x W x 3",
            f"transforms[0]  {compose.transforms[0]}",
            "    RandomAreaCrop(scale=(0.08, 1.0), ratio=(0.75, 1.3333333333333333))",
            "    Resize(size=(8, 8), max_size=None, interpolation='bilinear', antialias=True, api='v2')",
            "transforms[1]  Identity()",
            "    nothing to do here",
            "transforms[2].transforms[0]  ToTensor()",
            "    ToTensor()",
            "out tensor float32 3 x 8 x 8",
        ]
    )


def test_steps_name_place_class_and_ops() -> None:
    first, second = translate(v2.Compose([v2.Resize((7, 9)), v2.ToImage()])).steps
    assert (first.place, first.name) == ("transforms[0]", "torchvision.transforms.v2.Resize")
    assert first.text == "Resize(size=[7, 9], interpolation=bilinear, antialias=True)"
    assert first.ops == (Resize(size=(7, 9)),)
    assert (second.place, second.name, second.ops) == (
        "transforms[1]",
        "torchvision.transforms.v2.ToImage",
        (Convert("tv_image"),),
    )
