"""What every source must do, whatever it reads."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gpufeed.errors import ArgumentError
from gpufeed.sources.base import Source


def plain(fields: Mapping[str, Sequence[object]]) -> dict[str, list[tuple[object, ...]]]:
    """Fields as values that compare by ``==``: an array as its dtype, shape and values."""
    return {
        name: [
            (str(value.dtype), value.shape, value.tolist()) if isinstance(value, np.ndarray) else (value,)
            for value in values
        ]
        for name, values in fields.items()
    }


def paths_of(source: Source, indices: Sequence[int]) -> list[str]:
    """The file names that DALI would read."""
    return [os.fsdecode(bytes(row).rstrip(b"\0")) for row in source.read(indices).matrix]


def check_contract(source: Source) -> None:
    """A source of at least two samples does what `gpufeed.sources.base.Source` promises."""
    everything = list(range(len(source)))
    shuffled = [everything[-1], 0, everything[-1]]
    names = [source.name_of(index) for index in everything]
    whole = plain(source.fields(everything))
    assert paths_of(source, everything) == names
    assert paths_of(source, shuffled) == [names[index] for index in shuffled]
    assert source.read([]).matrix.shape[0] == 0
    assert all(values == [] for values in source.fields([]).values())
    assert "target" in whole
    assert plain(source.fields(np.array(shuffled))) == {  # type: ignore[arg-type]
        name: [values[index] for index in shuffled] for name, values in whole.items()
    }
    _check_owned(source, whole)
    copied = pickle.loads(pickle.dumps(source))
    assert (len(copied), copied.fingerprint(), repr(copied)) == (len(source), source.fingerprint(), repr(source))
    assert plain(copied.fields(everything)) == whole
    assert paths_of(copied, everything) == names
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda index: plain(source.fields([index])), everything * 8))
    assert results == [{name: [values[index]] for name, values in whole.items()} for index in everything * 8]
    for index in (-1, len(source)):
        for method in (source.read, source.fields):
            with pytest.raises(ArgumentError, match=rf"index must be in \[0, {len(source)}\), got {index}"):
                method([index])
        with pytest.raises(ArgumentError, match="index must be in"):
            source.name_of(index)


def _check_owned(source: Source, whole: Mapping[str, object]) -> None:
    """What a caller does to an array, as torch may, leaves the source as it was."""
    everything = range(len(source))
    for values in source.fields(everything).values():
        for value in values:
            if isinstance(value, np.ndarray):
                value[...] = 1
    assert plain(source.fields(everything)) == whole


def lines_of(make: Callable[[], object]) -> list[str]:
    """The lines of the error that making a source raises."""
    with pytest.raises(ArgumentError) as raised:
        make()
    return [line.strip() for line in str(raised.value).splitlines()]
