"""``seed=`` and ``set_epoch()``: order and draws are pure functions of (seed, epoch), whatever else differs."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from contract_harness import folder
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
)
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import gpufeed
from gpufeed import DataLoader

RANDOM = v2.Compose([v2.RandomCrop(5), v2.RandomHorizontalFlip(), v2.PILToTensor()])


def numbered(root: Path, count: int = 16, transform: Any = RANDOM) -> ImageFolder:
    """Targets are the samples' numbers."""
    dataset = folder(root, count, transform)
    dataset.samples = [(path, number) for number, (path, _) in enumerate(dataset.samples)]
    return dataset


def order(loader: DataLoader) -> list[int]:
    return [int(target) for _, targets in loader for target in targets]


def pixels(loader: DataLoader) -> dict[tuple[int, int], bytes]:
    """What each (sample, occurrence in this epoch) looks like."""
    seen: Counter[int] = Counter()
    found: dict[tuple[int, int], bytes] = {}
    for images, targets in loader:
        for image, target in zip(images, targets.tolist(), strict=True):
            found[target, seen[target]] = image.numpy().tobytes()
            seen[target] += 1
    return found


# Order -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 12345, -3])
def test_the_order_is_that_of_distributed_sampler(root: Path, seed: int) -> None:
    dataset = numbered(root)
    loader = DataLoader(dataset, batch_size=5, shuffle=True, seed=seed)
    sampler = DistributedSampler(dataset, num_replicas=1, rank=0, seed=seed)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        assert order(loader) == list(sampler)
        generator = torch.Generator().manual_seed(seed + epoch)
        assert list(sampler) == torch.randperm(16, generator=generator).tolist()


def test_nothing_global_is_read_or_moved(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def global_states() -> list[Any]:
        return [torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state())]

    def run() -> list[int]:
        return order(DataLoader(numbered(root), batch_size=3, shuffle=True, seed=4))

    before = global_states()
    first = run()
    assert global_states() == before
    torch.manual_seed(1234)
    random.seed(99)
    np.random.seed(98)
    assert run() == first


def test_a_given_generator_is_neither_read_nor_moved_with_a_seed(root: Path) -> None:
    generator = torch.Generator().manual_seed(3)
    before = generator.get_state()
    with_generator = order(DataLoader(numbered(root), batch_size=3, shuffle=True, seed=4, generator=generator))
    assert torch.equal(generator.get_state(), before)
    assert with_generator == order(DataLoader(numbered(root), batch_size=3, shuffle=True, seed=4))


def test_a_seed_without_shuffle_leaves_the_order(root: Path) -> None:
    assert order(DataLoader(numbered(root), batch_size=3, seed=4)) == list(range(16))


def test_iterators_of_two_epochs_at_once(root: Path) -> None:
    loader = DataLoader(numbered(root), batch_size=4, shuffle=True, seed=4)
    first, second = iter(loader), iter(loader)
    targets: tuple[list[int], list[int]] = ([], [])
    for (_, of_first), (_, of_second) in zip(first, second, strict=True):
        targets[0].extend(of_first.tolist())
        targets[1].extend(of_second.tolist())
    again = DataLoader(numbered(root), batch_size=4, shuffle=True, seed=4)
    assert [order(again), order(again)] == list(targets)


@pytest.mark.parametrize("num_workers", [0, 3])
def test_the_order_does_not_depend_on_how_far_ahead_it_is_drawn(root: Path, num_workers: int) -> None:
    expected = order(DataLoader(numbered(root), batch_size=3, shuffle=True, seed=4))
    assert order(DataLoader(numbered(root), batch_size=3, shuffle=True, seed=4, num_workers=num_workers)) == expected


# Epochs ------------------------------------------------------------------------------------------------------------


class WithEpoch(SequentialSampler):
    epoch: Any = 5

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


def epochs_run(loader: DataLoader, count: int) -> list[int]:
    """Which epochs ``count`` iterations are, told from their draws."""
    dataset: Any = loader.dataset
    known = {}
    for epoch in range(9):
        reference = DataLoader(dataset, batch_size=16, seed=loader.seed)
        reference.set_epoch(epoch)
        known[frozenset(pixels(reference).items())] = epoch
    return [known[frozenset(pixels(loader).items())] for _ in range(count)]


def test_epochs_count_from_zero(root: Path) -> None:
    assert epochs_run(DataLoader(numbered(root), batch_size=3, seed=1), 4) == [0, 1, 2, 3]


def test_set_epoch_holds_for_one_epoch_and_the_count_goes_on(root: Path) -> None:
    loader = DataLoader(numbered(root), batch_size=3, seed=1)
    loader.set_epoch(7)
    loader.set_epoch(3)  # the last one counts
    assert epochs_run(loader, 3) == [3, 4, 5]
    loader.set_epoch(1)
    assert epochs_run(loader, 2) == [1, 2]


def test_an_epoch_left_early_counts(root: Path) -> None:
    loader = DataLoader(numbered(root), batch_size=3, seed=1)
    for _ in loader:
        break
    iter(loader)
    assert epochs_run(loader, 1) == [2]


def test_the_epoch_of_a_given_sampler_counts(root: Path) -> None:
    dataset = numbered(root)
    sampler = WithEpoch(dataset)
    loader = DataLoader(dataset, batch_size=3, seed=1, sampler=sampler)
    assert epochs_run(loader, 2) == [5, 5]
    sampler.set_epoch(8)
    assert epochs_run(loader, 1) == [8]
    loader.set_epoch(2)
    assert sampler.epoch == 2
    assert epochs_run(loader, 2) == [2, 2]
    sampler.epoch = "nine"  # no integer: the count goes on
    assert epochs_run(loader, 2) == [3, 4]
    sampler.epoch = np.int64(6)
    assert epochs_run(loader, 1) == [6]


def test_set_epoch_reaches_a_sampler_inside_a_batch_sampler(root: Path) -> None:
    dataset = numbered(root)
    sampler = DistributedSampler(dataset, num_replicas=2, rank=0, seed=3)
    loader = DataLoader(dataset, batch_sampler=BatchSampler(sampler, 4, False), seed=1)
    loader.set_epoch(6)
    assert sampler.epoch == 6
    assert order(loader) == list(sampler)


def test_persistent_workers_count_epochs(root: Path) -> None:
    loader = DataLoader(numbered(root), batch_size=3, seed=1, persistent_workers=True)
    assert epochs_run(loader, 3) == [0, 1, 2]


# Draws -------------------------------------------------------------------------------------------------------------


def expected_pixels(root: Path, seed: int, epoch: int) -> dict[tuple[int, int], bytes]:
    loader = DataLoader(numbered(root), batch_size=16, seed=seed)
    loader.set_epoch(epoch)
    return pixels(loader)


@pytest.mark.parametrize(
    "arguments",
    [
        {"batch_size": 1},
        {"batch_size": 7, "shuffle": True},
        {"batch_size": 20, "num_threads": 1},
        {"batch_size": 3, "num_threads": 4, "prefetch_factor": 5},
        {"batch_size": 5, "num_workers": 2},
        {"batch_size": 2, "sampler": [3, 15, 0, 7, 1]},
        {"batch_sampler": [[4], [3, 2, 1], [-1]]},
    ],
)
def test_draws_belong_to_the_sample(root: Path, arguments: dict[str, Any]) -> None:
    loader = DataLoader(numbered(root), seed=8, **arguments)
    loader.set_epoch(2)
    expected = expected_pixels(root, 8, 2)
    found = pixels(loader)
    assert found
    assert found.items() <= expected.items()


def test_draws_differ_between_samples_epochs_seeds_and_occurrences(root: Path) -> None:
    transform = v2.Compose([v2.RandomCrop(5), v2.PILToTensor()])
    dataset = numbered(root, 16, transform)
    dataset.samples = [dataset.samples[15]] * 16  # one large image: 29 x 35 windows or more
    loader = DataLoader(dataset, batch_size=16, seed=1)
    epochs = [next(iter(loader))[0] for _ in range(2)]
    other_seed = next(iter(DataLoader(dataset, batch_size=16, seed=2)))[0]
    repeated = next(iter(DataLoader(dataset, batch_size=16, seed=1, sampler=[0] * 16)))[0]
    for images in (*epochs, other_seed, repeated):
        assert len({image.numpy().tobytes() for image in images}) > 12
    assert not torch.equal(epochs[0], epochs[1])
    assert not torch.equal(epochs[0], other_seed)
    assert torch.equal(repeated[0], epochs[0][0])


@pytest.mark.parametrize("batch_size", [1, 4, 9])
def test_occurrences_are_counted_over_the_epoch(root: Path, batch_size: int) -> None:
    indices = [3, 3, 5, 3, -13, 5, 3, 0, 3]
    everything = pixels(DataLoader(numbered(root), batch_size=9, seed=1, sampler=indices))
    assert {index for index, _ in everything} == {0, 3, 5}
    assert {occurrence for index, occurrence in everything if index == 3} == set(range(6))
    assert len(set(everything.values())) > 5
    from_the_front = [index % 16 for index in indices]
    assert pixels(DataLoader(numbered(root), batch_size=9, seed=1, sampler=from_the_front)) == everything
    found = pixels(DataLoader(numbered(root), batch_size=batch_size, seed=1, sampler=indices))
    assert found == everything


def test_each_epoch_counts_anew(root: Path) -> None:
    loader = DataLoader(numbered(root), batch_size=2, seed=1, sampler=[3, 3])
    first = pixels(loader)
    loader.set_epoch(0)
    assert pixels(loader) == first


def test_without_a_seed_draws_follow_from_the_base_seed(root: Path) -> None:
    def run(seed: int) -> list[Any]:
        torch.manual_seed(seed)
        loader = DataLoader(numbered(root), batch_size=4, shuffle=True)
        return [pixels(loader) for _ in range(2)]

    assert run(1) == run(1)
    assert run(1) != run(2)
    first, second = run(1)
    assert first != second


# Ranks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(
    ("count", "num_replicas", "drop_last"),
    [
        (count, num_replicas, drop_last)
        for count in (16, 13, 5, 1)
        for num_replicas in (1, 2, 3, 7)
        for drop_last in (False, True)
        if count >= num_replicas or not drop_last  # else torch's sampler has nothing to give
    ],
)
def test_the_ranks_of_a_distributed_sampler_make_one_epoch(
    root: Path, count: int, num_replicas: int, drop_last: bool, shuffle: bool
) -> None:
    """Their union, padding included, is what one process with the global order draws."""
    dataset = numbered(root, count)
    global_order: list[int] = []
    by_position: dict[int, bytes] = {}
    for rank in range(num_replicas):
        sampler = DistributedSampler(dataset, num_replicas, rank, shuffle=shuffle, seed=3, drop_last=drop_last)
        sampler.set_epoch(2)
        loader = DataLoader(dataset, batch_size=2, sampler=sampler, seed=1)
        images = [image.numpy().tobytes() for batch, _ in loader for image in batch]
        by_position |= {number * num_replicas + rank: image for number, image in enumerate(images)}
        global_order = global_order or [0] * (len(images) * num_replicas)
        global_order[rank::num_replicas] = list(sampler)
    alone = DataLoader(dataset, batch_size=5, sampler=global_order, seed=1)
    alone.set_epoch(2)
    expected = [image.numpy().tobytes() for batch, _ in alone for image in batch]
    assert [by_position[position] for position in range(len(expected))] == expected


_PROCESS = """
import json, sys, hashlib
import torch
from pathlib import Path
from torch.utils.data import DistributedSampler, WeightedRandomSampler
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2
from gpufeed import DataLoader

folder, rank, world, store = sys.argv[1:]
rank, world = int(rank), int(world)
if world > 1:
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
dataset = ImageFolder(folder, transform=v2.Compose([v2.RandomCrop(5), v2.RandomHorizontalFlip(), v2.PILToTensor()]))
dataset.samples = [(path, number) for number, (path, _) in enumerate(dataset.samples)]
weighted = WeightedRandomSampler([1.0] * 16, 6, generator=torch.Generator().manual_seed(1))

def run(**arguments):
    loader = DataLoader(dataset, batch_size=3, seed=2, num_threads=1, **arguments)
    return [[int(target), hashlib.sha256(image.numpy().tobytes()).hexdigest()]
            for images, targets in loader for image, target in zip(images, targets)]

print(json.dumps({
    "shuffled": run(shuffle=True),
    "in order": run(),
    "given": run(sampler=weighted),
    "distributed": run(sampler=DistributedSampler(dataset, world, rank, seed=5)),
}))
if world > 1:
    torch.distributed.destroy_process_group()
"""


def run_processes(root: Path, world: int, store: Path) -> list[dict[str, list[list[Any]]]]:
    environment = {**os.environ, "PYTHONPATH": str(Path(gpufeed.__file__).parents[1])}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _PROCESS, str(root), str(rank), str(world), str(store)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(world)
    ]
    outputs = [process.communicate(timeout=100)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * world
    return [json.loads(output) for output in outputs]


@pytest.mark.slow
def test_two_processes_and_two_ranks(root: Path, tmp_path: Path) -> None:
    first, second = [run_processes(root, 1, tmp_path)[0] for _ in range(2)]
    assert first == second
    ranks = run_processes(root, 2, tmp_path / "store")
    for each in ranks:  # the loader's own orders are pure functions of (seed, epoch)
        assert each["shuffled"] == first["shuffled"]
        assert each["in order"] == first["in order"]
    # A given sampler: the same samples here, drawn differently on each rank, since neither knows what the other counts.
    assert [target for target, _ in ranks[0]["given"]] == [target for target, _ in ranks[1]["given"]]
    assert ranks[0]["given"] != ranks[1]["given"]
    assert first["given"] not in (ranks[0]["given"], ranks[1]["given"])
    # torch's plain DistributedSampler: together one epoch of one process.
    together = [*map(tuple, ranks[0]["distributed"]), *map(tuple, ranks[1]["distributed"])]
    assert sorted(together) == sorted(map(tuple, first["distributed"]))


def test_samplers_of_a_seeded_loader_still_draw_as_torchs(root: Path) -> None:
    """A given sampler reads what it wants; the seed is for the loader's own order and the draws."""

    def run(sampler: Any) -> list[int]:
        torch.manual_seed(6)
        return order(DataLoader(numbered(root), batch_size=3, seed=1, sampler=sampler))

    for make in (
        lambda: RandomSampler(range(16)),
        lambda: WeightedRandomSampler([1.0] * 16, 9),
        lambda: ConcatDataset([range(5), range(7)]),  # type: ignore[list-item]
    ):
        torch.manual_seed(6)
        expected: Sequence[int] = [*make()]  # type: ignore[misc]
        assert run(make()) == list(expected)
