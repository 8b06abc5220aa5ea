"""What becomes of a pipeline's outputs: collated, and through the user's tail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from nvidia.dali.data_node import DataNode

from gpufeed.collation import PipelineResult
from gpufeed.errors import PipelineError, UnsupportedError
from gpufeed.pipeline_stages.feeding import turned
from gpufeed.pipelines import Pipeline
from gpufeed.recording import HostLeaf
from gpufeed.recording.batch_samples import BatchSamples
from gpufeed.recording.mistakes import explained
from gpufeed.recording.structure import map_leaves
from gpufeed.recording.values import FieldValue, ImageValue
from gpufeed.tensors import from_numpy

__all__ = ["as_list", "collated", "run_tail"]

_default_collate = cast(Any, torch.utils.data).default_collate


def as_list(leaf: Any, ragged: bool) -> Any:
    """A list with an entry per sample where one is asked for."""
    return list(leaf.unbind(0)) if ragged and isinstance(leaf, torch.Tensor) else leaf


def collated(held: Any, leaf: HostLeaf) -> Any:
    """What the host computed as a batch: as torch collates it, or, of unequal shapes, a list of tensors."""
    if isinstance(leaf.value, ImageValue):
        return _handed_over(held, leaf.value, leaf.ragged)
    if isinstance(held, np.ndarray):
        return as_list(from_numpy(np.ascontiguousarray(cast("NDArray[Any]", held))), leaf.ragged)
    entries = cast("list[Any]", held)
    arrays: list[Any] = [entry for entry in entries if isinstance(entry, (np.ndarray, torch.Tensor))]
    if len(arrays) == len(entries) and (leaf.ragged or len({tuple(one.shape) for one in arrays}) > 1):
        return [_tensor(entry) for entry in entries]
    try:
        return as_list(_default_collate(entries), leaf.ragged)
    except (TypeError, RuntimeError, ValueError) as error:
        name = f"sample.{leaf.value.name}" if isinstance(leaf.value, FieldValue) else "an output"
        raise UnsupportedError(
            f"{name} holds {type(entries[0]).__name__}, which torch can't collate ({str(error).splitlines()[0]}); "
            "leave it out of the outputs, or make numbers, strings or arrays of one dtype of it in the source"
        ) from error


def _handed_over(held: Any, image: ImageValue, ragged: bool) -> Any:
    """Images of the host's in the layout of the handle, in memory of their own."""
    if isinstance(held, list):
        images = [turned(one[None], image)[0].clone() for one in cast("list[torch.Tensor]", held)]
        equal = len({tuple(one.shape) for one in images}) == 1
        return torch.stack(images) if equal and not ragged else images
    return as_list(turned(held, image), ragged)


def _tensor(entry: Any) -> torch.Tensor:
    return entry.clone() if isinstance(entry, torch.Tensor) else from_numpy(np.array(entry))


def run_tail(pipeline: Pipeline, result: PipelineResult, samples: BatchSamples) -> PipelineResult:
    """What a pipeline's tail makes of a batch.

    Raises:
        PipelineError: for a mistake of the tail's, with its line, and for a result of another batch size.
    """
    tail = pipeline.companion("tail")
    structure = result.whole()
    keywords: dict[str, object] = {**pipeline.values_for(tail)}
    if "samples" in tail.__code__.co_varnames[: tail.__code__.co_argcount + tail.__code__.co_kwonlyargcount]:
        keywords["samples"] = samples
    try:
        if isinstance(structure, dict):
            returned = tail(**structure, **keywords)
        elif isinstance(structure, tuple):
            returned = tail(*cast("tuple[Any, ...]", structure), **keywords)
        else:
            returned = tail(structure, **keywords)
    except Exception as error:
        raise explained(error, tail) from error
    leaves: list[Any] = []

    def number(leaf: Any) -> int:
        leaves.append(leaf)
        return len(leaves) - 1

    numbered = map_leaves(returned, number, lists=False)
    for leaf in leaves:
        _check_batch(leaf, len(samples), tail)
    return PipelineResult(leaves, numbered)


def _check_batch(leaf: Any, count: int, tail: Callable[..., Any]) -> None:
    code = tail.__code__
    if leaf is None:
        cause = "the tail returned None; return the batch"
    elif isinstance(leaf, (DataNode, np.ndarray)):
        what = "a NumPy array" if isinstance(leaf, np.ndarray) else "a handle of the pipeline function's graph"
        cause = f"the tail returned {what}; return torch tensors"
    elif isinstance(leaf, torch.Tensor) and leaf.ndim and len(leaf) != count:
        cause = f"the tail returned a tensor of {len(leaf)} entries for a batch of {count} samples"
    elif isinstance(leaf, list) and len(cast("list[Any]", leaf)) != count:
        entries = len(cast("list[Any]", leaf))
        cause = f"the tail returned a list of {entries} entries for a batch of {count} samples"
    else:
        return
    raise PipelineError(
        f"{cause}; put several outputs into a tuple or a dict: a list, and every tensor, must have an entry for each "
        "sample (samples are left out in the source or the sampler)",
        code.co_filename,
        code.co_firstlineno,
        f"def {code.co_name}(...)",
    )
