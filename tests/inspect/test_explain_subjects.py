"""Which transform is meant: by a file's name, or by that of weights."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn
from torchvision.models import ResNet50_Weights
from torchvision.transforms import v2

from gpufeed.errors import ArgumentError
from gpufeed.inspect.subjects import transform_names, transform_of_file, transform_of_weights

TEXT = """
from torch import nn
from torchvision import transforms
from torchvision.transforms import InterpolationMode, v2
mode = InterpolationMode.BOX
_hidden = v2.Identity()
train = v2.Compose([v2.Resize(9)])
class Mine(v2.Transform):
    pass
mine = Mine()
model = nn.Sequential(nn.Linear(3, 3))
scripted = nn.Sequential(v2.Resize(9), v2.CenterCrop(7))
old = transforms.ToTensor()
numbers = [1, 2]
nothing = None
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(TEXT)
    return str(path)


def test_a_name_in_a_file(file: str) -> None:
    assert isinstance(transform_of_file(f"{file}:train"), v2.Compose)


@pytest.mark.parametrize(
    ("name", "what"), [("numbers", "of type list"), ("Mine", "the class Mine"), ("nothing", "of type NoneType")]
)
def test_what_is_no_transform_is_refused(file: str, name: str, what: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        transform_of_file(f"{file}:{name}")
    assert str(caught.value) == f"{file}:{name} is {what}, not a transform; name an object such as Compose([...])"


def test_a_file_alone_is_answered_with_the_names_that_hold_transforms(file: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError) as caught:
        transform_of_file(file)
    assert str(caught.value) == f"{file} holds the transforms train, mine, scripted, old; name one, as in {file}:train"
    one = tmp_path / "one.py"
    one.write_text("from torchvision.transforms import v2\ncrop = v2.CenterCrop(3)\n")
    with pytest.raises(ArgumentError, match=r"one\.py holds the transform crop; name one, as in .*one\.py:crop"):
        transform_of_file(str(one))
    one.write_text("x = 1\n")
    with pytest.raises(ArgumentError, match="holds no transform under a name of its own; give one a name"):
        transform_of_file(str(one))
    with pytest.raises(ArgumentError, match=r"there is no file gone\.py"):
        transform_of_file("gone.py")


def test_a_long_list_of_names_is_cut() -> None:
    names = transform_names({f"t{number}": v2.Identity() for number in range(20)} | {"empty": nn.Sequential()})
    assert len(names) == 20


@pytest.mark.parametrize("name", ["ResNet50_Weights.IMAGENET1K_V2", "ResNet50_Weights.DEFAULT"])
def test_weights_by_name(name: str) -> None:
    assert repr(transform_of_weights(name)) == repr(ResNet50_Weights.IMAGENET1K_V2.transforms())


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("ResNet50_Weights.IMAGENET1K", "there are ResNet50_Weights.DEFAULT, ResNet50_Weights.IMAGENET1K_V1, ResNet50"),
        ("ResNet50_Weights", "there are ResNet50_Weights.DEFAULT, ResNet50_Weights.IMAGENET1K_V1, ResNet50_Weights.IM"),
        ("resnet50", "of the model resnet50 there are ResNet50_Weights.DEFAULT, "),
        ("resnet50_weights.imagenet1k_v2", "did you mean ResNet50_Weights.IMAGENET1K_V2, "),
        ("ResNet50Weights.IMAGENET1K_V2", "did you mean ResNet50_Weights.IMAGENET1K_V2, "),
        ("?", "names are such as ResNet50_Weights.IMAGENET1K_V2"),
        ("", "names are such as ResNet50_Weights.IMAGENET1K_V2"),
    ],
)
def test_unknown_weights_are_refused_with_close_names(name: str, instead: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        transform_of_weights(name)
    assert str(caught.value).startswith(f"torchvision has no weights named {name!r}; {instead}")
