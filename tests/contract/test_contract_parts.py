"""The small parts that the loader is made of, one by one."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from contract_harness import CONTRACT, folder
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
)

from gpufeed import cpus, sampling
from gpufeed.sources.base import Paths
from gpufeed.sources.folders import FolderSource
from gpufeed.tensors import BatchMemory, map_tensors, to_device

# Occurrences -------------------------------------------------------------------------------------------------------


def counted(indices: list[int]) -> list[int]:
    seen: Counter[int] = Counter()
    counts = []
    for index in indices:
        counts.append(seen[index])
        seen[index] += 1
    return counts


@settings(CONTRACT)
@given(batches=st.lists(st.lists(st.integers(0, 9), max_size=12), max_size=8))
def test_counting_occurrences(batches: list[list[int]]) -> None:
    occurrences, rank = sampling.occurrences_for(object(), 10, None, True)
    found = [occurrences(np.array(batch, dtype=np.int64)).tolist() for batch in batches]
    assert [count for batch in found for count in batch] == counted([index for batch in batches for index in batch])
    assert rank is None


@settings(CONTRACT)
@given(
    length=st.integers(1, 30),
    num_replicas=st.integers(1, 9),
    drop_last=st.booleans(),
    shuffle=st.booleans(),
    batch_size=st.integers(1, 7),
)
def test_occurrences_in_the_global_order_of_a_distributed_sampler(
    length: int, num_replicas: int, drop_last: bool, shuffle: bool, batch_size: int
) -> None:
    dataset: Any = range(length)
    samplers = [
        DistributedSampler(dataset, num_replicas, rank, shuffle=shuffle, drop_last=drop_last)
        for rank in range(num_replicas)
    ]
    if drop_last and length < num_replicas:
        return
    orders = [list(sampler) for sampler in samplers]
    expected = counted([index for row in zip(*orders, strict=True) for index in row])
    for rank, sampler in enumerate(samplers):
        occurrences, key_rank = sampling.occurrences_for(sampler, length, dataset, True)
        found: list[int] = []
        for batch in BatchSampler(orders[rank], batch_size, False):
            found += occurrences(np.array(batch, dtype=np.int64)).tolist()
        assert found == expected[rank::num_replicas]
        assert key_rank is None


@pytest.mark.parametrize(
    ("make", "counts"),
    [
        (lambda: SequentialSampler(range(5)), False),
        (lambda: RandomSampler(range(5)), False),
        (lambda: RandomSampler(range(5), num_samples=3), False),
        (lambda: RandomSampler(range(5), num_samples=7), True),  # over a shorter range than the dataset's
        (lambda: RandomSampler(range(5), replacement=True), True),
        (lambda: SubsetRandomSampler([1, 1, 1]), True),
        (lambda: [2, 2], True),
        (lambda: DistributedSampler(range(5), 2, 1), True),  # over another dataset
        (lambda: type("Mine", (RandomSampler,), {})(range(5)), True),
        (lambda: sampling.SeededSampler(range(5), 1), False),
    ],
)
def test_who_needs_counting(make: Callable[[], Any], counts: bool) -> None:
    occurrences, _ = sampling.occurrences_for(make(), 10, object(), True)
    index = np.array([3, 3], dtype=np.int64)
    assert occurrences(index).tolist() == ([0, 1] if counts else [0, 0])


@pytest.mark.parametrize(("world", "given", "rank"), [(2, True, 1), (2, False, None), (1, True, None)])
def test_the_rank_is_part_of_the_key_of_a_given_sampler(
    monkeypatch: pytest.MonkeyPatch, world: int, given: bool, rank: int | None
) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: world)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    dataset: Any = range(5)
    for sampler in (RandomSampler(dataset), [1, 2], SequentialSampler(dataset)):
        assert sampling.occurrences_for(sampler, 5, dataset, given)[1] == rank
    plain = DistributedSampler(dataset, 2, 1)
    assert sampling.occurrences_for(plain, 5, dataset, given)[1] is None
    assert sampling.occurrences_for(plain, 5, object(), given)[1] == rank


# Generators --------------------------------------------------------------------------------------------------------


def test_rewinding() -> None:
    generators = tuple(torch.Generator().manual_seed(seed) for seed in (1, 2))
    rewind = sampling.GeneratorRewind(generators)
    states = []
    for _ in range(4):
        rewind.note()
        states.append([each.get_state() for each in generators])
        for each in generators:
            torch.rand(1, generator=each)
    rewind.note()
    rewind.asked()
    rewind.asked()
    torch.rand(1, generator=generators[1])
    moved = generators[1].get_state()
    rewind.rewind()
    assert torch.equal(generators[0].get_state(), states[2][0])
    assert torch.equal(generators[1].get_state(), moved)  # somebody else moved it
    rewind.rewind()  # again: nothing more to undo
    assert torch.equal(generators[0].get_state(), states[2][0])


def test_rewinding_what_was_never_drawn() -> None:
    generator = torch.Generator().manual_seed(1)
    before = generator.get_state()
    rewind = sampling.GeneratorRewind((generator,))
    rewind.asked()
    rewind.rewind()
    assert torch.equal(generator.get_state(), before)


def test_given_generators_are_found_once() -> None:
    mine, its = torch.Generator(), torch.Generator()
    sampler = RandomSampler(range(3), generator=its)
    batches = BatchSampler(sampler, 2, False)
    assert sampling.unwrap(batches) == [batches, sampler]
    assert sampling.given_generators(mine, sampling.unwrap(batches)) == (mine, its)
    assert sampling.given_generators(its, sampling.unwrap(batches)) == (its,)
    assert sampling.given_generators(None, [object(), [1]]) == ()


def test_a_seeded_sampler_is_a_random_sampler() -> None:
    sampler = sampling.SeededSampler(range(6), 4)
    assert isinstance(sampler, RandomSampler)
    assert len(sampler) == 6
    assert sorted(sampler) == list(range(6))
    assert list(sampler) == list(sampler)


# Memory ------------------------------------------------------------------------------------------------------------


def test_memory_comes_back_when_the_last_view_is_gone() -> None:
    memory = BatchMemory()
    tensor = memory.take((3, 4), torch.float32)
    place = tensor.data_ptr()
    view = tensor[1:].permute(1, 0)
    del tensor
    other = memory.take((3, 4), torch.float32)
    assert other.data_ptr() != place
    view.fill_(7)
    assert view.unique().tolist() == [7]
    del view
    assert memory.take((3, 4), torch.float32).data_ptr() == place


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1,), (3, 5, 7), (0, 3), (2, 0), ()])
def test_memory_is_aligned_contiguous_and_of_the_shape(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensor = BatchMemory().take(shape, dtype)
    assert tensor.shape == shape
    assert tensor.dtype == dtype
    assert tensor.is_contiguous()
    assert tensor.numel() == 0 or tensor.data_ptr() % 64 == 0


def test_memory_is_not_wasted_on_small_tensors_nor_kept_without_bound() -> None:
    memory = BatchMemory(keep=2)
    large = memory.take((1000,), torch.uint8)
    place = large.data_ptr()
    del large
    small = memory.take((400,), torch.uint8)  # less than half
    assert small.data_ptr() != place
    assert memory.take((600,), torch.uint8).data_ptr() == place
    several = [memory.take((1000 * size,), torch.uint8) for size in range(1, 6)]
    del several
    assert len(memory._free) == 2


def test_memory_from_many_threads_at_once() -> None:
    """What is taken is nobody else's until it is given back."""
    memory = BatchMemory()
    errors: list[str] = []

    def use(number: int) -> None:
        for _ in range(200):
            tensor = memory.take((64,), torch.uint8)
            tensor.fill_(number)
            gc.is_tracked(tensor)
            if tensor.unique().tolist() != [number]:
                errors.append(f"{number} found {tensor}")

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


class Pair(NamedTuple):
    first: object
    second: object


class Own(list):  # type: ignore[type-arg]
    pass


class Odd(Mapping[str, object]):
    """A mapping that can't be made from another one."""

    def __getitem__(self, key: str) -> object:
        return torch.ones(1)

    def __iter__(self) -> Any:
        return iter(["only"])

    def __len__(self) -> int:
        return 1


def test_every_tensor_is_found() -> None:
    one = torch.ones(2)
    nested = {"a": [one, (one, "text")], "b": Pair(one, 3), "c": Own([one]), "d": None, "e": b"bytes", "f": {1, 2}}
    mapped: Any = map_tensors(nested, lambda tensor: tensor + 1)
    assert torch.equal(mapped["a"][0], one + 1)
    assert torch.equal(mapped["a"][1][0], one + 1)
    assert mapped["a"][1][1] == "text"
    assert type(mapped["b"]) is Pair
    assert torch.equal(mapped["b"].first, one + 1)
    assert type(mapped["c"]) is Own
    assert torch.equal(mapped["c"][0], one + 1)
    assert (mapped["d"], mapped["e"], mapped["f"]) == (None, b"bytes", {1, 2})
    assert map_tensors(range(3), lambda tensor: tensor) == [0, 1, 2]
    odd: Any = map_tensors(Odd(), lambda tensor: tensor + 1)
    assert torch.equal(odd["only"], one[:1] + 1)


def test_to_device() -> None:
    batch = [torch.ones(1), {"x": torch.ones(2)}]
    assert to_device(batch, torch.device("cpu")) is batch
    moved: Any = to_device(batch, torch.device("meta"))
    assert moved[0].device.type == "meta"
    assert moved[1]["x"].device.type == "meta"


# Sources -----------------------------------------------------------------------------------------------------------


def test_paths_are_packed() -> None:
    paths = Paths.of(["/a", "/long/ü.jpg", Path("/x/y")])
    rows = [bytes(row).rstrip(b"\0").decode() for row in paths.matrix]
    assert rows == ["/a", "/long/ü.jpg", "/x/y"]
    assert paths.matrix.dtype == np.uint8
    assert paths.matrix[:, -1].max() == 0
    assert Paths.of([]).matrix.shape[0] == 0


def test_a_path_with_a_zero_in_it() -> None:
    with pytest.raises(ValueError, match="embedded null byte"):
        Paths.of(["/a", "/b\0c"])


def test_a_source_over_a_tree(root: Path) -> None:
    dataset = folder(root, 6, target_transform=lambda target: f"class {target}")
    source = FolderSource(ConcatDataset([Subset(dataset, [5, 0]), dataset]))
    assert len(source) == 8
    names = [Path(dataset.samples[index][0]) for index in (5, 0, 0, 5)]
    assert [Path(source.name_of(index)) for index in (0, 1, 2, -1)] == names
    assert source.fields([0, 2])["target"] == ["class 1", "class 0"]
    assert source.resolve(-1) == 7
    assert bytes(source.read([1]).matrix[0]).rstrip(b"\0").decode() == dataset.samples[0][0]


def test_a_sources_fingerprint(root: Path) -> None:
    def fingerprint(**change: Any) -> str:
        dataset = folder(root, 4)
        dataset.samples = change.get("samples", dataset.samples)
        return FolderSource(dataset).fingerprint()

    samples = folder(root, 4).samples
    assert fingerprint() == fingerprint()
    assert len(fingerprint()) == 64
    changed = [samples[::-1], samples[:3], [(path, 9) for path, _ in samples], [(path + "x", t) for path, t in samples]]
    assert len({fingerprint(samples=each) for each in changed} | {fingerprint()}) == 5


# CPUs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "usable"),
    [
        ({}, 6),
        ({"cpu.max": "max 100000\n"}, 6),
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "250000 100000\n"}, 3),
        ({"cpu.max": "10000 100000\n"}, 1),
        ({"cpu.max": "nonsense"}, 6),
        ({"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 6),
    ],
)
def test_usable_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], usable: int) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(6)))
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cpus.usable_cpus(tmp_path) == usable
