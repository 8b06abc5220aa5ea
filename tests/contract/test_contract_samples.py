"""What is in a batch: nested datasets, targets of every kind, collate functions, images of unequal size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from contract_harness import CROP, Case, assert_contract, folder
from torch.utils.data import ConcatDataset, Subset, default_collate, default_convert, random_split
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.datasets import DatasetFolder, ImageFolder
from torchvision.datasets.folder import default_loader
from torchvision.transforms import v2

import gpufeed

TRANSFORMS: dict[str, Any] = {
    "v2 uint8": CROP,
    "v1 float": v1.Compose([v1.CenterCrop(7), v1.ToTensor()]),
    "v1 larger than the image": v1.Compose([v1.CenterCrop((15, 60)), v1.PILToTensor()]),
    "nearest": v2.Compose([v2.Resize((6, 5), interpolation=v2.InterpolationMode.NEAREST), v2.PILToTensor()]),
    "tv_tensor": v2.Compose([v2.CenterCrop(8), v2.ToImage()]),
    "tv_tensor float": v2.Compose([v2.ToImage(), v2.CenterCrop(8), v2.ToDtype(torch.float32, scale=True)]),
    "grey": v2.Compose([v2.Grayscale(), v2.CenterCrop(8), v2.PILToTensor()]),
}


@pytest.mark.parametrize("batch_size", [None, 3])
@pytest.mark.parametrize("kind", sorted(TRANSFORMS))
def test_types_and_pixels(root: Path, kind: str, batch_size: int | None) -> None:
    events = assert_contract(Case(lambda: {"dataset": folder(root, 7, TRANSFORMS[kind]), "batch_size": batch_size}))
    batch = next(value for name, value in events if name.startswith("batch"))
    assert isinstance(batch, list)
    assert isinstance(batch[0], tv_tensors.Image) == (kind.startswith("tv_tensor") and batch_size is None)


def concat_of_folders(dataset: ImageFolder) -> Any:
    return ConcatDataset([dataset, dataset, Subset(dataset, [5, 4])])


def split(dataset: ImageFolder) -> Any:
    return random_split(dataset, [0.25, 0.5, 0.25], generator=torch.Generator().manual_seed(1))[1]


NESTINGS: dict[str, Callable[[ImageFolder], Any]] = {
    "subset": lambda dataset: Subset(dataset, [3, 1, -1, 3]),
    "subset of an array": lambda dataset: Subset(dataset, np.array([3, 1, 9])),  # type: ignore[arg-type]
    "subset of a tensor": lambda dataset: Subset(dataset, torch.tensor([3, 1, 9])),  # type: ignore[arg-type]
    "subset of a range": lambda dataset: Subset(dataset, range(15, 0, -4)),
    "empty subset": lambda dataset: Subset(dataset, []),
    "subset of subset": lambda dataset: Subset(Subset(dataset, [9, 8, 7, 6]), [2, -4, 0]),
    "concat": concat_of_folders,
    "subset of concat": lambda dataset: Subset(concat_of_folders(dataset), [33, 0, 16, -1, 31, -34]),
    "concat of subsets": lambda dataset: ConcatDataset([Subset(dataset, []), Subset(dataset, [7]), split(dataset)]),
    "concat of concat": lambda dataset: ConcatDataset([concat_of_folders(dataset), concat_of_folders(dataset)]),
    "random_split": split,
    "random_split of random_split": lambda dataset: random_split(split(dataset), [5, 3])[0],
}


@pytest.mark.parametrize("kind", sorted(NESTINGS))
@pytest.mark.parametrize("shuffle", [False, True])
def test_nested_datasets(root: Path, kind: str, shuffle: bool) -> None:
    assert_contract(Case(lambda: {"dataset": NESTINGS[kind](folder(root)), "batch_size": 3, "shuffle": shuffle}))


@pytest.mark.parametrize("indices", [[2, 1.0], [2, "1"], [2, None], [2, 99], [2, -17], [2, [1]]])
@pytest.mark.parametrize("over", ["folder", "concat"])
def test_subsets_of_bad_indices_fail_as_in_torch(root: Path, over: str, indices: Any) -> None:
    def arguments() -> dict[str, Any]:
        dataset: Any = folder(root)
        return {"dataset": Subset(ConcatDataset([dataset]) if over == "concat" else dataset, indices)}

    events = assert_contract(Case(arguments, (None,)))
    assert [name for name, _ in events if "batch" in name or "error" in name] == ["batch 0:0", "error 0"]


def test_a_dataset_folder(root: Path) -> None:
    def arguments() -> dict[str, Any]:
        dataset = DatasetFolder(str(root), default_loader, extensions=(".png",), transform=CROP)
        return {"dataset": dataset, "batch_size": 3}

    events = assert_contract(Case(arguments))
    assert ("len", 3) in events


def test_a_subclass_that_only_chooses_files(root: Path) -> None:
    class Pngs(ImageFolder):
        def __init__(self, root: Path) -> None:
            super().__init__(root, transform=CROP, is_valid_file=lambda path: path.endswith(".png"))

        def __len__(self) -> int:  # smaller than what there is: torch asks it for the order, not for the range
            return 3

    assert_contract(Case(lambda: {"dataset": Pngs(root), "batch_size": 2}))
    assert_contract(Case(lambda: {"dataset": Pngs(root), "batch_size": 2, "sampler": [5, -1, -8, 3]}))


# Targets -----------------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    first: int
    second: float


TARGET_TRANSFORMS: dict[str, Callable[[int], object]] = {
    "float": lambda target: target / 3,
    "string": lambda target: f"class {target}",
    "bytes": lambda target: bytes([target]),
    "bool": lambda target: target > 1,
    "dict": lambda target: {"id": target, "name": str(target), "nested": {"half": target / 2}},
    "tuple": lambda target: (target, -target),
    "named tuple": lambda target: Pair(target, 0.5),
    "list": lambda target: [target, [target]],
    "tensor": lambda target: torch.full((2, 3), target, dtype=torch.int16),
    "array": lambda target: np.full((2,), target, dtype=np.float32),
    "numpy scalar": lambda target: np.float64(target),
    "none": lambda target: None,
    "set": lambda target: {target},
    "tensors of unequal size": lambda target: torch.zeros(target + 1),
    "lists of unequal size": lambda target: [0] * target,
}


@pytest.mark.parametrize("batch_size", [None, 5])
@pytest.mark.parametrize("kind", sorted(TARGET_TRANSFORMS))
def test_targets(root: Path, kind: str, batch_size: int | None) -> None:
    def arguments() -> dict[str, Any]:
        dataset = folder(root, 16, target_transform=TARGET_TRANSFORMS[kind])
        return {"dataset": dataset, "batch_size": batch_size}

    events = assert_contract(Case(arguments, (None,)))
    fails = batch_size == 5 and kind in ("none", "set", "tensors of unequal size", "lists of unequal size")
    assert any(name.startswith("error") for name, _ in events) == fails


def test_the_target_transform_of_each_folder_in_a_concat(root: Path) -> None:
    def arguments() -> dict[str, Any]:
        first = folder(root, 4, target_transform=lambda target: target + 100)
        return {"dataset": ConcatDataset([first, folder(root, 3)]), "batch_size": 2}

    events = assert_contract(Case(arguments, (None,)))
    assert any(torch.equal(value[1], torch.tensor([100, 100])) for name, value in events if name == "batch 0:0")


class CallsThenRaises:
    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, target: int) -> int:
        self.left -= 1
        if self.left == 0:
            raise LookupError("no such class")
        return target


@pytest.mark.parametrize("at", [1, 4, 9])
def test_a_target_transform_that_raises(root: Path, at: int) -> None:
    def arguments() -> dict[str, Any]:
        return {"dataset": folder(root, 16, target_transform=CallsThenRaises(at)), "batch_size": 3}

    events = assert_contract(Case(arguments, (None, None)))
    assert [name for name, _ in events if name.startswith("error")] == ["error 0"]
    assert any(name == "batch 1:5" for name, _ in events)


def test_a_target_transform_runs_once_per_sample_that_is_handed_over(root: Path) -> None:
    """On the iterating thread, when its batch is asked for: batches in flight don't call it."""
    calls: list[int] = []
    dataset = folder(root, 16, target_transform=lambda target: calls.append(target) or target)
    iterator = iter(gpufeed.DataLoader(dataset, batch_size=3, prefetch_factor=4))
    assert calls == []
    next(iterator)
    assert len(calls) == 3


# Collate functions -------------------------------------------------------------------------------------------------


class Collated(NamedTuple):
    images: torch.Tensor
    targets: list[int]


def as_named_tuple(samples: list[tuple[torch.Tensor, int]]) -> Collated:
    return Collated(torch.stack([image for image, _ in samples]), [target for _, target in samples])


def as_dict(samples: list[tuple[torch.Tensor, int]]) -> dict[str, object]:
    return {"image": [image for image, _ in samples], "n": len(samples), "types": [type(sample) for sample in samples]}


def as_was(samples: object) -> object:
    return samples


def raises(samples: object) -> object:
    raise ZeroDivisionError


def stops(samples: object) -> object:
    raise StopIteration


COLLATE_FNS: dict[str, Callable[[Any], object] | None] = {
    "none": None,
    "default_collate": default_collate,
    "default_convert": default_convert,
    "as it was": as_was,
    "named tuple": as_named_tuple,
    "dict": as_dict,
    "raises": raises,
    "StopIteration": stops,
}


@pytest.mark.parametrize("batch_size", [None, 3])
@pytest.mark.parametrize("transform", ["v2 uint8", "tv_tensor", "v1 float"])
@pytest.mark.parametrize("kind", sorted(COLLATE_FNS))
def test_collate_functions(root: Path, kind: str, transform: str, batch_size: int | None) -> None:
    def arguments() -> dict[str, Any]:
        dataset = folder(root, 7, TRANSFORMS[transform])
        return {"dataset": dataset, "batch_size": batch_size, "collate_fn": COLLATE_FNS[kind]}

    assert_contract(Case(arguments))


def test_collate_functions_get_tuples(root: Path) -> None:
    (batch,) = gpufeed.DataLoader(folder(root, 2), batch_size=2, collate_fn=as_was)
    assert [type(sample) for sample in batch] == [tuple, tuple]
    assert [type(value) for value in batch[0]] == [torch.Tensor, int]


def test_the_collate_fn_of_a_loader_may_be_replaced(root: Path) -> None:
    def replace(loader: Any, epoch: int) -> None:
        loader.collate_fn = (as_dict, as_was, default_collate)[epoch]

    assert_contract(Case(lambda: {"dataset": folder(root, 4), "batch_size": 3}, (None, None, None), between=replace))


# Unequal sizes -----------------------------------------------------------------------------------------------------


def whole(root: Path, count: int = 16) -> ImageFolder:
    return folder(root, count, v2.PILToTensor())


@pytest.mark.parametrize("collate_fn", [None, default_collate])
def test_images_of_unequal_size_cannot_be_stacked(root: Path, collate_fn: Any) -> None:
    events = assert_contract(
        Case(lambda: {"dataset": whole(root), "batch_size": 2, "collate_fn": collate_fn}, (None, None))
    )
    error = next(value for name, value in events if name == "error 0")
    loader = gpufeed.DataLoader(whole(root), batch_size=2)
    with pytest.raises(RuntimeError) as ours:
        next(iter(loader))
    assert str(ours.value) == str(error)
    assert "stack expects each tensor to be equal size" in str(error)


@pytest.mark.parametrize("batch_size", [None, 1, 4])
def test_images_of_unequal_size_with_a_collate_fn(root: Path, batch_size: int | None) -> None:
    collate_fn = None if batch_size == 1 else as_was
    events = assert_contract(
        Case(lambda: {"dataset": whole(root), "batch_size": batch_size, "collate_fn": collate_fn}, (None, 2, None))
    )
    assert not any("error" in name for name, _ in events)


# Edits -------------------------------------------------------------------------------------------------------------


def edit_transform(loader: Any, epoch: int) -> None:
    if epoch == 1:
        loader.dataset.transform = v2.Compose([v2.CenterCrop(4), v2.PILToTensor()])
    if epoch == 2:
        loader.dataset.transform.transforms[0] = v2.CenterCrop(6)


def edit_samples(loader: Any, epoch: int) -> None:
    if epoch == 1:
        loader.dataset.samples = loader.dataset.samples[::-1]
    if epoch == 2:
        del loader.dataset.samples[3:]
    if epoch == 3:
        loader.dataset.samples[0] = (loader.dataset.samples[1][0], 77)


def edit_target_transform(loader: Any, epoch: int) -> None:
    loader.dataset.target_transform = (lambda target: f"{epoch} {target}") if epoch % 2 else None


@pytest.mark.parametrize("edit", [edit_transform, edit_samples, edit_target_transform])
@pytest.mark.parametrize("num_workers", [0, 1])
def test_edits_are_seen_at_the_next_epoch(root: Path, edit: Callable[[Any, int], None], num_workers: int) -> None:
    def arguments() -> dict[str, Any]:
        return {"dataset": folder(root, 7), "batch_size": 3, "num_workers": num_workers}

    assert_contract(Case(arguments, (None, None, 1, None), between=edit))


def test_an_epoch_keeps_the_lists_that_it_began_with(root: Path) -> None:
    """A file and its target come from the same list, whenever the dataset is given another one."""
    dataset = folder(root, 16)
    expected = [target for _, target in dataset.samples]
    iterator = iter(gpufeed.DataLoader(dataset, batch_size=2, prefetch_factor=3))
    first = next(iterator)
    dataset.samples = [(path, 99) for path, _ in dataset.samples]
    targets = torch.cat([first[1], *(batch[1] for batch in iterator)])
    assert targets.tolist() == expected


def test_the_dataset_is_never_changed(root: Path) -> None:
    dataset = folder(root, 5)
    before = dict(vars(dataset))
    samples = list(dataset.samples)
    for _ in gpufeed.DataLoader(dataset, batch_size=2, shuffle=True):
        pass
    assert vars(dataset) == before
    assert dataset.samples == samples
