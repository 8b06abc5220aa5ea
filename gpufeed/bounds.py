"""How equal each op's pixels are to torchvision's: one table, read by placement, by ``verify`` and by the tests.

A bound holds for one op on torchvision's own input. Bounds don't compose: 1/255 before an op that counts values, as
equalizing does, may become much more behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gpufeed.plan import (
    AdjustSharpness,
    Autocontrast,
    BranchOp,
    CenterCrop,
    ChannelPermutation,
    ColorJitter,
    Convert,
    Elastic,
    Equalize,
    Erase,
    EraseToNoise,
    FiveCrop,
    Flip,
    GaussianBlur,
    GaussianNoise,
    Grayscale,
    Invert,
    Jpeg,
    LinearTransformation,
    Op,
    Pad,
    Posterize,
    RandomAreaCrop,
    RandomCrop,
    RandomGrayscale,
    ResizeOp,
    Solarize,
    TenCrop,
    Warp,
    ZoomOut,
)
from gpufeed.spec import Domain, ImageSpec

__all__ = ["DECODE_BOUNDS", "EXACT", "MEASURED_WITH", "TABLE", "Bound", "Device", "Row", "bound_of"]

Device = Literal["cpu", "cuda"]

MEASURED_WITH: Mapping[str, str] = {"Pillow": "13.0.0", "torch": "2.14.1", "torchvision": "0.29.1", "DALI": "2.4.0"}
"""The versions with which the bounds were measured; the pixel tests hold them with whatever is installed."""

_STRICT_255, _STRICT_SHARE = 1.0, 0.001
"""What ``DataLoader(strict=True)`` asks for: 99.9 % of the values within 1/255."""


@dataclass(frozen=True, slots=True)
class Bound:
    """How far an op's values are from torchvision's on equal input, in 1/255 of the full range.

    Attributes:
        largest_255: no value is farther off; ``None`` where only ``usual_255`` is promised.
        usual_255: all values but ``share_beyond`` are within it; ``largest_255`` where that share is 0.
        share_beyond: the share of values, in [0, 1], that may be farther off than ``usual_255``.
        reason: where the difference comes from; for a refusal the cause and the way out.
        measured: whether it was measured; else it is what the parts that it is made of let expect.
        refused: whether the op isn't done at all.
    """

    largest_255: float | None = 0.0
    usual_255: float = 0.0
    share_beyond: float = 0.0
    reason: str = ""
    measured: bool = True
    refused: bool = False

    def __post_init__(self) -> None:
        if self.share_beyond == 0.0 and self.largest_255 is not None:
            object.__setattr__(self, "usual_255", self.largest_255)

    @property
    def kind(self) -> Literal["exact", "bounded", "refused"]:
        """``exact``: equal bit for bit; ``bounded``: as `words` says; ``refused``: not done, for the reason."""
        if self.refused:
            return "refused"
        return "exact" if self.largest_255 == 0.0 else "bounded"

    @property
    def strict(self) -> bool:
        """Whether at least 99.9 % of the values are within 1/255."""
        if self.refused:
            return False
        if self.largest_255 is not None and self.largest_255 <= _STRICT_255:
            return True
        return self.usual_255 <= _STRICT_255 and self.share_beyond <= _STRICT_SHARE

    @property
    def words(self) -> str:
        """The bound in words; empty for refusals and what was measured to be exact."""
        if self.kind != "bounded":
            return "" if self.refused or self.measured else "expected"
        parts: list[str] = []
        if self.largest_255 is None or self.usual_255 < self.largest_255:
            share = 100 * (1 - self.share_beyond)
            parts.append(f"{_in_255(self.usual_255)} for {share:.6g} % of values")
        if self.largest_255 is not None:
            parts.append(f"at most {_in_255(self.largest_255)}")
        return ("" if self.measured else "expected: ") + ", ".join(parts)

    @property
    def detail(self) -> str:
        """The bound in words with its reason, or the reason of a refusal; empty where exact."""
        return " ".join(part for part in (self.words, f"({self.reason})" if self.words else self.reason) if part)

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


def _in_255(value: float) -> str:
    if value == 0.0:
        return "equal"
    return f"{value:.6g}/255" if value >= 0.01 else f"{value / 255:.1g} of full intensity"


EXACT = Bound()


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table.

    Attributes:
        ops: the classes of ops that it is about; their subclasses too.
        bound: what holds for them.
        devices: on which devices.
        domains: in which value domains; all where none is named.
        interpolations: of ops that have one, for which; all where none is named.
    """

    ops: tuple[type[Op], ...]
    bound: Bound
    devices: tuple[Device, ...] = ("cpu", "cuda")
    domains: tuple[Domain, ...] = ("pil", "uint8", "integer", "float")
    interpolations: tuple[str, ...] = ()

    def holds_for(self, op: Op, spec: ImageSpec, device: Device) -> bool:
        """Whether the row is about this op with this input on this device."""
        return (
            isinstance(op, self.ops)
            and device in self.devices
            and spec.domain in self.domains
            and (not self.interpolations or getattr(op, "interpolation", None) in self.interpolations)
        )


_TENSOR: tuple[Domain, ...] = ("uint8", "integer", "float")
_MOVES = (RandomAreaCrop, RandomCrop, CenterCrop, FiveCrop, TenCrop, Pad, ZoomOut, Flip, Convert)

_CPU_RESIZE = (
    Row(
        (ResizeOp,),
        Bound(2.0, 1.0, 0.001, "torch's uint8 kernel rounds its weights and its two passes otherwise than Pillow"),
        ("cpu",),
        ("pil",),
        ("bilinear",),
    ),
    Row(
        (ResizeOp,),
        Bound(2.0, 1.0, 0.0001, "as bilinear, with Pillow's order of the two passes"),
        ("cpu",),
        ("pil",),
        ("bicubic",),
    ),
)
_CUDA_RESIZE = (
    Row(
        (ResizeOp,),
        Bound(
            19.0, 1.0, 0.01, "DALI repeats edge pixels where Pillow renormalises: the outermost pixel", measured=False
        ),
        ("cuda",),
        ("pil",),
        ("bilinear",),
    ),
    Row(
        (ResizeOp,),
        Bound(None, 2.0, 0.01, "DALI's cubic kernel, in float", measured=False),
        ("cuda",),
        ("pil",),
        ("bicubic",),
    ),
    Row(
        (ResizeOp,),
        Bound(None, 2.0, 0.01, "DALI's lanczos kernel, in float", measured=False),
        ("cuda",),
        ("pil",),
        ("lanczos",),
    ),
    Row(
        (ResizeOp,),
        Bound(
            reason="DALI has neither a box nor a hamming filter; use device='cpu' or another interpolation",
            refused=True,
        ),
        ("cuda",),
        ("pil",),
        ("box", "hamming"),
    ),
    Row((ResizeOp,), EXACT, ("cuda",), ("pil",), ("nearest", "nearest-exact")),
    Row(
        (ResizeOp,),
        Bound(reason="torch resizes by lanczos on the CPU only; use device='cpu' or bicubic", refused=True),
        ("cuda",),
        _TENSOR,
        ("lanczos",),
    ),
    Row(
        (ResizeOp,),
        Bound(1.0, reason="torch resizes in float on CUDA", measured=False),
        ("cuda",),
        _TENSOR,
    ),
)

_NOISE = "noise is within 1e-5 of its definition; in integers its fraction is cut off, and it may wrap around"
_FILTERS = (
    Row(
        (GaussianBlur,),
        Bound(1.0, 0.0, 0.001, "two one-dimensional sums, rounded once, where torchvision has one in two dimensions"),
        ("cpu",),
        ("pil",),
    ),
    Row(
        (GaussianNoise, EraseToNoise),
        Bound(None, 0.003, 1e-4, _NOISE),
        ("cpu",),
    ),
    Row(
        (GaussianNoise, EraseToNoise),
        Bound(None, 0.003, 1e-4, _NOISE, measured=False),
        ("cuda",),
    ),
    Row(
        (GaussianBlur,),
        Bound(
            1.0, reason="torch's convolutions on CUDA add up in another order, and may do so in TF32", measured=False
        ),
        ("cuda",),
    ),
    Row(
        (Elastic,),
        Bound(
            None,
            1.0,
            0.001,
            "the displacement is smoothed by a convolution as above; nearest pixels may then be the neighbours",
            measured=False,
        ),
        ("cuda",),
    ),
    Row(
        (LinearTransformation,),
        Bound(None, 1.0, 0.001, "torch's product on CUDA adds up in another order", measured=False),
        ("cuda",),
    ),
    Row((Erase,), Bound(0.0, reason="values are only copied", measured=False), ("cuda",)),
    Row((Jpeg,), Bound(0.0, reason="it is done on the host", measured=False), ("cuda",)),
)

_WHOLE = Bound(0.0, reason="the same arithmetic on whole numbers", measured=False)
_CUDA_COLOUR = (
    Row((ChannelPermutation, Invert, Posterize, Solarize, Equalize), _WHOLE, ("cuda",), ("pil", "uint8", "integer")),
    Row((Grayscale, RandomGrayscale), _WHOLE, ("cuda",), ("pil",)),
    Row(
        (Grayscale, RandomGrayscale),
        Bound(1.0, reason="torch's kernels on CUDA may fuse a product and a sum before a value is cut", measured=False),
        ("cuda",),
        ("uint8", "integer"),
    ),
    Row(
        (ColorJitter, AdjustSharpness, Autocontrast),
        Bound(0.0, reason="the same steps, each product and each sum rounded by itself", measured=False),
        ("cuda",),
        ("pil",),
    ),
    Row(
        (ColorJitter,),
        Bound(None, 1.0, 0.001, "torch's kernels on CUDA may round otherwise before a value is cut", measured=False),
        ("cuda",),
        ("uint8", "integer"),
    ),
    Row(
        (ColorJitter,),
        Bound(None, 0.01, 0.001, "the hue of nearly grey pixels is a quotient of small differences", measured=False),
        ("cuda",),
        ("float",),
    ),
    Row(
        (Equalize, Posterize, Solarize),
        Bound(None, 255e-6, 0.001, "what is compared may be rounded otherwise on CUDA", measured=False),
        ("cuda",),
        ("float",),
    ),
    Row(
        (Autocontrast,),
        Bound(1.0, reason="torch's kernels on CUDA may round otherwise before a value is cut", measured=False),
        ("cuda",),
        ("uint8", "integer"),
    ),
    Row(
        (AdjustSharpness,),
        Bound(1.0, reason="torch's convolutions on CUDA may add up in TF32", measured=False),
        ("cuda",),
        _TENSOR,
    ),
)

_WARPS = (
    Row(
        (Warp,),
        Bound(0.0, reason="the same float64 operations, none of them fused", measured=False),
        ("cuda",),
        ("pil",),
    ),
    Row(
        (Warp,),
        Bound(
            None,
            1.0,
            0.001,
            "torchvision's grid on CUDA rounds otherwise; nearest pixels may then be the neighbours",
            measured=False,
        ),
        ("cuda",),
    ),
)

TABLE: tuple[Row, ...] = (
    *_CPU_RESIZE,
    *_CUDA_RESIZE,
    *_FILTERS,
    *_CUDA_COLOUR,
    *_WARPS,
    Row(_MOVES, EXACT),
    Row((Op,), EXACT, ("cpu",)),
    Row(
        (Op,),
        Bound(255e-6, reason="torch's or DALI's kernels on CUDA may fuse a product and a sum", measured=False),
        ("cuda",),
    ),
)
"""For an op the first row that holds counts."""


DECODE_BOUNDS: Mapping[Device, Bound] = {
    "cpu": EXACT,
    "cuda": Bound(None, 3.0, 0.01, "the GPU's decoder has another inverse DCT than libjpeg-turbo", measured=False),
}
"""How equal decoded pixels are to Pillow's, by the device."""


def bound_of(op: Op, spec: ImageSpec, device: Device) -> Bound:
    """How equal an op is to torchvision's.

    Args:
        op: any op; for one that holds ops the worst of those inside.
        spec: its input.
        device: where it runs.
    """
    if isinstance(op, BranchOp):
        return _worst_inside(op, spec, device)
    return next(row.bound for row in TABLE if row.holds_for(op, spec, device))


def _worst_inside(op: BranchOp, spec: ImageSpec, device: Device) -> Bound:
    worst = EXACT
    for ops in op.branches:
        before = op.branch_spec(spec)
        for inner in ops:
            worst = max(worst, bound_of(inner, before, device), key=_badness)
            before = inner.out_spec(before)
    return worst


def _badness(bound: Bound) -> tuple[bool, float, float, float, bool]:
    largest = 255.0 if bound.largest_255 is None else bound.largest_255
    return bound.refused, bound.usual_255, largest, bound.share_beyond, not bound.measured
