"""The draws are frozen: a change of a value here is a change of everybody's augmentations."""

from __future__ import annotations

import numpy as np
import pytest

from gpufeed.draws import Draws, epoch_key, philox


def words(*values: int) -> tuple[np.ndarray, ...]:
    return tuple(np.array([value], dtype=np.uint64) for value in values)


# Known answers of Philox4x32-10 as published with the generator's reference implementation.
@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_known_answers(
    counter: tuple[int, ...], key: tuple[int, int], answer: tuple[int, ...]
) -> None:
    assert tuple(int(word[0]) for word in philox(words(*counter), key)) == answer


def draws(count: int = 4, seed: int = 0, epoch: int = 0, rank: int | None = None) -> Draws:
    return Draws(epoch_key(seed, epoch, rank), np.arange(count), np.zeros(count, dtype=np.int64))


def test_golden_values() -> None:
    assert epoch_key(0, 0) == GOLDEN_KEYS[0]
    assert epoch_key(2**63 + 5, 7, rank=3) == GOLDEN_KEYS[1]
    assert draws().unit(0).tolist() == GOLDEN_UNITS
    assert Draws((1, 2), np.array([2**40 + 3]), np.array([2])).unit(65_536).tolist() == [GOLDEN_LARGE]


GOLDEN_KEYS = [(3630640817, 2442171112), (145549641, 3030196573)]
GOLDEN_UNITS = [0.23463094566613862, 0.9512506664569695, 0.6903000402038337, 0.07765982893147871]
GOLDEN_LARGE = 0.7237766445835657


def test_every_part_of_the_key_matters() -> None:
    base = draws().unit(0)
    others = [
        draws(seed=1).unit(0),
        draws(seed=2**32).unit(0),
        draws(epoch=1).unit(0),
        draws(epoch=2**32).unit(0),
        draws(rank=0).unit(0),
        draws(rank=1).unit(0),
        draws().unit(1),
        Draws(epoch_key(0, 0), np.arange(4) + 2**32, np.zeros(4, dtype=np.int64)).unit(0),
        Draws(epoch_key(0, 0), np.arange(4), np.ones(4, dtype=np.int64)).unit(0),
    ]
    for number, other in enumerate(others):
        assert not np.isin(other, base).any(), number
        for later in others[number + 1 :]:
            assert not np.isin(other, later).any()


def test_a_sample_draws_the_same_in_any_batch() -> None:
    whole = draws(100)
    first, second = whole.unit_pairs((3, 9, 70_000))
    part = Draws(whole.key, np.array([41, 7]), np.array([0, 0]))
    assert np.array_equal(part.unit_pairs((9,))[1][0], second[1, [41, 7]])
    assert np.array_equal(whole.take([7, 41]).unit(70_000), first[2, [7, 41]])
    assert np.array_equal(whole.unit_pairs((3,), np.array([5, 6]))[0], first[:1, [5, 6]])


def test_units_are_uniform_and_independent() -> None:
    first, second = draws(20_000).unit_pairs((0, 1))
    values = np.stack([first[0], second[0], first[1], second[1]])
    assert values.min() >= 0.0
    assert values.max() < 1.0
    counts = np.stack([np.histogram(row, bins=20, range=(0, 1))[0] for row in values])
    assert np.abs(counts - 1000).max() < 6 * np.sqrt(1000)
    correlation = np.corrcoef(values) - np.eye(4)
    assert np.abs(correlation).max() < 0.04


def test_coins_are_never_for_0_and_always_for_1() -> None:
    many = draws(5000)
    assert not many.coin(0, 0.0).any()
    assert many.coin(0, 1.0).all()
    assert abs(many.coin(0, 0.25).mean() - 0.25) < 0.03
