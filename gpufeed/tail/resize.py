"""Resampling: Pillow's results in the `pil` domain, torchvision's own kernels in the tensor domains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import PIL
import torch
from numpy.typing import NDArray
from PIL import Image
from torchvision.transforms import InterpolationMode

from gpufeed.plan import Op, RandomResize, RandomShortestSize, Resize, ResizeOp, ScaleJitter
from gpufeed.spec import ImageSpec
from gpufeed.tail.kernel import Kernel, empty_in_rows, functional
from gpufeed.tensors import from_numpy

__all__ = ["KERNELS", "resize", "resize_into"]

_PILLOW_FILTERS = {
    "box": Image.Resampling.BOX,
    "hamming": Image.Resampling.HAMMING,
    "lanczos": Image.Resampling.LANCZOS,
}
# The kernels behind torch.nn.functional.interpolate(antialias=True); called directly because they take `out=`, which
# saves one copy of each image. The public function is the fallback for a torch without them.
_OUT_KERNELS: dict[str, Any] = {
    "bilinear": getattr(torch.ops.aten, "_upsample_bilinear2d_aa", None),
    "bicubic": getattr(torch.ops.aten, "_upsample_bicubic2d_aa", None),
}


def resize(image: torch.Tensor, op: ResizeOp, spec: ImageSpec, size_hw: tuple[int, int]) -> torch.Tensor:
    """Resample a batch of one size.

    Args:
        image: (N, C, H, W) in the domain of ``spec``.
        op: what is asked for.
        spec: the input's; it decides whose pixels these are.
        size_hw: output height and width in pixels.

    Returns:
        (N, C, *size_hw), the same dtype and device; the input itself where the size doesn't change, as in torchvision.
    """
    if (image.shape[-2], image.shape[-1]) == size_hw:
        return image
    if spec.container == "pil":
        return _resize_pil(image, op, size_hw)
    mode = InterpolationMode(op.interpolation)
    return functional(op.api).resize(image, list(size_hw), interpolation=mode, antialias=op.antialias)


def _resize_pil(image: torch.Tensor, op: ResizeOp, size_hw: tuple[int, int]) -> torch.Tensor:
    if op.interpolation in ("nearest", "nearest-exact"):
        return _nearest_pil(image, size_hw)
    if op.interpolation in _PILLOW_FILTERS:
        return _through_pillow(image, _PILLOW_FILTERS[op.interpolation], size_hw)
    if _columns_first(image, op, size_hw):
        turned = image.transpose(-2, -1).contiguous(memory_format=torch.channels_last)
        size_wh = (size_hw[1], size_hw[0])
        return torch.nn.functional.interpolate(turned, size=size_wh, mode="bicubic", antialias=True).transpose(-2, -1)
    if image.device.type == "cpu":
        # torch's kernel fails with an internal error where contiguous planes become a single pixel
        image = image.contiguous(memory_format=torch.channels_last)
        kernel = _OUT_KERNELS.get(op.interpolation)
        if kernel is None:
            return torch.nn.functional.interpolate(image, size=size_hw, mode=op.interpolation, antialias=True)
        # The public function's result lies in planes, which takes twice as long, and is copied by whoever wants rows.
        out = empty_in_rows((image.shape[0], image.shape[1], *size_hw), image.dtype, image.device)
        return kernel.out(image, size_hw, False, None, None, out=out)
    resized = torch.nn.functional.interpolate(image.float(), size=size_hw, mode=op.interpolation, antialias=True)
    return resized.round_().clamp_(0, 255).to(torch.uint8)


def _columns_first(image: torch.Tensor, op: ResizeOp, size_hw: tuple[int, int]) -> bool:
    """Whether Pillow resamples the columns before the rows, where the order matters: its Resample.c does since version
    13 where that leaves less to do. torch's kernel always begins with the rows, so the image is turned for it.

    Only bicubic overshoots, so that what the first pass cuts off is missing in the second: in the wrong order up to
    26/255 were lost on photographs, in the right one 2.
    """
    if op.interpolation != "bicubic" or image.device.type != "cpu" or not _PILLOW_CHOOSES:
        return False
    shrinks = image.shape[-2] - size_hw[0]
    return shrinks > 0 and shrinks > 2 * (image.shape[-1] - size_hw[1])


_PILLOW_CHOOSES = int(PIL.__version__.partition(".")[0]) >= 13


def resize_into(out: torch.Tensor, image: torch.Tensor, op: ResizeOp, spec: ImageSpec) -> None:
    """Resample one image straight into its place.

    Args:
        out: (1, C, h, w), written; channels last in memory.
        image: (1, C, H, W).
        op: what is asked for.
        spec: the input's.
    """
    size_hw = (out.shape[-2], out.shape[-1])
    kernel = _OUT_KERNELS.get(op.interpolation)
    quick = spec.container == "pil" and image.device.type == "cpu"
    same_size = (image.shape[-2], image.shape[-1]) == size_hw
    if quick and kernel is not None and not same_size and not _columns_first(image, op, size_hw):
        image = image.contiguous(memory_format=torch.channels_last)  # the kernel fails where only one of them is
        kernel.out(image, size_hw, False, None, None, out=out)
    else:
        out.copy_(resize(image, op, spec, size_hw))


def _nearest_pil(image: torch.Tensor, size_hw: tuple[int, int]) -> torch.Tensor:
    """Pillow's NEAREST: steps through the source in float64, half a pixel in, and truncates (its Geometry.c)."""
    rows = from_numpy(_nearest_index(image.shape[-2], size_hw[0])).to(image.device)
    columns = from_numpy(_nearest_index(image.shape[-1], size_hw[1])).to(image.device)
    return image.index_select(-2, rows).index_select(-1, columns)


def _nearest_index(source: int, target: int) -> NDArray[np.int64]:
    step = source / target
    steps = np.full(target, step)
    steps[0] = step * 0.5
    return np.minimum(np.add.accumulate(steps).astype(np.int64), source - 1)


def _through_pillow(image: torch.Tensor, resample: Image.Resampling, size_hw: tuple[int, int]) -> torch.Tensor:
    """Filters that torch lacks: Pillow itself, image by image, on the host."""
    out = torch.empty((image.shape[0], *size_hw, image.shape[1]), dtype=torch.uint8)
    for number, one in enumerate(image):
        pixels = np.ascontiguousarray(one.permute(1, 2, 0).numpy())
        pillow = Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0])
        resized = np.array(pillow.resize((size_hw[1], size_hw[0]), resample))
        out[number] = from_numpy(resized.reshape(*size_hw, -1))
    return out.permute(0, 3, 1, 2)


def _resize(images: torch.Tensor, op: ResizeOp, spec: ImageSpec, sizes_hw: NDArray[np.int64]) -> torch.Tensor:
    height, width = sizes_hw[0].tolist()
    return resize(images, op, spec, (height, width))


KERNELS: Mapping[type[Op], Kernel] = {
    Resize: _resize,
    RandomResize: _resize,
    ScaleJitter: _resize,
    RandomShortestSize: _resize,
}
