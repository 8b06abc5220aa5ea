"""gpufeed: torch's DataLoader on NVIDIA DALI.

    from gpufeed import DataLoader  # was: from torch.utils.data import DataLoader

The public names are imported when they are first used, so that ``import gpufeed`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpufeed.errors import (
        ArgumentError,
        BenchmarkError,
        FeedTimeoutError,
        GpufeedError,
        PipelineError,
        SampleError,
        TranslationError,
        UnsupportedError,
    )
    from gpufeed.loader import DataLoader
    from gpufeed.options import Decode
    from gpufeed.pipelines import Pipeline, pipeline
    from gpufeed.plan import Plan
    from gpufeed.prefetch import PrefetchLoader
    from gpufeed.recording.host_sample import HostSample
    from gpufeed.replaying import replay
    from gpufeed.stats import LoaderStats
    from gpufeed.translation import Translation, translate

__version__ = "0.1.0"

_HOMES = {
    "ArgumentError": "gpufeed.errors",
    "BenchmarkError": "gpufeed.errors",
    "DataLoader": "gpufeed.loader",
    "Decode": "gpufeed.options",
    "FeedTimeoutError": "gpufeed.errors",
    "GpufeedError": "gpufeed.errors",
    "HostSample": "gpufeed.recording.host_sample",
    "LoaderStats": "gpufeed.stats",
    "Pipeline": "gpufeed.pipelines",
    "PipelineError": "gpufeed.errors",
    "Plan": "gpufeed.plan",
    "PrefetchLoader": "gpufeed.prefetch",
    "SampleError": "gpufeed.errors",
    "Translation": "gpufeed.translation",
    "TranslationError": "gpufeed.errors",
    "UnsupportedError": "gpufeed.errors",
    "pipeline": "gpufeed.pipelines",
    "replay": "gpufeed.replaying",
    "translate": "gpufeed.translation",
}

__all__ = [
    "ArgumentError",
    "BenchmarkError",
    "DataLoader",
    "Decode",
    "FeedTimeoutError",
    "GpufeedError",
    "HostSample",
    "LoaderStats",
    "Pipeline",
    "PipelineError",
    "Plan",
    "PrefetchLoader",
    "SampleError",
    "Translation",
    "TranslationError",
    "UnsupportedError",
    "__version__",
    "pipeline",
    "replay",
    "translate",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'gpufeed' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
