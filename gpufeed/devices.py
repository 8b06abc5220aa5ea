"""Which device a loader's batches lie on."""

from __future__ import annotations

import os
from typing import Any, cast

import torch

from gpufeed.errors import ArgumentError

__all__ = ["parse_device", "resolve_device"]


def parse_device(device: object) -> torch.device | None:
    """What ``device=`` means: a CPU or CUDA device, or ``None`` for ``"auto"``. Touches no device.

    Raises:
        ArgumentError: for anything else.
    """
    if device == "auto":
        return None
    try:
        parsed = torch.device(cast(Any, device))
    except (RuntimeError, TypeError) as error:
        raise ArgumentError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got {device!r}") from error
    if parsed.type not in ("cpu", "cuda"):
        raise ArgumentError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got {device!r}: DALI runs on no other")
    return parsed


def resolve_device(device: object) -> torch.device:
    """The device of a loader, at its first ``iter()``.

    Raises:
        ArgumentError: for a CUDA device on a machine that has none, or not so many.
    """
    parsed = parse_device(device)
    if parsed is not None and parsed.type == "cpu":
        return parsed
    if not torch.cuda.is_available():
        if parsed is None:
            return torch.device("cpu")
        raise ArgumentError(f"device={device!r} needs a CUDA device, and torch finds none; use device='auto' or 'cpu'")
    there_are = torch.cuda.device_count()
    index = parsed.index if parsed is not None else _local_rank(there_are)
    if index is None:
        index = torch.cuda.current_device()
    if index >= there_are:
        raise ArgumentError(f"device={device!r} means cuda:{index}, and there are {there_are}: it must be below that")
    return torch.device("cuda", index)


def _local_rank(device_count: int) -> int | None:
    """``LOCAL_RANK``; ``None`` without one, and where each rank sees a single device, its own."""
    local_rank = os.environ.get("LOCAL_RANK", "")
    return int(local_rank) if local_rank.isdecimal() and device_count > 1 else None
