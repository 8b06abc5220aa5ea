"""The Plan: what happens to a sample, without DALI and without torchvision.

Each op is a frozen, slotted dataclass that validates itself and states its output (`Op.out_spec`), refusing an input it
can't take before anything runs. A `Plan` is the sequence of them; it compares, prints, pickles, hashes, and has a
fingerprint that is equal in every process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from gpufeed.errors import UnsupportedError
from gpufeed.spec import Container, ImageSpec, is_float_dtype, max_value

__all__ = [
    "DECODED",
    "MIRROR_LIMITS",
    "Api",
    "CenterCrop",
    "Convert",
    "Fill",
    "Flip",
    "Grayscale",
    "Interpolation",
    "Normalize",
    "Op",
    "Pad",
    "PadMode",
    "Plan",
    "RandomAreaCrop",
    "RandomCrop",
    "RandomGrayscale",
    "Resize",
    "ToDtype",
    "ToTensor",
]

Api = Literal["v1", "v2"]
"""Which generation of torchvision's tensor kernels is the definition, where the two differ in the last bit."""

Interpolation = Literal["nearest", "nearest-exact", "bilinear", "bicubic", "box", "hamming", "lanczos"]
PadMode = Literal["constant", "edge", "reflect", "symmetric"]
MIRROR_LIMITS: dict[str, int] = {"reflect": 1, "symmetric": 0}
"""By how many pixels less than an image's side a tensor may be padded: torchvision's tensor kernels mirror once, while
NumPy, which pads PIL images, mirrors as often as it takes."""

Fill = tuple[float, ...]
"""One value for all channels, or one per channel; on the scale of the image's dtype."""

DECODED = ImageSpec()
"""What a plan begins with: an image decoded to 8-bit RGB, of any size."""

_SizeHW = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Op:
    """A step of a plan. Subclasses are frozen dataclasses."""

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """What comes out for ``spec``; raises `UnsupportedError` for an input that the op can't take."""
        raise NotImplementedError  # pragma: no cover - every op defines it

    @property
    def is_random(self) -> bool:
        """Whether the op draws."""
        return False

    def __str__(self) -> str:
        arguments = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
        return f"{type(self).__name__}({arguments})"


def _check_size(name: str, size: tuple[int, ...]) -> None:
    if any(side < 1 for side in size):
        raise ValueError(f"{name} must be at least 1 pixel on each side, got {size}")


def _check_probability(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"p must be in [0, 1], got {p}")


@dataclass(frozen=True, slots=True)
class RandomAreaCrop(Op):
    """Take a random window by area and aspect ratio: the crop of ``RandomResizedCrop``.

    Attributes:
        scale: lowest and highest share of the image's area.
        ratio: lowest and highest width / height.
    """

    scale: tuple[float, float]
    ratio: tuple[float, float]

    def __post_init__(self) -> None:
        if min(self.ratio) <= 0:
            raise ValueError(f"ratio must be positive, got {self.ratio}")
        if min(self.scale) < 0:
            raise ValueError(f"scale must not be negative, got {self.scale}")

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return spec.with_size(None)

    @property
    def is_random(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class RandomCrop(Op):
    """Take a window of ``size_hw`` at a random place; the image must be at least as large."""

    size_hw: _SizeHW

    def __post_init__(self) -> None:
        _check_size("size_hw", self.size_hw)

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if spec.size_hw is not None and (spec.size_hw[0] < self.size_hw[0] or spec.size_hw[1] < self.size_hw[1]):
            raise UnsupportedError(f"required crop size {self.size_hw} is larger than the image size {spec.size_hw}")
        return spec.with_size(self.size_hw)

    @property
    def is_random(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class CenterCrop(Op):
    """Take the central window of ``size_hw``, with zeros where it is larger than the image."""

    size_hw: _SizeHW

    def __post_init__(self) -> None:
        _check_size("size_hw", self.size_hw)

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return spec.with_size(self.size_hw)


@dataclass(frozen=True, slots=True)
class Pad(Op):
    """Add a border.

    Attributes:
        padding_ltrb: pixels on the left, top, right and bottom; negative values crop.
        fill: for mode ``"constant"``.
        mode: torchvision's ``padding_mode``.
        grow_to_hw: where the padded image is still smaller, the difference is added on both sides
            (``RandomCrop(pad_if_needed=True)``).
    """

    padding_ltrb: tuple[int, int, int, int] = (0, 0, 0, 0)
    fill: Fill = (0.0,)
    mode: PadMode = "constant"
    grow_to_hw: _SizeHW | None = None

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if self.mode == "constant" and len(self.fill) not in (1, spec.channels):
            raise UnsupportedError(
                f"fill must have 1 value or one for each of the {spec.channels} channels, got {len(self.fill)}"
            )
        if spec.size_hw is None:
            return spec
        left, top, right, bottom = self.padding_ltrb
        height, width = spec.size_hw[0] + top + bottom, spec.size_hw[1] + left + right
        if self.grow_to_hw is not None:
            grow_h, grow_w = max(self.grow_to_hw[0] - height, 0), max(self.grow_to_hw[1] - width, 0)
            left, top, right, bottom = left + grow_w, top + grow_h, right + grow_w, bottom + grow_h
            height, width = height + 2 * grow_h, width + 2 * grow_w
        if height < 1 or width < 1:
            raise UnsupportedError(f"padding {self.padding_ltrb} leaves nothing of an image of {spec.size_hw}")
        limit = MIRROR_LIMITS.get(self.mode)
        if limit is not None and spec.container != "pil":
            most_h, most_w = spec.size_hw[0] - limit, spec.size_hw[1] - limit
            if max(top, bottom) > most_h or max(left, right) > most_w:
                raise UnsupportedError(
                    f"{self.mode} padding of a tensor of {spec.size_hw} must be at most {most_h} at the top and bottom "
                    f"and {most_w} at the left and right, got {(left, top, right, bottom)} (left, top, right, bottom)"
                )
        return spec.with_size((height, width))


@dataclass(frozen=True, slots=True)
class Resize(Op):
    """Resample to another size.

    Attributes:
        size: ``(h, w)``; or ``(s,)`` for the shorter side; or ``None``, and the longer side becomes ``max_size``.
        max_size: the most that the longer side may have.
        interpolation: torchvision's name.
        antialias: whether tensors are low-pass filtered when they shrink; PIL images always are.
        api: which tensor kernel is meant; without effect in the ``pil`` domain, where it is always ``"v2"``.
    """

    size: tuple[int, ...] | None
    max_size: int | None = None
    interpolation: Interpolation = "bilinear"
    antialias: bool = True
    api: Api = "v2"

    def __post_init__(self) -> None:
        if self.size is None:
            if self.max_size is None:
                raise ValueError("max_size must be given when size is None")
        else:
            if len(self.size) not in (1, 2):
                raise ValueError(f"size must have 1 or 2 values, got {self.size}")
            _check_size("size", self.size)
            if self.max_size is not None and len(self.size) == 2:
                raise ValueError("max_size can only be given with a size of one value")
            if self.max_size is not None and self.max_size <= self.size[0]:
                raise ValueError(f"max_size must be above the shorter side {self.size[0]}, got {self.max_size}")

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if spec.container != "pil":
            if self.interpolation in ("box", "hamming"):
                raise UnsupportedError(f"interpolation {self.interpolation!r} works on PIL images only")
            if self.interpolation == "lanczos" and (self.api == "v1" or not self.antialias):
                raise UnsupportedError(
                    "interpolation 'lanczos' on tensors needs torchvision.transforms.v2 and antialias"
                )
        fixed = self.size if self.size is not None and len(self.size) == 2 else None
        value_range = spec.value_range
        if spec.domain == "float" and self.interpolation in ("bicubic", "lanczos"):
            value_range = None  # these kernels overshoot
        return replace(spec, size_hw=(fixed[0], fixed[1]) if fixed else None, value_range=value_range)


@dataclass(frozen=True, slots=True)
class Flip(Op):
    """Mirror with probability ``p``: ``"horizontal"`` swaps left and right, ``"vertical"`` top and bottom."""

    axis: Literal["horizontal", "vertical"]
    p: float = 0.5

    def __post_init__(self) -> None:
        _check_probability(self.p)

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return spec

    @property
    def is_random(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Grayscale(Op):
    """Luma in 1 channel, or repeated in 3. ``api`` as in `Resize`."""

    num_output_channels: int = 1
    api: Api = "v2"

    def __post_init__(self) -> None:
        if self.num_output_channels not in (1, 3):
            raise ValueError(f"num_output_channels must be 1 or 3, got {self.num_output_channels}")

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return replace(spec, channels=self.num_output_channels)


@dataclass(frozen=True, slots=True)
class RandomGrayscale(Op):
    """Luma with probability ``p``, in as many channels as before. ``api`` as in `Resize`."""

    p: float = 0.1
    api: Api = "v2"

    def __post_init__(self) -> None:
        _check_probability(self.p)

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return spec

    @property
    def is_random(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class ToTensor(Op):
    """A PIL image to a float32 tensor in [0, 1], CHW: ``x / 255``."""

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if spec.container != "pil":
            raise UnsupportedError("ToTensor takes a PIL image, and this is a tensor already")
        return replace(spec, container="tensor", dtype="float32", value_range=(0.0, 1.0))


@dataclass(frozen=True, slots=True)
class Convert(Op):
    """Another container for the same values: ``PILToTensor``, ``ToImage``, ``ToPureTensor``."""

    container: Container

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if self.container == "pil":
            raise UnsupportedError("a tensor doesn't become a PIL image here")
        return replace(spec, container=self.container)


@dataclass(frozen=True, slots=True)
class ToDtype(Op):
    """Another dtype, as ``ToDtype`` and ``ConvertImageDtype``.

    Attributes:
        dtype: torch's name without ``torch.``.
        scale: whether values are scaled to the full intensity of ``dtype``.
        api: as in `Resize`.
    """

    dtype: str
    scale: bool
    api: Api = "v2"

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if spec.container == "pil":
            raise UnsupportedError("a dtype can't be given to a PIL image; put ToImage() before")
        unsafe = (spec.dtype == "float32" and self.dtype in ("int32", "int64")) or (
            spec.dtype == "float64" and self.dtype == "int64"
        )
        if self.scale and unsafe:
            raise UnsupportedError(f"{spec.dtype} can't be scaled to {self.dtype} safely")
        out = replace(spec, dtype=self.dtype)  # validates the name
        if spec.value_range is None:
            return out
        factor = max_value(self.dtype) / max_value(spec.dtype) if self.scale else 1.0
        return replace(out, value_range=(spec.value_range[0] * factor, spec.value_range[1] * factor))


@dataclass(frozen=True, slots=True)
class Normalize(Op):
    """``(x - mean) / std`` per channel, on the tensor's own scale."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if any(value == 0 for value in self.std):
            raise ValueError(f"std must not have a 0, got {self.std}")

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        if spec.container == "pil":
            raise UnsupportedError(
                "Normalize does not support PIL images; put ToTensor(), or ToImage() and ToDtype, before"
            )
        if not is_float_dtype(spec.dtype):
            raise UnsupportedError(
                f"Normalize needs a float tensor, got {spec.dtype}; put ToDtype(torch.float32, scale=True) before"
            )
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, spec.channels):
                raise UnsupportedError(f"{name} must have 1 or {spec.channels} values, got {len(values)}")
        if spec.channels == 1 and max(len(self.mean), len(self.std)) > 1:  # pragma: no cover - caught above
            raise UnsupportedError("mean and std must have one value for a grey image")
        return replace(spec, value_range=None)


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens to a sample after it is decoded to 8-bit RGB.

    Attributes:
        ops: in order.
        input: the decoded image.
    """

    ops: tuple[Op, ...]
    input: ImageSpec = DECODED

    def __post_init__(self) -> None:
        for _ in self.specs():  # every op must take its input
            pass

    def specs(self) -> Iterator[ImageSpec]:
        """The input of each op in order, then the output: ``len(ops) + 1`` specs."""
        spec = self.input
        yield spec
        for op in self.ops:
            spec = op.out_spec(spec)
            yield spec

    @property
    def output(self) -> ImageSpec:
        """What comes out at the end."""
        *_, last = self.specs()
        return last

    @property
    def is_random(self) -> bool:
        """Whether any op draws."""
        return any(op.is_random for op in self.ops)

    def canonical_json(self) -> str:
        """The plan as canonical JSON: sorted keys, no spaces."""
        ops: list[dict[str, Any]] = [{"op": type(op).__name__, **asdict(op)} for op in self.ops]
        return json.dumps({"input": asdict(self.input), "ops": ops}, sort_keys=True, separators=(",", ":"))

    def fingerprint(self) -> str:
        """SHA-256 of `canonical_json`, in hexadecimal; equal in every process."""
        return hashlib.sha256(self.canonical_json().encode()).hexdigest()

    def __str__(self) -> str:
        lines = [f"{number:2d}  {op}" for number, op in enumerate(self.ops)]
        return "\n".join([f"in  {self.input}", *lines, f"out {self.output}"])
