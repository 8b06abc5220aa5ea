"""How the translation of one class is compared with torchvision itself: in every container and dtype.

For each pair: what torchvision can't run is refused; what it can run is translated (a short list of exceptions apart),
to a Plan whose output is what torchvision returns in class, dtype, channels and size, and which torchvision's own
functions, op by op, turn into the very pixels of the transform.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torchvision import tv_tensors
from torchvision.transforms import v2

from gpufeed import reference
from gpufeed.draws import Draws, epoch_key
from gpufeed.errors import TranslationError
from gpufeed.parameters import draw_parameters
from gpufeed.translation import translate

HEIGHT, WIDTH = 37, 53


def edited(transform: Any, **attributes: Any) -> Any:
    """A transform with attributes set after construction."""
    for name, value in attributes.items():
        setattr(transform, name, value)
    return transform


def build(module: Any, class_name: str, **arguments: Any) -> tuple[str, Any]:
    shown = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    generation = "v2" if module is v2 else "v1"
    return f"{generation}.{class_name}({shown})", getattr(module, class_name)(**arguments)


def pixels(channels: int) -> np.ndarray:
    generator = np.random.default_rng(5)
    return generator.integers(0, 256, (HEIGHT, WIDTH, channels), dtype=np.uint8)


def pil(channels: int) -> PIL.Image.Image:
    values = pixels(channels)
    return PIL.Image.fromarray(values if channels == 3 else values[:, :, 0])


def tensor(channels: int, dtype: torch.dtype) -> torch.Tensor:
    values = torch.from_numpy(pixels(channels)).permute(2, 0, 1).contiguous()
    return values.to(dtype) / 255 if dtype.is_floating_point else values.to(dtype)


INPUTS: dict[str, Callable[[], Any]] = {
    "pil": lambda: pil(3),
    "grey pil": lambda: pil(1),
    "uint8 tensor": lambda: tensor(3, torch.uint8),
    "float tensor": lambda: tensor(3, torch.float32),
    "grey uint8 tensor": lambda: tensor(1, torch.uint8),
    "uint8 Image": lambda: tv_tensors.Image(tensor(3, torch.uint8)),
    "float Image": lambda: tv_tensors.Image(tensor(3, torch.float32)),
    "grey float Image": lambda: tv_tensors.Image(tensor(1, torch.float32)),
}

STRICTER = (
    "keeps a tv_tensors.Image where",  # v1's class of result would depend on the draw or the image
    "put Grayscale(num_output_channels=3) before Normalize",  # v2 broadcasts a grey image to three channels
    "size_hw must be at least 1 pixel",  # CenterCrop(0): an empty image
    "take out what changes the kind of image",  # what a container makes would depend on the draw
)
"""Phrases of the refusals of what torchvision can do."""


def same(a: Any, b: Any) -> bool:
    """Whether two images, or two tuples of them, are equal in class, dtype and values."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, PIL.Image.Image):
        return isinstance(b, PIL.Image.Image) and a.mode == b.mode and np.array_equal(np.asarray(a), np.asarray(b))
    return type(a) is type(b) and a.dtype == b.dtype and torch.equal(a, b)


def as_torchvision_does(transform: Any, image: Any) -> str | None:
    """Torchvision's objection to a transform of an image, if it has one."""
    try:
        transform(image.copy() if isinstance(image, PIL.Image.Image) else image.clone())
    except (
        TypeError,
        ValueError,
        RuntimeError,
        LookupError,
        AttributeError,
        UnboundLocalError,
        OverflowError,
    ) as error:
        return f"{type(error).__name__}: {error}"
    return None


def check_against_torchvision(transform: Any) -> None:
    """One transform with every input."""
    for input_name, image in INPUTS.items():
        _check(transform, input_name, image())


def _check(transform: Any, input_name: str, image: Any) -> None:
    objection = as_torchvision_does(transform, image)
    spec = reference.spec_of(image).with_size((HEIGHT, WIDTH))
    translation = translate(transform, input=spec)
    if objection is not None:
        assert translation.plan is None, f"{input_name}: torchvision objects: {objection}"
        with pytest.raises(TranslationError, match="gpufeed can't do"):
            translation.require()
        return
    if translation.plan is None:
        (refusal,) = translation.refusals
        assert any(phrase in refusal for phrase in STRICTER), f"{input_name}: {refusal}"
        return

    plan = translation.plan
    assert plan.fingerprint() == translate(transform, input=spec).require().fingerprint()
    rows = 3 if plan.is_random else 1
    sizes = np.array([[HEIGHT, WIDTH]] * rows)
    draws = Draws(epoch_key(11, 0), np.arange(rows), np.zeros(rows, dtype=np.int64))
    parameters = draw_parameters(plan, sizes, draws)
    assert not parameters.refused
    for row in range(rows):
        expected = reference.run(transform, image, parameters, row)
        between = [image, *(after for _, after in reference.trace(plan, image, parameters, row))]
        assert same(between[-1], expected), f"{input_name}:\n{translation}"
        if isinstance(expected, tuple):
            assert plan.output.tuple_of == len(expected)
            expected = expected[0]
        else:
            assert plan.output.tuple_of is None
        size_hw = (
            (expected.height, expected.width) if isinstance(expected, PIL.Image.Image) else tuple(expected.shape[1:])
        )
        assert tuple(parameters.sizes_hw[-1][row]) == size_hw
        actual = reference.spec_of(expected)
        assert (actual.container, actual.dtype, actual.channels) == (
            plan.output.container,
            plan.output.dtype,
            plan.output.channels,
        )
        if plan.output.size_hw is not None:
            assert plan.output.size_hw == size_hw
