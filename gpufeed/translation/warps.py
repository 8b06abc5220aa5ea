"""``RandomRotation``, ``RandomAffine`` and ``RandomPerspective``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, cast

import numpy as np
import PIL.Image
from torchvision import transforms as v1
from torchvision.transforms import functional as functional_v1
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as functional_v2

from gpufeed.errors import UnsupportedError
from gpufeed.plan import Affine, Api, Fill, Interpolation, Op, Perspective, RandomApply, Rotate
from gpufeed.spec import ImageSpec
from gpufeed.translation import values
from gpufeed.translation.rule import Attributes, Rule, kernel_api, plain_tensor, refuse_chance_container

__all__ = ["RULES"]

_ANY_ANGLE = 30.0
_STARTS, _ENDS = [[0, 0], [2, 0], [2, 2], [0, 2]], [[0, 0], [2, 0], [2, 1], [0, 2]]


def _ask(name: str, spec: ImageSpec, api: Api, **arguments: Any) -> object:
    """What torchvision's function of this name makes of an image of 3x3 pixels.

    Which interpolations, fills and centers it takes differs between PIL images, dtypes, numbers, sequences, v1 and v2.

    Raises:
        UnsupportedError: it objects.
    """
    function = cast(Callable[..., object], getattr(functional_v1 if api == "v1" else functional_v2, name))
    try:
        return function(values.blank(spec), **arguments)
    except (ArithmeticError, AttributeError, LookupError, NotImplementedError, RuntimeError) as error:
        raise _objection(name, spec, arguments, error) from error
    except (TypeError, ValueError) as error:
        raise _objection(name, spec, arguments, error) from error


def _objection(name: str, spec: ImageSpec, arguments: Attributes, error: Exception) -> UnsupportedError:
    shown = ", ".join(f"{key}={arguments[key]!r}" for key in ("interpolation", "center", "fill") if key in arguments)
    return UnsupportedError(f"torchvision's {name} can't take {spec} with {shown}: {error}; give it another value")


def _given_fill(attributes: Attributes, spec: ImageSpec, api: Api) -> object:
    """The fill that torchvision's function gets from the class."""
    if api == "v2":
        return values.fill_for(attributes["_fill"], spec)
    fill = attributes["fill"]
    if spec.container == "pil" or isinstance(fill, int | float):
        return fill
    try:
        return [float(value) for value in cast("Sequence[Any]", fill)]
    except (TypeError, ValueError, OverflowError) as error:
        raise UnsupportedError(f"fill must be a number or a sequence of numbers, got {fill!r}") from error


def _fill(given: object, spec: ImageSpec, api: Api) -> Fill | None:
    """What lies beyond the image, as ``affine`` has it, and ``rotate`` and ``perspective`` alike.

    Tensors blend with it in float, whatever their dtype; PIL images get whole numbers, whose cutting is Pillow's.
    """
    if spec.container == "pil":
        everywhere = _ask("affine", spec, api, angle=0.0, translate=[9, 0], scale=1.0, shear=[0.0, 0.0], fill=given)
        bands = cast(PIL.Image.Image, everywhere).split()
        numbers = [float(cast(Any, band.getpixel((0, 0)))) for band in bands]
    elif given is None:
        return None
    else:
        items = cast("Sequence[Any]", given if isinstance(given, list | tuple) else (given,))
        numbers = [float(value) for value in items]
    if not all(map(math.isfinite, numbers)):
        raise UnsupportedError(f"fill must be finite, got {given!r}")
    return (numbers[0],) if len(set(numbers)) == 1 else tuple(numbers)


def _numbers(name: str, value: object, counts: tuple[int, ...]) -> tuple[float, ...]:
    """Finite numbers, as many as one of ``counts``."""
    items = cast("Sequence[Any]", value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    if len(items) not in counts or not all(isinstance(item, Real) and math.isfinite(item) for item in items):
        wanted = " or ".join(map(str, counts))
        raise UnsupportedError(f"{name} must be {wanted} finite numbers, got {value!r}")
    return tuple(float(item) for item in items)


def _center(value: object) -> tuple[float, float] | None:
    if value is None:
        return None
    x, y = _numbers("center", value, (2,))
    return x, y


def _rotation(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    degrees = values.float_pair("degrees", attributes["degrees"])
    expand, center = bool(attributes["expand"]), _center(attributes["center"])
    fill, angle = _given_fill(attributes, spec, api), _ANY_ANGLE
    turns = _turns(degrees, expand, center, spec, api)
    if turns:
        angle = float(np.float32(degrees[0]))
    arguments = {"interpolation": attributes["interpolation"], "center": attributes["center"], "fill": fill}
    _ask("rotate", spec, api, angle=angle, expand=expand, **arguments)
    if turns:  # torchvision looks at neither
        return plain_tensor((Rotate(degrees, "nearest", expand, center, (0.0,), kernel_api(spec, api)),), spec, api)
    interpolation = values.interpolation(attributes["interpolation"], spec, api)
    op = Rotate(degrees, interpolation, expand, center, _fill(fill, spec, api), kernel_api(spec, api))
    return plain_tensor((op,), spec, api)


def _turns(
    degrees: tuple[float, float], expand: bool, center: tuple[float, float] | None, spec: ImageSpec, api: Api
) -> bool:
    """Whether nothing is ever drawn but one angle that only moves pixels: it takes any interpolation and fill."""
    if center is not None or degrees[0] != degrees[1] or (api == "v1" and spec.container != "pil"):
        return False
    return math.fmod(degrees[0], 90.0 if expand else 180.0) == 0.0


def _affine(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    fill = _given_fill(attributes, spec, api)
    arguments = {"interpolation": attributes["interpolation"], "center": attributes["center"], "fill": fill}
    _ask("affine", spec, api, angle=_ANY_ANGLE, translate=[0, 0], scale=1.0, shear=[0.0, 0.0], **arguments)
    translate, scale, shear = attributes["translate"], attributes["scale"], attributes["shear"]
    op = Affine(
        degrees=values.float_pair("degrees", attributes["degrees"]),
        translate=(0.0, 0.0) if translate is None else _pair("translate", translate),
        scale=(1.0, 1.0) if scale is None else values.float_pair("scale", scale),
        shear=(0.0, 0.0, 0.0, 0.0) if shear is None else _shear(shear),
        interpolation=values.interpolation(attributes["interpolation"], spec, api),
        center=_center(attributes["center"]),
        fill=_fill(fill, spec, api),
        api=api,
    )
    return plain_tensor((op,), spec, api)


def _pair(name: str, value: object) -> tuple[float, float]:
    first, second = _numbers(name, value, (2,))
    return first, second


def _shear(value: object) -> tuple[float, float, float, float]:
    numbers = _numbers("shear", value, (2, 4))
    along_x = values.float_pair("shear", numbers[:2])
    along_y = values.float_pair("shear", numbers[2:]) if len(numbers) == 4 else (0.0, 0.0)
    for low, high in (along_x, along_y):
        if low == high and abs(math.fmod(low, 180.0)) == 90.0:
            raise UnsupportedError(
                f"shear by exactly {low:g} degrees makes a line of every image, a matter of rounding; "
                "give another angle"
            )
    return (*along_x, *along_y)


def _perspective(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    p = values.probability(attributes["p"])
    if p == 0.0:
        return ()
    if p < 1.0:
        refuse_chance_container("RandomPerspective", "the draw decides against it", spec, api)
    distortion_scale = attributes["distortion_scale"]
    if not isinstance(distortion_scale, Real):
        raise UnsupportedError(f"distortion_scale must be a number from 0 on, got {distortion_scale!r}")
    fill = _given_fill(attributes, spec, api)
    _ask(
        "perspective",
        spec,
        api,
        startpoints=_STARTS,
        endpoints=_ENDS,
        interpolation=attributes["interpolation"],
        fill=fill,
    )
    interpolation: Interpolation = values.interpolation(attributes["interpolation"], spec, api)
    op = Perspective(float(distortion_scale), interpolation, _fill(fill, spec, api), kernel_api(spec, api))
    return plain_tensor((op,) if p == 1.0 else (RandomApply((op,), p),), spec, api)


_ROTATION_READS = frozenset({"degrees", "interpolation", "expand", "center"})
_AFFINE_READS = frozenset({"degrees", "translate", "scale", "shear", "interpolation", "center"})
_PERSPECTIVE_READS = frozenset({"p", "distortion_scale", "interpolation"})
_V2_FILL = {"fill": "v2 fills with _fill, which it made of fill at construction"}

RULES = (
    Rule(v1.RandomRotation, "v1", _rotation, _ROTATION_READS | {"fill"}),
    Rule(v2.RandomRotation, "v2", _rotation, _ROTATION_READS | {"_fill"}, _V2_FILL),
    Rule(v1.RandomAffine, "v1", _affine, _AFFINE_READS | {"fill"}),
    Rule(v2.RandomAffine, "v2", _affine, _AFFINE_READS | {"_fill"}, _V2_FILL),
    Rule(v1.RandomPerspective, "v1", _perspective, _PERSPECTIVE_READS | {"fill"}),
    Rule(v2.RandomPerspective, "v2", _perspective, _PERSPECTIVE_READS | {"_fill"}, _V2_FILL),
)
