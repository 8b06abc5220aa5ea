"""What batches of any structure hold: how many samples, and which outputs of which shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import torch

__all__ = ["image_of", "images_and_targets", "num_samples", "outputs_of"]


def num_samples(batch: object, expected: int) -> int:
    """How many samples a batch holds.

    Args:
        batch: tensors whose first dimension is the batch's, and sequences with an entry per sample, in any structure.
        expected: how many there should be. It decides where a sequence may be read in two ways.

    Returns:
        ``expected`` where the first of the outputs has as many; else the length of the first output, 0 for none.
    """
    first = next(_outputs(batch, expected, ""), None)
    return 0 if first is None else _length(first[1])


def _length(output: object) -> int:
    if isinstance(output, torch.Tensor):
        return len(output) if output.ndim else 0
    return len(cast("Sequence[object]", output)) if _is_sequence(output) else 0


def outputs_of(batch: object, count: int) -> tuple[str, ...]:
    """The outputs of a batch of ``count`` samples in words, such as ``[0] float32 (3, 224, 224)``: their places in the
    structure, and the dtype and shape of each sample's; a length that varies is ``N``."""
    return tuple(f"{path or 'output'} {_kind(output, count)}" for path, output in _outputs(batch, count, ""))


def images_and_targets(batch: object) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The two tensors of a batch that is a pair of them, else ``None``."""
    if not isinstance(batch, (tuple, list)) or len(cast("Sequence[object]", batch)) != 2:
        return None
    first, second = cast("Sequence[Any]", batch)
    return (first, second) if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor) else None


def image_of(batch: object, count: int) -> torch.Tensor | None:
    """The first output that is a tensor (B, ...), which a pipeline's images usually are."""
    found = (output for _, output in _outputs(batch, count, "") if isinstance(output, torch.Tensor))
    return next((output for output in found if output.ndim and len(output) == count), None)


def _outputs(value: object, count: int, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            yield from _outputs(item, count, f"{path}[{key!r}]")
    elif _is_sequence(value) and not _has_an_entry_per_sample(cast("Sequence[object]", value), count):
        for number, item in enumerate(cast("Sequence[object]", value)):
            yield from _outputs(item, count, f"{path}[{number}]")
    else:
        yield path, value


def _is_sequence(value: object) -> bool:
    return isinstance(value, (tuple, list))


def _has_an_entry_per_sample(entries: Sequence[object], count: int) -> bool:
    """Whether a sequence is an output, and not a structure of outputs, which are batches themselves."""
    if len(entries) != count:
        return False
    batches = [isinstance(entry, torch.Tensor) and entry.ndim > 0 and len(entry) == count for entry in entries]
    tensors = [entry for entry in entries if isinstance(entry, torch.Tensor)]
    return not (all(batches) if len(tensors) == len(entries) else any(batches))


def _kind(output: object, count: int) -> str:
    if isinstance(output, torch.Tensor):
        return _tensors([output], output.shape[1:] if output.ndim and len(output) == count else output.shape)
    if not _is_sequence(output) or not output:
        return type(output).__name__
    entries = cast("Sequence[object]", output)
    tensors = [entry for entry in entries if isinstance(entry, torch.Tensor)]
    if len(tensors) < len(entries):
        return f"a list of {type(entries[0]).__name__}"
    same_rank = len({tensor.ndim for tensor in tensors}) == 1
    sides = [set(side) for side in zip(*(tensor.shape for tensor in tensors), strict=True)] if same_rank else []
    shape = [side.pop() if len(side) == 1 else "N" for side in sides]
    return f"a list of {_tensors(tensors, shape if same_rank else ['...'])}"


def _tensors(tensors: Sequence[torch.Tensor], shape: Sequence[object]) -> str:
    dtypes = sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors})
    sides = ", ".join(map(str, shape))
    return f"{'/'.join(dtypes)} ({sides}{',' * (len(shape) == 1)})"
