"""Per-pixel noise: frozen values, the same on the device as in NumPy, and random enough."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gpufeed import noise
from gpufeed.tail import noise as device_noise

CPU = torch.device("cpu")
KEYS = np.array([[0, 0], [1, 0], [0, 1], [0xFFFFFFFF, 0xFFFFFFFF], [0x243F6A88, 0x85A308D3]], dtype=np.int64)
SHAPE = (3, 224, 224)
COUNT = math.prod(SHAPE)
SIGMAS = 5.0
"""How many standard errors a statistic of frozen values may be off."""

GOLDEN_WORDS = [
    [209333828, 366982349, 436437292, 2348131076],
    [1032115142, 2709474009, 2697465837, 2622930042],
    [2208864470, 2746407688, 761033075, 3587471229],
    [749865114, 303232567, 4151516660, 690626872],
    [4211628009, 2724518091, 3377007067, 2309901472],
]
GOLDEN_NORMALS = [-2.7290547, 0.4281947, 0.710688, -0.6609182, -1.3523363]


def test_golden_values() -> None:
    assert noise.words(KEYS, 4).tolist() == GOLDEN_WORDS
    assert noise.normal(KEYS[4:], 5)[0].tolist() == pytest.approx(GOLDEN_NORMALS, rel=1e-6)


def lowbias32(x: int) -> int:
    """The published mixer, in Python's integers."""
    x ^= x >> 16
    x = x * 0x7FEB352D & 0xFFFFFFFF
    x ^= x >> 15
    x = x * 0x846CA68B & 0xFFFFFFFF
    return x ^ x >> 16


def test_key_words_are_mixed_by_the_published_function() -> None:
    for (first, second), stream in zip(KEYS.tolist(), noise.stream_words(KEYS).tolist(), strict=True):
        one = lowbias32(first ^ lowbias32((second + 0x9E3779B9) & 0xFFFFFFFF))
        assert stream == [one, lowbias32(second ^ one)]


@pytest.mark.parametrize("count", [1, 2, 3, 1000, 150_527])
def test_the_device_gives_the_same(count: int) -> None:
    keys = np.concatenate([KEYS, np.random.default_rng(0).integers(0, 2**32, (20 if count < 2000 else 3, 2))])
    for key in keys:
        bits = device_noise.words(key, count, CPU).numpy().view(np.uint32)
        assert np.array_equal(bits, noise.words(key[None], count)[0])
        unit = device_noise.uniform(key, count, CPU)
        assert unit.dtype == torch.float32
        assert np.array_equal(unit.numpy(), noise.uniform(key[None], count)[0])
        normal = device_noise.normal(key, count, CPU)
        assert normal.shape == (count,)
        np.testing.assert_allclose(normal.numpy(), noise.normal(key[None], count)[0], rtol=0, atol=1e-5)


def test_a_longer_stream_begins_with_the_shorter() -> None:
    assert np.array_equal(noise.words(KEYS, 1000)[:, :10], noise.words(KEYS, 10))


def test_uniform_is_in_the_half_open_interval() -> None:
    unit = noise.uniform(KEYS, COUNT)
    assert unit.dtype == np.float32
    assert unit.min() >= 0.0
    assert unit.max() < 1.0
    assert np.array_equal(unit * 2**24, np.floor(unit * 2**24))


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """In standard errors."""
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(np.corrcoef(a, b)[0, 1]) * math.sqrt(len(a))


def some_keys(count: int) -> np.ndarray:
    return np.concatenate([KEYS, np.random.default_rng(1).integers(0, 2**32, (count, 2))])


def test_uniform_is_uniform() -> None:
    for unit in noise.uniform(some_keys(10), COUNT).astype(np.float64):
        assert abs(unit.mean() - 0.5) < SIGMAS / math.sqrt(12 * COUNT)
        assert abs(unit.var() - 1 / 12) < SIGMAS / math.sqrt(180 * COUNT)
        chi_square = ((np.bincount((unit * 1024).astype(int), minlength=1024) - COUNT / 1024) ** 2).sum() / (
            COUNT / 1024
        )
        assert abs(chi_square - 1023) < SIGMAS * math.sqrt(2 * 1023)
        pairs = (unit[0::2] * 32).astype(int) * 32 + (unit[1::2] * 32).astype(int)
        expected = COUNT / 2 / 1024
        assert abs(((np.bincount(pairs, minlength=1024) - expected) ** 2).sum() / expected - 1023) < SIGMAS * 45.2


def test_normal_is_normal() -> None:
    drawn = noise.normal(some_keys(10), COUNT).astype(np.float64)
    total = drawn.size
    assert abs(drawn.mean()) < SIGMAS / math.sqrt(total)
    assert abs(drawn.std() - 1) < SIGMAS / math.sqrt(2 * total)
    assert abs((drawn**3).mean()) < SIGMAS * math.sqrt(15 / total)
    assert abs((drawn**4).mean() - 3) < SIGMAS * math.sqrt(96 / total)
    for limit in (-4.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0):
        share = 0.5 * math.erfc(limit / math.sqrt(2))
        assert abs((drawn > limit).mean() - share) < SIGMAS * math.sqrt(share * (1 - share) / total), limit
    assert 4.5 < np.abs(drawn).max() < 5.78


@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_neighbours_and_channels_are_independent(kind: str) -> None:
    for drawn in getattr(noise, kind)(some_keys(10), COUNT):
        image = drawn.reshape(SHAPE)
        for down, right in ((0, 1), (1, 0), (1, 1), (0, 2), (2, 0), (0, 16), (16, 0)):
            other = image[:, down:, right:]
            assert abs(correlation(image[:, : SHAPE[1] - down, : SHAPE[2] - right], other)) < SIGMAS
        for first, second in ((0, 1), (0, 2), (1, 2)):
            assert abs(correlation(image[first], image[second])) < SIGMAS
            assert abs(correlation(image[first] ** 2, image[second] ** 2)) < SIGMAS  # as the two halves of a pair
        flat = drawn[: COUNT // 2 * 2]
        assert abs(correlation(flat[: COUNT // 2], flat[COUNT // 2 :])) < SIGMAS


def test_keys_that_differ_in_one_bit_give_other_noise() -> None:
    count = 20_000
    for key in KEYS[[0, 4]]:
        base_bits, base = noise.words(key[None], count)[0], noise.normal(key[None], count)[0]
        for word in (0, 1):
            for bit in range(32):
                other = key.copy()
                other[word] ^= 1 << bit
                flipped = np.bitwise_count(base_bits ^ noise.words(other[None], count)[0])
                assert abs(flipped.mean() - 16) < SIGMAS * math.sqrt(8 / count), (word, bit)
                assert abs(correlation(base, noise.normal(other[None], count)[0])) < SIGMAS, (word, bit)


def test_streams_are_no_shifts_of_each_other() -> None:
    keys = np.stack([np.arange(64), np.full(64, 7)], axis=1)
    seen = noise.words(keys, 4096)
    assert len(np.unique(seen)) > seen.size * 0.9999  # 64 * 4096 of 2**32 words: 8 pairs are equal by chance


def test_an_element_is_uniform_over_keys() -> None:
    keys = np.random.default_rng(2).integers(0, 2**32, (100_000, 2))
    for element in range(3):
        unit = noise.uniform(keys, 3)[:, element].astype(np.float64)
        assert abs(unit.mean() - 0.5) < SIGMAS / math.sqrt(12 * len(keys))
    consecutive = noise.uniform(np.stack([np.zeros(100_000, dtype=np.int64), np.arange(100_000)], axis=1), 1)[:, 0]
    assert abs(correlation(consecutive[:-1], consecutive[1:])) < SIGMAS
