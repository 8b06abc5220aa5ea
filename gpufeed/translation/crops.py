"""``CenterCrop``, ``RandomCrop``, ``RandomResizedCrop``, ``Pad`` and ``RandomZoomOut``."""

from __future__ import annotations

import math
from numbers import Real

from torchvision import transforms as v1
from torchvision.transforms import v2

from gpufeed.plan import Api, CenterCrop, FiveCrop, Op, Pad, RandomApply, RandomAreaCrop, RandomCrop, TenCrop, ZoomOut
from gpufeed.spec import ImageSpec
from gpufeed.translation import values
from gpufeed.translation.resizing import lengths, resize_op
from gpufeed.translation.rule import Attributes, Rule, plain_tensor

__all__ = ["RULES"]

_NO_PADDING = (0, 0, 0, 0)


def _center_crop(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    size = attributes["size"]
    if isinstance(size, Real) and math.isfinite(size):
        side = int(float(size))  # torchvision cuts off the fraction of a single number
        return plain_tensor((CenterCrop((side, side)),), spec, api)
    sides = values.whole_numbers("size", size, (1, 2))
    return plain_tensor((CenterCrop((sides[0], sides[-1])),), spec, api)


def _random_resized_crop(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    scale = values.float_pair("scale", attributes["scale"])
    ratio = values.float_pair("ratio", attributes["ratio"])
    area_crop = RandomAreaCrop(scale, ratio)  # refuses ratios that have no logarithm
    if api == "v2":
        values.check_log_ratio("RandomResizedCrop", attributes["_log_ratio"], ratio)
    # A plain tensor already before it is resized: torchvision's crop is a slice.
    crop = plain_tensor((area_crop,), spec, api)
    return (*crop, resize_op(attributes, None, spec, api))


def _random_crop_v1(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    """v1 pads by ``padding``, then grows the width, then the height, each with a ``pad`` of its own."""
    size = _two_sides(attributes["size"])
    padding = None if attributes["padding"] is None else values.padding_ltrb(attributes["padding"])
    grow = size if attributes["pad_if_needed"] else None
    pads: tuple[Op, ...] = ()
    if padding is not None or grow is not None:
        mode = values.pad_mode(attributes["padding_mode"])
        fill = values.fill(attributes["fill"], mode, spec, api)
        # One pad equals two where the new border doesn't depend on what the first pad mirrored or cut off.
        if mode in ("constant", "edge") and min(padding or _NO_PADDING) >= 0:
            pads = (Pad(padding or _NO_PADDING, fill, mode, grow),)
        else:
            pads = (Pad(padding or _NO_PADDING, fill, mode), Pad(_NO_PADDING, fill, mode, grow))
    return plain_tensor((*_without_idle(pads), RandomCrop(size)), spec, api)


def _random_crop_v2(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    """v2 adds ``padding`` and what is needed to reach the size, and pads once."""
    size = _two_sides(attributes["size"])
    padding = _NO_PADDING
    if attributes["padding"] is not None:
        left, right, top, bottom = values.whole_numbers("padding", attributes["padding"], (4,))  # torch's order
        padding = left, top, right, bottom
    grow = size if attributes["pad_if_needed"] else None
    if padding == _NO_PADDING and grow is None:
        return (RandomCrop(size),)
    mode = values.pad_mode(attributes["padding_mode"])
    fill = values.fill(values.fill_for(attributes["_fill"], spec), mode, spec, api)
    return Pad(padding, fill, mode, grow), RandomCrop(size)


def _two_sides(size: object) -> tuple[int, int]:
    height, width = values.whole_numbers("size", size, (2,))
    return height, width


def _without_idle(pads: tuple[Op, ...]) -> tuple[Op, ...]:
    """Without those that add nothing whatever the image."""
    return tuple(
        pad for pad in pads if not (isinstance(pad, Pad) and pad.padding_ltrb == _NO_PADDING and pad.grow_to_hw is None)
    )


def _pad_v1(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    return _pad(attributes, attributes["fill"], spec, api)


def _pad_v2(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    return _pad(attributes, values.fill_for(attributes["_fill"], spec), spec, api)


def _pad(attributes: Attributes, fill: object, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    padding = values.padding_ltrb(attributes["padding"])
    mode = values.pad_mode(attributes["padding_mode"])
    pad = Pad(padding, values.fill(fill, mode, spec, api), mode)
    return plain_tensor(_without_idle((pad,)), spec, api)


def _zoom_out(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    p = values.probability(attributes["p"])
    if p == 0.0:
        return ()
    fill = values.fill(values.fill_for(attributes["_fill"], spec), "constant", spec, api)
    first, last = map(float, lengths("side_range", attributes["side_range"], (2,)))
    op = ZoomOut((first, last), fill)
    return (op,) if p == 1.0 else (RandomApply((op,), p),)


def _five_crop(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    return plain_tensor((FiveCrop(_two_sides(attributes["size"])),), spec, api)


def _ten_crop(attributes: Attributes, spec: ImageSpec, api: Api) -> tuple[Op, ...]:
    crop = TenCrop(_two_sides(attributes["size"]), bool(attributes["vertical_flip"]))
    return plain_tensor((crop,), spec, api)


_AREA_CROP_READS = frozenset({"size", "scale", "ratio", "interpolation", "antialias"})
_CROP_READS = frozenset({"size", "padding", "pad_if_needed", "padding_mode"})
_PAD_READS = frozenset({"padding", "padding_mode"})
_ZOOM_READS = frozenset({"p", "side_range", "_fill"})
_V2_FILL = {"fill": "v2 pads with _fill, which it made of fill at construction"}

RULES = (
    Rule(v1.CenterCrop, "v1", _center_crop, frozenset({"size"})),
    Rule(v2.CenterCrop, "v2", _center_crop, frozenset({"size"})),
    Rule(v1.FiveCrop, "v1", _five_crop, frozenset({"size"})),
    Rule(v2.FiveCrop, "v2", _five_crop, frozenset({"size"})),
    Rule(v1.TenCrop, "v1", _ten_crop, frozenset({"size", "vertical_flip"})),
    Rule(v2.TenCrop, "v2", _ten_crop, frozenset({"size", "vertical_flip"})),
    Rule(v1.RandomResizedCrop, "v1", _random_resized_crop, _AREA_CROP_READS),
    Rule(v2.RandomResizedCrop, "v2", _random_resized_crop, _AREA_CROP_READS | {"_log_ratio"}),
    Rule(v1.RandomCrop, "v1", _random_crop_v1, _CROP_READS | {"fill"}),
    Rule(v2.RandomCrop, "v2", _random_crop_v2, _CROP_READS | {"_fill"}, _V2_FILL),
    Rule(v1.Pad, "v1", _pad_v1, _PAD_READS | {"fill"}),
    Rule(v2.RandomZoomOut, "v2", _zoom_out, _ZOOM_READS, _V2_FILL),
    Rule(v2.Pad, "v2", _pad_v2, _PAD_READS | {"_fill"}, _V2_FILL),
)
