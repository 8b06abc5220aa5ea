"""Typical mistakes in a pipeline module: each is answered with the user's line and words that people understand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from textwrap import dedent, indent
from typing import Any, Literal

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset

from gpufeed import DataLoader
from gpufeed.errors import PipelineError
from gpufeed.pipelines import load_pipeline
from gpufeed.recording import record
from gpufeed.sources.base import Paths

HERE = "# here"
HEAD = """\
import random
import numpy as np
import torch
from nvidia.dali import fn, types
from torchvision.transforms import v2
import gpufeed
from gpufeed import ops
"""
TRACES = ("Traceback", "nvidia/dali", "site-packages", "C++ context", "Current pipeline object", "encountered:")


class Pictures(Dataset[Any]):
    """Six pictures of 40 x 50 pixels with a number, a name and some boxes each."""

    def __init__(self, folder: Path) -> None:
        self.names = [str(folder / f"{number}.png") for number in range(6)]
        for number, name in enumerate(self.names):
            Image.new("RGB", (50, 40), (40 * number, 90, 200)).save(name)

    def __len__(self) -> int:
        return len(self.names)

    def read(self, indices: Any) -> Paths:
        return Paths.of([self.names[index] for index in indices])

    def fields(self, indices: Any) -> dict[str, list[Any]]:
        boxes = [np.arange(4 * index, dtype=np.float32).reshape(-1, 4) for index in indices]
        return {"target": list(indices), "title": [f"picture {index}" for index in indices], "boxes": boxes}

    def name_of(self, index: int) -> str:
        return self.names[index]

    def fingerprint(self) -> str:
        return "pictures"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Pictures:
    return Pictures(tmp_path_factory.mktemp("pictures"))


class Module:
    """A user's file with one mistake, which a comment marks."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        path.write_text(text)

    def function(self, body: str, before: str = "", after: str = "") -> Module:
        """With a pipeline ``train`` of this body."""
        head = f"{HEAD}{dedent(before)}\n@gpufeed.pipeline\ndef train(sample, *, size: int = 32):\n"
        return Module(self.path, f"{head}{indent(dedent(body).strip(), '    ')}\n{dedent(after)}")

    @property
    def line(self) -> int:
        lines = self.path.read_text().splitlines()
        (number,) = (number for number, line in enumerate(lines, start=1) if HERE in line)
        return number


@pytest.fixture
def module(tmp_path: Path) -> Module:
    return Module(tmp_path / "study.py", HEAD)


def on_cpu(module: Module, pictures: Pictures) -> PipelineError:
    """What the loader answers."""
    with closing(loader_of(module, pictures)) as loader, pytest.raises(PipelineError) as caught:
        next(iter(loader))
    return caught.value


def loader_of(module: Module, pictures: Pictures) -> DataLoader:
    return DataLoader(pictures, batch_size=2, pipeline=f"{module.path}:train", device="cpu", seed=0, num_threads=1)


def on_cuda(module: Module, pictures: Pictures) -> PipelineError:
    """What the structural recording answers."""
    example = {name: held[0] for name, held in pictures.fields([1]).items()}
    with pytest.raises(PipelineError) as caught:
        record(load_pipeline(str(module.path)), "cuda", example=example)
    return caught.value


def check(error: PipelineError, path: Path, line: int, *phrases: str) -> None:
    """The message names file and line, has the phrases and is no traceback."""
    text = str(error)
    assert (error.path, error.line) == (str(path), line), text
    assert text.startswith(f"{path}, line {line}:")
    assert "\n    " in text, "the line itself is shown"
    for phrase in phrases:
        assert phrase in error.cause
    for trace in TRACES:
        assert trace not in text
    assert "Node" not in error.cause, "a word of DALI's"
    assert len(error.cause) < 500


IMAGE = "image = sample.random_resized_crop(size)\n"
TAIL = "do it in the tail, a function under @NAME.tail"
BY_SAMPLE = ("a number was drawn by random, numpy.random or torch", "sample.uniform()")
BRANCH = ("can't branch on one sample's value", "horizontal=sample.coin()", "torch.where")

MISTAKES: dict[str, tuple[str, tuple[str, ...]]] = {
    # torch, torchvision, NumPy and Python on handles
    "torch function": (
        IMAGE + "return torch.flip(image, [1])  # here",
        ("torch.flip got a handle of the graph, which holds no pixels yet", "use an operator of fn", TAIL),
    ),
    "torch.nn.functional": (
        IMAGE + "return torch.nn.functional.relu(image)  # here",
        ("torch.nn.functional.relu", TAIL),
    ),
    "torch.stack": (IMAGE + "return torch.stack([image, image])  # here", ("torch.stack got a handle", TAIL)),
    "torch.as_tensor": (IMAGE + "return torch.as_tensor(image)  # here", ("torch.as_tensor got a handle", TAIL)),
    "a tensor's method": (
        IMAGE + "return image.permute(2, 0, 1)  # here",
        ("a handle of the graph has no .permute: it is no tensor", TAIL),
    ),
    "torchvision transform": (
        IMAGE + "return v2.ColorJitter(0.3)(image)  # here",
        ("the transform ColorJitter was called with a handle", "ops.apply(transform, images, samples) in the tail"),
    ),
    "transform that torchvision would skip": (
        IMAGE + "return v2.Resize(8)(image)  # here",
        ("the transform Resize was called with a handle", "passes on what is no image"),
    ),
    "torchvision functional": (
        IMAGE + "return v2.functional.rotate(image, 3)  # here",
        ("v2.functional.rotate (torchvision) got a handle", "ops.apply"),
    ),
    "network": (
        IMAGE + "return torch.nn.Conv2d(3, 3, 1)(image)  # here",
        ("the module Conv2d was called with a handle", "in the training loop"),
    ),
    "NumPy function": (IMAGE + "return np.flip(image, 1)  # here", ("np.flip (NumPy) got a handle", TAIL)),
    "NumPy function that compares": (IMAGE + "return np.clip(image, 0, 9)  # here", ("np.clip (NumPy) got a handle",)),
    "NumPy function in C": (
        IMAGE + "return np.concatenate([image, image])  # here",
        ("np.concatenate (NumPy) got a handle",),
    ),
    "NumPy ufunc": (IMAGE + "return np.sqrt(image)  # here", ("np.sqrt (NumPy) got a handle",)),
    "float": ("return fn.rotate(sample.decode(), angle=float(sample.uniform()))  # here", ("float got a handle",)),
    "range": (
        "for _ in range(sample.integers(1, 4)):  # here\n    pass",
        ("range got a handle", "use operators of fn"),
    ),
    "size by a handle": (
        "return sample.random_resized_crop(sample.integers(3, 9))  # here",
        ("sample.random_resized_crop got a handle", "take a parameter or a number"),
    ),
    "loop over a handle": (
        IMAGE + "for row in image:  # here\n    pass",
        ("can't be taken apart or looped over", "image.shape()[0]"),
    ),
    "shape as an attribute": (
        IMAGE + "return fn.crop(image, crop=image.shape[:2])  # here",
        ("shape is a method of a handle",),
    ),
    "shape taken apart": (IMAGE + "h, w, c = image.shape()  # here", ("can't be taken apart",)),
    "field called": ("return sample.target()  # here", ("sample.target is a handle of the graph, not a function",)),
    # branches
    "if a draw": (IMAGE + "if sample.coin():  # here\n    image = fn.flip(image)\nreturn image", BRANCH),
    "if a comparison": ("if sample.target == 3:  # here\n    pass", BRANCH),
    "and": ("return fn.flip(sample.decode(), horizontal=sample.coin() and sample.coin())  # here", BRANCH),
    # the sample
    "undecoded image": (
        "return fn.rotate(sample.encoded, angle=3.0)  # here",
        ("fn.rotate got sample.encoded, the bytes of a file that isn't decoded yet", "sample.decode()"),
    ),
    "string field": (
        "return fn.cast(sample.title, dtype=types.FLOAT)  # here",
        ("fn.cast got sample.title, which holds a str such as 'picture 0'", "return the field as it is"),
    ),
    "typo in a field": ("return sample.tarjet  # here", ("the sample has no tarjet; did you mean sample.target?",)),
    "typo in a method": (
        "return sample.random_resize_crop(size)  # here",
        ("did you mean sample.random_resized_crop?", "Its source's fields are target, title, boxes"),
    ),
    "the sample as an image": (
        "return fn.rotate(sample, angle=3.0)  # here",
        ("fn.rotate got the sample itself", "sample.decode()"),
    ),
    "the sample as a dict": ("return sample['image']  # here", ("the sample is no tuple, dict or image",)),
    "the sample as a tuple": ("image, target = sample  # here", ("the sample is no tuple, dict or image",)),
    # operators
    "typo in an operator": (
        "return fn.rotat(sample.decode(), angle=3.0)  # here",
        ("DALI has no operator fn.rotat; did you mean fn.rotate",),
    ),
    "typo in an operator of a module": (
        "return fn.decoders.imag(sample.encoded)  # here",
        ("DALI has no operator fn.decoders.imag; did you mean fn.decoders.image",),
    ),
    "typo in a type": ("return fn.cast(sample.decode(), dtype=types.FLOT)  # here", ("did you mean types.FLOAT",)),
    "typo in ops": ("return ops.normalise(sample.decode())  # here", ("did you mean ops.normalize?",)),
    "typo in an argument": (
        "return fn.rotate(sample.decode(), angel=3.0)  # here",
        ("fn.rotate has no argument angel; did you mean angle?",),
    ),
    "typo in a method's argument": (
        "return sample.random_resized_crop(size, scal=(0.1, 1))  # here",
        ("sample.random_resized_crop has no argument scal; did you mean scale?",),
    ),
    "missing argument": (
        "return ops.apply(v2.RandomHorizontalFlip(), sample.decode())  # here",
        ("its third argument is",),
    ),
    "argument of a wrong type": (
        "return fn.rotate(sample.decode(), angle='fast')  # here",
        ("fn.rotate got angle='fast', which is of a wrong type",),
    ),
    "name for a constant": (
        "return fn.resize(sample.decode(), size=[8, 8], interp_type='linear')  # here",
        ("fn.resize got interp_type='linear', which is of a wrong type",),
    ),
    "path for an image": ("return fn.rotate('cat.jpg', angle=3.0)  # here", ("fn.rotate got a str as its input 0",)),
    "too many inputs": (
        "return fn.rotate(sample.decode(), sample.decode(), angle=3.0)  # here",
        ("fn.rotate takes 1 input by position, and got 2",),
    ),
    "number for an image": ("return fn.rotate(3, angle=3.0)  # here", ("fn.rotate failed", "does not match any of")),
    "layout": (
        "return fn.color_twist(ops.normalize(fn.flip(sample.decode())), hue=3.0)  # here",
        ("fn.color_twist failed", "call them before ops.normalize"),
    ),
    "crop larger than the image": (
        IMAGE + "return fn.crop(image, crop=[2000, 2000])  # here",
        ("fn.crop failed while it ran", "input_shape={32 x 32 x 3}", 'out_of_bounds_policy="pad"'),
    ),
    "shapes that don't fit": (
        IMAGE + "return image + sample.decode()  # here",
        ("the operator + failed while it ran", "32 x 32 x 3", "40 x 50 x 3", "bring both to one shape"),
    ),
    "a reader": (
        "return fn.readers.file(file_root='.')[0]  # here",
        ("fn.readers.file reads data by itself", "samples come from the loader's source"),
    ),
    "an input of its own": (
        "return fn.external_source(lambda: 3)  # here",
        ("fn.external_source reads data by itself",),
    ),
    "device= on the host": (
        "return fn.rotate(sample.decode(), angle=3.0, device='gpu')  # here",
        ("fn.rotate is told to run on the GPU and gets data from the host", "leave device= out"),
    ),
    "a transform for the tail": (
        "return ops.apply(v2.ColorJitter(0.3), sample.decode(), sample)  # here",
        ("ColorJitter isn't among what DALI does", "in the tail"),
    ),
    # draws outside of the graph
    "random": ("return fn.rotate(sample.decode(), angle=random.uniform(0, 9))  # here", BY_SAMPLE),
    "numpy.random": (
        "angle = float(np.random.rand())  # here\nreturn fn.rotate(sample.decode(), angle=angle)",
        BY_SAMPLE,
    ),
    "torch.rand": ("angle = float(torch.rand(1))  # here\nreturn fn.rotate(sample.decode(), angle=angle)", BY_SAMPLE),
    "a generator of its own": (
        "angle = float(np.random.default_rng().random())\nreturn fn.rotate(sample.decode(), angle=angle)  # here",
        ("fn.rotate got something else than before", "a generator of random numbers"),
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_function_names_its_line(name: str, module: Module, pictures: Pictures) -> None:
    body, phrases = MISTAKES[name]
    module = module.function(body)
    check(on_cpu(module, pictures), module.path, module.line, *phrases)


RETURNED = {
    "nothing": (IMAGE + "ops.normalize(image)", ("returned None: its return is missing", "return an image")),
    "a number": (IMAGE + "return image, 3", ("returned 3, of type int, among its outputs",)),
    "a tensor": ("return {'a': torch.ones(3)}", ("returned a torch Tensor among its outputs",)),
    "NumPy's arithmetic": (IMAGE + "return np.ones(3) + image", ("write the handle first, as in image + array",)),
    "the sample": ("return sample", ("returned the sample itself",)),
    "an empty tuple": ("return ()", ("returned (), which holds nothing",)),
}


@pytest.mark.parametrize("name", RETURNED)
def test_a_wrong_result_names_the_function(name: str, module: Module, pictures: Pictures) -> None:
    body, phrases = RETURNED[name]
    module = module.function(body)
    first = module.path.read_text().splitlines().index("@gpufeed.pipeline") + 1
    check(on_cpu(module, pictures), module.path, first, "the pipeline train", *phrases)


ON_CUDA = {
    "an operator on the host after one on the device": (
        IMAGE + "return fn.resize(image, size=[8, 8], device='cpu')  # here",
        ("fn.resize runs on the host and gets data from the GPU", "DALI doesn't go back", "leave device= out"),
    ),
    "back to the host": (
        IMAGE + "return fn.resize(image.cpu(), size=[8, 8])  # here",
        ("fn.resize takes data from the GPU back to the host", ".cpu()"),
    ),
    "a named argument from the device": (
        IMAGE
        + "angle = fn.cast(fn.reductions.mean(image), dtype=types.FLOAT)\nreturn fn.rotate(image, angle=angle)  # here",
        ("fn.rotate takes its named argument angle from the host, and got one on the GPU", "compute it from draws"),
    ),
    "no version for the GPU": (
        IMAGE + "return fn.bbox_paste(image, paste_x=0.0, paste_y=0.0, ratio=2.0)  # here",
        ("fn.bbox_paste has no GPU version", "in the tail"),
    ),
}


@pytest.mark.parametrize("name", ON_CUDA)
def test_a_mistake_for_the_gpu_is_found_without_one(name: str, module: Module, pictures: Pictures) -> None:
    body, phrases = ON_CUDA[name]
    module = module.function(body)
    check(on_cuda(module, pictures), module.path, module.line, *phrases)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_mistake_in_a_file_that_the_user_imports_names_that_file(
    device: Literal["cpu", "cuda"], module: Module, pictures: Pictures, tmp_path: Path
) -> None:
    helper = Module(
        tmp_path / f"blocks_of_{device}.py", f"{HEAD}def turned(image):\n    return torch.flip(image, [1])  # here\n"
    )
    module = module.function(IMAGE + "return turned(image)", before=f"from blocks_of_{device} import turned\n")
    answer = on_cpu if device == "cpu" else on_cuda
    check(answer(module, pictures), helper.path, helper.line, "torch.flip got a handle")


def test_a_handle_or_a_sample_that_was_kept_is_refused(module: Module, pictures: Pictures) -> None:
    kept = "KEPT.append(sample.decode())\nreturn fn.rotate(KEPT[0], angle=3.0)  # here"
    module = module.function(kept, before="KEPT = []\n")
    check(on_cpu(module, pictures), module.path, module.line, "fn.rotate got a handle of an earlier call")
    module = module.function("KEPT.append(sample)\nreturn KEPT[0].decode()  # here", before="KEPT = []\n")
    check(on_cpu(module, pictures), module.path, module.line, "after the pipeline function had returned")


CHANGING = {
    "the number of outputs": ("return (sample.decode(),) * next(COUNT)", None, ("returned (*, *", "a counter")),
    "an operator's argument": (
        "return fn.rotate(sample.decode(), angle=float(next(COUNT)))  # here",
        HERE,
        ("fn.rotate got something else than before", "each must be the same"),
    ),
    "a draw's argument": (
        "return sample.uniform(0, next(COUNT))",
        None,
        ("described something else when it was called",),
    ),
}


@pytest.mark.parametrize("name", CHANGING)
def test_a_function_that_changes_from_call_to_call_is_refused(name: str, module: Module, pictures: Pictures) -> None:
    body, marked, phrases = CHANGING[name]
    module = module.function(body, before="from itertools import count\nCOUNT = count(1)\n")
    line = module.line if marked else module.path.read_text().splitlines().index("@gpufeed.pipeline") + 1
    check(on_cpu(module, pictures), module.path, line, *phrases)


# The tail -------------------------------------------------------------------------------------------------------------

PLAIN = "return ops.normalize(sample.random_resized_crop(size)), sample.target"
TAILS = {
    "drops samples": (
        "def tail(images, target):\n    return images[1:], target",
        ("a tensor of 1 entries", "2 samples"),
    ),
    "returns nothing": ("def tail(images, target):\n    images.mul_(2)", ("the tail returned None",)),
    "returns an array": (
        "def tail(images, target):\n    return images.numpy()",
        ("a NumPy array; return torch tensors",),
    ),
    "takes too few": (
        "def tail(images):\n    return images",
        ("tail() takes 1 positional argument but 2 were given", "by position if that returns a tuple"),
    ),
}


@pytest.mark.parametrize("name", TAILS)
def test_a_tail_that_does_not_fit_is_named(name: str, module: Module, pictures: Pictures) -> None:
    text, phrases = TAILS[name]
    module = module.function(PLAIN, after=f"@train.tail\n{text}\n")
    first = module.path.read_text().splitlines().index("@train.tail") + 1
    check(on_cpu(module, pictures), module.path, first, *phrases)


TAIL_LINES = {
    "raises": ("raise KeyError('nothing')  # here", ("KeyError: 'nothing'",)),
    "multiplies what doesn't fit": ("return images @ target.float()  # here", ("RuntimeError: size mismatch",)),
    "draws from the sample": ("return images * KEPT[0].uniform(0, 1)  # here", ("from its keyword argument samples",)),
}


@pytest.mark.parametrize("name", TAIL_LINES)
def test_a_mistake_in_the_tail_names_its_line(name: str, module: Module, pictures: Pictures) -> None:
    line, phrases = TAIL_LINES[name]
    tail = f"@train.tail\ndef tail(images, target):\n    {line}\n"
    module = module.function(f"KEPT.append(sample)\n{PLAIN}", before="KEPT = []\n", after=tail)
    check(on_cpu(module, pictures), module.path, module.line, *phrases)


# What is no mistake ---------------------------------------------------------------------------------------------------


def test_the_loader_stays_usable_after_a_batch_whose_graph_failed(module: Module, pictures: Pictures) -> None:
    # only a sample of an index above 3 asks for more than there is
    module = module.function(
        """
        side = fn.cast(10.0 + 50.0 * fn.cast(sample.index > 3, dtype=types.FLOAT), dtype=types.FLOAT)
        return fn.crop(sample.decode(), crop_h=side, crop_w=side), sample.index  # here
        """
    )
    with closing(loader_of(module, pictures)) as loader:
        batches: Iterator[Any] = iter(loader)
        assert [next(batches)[1].tolist() for _ in range(2)] == [[0, 1], [2, 3]]
        with pytest.raises(PipelineError) as caught:
            next(batches)
        check(caught.value, module.path, module.line, "fn.crop failed while it ran")
        assert next(iter(loader))[0].shape == (2, 10, 10, 3)


def test_draws_of_other_threads_are_not_the_functions(module: Module, pictures: Pictures) -> None:
    # stands for another thread: the generator moves at the first call, and nothing in the user's lines moves it
    module = module.function(
        "CALLS.append(1) or len(CALLS) > 1 or torch.manual_seed(len(CALLS))\nreturn sample.random_resized_crop(size)",
        before="CALLS = []\n",
    )
    state = torch.get_rng_state()
    try:
        with closing(loader_of(module, pictures)) as loader:
            assert next(iter(loader)).shape == (2, 32, 32, 3)
    finally:
        torch.set_rng_state(state)


def test_arrays_and_tensors_beside_a_handle_become_constants(module: Module, pictures: Pictures) -> None:
    module = module.function(
        "image = fn.cast(sample.random_resized_crop(size), dtype=types.FLOAT)\n"
        "return image + torch.ones(3), image * np.full(3, 2, np.float32), image"
    )
    with closing(loader_of(module, pictures)) as loader:
        more, twice, image = next(iter(loader))
    assert torch.equal(more, image + 1)
    assert torch.equal(twice, image * 2)
