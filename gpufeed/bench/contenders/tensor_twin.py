"""The same transform on decoded uint8 tensors: torchvision's v2 classes in place of those that want a PIL image."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import nn
from torchvision.transforms import v2

from gpufeed.errors import UnsupportedError

__all__ = ["tensor_decoder", "tensor_twin"]

_CONTAINERS = ("Compose", "RandomApply", "RandomChoice", "RandomOrder")
_SCALES = "ToTensor"  # the one PIL-only step that also changes values: to float32 in [0, 1]
_DROPPED = ("PILToTensor", "ToImage", "ToPureTensor")  # only change the container; a plain tensor stays one

_PRESETS = "torchvision.transforms._presets"
"""What the ``transforms()`` of weights give: they take tensors as they are."""


def tensor_twin(transform: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A v2 transform that does on a uint8 tensor ``(3, H, W)`` what ``transform`` does on a PIL image.

    ``ToTensor`` becomes ``ToDtype(float32, scale=True)``, other changes of the container fall away, and a v1 class
    becomes the v2 class that torchvision declares its twin, built from the same arguments.

    Raises:
        UnsupportedError: a step has no such twin.
    """
    kind = type(transform).__name__
    if not type(transform).__module__.startswith("torchvision.transforms"):
        raise UnsupportedError(f"{kind} is not torchvision's own, so there is no telling what it does to a tensor")
    if kind in _CONTAINERS:
        return _container(transform)
    if kind == _SCALES:
        return v2.ToDtype(torch.float32, scale=True)
    if kind in _DROPPED:
        return v2.Identity()
    if isinstance(transform, v2.Transform) or type(transform).__module__ == _PRESETS:
        return transform
    return _twin_of_v1(transform)


def _container(transform: Any) -> Callable[[Any], Any]:
    steps = [tensor_twin(step) for step in transform.transforms]
    match type(transform).__name__:
        case "RandomApply":
            return v2.RandomApply(steps, p=transform.p)
        case "RandomChoice":
            return v2.RandomChoice(steps, p=getattr(transform, "probabilities", None) or getattr(transform, "p", None))
        case "RandomOrder":
            return v2.RandomOrder(steps)
        case _:
            return v2.Compose(steps)


def _twin_of_v1(transform: Any) -> Callable[[Any], Any]:
    kind = cast(Any, type(transform))
    twin = getattr(v2, kind.__name__, None)
    if twin is None or getattr(twin, "_v1_transform_cls", None) is not kind:
        raise UnsupportedError(f"transforms.{kind.__name__} has no twin in transforms.v2 that takes a tensor")
    names = [name for name in inspect.signature(twin.__init__).parameters if name != "self"]
    missing = [name for name in names if not hasattr(transform, name)]
    if missing:
        raise UnsupportedError(f"transforms.{kind.__name__} doesn't tell its {', '.join(missing)}; use its v2 class")
    made = twin(**{name: getattr(transform, name) for name in names})
    return made if isinstance(made, nn.Module) else v2.Identity()


class _Decoder:
    """Reads a path into a uint8 RGB tensor ``(3, H, W)``."""

    def __init__(self, decode_image: Callable[..., torch.Tensor]) -> None:
        self._decode_image = decode_image

    def __call__(self, path: str) -> torch.Tensor:
        return self._decode_image(path, mode="RGB")


def tensor_decoder() -> Callable[[str], torch.Tensor]:
    """torchvision's decoder to tensors, or torchcodec's, which succeeds it, where torchvision has none any more.

    Raises:
        UnsupportedError: neither is there.
    """
    homes: Sequence[str] = ("torchvision.io", "torchcodec.decoders")
    for home in homes:
        try:
            decode_image = getattr(importlib.import_module(home), "decode_image", None)
        except ImportError:
            continue
        if decode_image is not None:
            return _Decoder(decode_image)
    raise UnsupportedError("this torchvision has no decoder to tensors; `pip install torchcodec` brings one")
