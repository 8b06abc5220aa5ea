"""Attribute values in one canonical form, refused where torchvision refuses them.

Attributes can be set after construction, past torchvision's own checks, so every value is checked again here, by the
rule of the function that would meet it. Equal meanings get equal values: sizes are tuples of int, every other number is
a float.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, cast

import PIL.Image
import torch
import torchvision.transforms.functional as functional_v1
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as functional_v2

from gpufeed.errors import UnsupportedError
from gpufeed.plan import Api, Fill, Interpolation, PadMode
from gpufeed.spec import Container, ImageSpec

__all__ = [
    "blank",
    "check_log_ratio",
    "container_class",
    "dtype_name",
    "fill",
    "fill_for",
    "float_pair",
    "floats_per_channel",
    "interpolation",
    "pad_mode",
    "padding_ltrb",
    "probability",
    "whole_numbers",
]

_PIL_INTERPOLATIONS: dict[int, Interpolation] = {
    0: "nearest",
    1: "lanczos",
    2: "bilinear",
    3: "bicubic",
    4: "box",
    5: "hamming",
}
"""Pillow's codes, as torchvision takes them (``_interpolation_modes_from_int``)."""

_LARGEST_FLOAT32 = float(torch.finfo(torch.float32).max)

_PAD_MODES: tuple[PadMode, ...] = ("constant", "edge", "reflect", "symmetric")


def _is_whole(value: object) -> bool:
    # bool is an int to Python, and to torchvision on PIL images, but not to its tensor kernels
    return not isinstance(value, bool) and isinstance(value, Integral)


def whole_numbers(name: str, value: object, lengths: tuple[int, ...]) -> tuple[int, ...]:
    """A sequence of whole numbers of one of ``lengths``, as a tuple of int."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        items = cast(Sequence[Any], value)
        if len(items) in lengths and all(_is_whole(item) for item in items):
            return tuple(int(item) for item in items)
    counts = " or ".join(str(length) for length in lengths)
    raise UnsupportedError(f"{name} must be a sequence of {counts} whole numbers, got {value!r}")


def float_pair(name: str, value: object) -> tuple[float, float]:
    """Two finite numbers, the first not above the second: torchvision's ``uniform_`` draws from no other range."""
    items = cast(Sequence[Any], value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    if len(items) != 2 or not all(isinstance(item, Real) and math.isfinite(item) for item in items):
        raise UnsupportedError(f"{name} must be two finite numbers (lowest, highest), got {value!r}")
    low, high = float(items[0]), float(items[1])
    if max(abs(low), abs(high)) > _LARGEST_FLOAT32:
        raise UnsupportedError(f"{name} must be within the range of float32, in which torchvision draws, got {value!r}")
    if low > high:
        raise UnsupportedError(
            f"{name} must be (lowest, highest), and torchvision can't draw from {value!r}; swap the two"
        )
    return low, high


def check_log_ratio(class_name: str, log_ratio: object, ratio: tuple[float, float]) -> None:
    """Refuse a v2 transform whose ``ratio`` was edited: it draws from the logarithms that it took at construction."""
    expected = torch.tensor(ratio, dtype=torch.float64).log()
    if not isinstance(log_ratio, torch.Tensor) or log_ratio.shape != expected.shape:
        raise UnsupportedError(f"_log_ratio must be the two logarithms of ratio, got {log_ratio!r}")
    if not torch.allclose(log_ratio.to(torch.float64), expected, rtol=1e-6, atol=1e-6):  # it is float32
        raise UnsupportedError(
            f"ratio was set to {ratio} after construction, and torchvision would go on drawing from the old one; "
            f"make a new {class_name} with this ratio"
        )


def probability(value: object) -> float:
    """A probability. Above 1 means always and below 0 never: torchvision only compares it with a draw in [0, 1)."""
    if not isinstance(value, Real) or math.isnan(value):
        raise UnsupportedError(f"p must be a number in [0, 1], got {value!r}")
    try:
        _ = torch.zeros(1) < cast(Any, value)
    except (TypeError, RuntimeError, OverflowError) as error:
        raise UnsupportedError(f"p must be a number that torch compares with a draw, got {value!r}: {error}") from error
    return min(max(float(value), 0.0), 1.0)


def interpolation(value: object, spec: ImageSpec, api: Api) -> Interpolation:
    """torchvision's name of an interpolation: from the enum, Pillow's integer code or, in v2, the name.

    Pillow knows one nearest neighbour, so ``"nearest-exact"`` is ``"nearest"`` on PIL images.
    """
    name: Interpolation
    if isinstance(value, InterpolationMode):
        name = value.value
    elif isinstance(value, str):
        if api == "v1":
            raise UnsupportedError(
                f"interpolation must be an InterpolationMode, got {value!r}, which only torchvision.transforms.v2 takes"
            )
        if value not in {mode.value for mode in InterpolationMode}:
            known = ", ".join(repr(mode.value) for mode in InterpolationMode)
            raise UnsupportedError(f"interpolation must be one of {known}, got {value!r}")
        name = cast(Interpolation, value)
    elif isinstance(value, int) and value in _PIL_INTERPOLATIONS:
        name = _PIL_INTERPOLATIONS[value]
    else:
        raise UnsupportedError(
            f"interpolation must be an InterpolationMode or Pillow's code for one (0 to 5), got {value!r}"
        )
    return "nearest" if spec.container == "pil" and name == "nearest-exact" else name


def pad_mode(value: object) -> PadMode:
    """One of torchvision's padding modes."""
    for mode in _PAD_MODES:
        if value == mode:
            return mode
    raise UnsupportedError(f"padding_mode must be one of {', '.join(_PAD_MODES)}, got {value!r}")


def padding_ltrb(value: object) -> tuple[int, int, int, int]:
    """Padding as (left, top, right, bottom) from torchvision's forms: an int, or a list or tuple of 1, 2 or 4."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value, value, value, value
    if not isinstance(value, list | tuple):
        raise UnsupportedError(
            f"padding must be a whole number, or a list or tuple of 1, 2 or 4 of them, got {value!r}"
        )
    match whole_numbers("padding", cast(object, value), (1, 2, 4)):
        case (every,):
            return every, every, every, every
        case (horizontal, vertical):
            return horizontal, vertical, horizontal, vertical
        case (left, top, right, bottom):
            return left, top, right, bottom
        case _:  # pragma: no cover - whole_numbers allows no other length
            raise AssertionError


def container_class(container: Container) -> type[object]:
    """The class that v2 looks up in ``fill`` and ``dtype`` dictionaries; the class itself counts, not its bases."""
    classes: dict[Container, type[object]] = {
        "pil": PIL.Image.Image,
        "tensor": torch.Tensor,
        "tv_image": tv_tensors.Image,
    }
    return classes[container]


def fill_for(fills: object, spec: ImageSpec) -> object:
    """The fill of v2's ``_fill`` dictionary that images of ``spec`` get.

    A dictionary without the class and without ``"others"`` gives ``None``, which pads with zeros (torchvision means to
    raise there and doesn't).
    """
    if not isinstance(fills, dict):
        raise UnsupportedError(f"_fill must be the dictionary that torchvision makes of fill, got {fills!r}")
    by_class = cast(dict[object, object], fills)
    return by_class.get(container_class(spec.container), by_class.get("others"))


def fill(value: object, mode: PadMode, spec: ImageSpec, api: Api) -> Fill:
    """The border's value on the scale of the image's dtype: one for all channels, or one each where they differ.

    torchvision's own ``pad`` is asked, on an image of 3x3 pixels: how a fill is cut to whole numbers, clipped, rounded
    to a dtype or refused differs between PIL images, dtypes, numbers, sequences, v1 and v2.
    """
    pad = cast(Any, functional_v1.pad if api == "v1" else functional_v2.pad)
    try:
        padded = pad(blank(spec), padding=[1, 1, 1, 1], fill=value, padding_mode=mode)
    except (TypeError, ValueError, RuntimeError, OverflowError, NotImplementedError) as error:
        raise UnsupportedError(
            f"torchvision can't pad {spec} with fill={value!r} and padding_mode={mode!r}: {error}"
        ) from error
    if mode != "constant":
        return (0.0,)  # it is ignored
    values = _corner(padded)
    if not all(math.isfinite(item) for item in values):
        raise UnsupportedError(f"fill must be finite, got {value!r}")
    return (values[0],) if len(set(values)) == 1 else tuple(values)


def _corner(image: object) -> list[float]:
    if isinstance(image, PIL.Image.Image):
        return [float(cast(Any, band.getpixel((0, 0)))) for band in image.split()]
    return _numbers(cast(torch.Tensor, image)[:, 0, 0])


def _numbers(tensor: torch.Tensor) -> list[float]:
    return [float(item) for item in cast(list[Any], cast(Any, tensor).tolist())]


def blank(spec: ImageSpec) -> object:
    """A black image of 3x3 pixels, to ask torchvision's functions what they take."""
    if spec.container == "pil":
        return PIL.Image.new("RGB" if spec.channels == 3 else "L", (3, 3))
    zeros = torch.zeros((spec.channels, 3, 3), dtype=getattr(torch, spec.dtype))
    return tv_tensors.Image(zeros) if spec.container == "tv_image" else zeros


def floats_per_channel(name: str, value: object) -> tuple[float, ...]:
    """Finite numbers, one for all channels or one per channel, from whatever ``torch.as_tensor`` reads."""
    way_out = f"give {name} as a list with one number per channel"
    try:
        numbers = torch.as_tensor(cast(Any, value), dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UnsupportedError(f"{name} must be numbers, got {value!r}; {way_out}") from error
    if numbers.ndim > 1 or numbers.numel() == 0 or not bool(numbers.isfinite().all()):
        raise UnsupportedError(f"{name} must be one finite number, or one per channel, got {value!r}; {way_out}")
    return tuple(_numbers(numbers.reshape(-1)))


def dtype_name(value: object) -> str:
    """torch's name of a dtype, without ``torch.``."""
    if not isinstance(value, torch.dtype):
        raise UnsupportedError(f"dtype must be a torch.dtype, got {value!r}")
    return str(value).removeprefix("torch.")
