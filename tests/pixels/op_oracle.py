"""Judging a transform op by op: our kernels against torchvision's on torchvision's own input, with the same draws.

Tolerances aren't here: they are the product's own, `gpufeed.bounds`. Beside them every op has to give the same bits
whether its samples come one by one or as a batch, in whichever memory layout, and has to leave its input alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import PIL.Image
import torch
from pixel_files import natural, noise
from torchvision import tv_tensors

from gpufeed import reference
from gpufeed.bounds import Bound, Device, bound_of
from gpufeed.draws import Draws, epoch_key
from gpufeed.parameters import draw_parameters, rows_of
from gpufeed.placement import place
from gpufeed.plan import Plan
from gpufeed.reference.values import row_of
from gpufeed.spec import ImageSpec, is_float_dtype, max_value
from gpufeed.tail import Tail
from gpufeed.tail.kernel import empty_as
from gpufeed.tail.program import run_op
from gpufeed.translation import translate

SIZES_HW = ((1, 1), (17, 11), (1, 31), (97, 1), (61, 83), (128, 128))
"""Sizes for every op: one pixel, prime, a line, a column, odd, even."""

DOMAINS = ("pil", "uint8", "float", "image_uint8", "image_float")
"""Containers and dtypes of inputs; ``image_`` stands for ``tv_tensors.Image``."""


def pixels(kind: str, height: int, width: int, seed: int, channels: int = 3) -> np.ndarray:
    """(H, W, channels) uint8: ``natural``, ``noise``, ``flat`` (one colour) or ``dark`` (few levels)."""
    if kind == "flat":
        image = np.full((height, width, 3), (seed * 37 + np.array([0, 91, 200])) % 256, dtype=np.uint8)
    elif kind == "dark":
        image = noise(height, width, seed) // 60
    else:
        image = natural(height, width, seed) if kind == "natural" else noise(height, width, seed)
    return image[..., :channels]


def as_input(image: np.ndarray, domain: str) -> Any:
    """The pixels as a PIL image, or a tensor of a domain; floats are in [0, 1].

    Plain tensors lie in contiguous planes, as ``ToTensor`` makes them, ``tv_tensors.Image`` in rows of pixels, as
    ``ToImage`` does: torch's kernels differ by it in the last bits.
    """
    if domain == "pil":
        return PIL.Image.fromarray(image if image.shape[2] == 3 else image[..., 0])
    tensor = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    if not domain.startswith("image"):
        tensor = tensor.contiguous()
    if domain.endswith("float"):
        tensor = tensor.float() / 255
    return tv_tensors.Image(tensor) if domain.startswith("image") else tensor


def as_tensor(image: Any) -> torch.Tensor:
    """What the tail would hold for an image of the oracle's: (C, H, W), or (k, C, H, W) for a tuple."""
    if isinstance(image, tuple):
        return torch.stack([as_tensor(one) for one in image])
    if isinstance(image, PIL.Image.Image):
        array = np.asarray(image)
        return torch.from_numpy(array.reshape(*array.shape[:2], -1).copy()).permute(2, 0, 1)
    return image.as_subclass(torch.Tensor)


def difference_255(mine: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
    """Absolute differences in 1/255 of full intensity; where both are not a number there is none."""
    scale = 255 / max_value(str(theirs.dtype).removeprefix("torch."))
    difference = (mine.double() - theirs.double()).abs() * scale
    both = mine.isnan() & theirs.isnan() if is_float_dtype(str(theirs.dtype).removeprefix("torch.")) else None
    return difference if both is None else difference.masked_fill(both, 0.0)


def drawn(plan: Plan, height: int, width: int, rows: int, epoch: int = 0) -> Any:
    """The parameters of a batch of images of one size."""
    sizes = np.full((rows, 2), (height, width), dtype=np.int64)
    draws = Draws(epoch_key(20261130, epoch), np.arange(rows), np.zeros(rows, dtype=np.int64))
    return draw_parameters(plan, sizes, draws)


def check(
    transform: Any, image: np.ndarray, domain: str, rows: int = 4, epoch: int = 0, device: Device = "cpu"
) -> None:
    """Every op of a transform, on one image with several draws.

    Args:
        transform: torchvision's.
        image: (H, W, C) uint8.
        domain: one of `DOMAINS`.
        rows: how many samples are drawn.
        epoch: other draws.
        device: where our kernels run; their bound is the one for it.
    """
    given = as_input(image, domain)
    spec = reference.spec_of(given)
    plan = translate(transform, input=spec).require()
    height, width = image.shape[:2]
    parameters = drawn(plan, height, width, rows, epoch)
    specs = list(plan.specs())
    counted = {position: [0, 0] for position in range(len(plan.ops))}  # values beyond the usual bound, of how many
    torch_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in torch's workers and in our pool: sums depend on it
    try:
        results: list[list[tuple[torch.Tensor, torch.Tensor]]] = [[] for _ in plan.ops]
        for row in range(rows):
            before: Any = given
            for position, (op, after) in enumerate(reference.trace(plan, given, parameters, row)):
                value = rows_of(parameters.values[position], slice(row, row + 1))
                held = as_tensor(before)
                held = held if specs[position].tuple_of is not None else held[None]
                kept = held.clone()
                held = held.to(device)
                mine = run_op(held, op, specs[position], value)
                assert torch.equal(held.cpu(), kept), f"{op} changes its input"
                assert mine.device.type == device, f"{op}: {mine.device}"
                theirs = as_tensor(after)
                theirs = theirs if specs[position + 1].tuple_of is not None else theirs[None]
                where = f"{domain} {image.shape} row {row}"
                assert_bound(mine.cpu(), theirs, op, bound_of(op, specs[position], device), counted[position], where)
                assert tuple(parameters.sizes_hw[position + 1][row]) == tuple(theirs.shape[-2:]), f"{op}: size"
                results[position].append((held, mine))
                before = after
        for position, (beyond, total) in counted.items():
            bound = bound_of(plan.ops[position], specs[position], device)
            allowed = bound.share_beyond * total + (3 if bound.share_beyond else 0)  # three pixels of a small image
            assert beyond <= allowed, f"{plan.ops[position]}: {beyond} of {total} values beyond {bound}"
            assert_batch(plan, position, specs[position], results[position], parameters)
    finally:
        torch.set_num_threads(torch_threads)


def assert_bound(
    mine: torch.Tensor, theirs: torch.Tensor, op: Any, bound: Bound, counted: list[int], where: str
) -> None:
    """One op's output against torchvision's; counts the values beyond the usual bound."""
    assert mine.shape == theirs.shape, f"{op} {where}: {tuple(mine.shape)} is not {tuple(theirs.shape)}"
    assert mine.dtype == theirs.dtype, f"{op} {where}: {mine.dtype} is not {theirs.dtype}"
    difference = difference_255(mine, theirs)
    largest = float(difference.max()) if difference.numel() else 0.0
    if bound.largest_255 is not None:
        assert largest <= bound.largest_255, f"{op} {where}: {largest} is more than {bound}"
    counted[0] += int((difference > bound.usual_255).sum())
    counted[1] += difference.numel()


def assert_batch(
    plan: Plan, position: int, spec: ImageSpec, results: list[tuple[torch.Tensor, torch.Tensor]], parameters: Any
) -> None:
    """The same bits as a batch as one by one, in the same layout: samples of one size, known to stay so."""
    op, rows = plan.ops[position], np.arange(len(results))
    sizes = {tuple(held.shape[-2:]) for held, _ in results}
    if len(sizes) != 1 or len(results) < 2:
        return
    ((height, width),) = sizes
    spec = spec.with_size((height, width))
    if op.out_spec(spec).size_hw is None:
        return
    first = results[0][0]
    batch = empty_as(first, (len(results) * len(first), *first.shape[1:]))
    for row, (held, _) in enumerate(results):
        batch[row * len(held) : (row + 1) * len(held)].copy_(held)
    together = run_op(batch, op, spec, rows_of(parameters.values[position], rows))
    singly = torch.cat([mine for _, mine in results])
    same = (together == singly) | (together != together)
    assert bool(same.all()), f"{op}: {int((~same).sum())} values depend on the batch"


def check_whole(transform: Any, image: np.ndarray, domain: str, rows: int = 4) -> None:
    """A transform through the whole tail, by `Tail.run_one` and, at equal sizes, `Tail.run_into`: the same bits.

    Also that torchvision's own transform object, with our draws, ends where the trace of the Plan's functions does.
    """
    given = as_input(image, domain)
    plan = translate(transform, input=reference.spec_of(given)).require()
    parameters = drawn(plan, *image.shape[:2], rows)
    tail = Tail(place(plan, "cpu", fuse=False))
    ones = [tail.run_one(as_tensor(given), parameters, row) for row in range(rows)]
    for row in range(rows):
        own = as_tensor(reference.run(transform, given, parameters, row))
        *_, (_, traced) = [(None, given), *reference.trace(plan, given, parameters, row)]
        assert torch.equal(own.nan_to_num(), as_tensor(traced).nan_to_num()), "transform and Plan differ in torchvision"
        assert own.shape == ones[row].shape
    placement = place(plan, "cpu")
    if parameters.uniform_size_hw is not None and not placement.decoded:  # a decoded window isn't the image
        out = torch.empty((rows, *ones[0].shape), dtype=ones[0].dtype)
        Tail(placement).run_into(out, [as_tensor(given)] * rows, parameters, 0)
        assert all(torch.equal(one.nan_to_num(), whole.nan_to_num()) for one, whole in zip(ones, out, strict=True))


def parameters_of(plan: Plan, rows: int, height: int, width: int) -> list[list[Any]]:
    """For each op the parameters of each row, as the oracle takes them."""
    parameters = drawn(plan, height, width, rows)
    return [[row_of(value, row) for row in range(rows)] for value in parameters.values]
