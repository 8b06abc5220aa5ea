"""Ops that hold ops: each sample through its own branches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from gpufeed.parameters import Branches, OpParameters, rows_of
from gpufeed.plan import BranchOp, Op
from gpufeed.spec import ImageSpec
from gpufeed.tail.kernel import Kernel
from gpufeed.tensors import from_numpy

__all__ = ["run_branches"]


def run_branches(images: torch.Tensor, op: BranchOp, spec: ImageSpec, value: Branches, run_op: Kernel) -> torch.Tensor:
    """Take images of one size through the branches that were drawn for each; the others pass untouched.

    Args:
        images: (N, C, H, W), not changed; N is 1 where the output's size isn't known.
        op: the op.
        spec: its input's.
        value: N rows.
        run_op: what runs the ops inside.
    """
    inside = op.branch_spec(spec)
    own = images  # nothing is copied for samples that nothing is done to
    for step in range(value.order.shape[1]):
        chosen = value.order[:, step]
        for branch, ops in enumerate(op.branches):
            rows = np.flatnonzero(chosen == branch)
            if not len(rows) or not ops:
                continue
            if len(rows) == len(chosen):
                own = _run(own, ops, inside, value.values[branch], rows, run_op)
                continue
            if own is images:
                own = images.clone()
            index = from_numpy(rows).to(own.device)
            own[index] = _run(own[index], ops, inside, value.values[branch], rows, run_op)
    return own


def _run(
    images: torch.Tensor,
    ops: Sequence[Op],
    spec: ImageSpec,
    values: Sequence[OpParameters],
    rows: NDArray[np.intp],
    run_op: Kernel,
) -> torch.Tensor:
    """The ops of one branch, on the samples that go through it: together while their sizes are known, else singly."""
    specs = [spec]
    for op in ops:
        specs.append(op.out_spec(specs[-1]))
    if len(rows) > 1 and any(one.size_hw is None for one in specs):
        single = [
            _run(images[row : row + 1], ops, spec, values, rows[row : row + 1], run_op) for row in range(len(rows))
        ]
        return torch.cat(single)
    for op, before, value in zip(ops, specs, values, strict=False):
        images = run_op(images, op, before, rows_of(value, rows))
    return images
