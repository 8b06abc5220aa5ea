"""Arguments: wrong ones fail as in torch, each can be read as it was given, and frameworks can rebuild the loader."""

from __future__ import annotations

import copy
import inspect
import multiprocessing
import os
import pickle
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from contract_harness import CROP, Case, assert_contract, folder
from torch.utils.data import (
    BatchSampler,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
)
from torch.utils.data import DataLoader as TorchDataLoader
from torchvision import transforms as v1
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import gpufeed
from gpufeed import ArgumentError, DataLoader, Decode, UnsupportedError

# Wrong in torch as well --------------------------------------------------------------------------------------------

WRONG: dict[str, dict[str, Any]] = {
    "batch_size 0": {"batch_size": 0},
    "batch_size negative": {"batch_size": -3},
    "batch_size bool": {"batch_size": True},
    "batch_size text": {"batch_size": "4"},
    "batch_size float": {"batch_size": 4.0},
    "drop_last int": {"drop_last": 1, "batch_size": 2},
    "drop_last without batches": {"batch_size": None, "drop_last": True},
    "sampler and shuffle": {"sampler": range(3), "shuffle": True},
    "batch_sampler and batch_size": {"batch_sampler": [[1]], "batch_size": 2},
    "batch_sampler and no batch_size": {"batch_sampler": [[1]], "batch_size": None},
    "batch_sampler and shuffle": {"batch_sampler": [[1]], "shuffle": True},
    "batch_sampler and sampler": {"batch_sampler": [[1]], "sampler": range(3)},
    "batch_sampler and drop_last": {"batch_sampler": [[1]], "drop_last": True},
    "num_workers negative": {"num_workers": -1},
    "num_workers None": {"num_workers": None},
    "num_workers text": {"num_workers": "2"},
    "timeout negative": {"timeout": -1},
    "timeout None": {"timeout": None},
    "prefetch_factor negative": {"num_workers": 1, "prefetch_factor": -1},
    "prefetch_factor negative, no workers": {"prefetch_factor": -1},
    "start method unknown": {"num_workers": 1, "multiprocessing_context": "thread"},
    "context of a wrong type": {"num_workers": 1, "multiprocessing_context": 3},
    "generator of a wrong type": {"generator": 3, "shuffle": True},
    "sampler not iterable": {"sampler": 3},
    "batch_sampler not iterable": {"batch_sampler": 3},
    "unknown argument": {"batchsize": 3},
    "keyword-only arguments": {},
}


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("kind", sorted(WRONG))
def test_wrong_arguments_fail_as_in_torch(root: Path, kind: str, seed: int | None) -> None:
    """In torch's class, at the same place: at construction, or at the first batch."""

    if kind == "generator of a wrong type" and seed is not None:
        pytest.skip("with a seed the generator is not read")

    def outcome(loader_class: Any, **ours: Any) -> tuple[str, Exception]:
        positional = [None] * 12 + [2] if kind == "keyword-only arguments" else []
        try:
            loader = loader_class(folder(root), *positional, **WRONG[kind], **ours)
        except Exception as error:
            return "construction", error
        try:
            next(iter(loader))
        except Exception as error:
            return "iteration", error
        raise AssertionError(f"{loader_class} takes {kind}")

    their_place, their_error = outcome(TorchDataLoader)
    our_place, our_error = outcome(DataLoader, seed=seed)
    assert our_place == their_place, our_error
    assert isinstance(our_error, type(their_error)), our_error


def test_no_samples_to_shuffle(root: Path) -> None:
    for arguments in ({}, {"seed": 3}):
        with pytest.raises(ValueError, match="num_samples=0"):
            DataLoader(folder(root, 0), shuffle=True, **arguments)
    with pytest.raises(ValueError, match="num_samples=0"):
        TorchDataLoader(folder(root, 0), shuffle=True)


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


@pytest.mark.parametrize("arguments", [{"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}])
def test_arguments_that_an_iterable_dataset_refuses(arguments: dict[str, Any]) -> None:
    for loader_class in (TorchDataLoader, DataLoader):
        with pytest.raises(ValueError, match="DataLoader with IterableDataset"):
            loader_class(Stream(), **arguments)


ATTRIBUTES = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes_that_torch_guards(root: Path, name: str) -> None:
    for loader_class in (TorchDataLoader, DataLoader):
        loader = loader_class(folder(root))
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"):
            setattr(loader, name, getattr(loader, name))


@pytest.mark.parametrize(("name", "value"), [("seed", 4), ("shuffle", True)])
def test_attributes_that_only_gpufeed_guards(root: Path, name: str, value: object) -> None:
    loader = DataLoader(folder(root), seed=3)
    with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"):
        setattr(loader, name, value)
    assert getattr(loader, name) != value


# Taken here, refused there: the listed exceptions ------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [{"prefetch_factor": 3}, {"persistent_workers": True}, {"multiprocessing_context": "spawn"}, {"timeout": 50}],
)
def test_taken_without_workers(root: Path, arguments: dict[str, Any]) -> None:
    (name, value), *_ = arguments.items()
    with pytest.raises((ValueError, AssertionError), match=r"prefetch_factor|persistent|multi|timeout"):
        next(iter(TorchDataLoader(folder(root), **arguments)))
    loader = DataLoader(folder(root), batch_size=5, **arguments)
    assert len(list(loader)) == 4
    assert loader.num_workers == 0
    assert loader.prefetch_factor == arguments.get("prefetch_factor")
    given = getattr(loader, name)
    assert given == (multiprocessing.get_context("spawn") if name == "multiprocessing_context" else value)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # torch's own, of its half-made iterator
def test_no_batch_in_flight_is_an_error(root: Path) -> None:
    with pytest.raises(ArgumentError, match="prefetch_factor must be at least 1, got 0"):
        DataLoader(folder(root), num_workers=1, prefetch_factor=0)
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
        iter(TorchDataLoader(folder(root), num_workers=1, prefetch_factor=0))


def test_no_warning_about_too_many_workers(root: Path) -> None:
    with pytest.warns(UserWarning, match="will create 1000 worker processes"):
        TorchDataLoader(folder(root), num_workers=1000)
    loader = DataLoader(folder(root), batch_size=2, num_workers=1000, num_threads=2)
    assert len(list(loader)) == 8  # and warnings are errors


# What has no effect, or torch's own --------------------------------------------------------------------------------


def test_in_order_and_worker_init_fn(root: Path) -> None:
    def called(worker: int) -> None:
        raise AssertionError("there are no workers")

    def arguments() -> dict[str, Any]:
        return {"dataset": folder(root), "batch_size": 3, "in_order": False}

    assert_contract(Case(arguments))
    loader = DataLoader(**arguments(), num_workers=2, worker_init_fn=called)
    assert len(list(loader)) == 6
    assert loader.worker_init_fn is called


@pytest.mark.skipif(torch.accelerator.is_available(), reason="torch pins here")
@pytest.mark.parametrize("extra", [{}, {"pin_memory_device": "cuda"}])
def test_pin_memory_without_an_accelerator(root: Path, extra: dict[str, str]) -> None:
    """torch's warnings, in its words and at its moment: at each ``iter()``."""

    def texts(loader_class: Any) -> list[list[str]]:
        loader = loader_class(folder(root), batch_size=8, pin_memory=True, **extra)
        found: list[list[str]] = []
        for _ in range(2):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                batches = list(loader)
            assert len(batches) == 2
            assert not batches[0][0].is_pinned()
            found.append([str(each.message) for each in caught])
            assert {each.category for each in caught} == {UserWarning}
        return found

    theirs = texts(TorchDataLoader)
    assert texts(DataLoader) == theirs
    assert len(theirs[0]) == 1 + len(extra)


def test_warnings_point_at_the_line_that_iterates(root: Path) -> None:
    if torch.accelerator.is_available():
        pytest.skip("torch pins here")
    loader = DataLoader(folder(root), batch_size=8, pin_memory=True, persistent_workers=True)
    for _ in range(2):
        with pytest.warns(UserWarning, match="pinned memory") as caught:
            iter(loader)
        assert caught[0].filename == __file__


# Readable as it was given ------------------------------------------------------------------------------------------


def collate(samples: list[Any]) -> list[Any]:
    return samples


def every_argument(root: Path) -> dict[str, Any]:
    """A value other than the default for each argument that can be combined with the others."""
    return {
        "dataset": folder(root),
        "batch_size": 3,
        "shuffle": True,
        "num_workers": 2,
        "collate_fn": collate,
        "pin_memory": True,
        "drop_last": True,
        "timeout": 5.5,
        "worker_init_fn": print,
        "generator": torch.Generator(),
        "prefetch_factor": 4,
        "persistent_workers": True,
        "pin_memory_device": "cuda",
        "in_order": False,
        "pipeline": CROP,
        "device": "cpu",
        "seed": 7,
        "num_threads": 3,
        "decode": Decode("cpu"),
        "apply_exif": True,
        "strict": True,
        "multiprocessing_context": multiprocessing.get_context("spawn"),
    }


def test_arguments_are_readable_as_given(root: Path) -> None:
    arguments = every_argument(root)
    assert set(arguments) == set(inspect.signature(DataLoader).parameters) - {"sampler", "batch_sampler"}
    loader = DataLoader(**arguments)
    for name, value in arguments.items():
        if name != "device":
            assert getattr(loader, name) is value or getattr(loader, name) == value, name
        if name != "multiprocessing_context":
            assert vars(loader)[name] is value or vars(loader)[name] == value, name
    assert loader.device == "cpu"
    sampler = SequentialSampler(range(3))
    assert DataLoader(folder(root), sampler=sampler).sampler is sampler
    batches = [[1, 2]]
    assert DataLoader(folder(root), batch_sampler=batches).batch_sampler is batches
    assert DataLoader(folder(root), batch_sampler=batches).batch_size is None


def test_defaults_are_readable_as_in_torch(root: Path) -> None:
    for arguments in ({}, {"num_workers": 2}, {"batch_size": None}, {"batch_sampler": [[1]]}, {"shuffle": True}):
        theirs, ours = TorchDataLoader(folder(root), **arguments), DataLoader(folder(root), **arguments)
        for name in inspect.signature(TorchDataLoader).parameters:
            if name != "shuffle":  # torch keeps none
                their_value, our_value = getattr(theirs, name), getattr(ours, name)
                assert type(our_value) is type(their_value), name
                if name not in ("dataset", "sampler", "batch_sampler"):
                    assert our_value == their_value, name
    loader = DataLoader(folder(root))
    assert (loader.shuffle, loader.seed, loader.num_threads, loader.pipeline) == (None, None, None, None)
    assert (loader.device, loader.decode, loader.apply_exif, loader.strict) == ("auto", Decode(), False, False)


def test_the_signature_begins_with_torchs(root: Path) -> None:
    theirs = list(inspect.signature(TorchDataLoader).parameters.values())
    ours = list(inspect.signature(DataLoader).parameters.values())
    assert [(each.name, each.kind, each.default) for each in ours[: len(theirs)]] == [
        (each.name, each.kind, each.default) for each in theirs
    ]
    assert {each.kind for each in ours[len(theirs) :]} == {inspect.Parameter.KEYWORD_ONLY}


def rebuild(loader: Any, sampler: Any) -> Any:
    """How Lightning puts a sampler of its own into a loader that it didn't make."""
    attributes = {name: value for name, value in vars(loader).items() if not name.startswith("_")}
    attributes["multiprocessing_context"] = loader.multiprocessing_context
    parameters = dict(inspect.signature(type(loader).__init__).parameters)
    del parameters["self"]
    changed = {
        name
        for name, parameter in parameters.items()
        if name in attributes and parameter.default is not attributes[name]
    }
    arguments = {name: value for name, value in attributes.items() if name in changed | {"dataset"}}
    if type(loader.batch_sampler) is not BatchSampler and loader.batch_sampler is not None:
        arguments |= {"sampler": None, "batch_size": 1, "drop_last": False}
    else:
        arguments |= {"sampler": sampler, "batch_sampler": None}
    arguments["shuffle"] = False
    return type(loader)(**arguments)


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("used", [False, True])
def test_a_framework_rebuilds_the_loader_with_another_sampler(root: Path, seed: int | None, used: bool) -> None:
    dataset = folder(root)
    loader = DataLoader(
        dataset, batch_size=3, shuffle=True, drop_last=True, num_workers=1, seed=seed, num_threads=1, apply_exif=True
    )
    if used:
        next(iter(loader))
    sampler = DistributedSampler(dataset, num_replicas=2, rank=1)
    again = rebuild(loader, sampler)
    assert type(again) is DataLoader
    assert again.sampler is sampler
    assert (again.batch_size, again.drop_last, again.seed, again.num_threads) == (3, True, seed, 1)
    assert (again.apply_exif, again.prefetch_factor) == (True, 2)
    assert vars(again)["device"] == "auto"
    assert len(list(again)) == 2


def test_a_framework_rebuilds_a_loader_with_a_path(root: Path) -> None:
    loader = DataLoader(root, batch_size=8, pipeline=CROP)
    again = rebuild(loader, SequentialSampler(range(16)))
    assert [batch[1].tolist() for batch in again] == [batch[1].tolist() for batch in loader]


# Copies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epochs_before", [0, 1, 2])
@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda loader: pickle.loads(pickle.dumps(loader))],
    ids=["copy", "deep", "pickle"],
)
def test_copies_go_on_where_the_loader_is(root: Path, duplicate: Callable[[Any], Any], epochs_before: int) -> None:
    dataset = folder(root, 16, v2.Compose([v2.RandomCrop(4), v2.PILToTensor()]))
    loader = DataLoader(dataset, batch_size=5, shuffle=True, seed=9, num_threads=1, persistent_workers=True)
    for _ in range(epochs_before):
        list(loader)
    twin = duplicate(loader)
    assert type(twin) is DataLoader
    assert twin.batch_size == 5
    mine, its = list(loader), list(twin)
    for (images, targets), (twin_images, twin_targets) in zip(mine, its, strict=True):
        assert torch.equal(images, twin_images)
        assert torch.equal(targets, twin_targets)
    assert len(list(twin)) == 4
    assert len(list(loader)) == 4


def test_a_copy_shares_no_threads(root: Path) -> None:
    loader = DataLoader(folder(root), batch_size=5)
    iterator = iter(loader)
    next(iterator)
    copy.copy(loader).close()
    assert len(list(iterator)) == 3


def test_pickling_with_torchs_own_generator(root: Path) -> None:
    loader = DataLoader(folder(root), shuffle=True, generator=torch.Generator().manual_seed(4))
    twin = pickle.loads(pickle.dumps(loader))
    assert [batch[0].sum() for batch in twin] == [batch[0].sum() for batch in loader]


# gpufeed's own arguments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"seed": 1.5}, "seed must be an integer in [-2**63, 2**63), or None, got 1.5"),
        ({"seed": True}, "seed must be an integer in [-2**63, 2**63), or None, got True"),
        ({"seed": 2**63}, "seed must be an integer in [-2**63, 2**63), or None, got 9223372036854775808"),
        ({"num_threads": 0}, "num_threads must be an integer of at least 1, or None, got 0"),
        ({"num_threads": 2.0}, "num_threads must be an integer of at least 1, or None, got 2.0"),
        ({"num_threads": False}, "num_threads must be an integer of at least 1, or None, got False"),
        ({"decode": "cpu"}, "decode must be a gpufeed.Decode, such as Decode(placement='cpu'), got 'cpu'"),
        ({"apply_exif": "yes"}, "apply_exif must be True or False, got 'yes'"),
        ({"decode": None}, "decode must be a gpufeed.Decode, such as Decode(placement='cpu'), got None"),
        ({"device": "gpu"}, "device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got 'gpu'"),
        ({"device": "mps"}, "device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got 'mps': DALI runs on no other"),
        ({"device": None}, "device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got None"),
        ({"device": 1.5}, "device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got 1.5"),
    ],
)
def test_wrong_arguments_of_gpufeeds(root: Path, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        DataLoader(folder(root), **arguments)
    assert str(caught.value) == text
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("epoch", [-1, 1.0, True, None, "1"])
def test_set_epoch_refuses(root: Path, epoch: Any) -> None:
    with pytest.raises(ArgumentError, match=f"epoch must be an integer of at least 0, got {epoch!r}"):
        DataLoader(folder(root)).set_epoch(epoch)


def test_numpy_integers_are_integers(root: Path) -> None:
    loader = DataLoader(folder(root), shuffle=True, seed=np.int64(3), num_threads=np.int32(2))  # type: ignore[arg-type]
    loader.set_epoch(np.int64(1))  # type: ignore[arg-type]
    expected = DataLoader(folder(root), shuffle=True, seed=3)
    expected.set_epoch(1)
    assert [batch[1] for batch in loader] == [batch[1] for batch in expected]


# Datasets and transforms -------------------------------------------------------------------------------------------


class Numbers(Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index

    def __len__(self) -> int:
        return 3


class OwnItems(ImageFolder):
    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return super().__getitem__(index)


class OwnBatches(ImageFolder):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


class OwnSubset(Subset[Any]):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


def own_loader(path: str) -> Any:
    raise AssertionError("never called")


def test_datasets_that_are_refused_name_the_class_and_the_choices(root: Path) -> None:
    patched = folder(root)
    patched.__dict__["__getitem__"] = lambda index: index
    refused: list[tuple[Any, str]] = [
        (Numbers(), "test_contract_arguments.Numbers can't be read by gpufeed"),
        ([1, 2, 3], "builtins.list can't be read by gpufeed"),
        (torch.utils.data.TensorDataset(torch.zeros(3)), "TensorDataset can't be read by gpufeed"),
        (Stream(), "test_contract_arguments.Stream can't be read by gpufeed"),
        (OwnItems(str(root)), "test_contract_arguments.OwnItems overrides DatasetFolder.__getitem__"),
        (OwnBatches(str(root)), "test_contract_arguments.OwnBatches overrides DatasetFolder.__getitems__"),
        (OwnSubset(folder(root), [1]), "test_contract_arguments.OwnSubset overrides Subset.__getitems__"),
        (patched, "ImageFolder overrides DatasetFolder.__getitem__"),
        (folder(root, loader=own_loader), "ImageFolder has loader=own_loader, which gpufeed would not call"),
        (Subset(folder(root, loader=own_loader), [0]), "ImageFolder has loader=own_loader"),
        (torch.utils.data.ConcatDataset([folder(root), Numbers()]), "Numbers can't be read by gpufeed"),
    ]
    for dataset, text in refused:
        with pytest.raises(UnsupportedError) as caught:
            DataLoader(dataset)
        assert text in str(caught.value)
        assert "torch.utils.data.DataLoader" in str(caught.value)
        assert isinstance(caught.value, TypeError)


def test_another_image_backend_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchvision._image_backend", "accimage")
    with pytest.raises(UnsupportedError, match=r"set_image_backend\('PIL'\)"):
        DataLoader(folder(root))


def no_batch(loader: DataLoader) -> pytest.ExceptionInfo[Exception]:
    """The loader can be made, and fails at ``iter()``."""
    with pytest.raises(gpufeed.GpufeedError) as caught:
        iter(loader)
    return caught  # type: ignore[return-value]


def test_a_transform_in_both_places(root: Path) -> None:
    caught = no_batch(DataLoader(folder(root), pipeline=CROP))
    assert isinstance(caught.value, ArgumentError)
    assert "a transform is given twice" in str(caught.value)


def test_a_pipeline_in_place_of_a_transform(root: Path) -> None:
    dataset = folder(root)
    expected = list(DataLoader(dataset, batch_size=5))
    dataset.transform = None
    given = list(DataLoader(dataset, batch_size=5, pipeline=CROP))
    by_path = list(DataLoader(root, batch_size=5, pipeline=CROP))
    by_text = list(DataLoader(str(root), batch_size=5, pipeline=CROP))
    for batches in (given, by_path, by_text):
        for (images, targets), (expected_images, expected_targets) in zip(batches, expected, strict=True):
            assert torch.equal(images, expected_images)
            assert torch.equal(targets, expected_targets)


def test_the_dataset_of_a_path(root: Path) -> None:
    loader = DataLoader(root, pipeline=CROP)
    assert type(loader.dataset) is ImageFolder
    assert loader.dataset.transform is None
    assert loader.pipeline is CROP


def test_a_path_without_a_pipeline(root: Path) -> None:
    with pytest.raises(ArgumentError, match="needs pipeline="):
        DataLoader(root)


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DataLoader(os.fspath(tmp_path / "nothing"), pipeline=CROP)


@pytest.mark.parametrize("transform", [v2.CenterCrop(4), v1.Compose([]), v2.Identity()])
def test_a_transform_that_ends_in_no_tensor(root: Path, transform: Any) -> None:
    caught = no_batch(DataLoader(folder(root, 16, transform)))
    assert isinstance(caught.value, UnsupportedError)
    assert "the transform must end in a tensor" in str(caught.value)
    assert "ToTensor()" in str(caught.value)


def test_no_transform_at_all(root: Path) -> None:
    dataset = ImageFolder(str(root))
    assert "must end in a tensor" in str(no_batch(DataLoader(dataset)).value)
    with pytest.raises(TypeError):  # as torch's default_collate
        next(iter(TorchDataLoader(dataset)))


def test_a_transform_that_cannot_be_translated(root: Path) -> None:
    caught = no_batch(DataLoader(folder(root, 16, v1.Compose([v1.Lambda(abs), v1.ToTensor()]))))
    assert isinstance(caught.value, UnsupportedError)
    assert "Lambda" in str(caught.value)


def test_different_transforms_in_one_tree(root: Path) -> None:
    other = folder(root, 16, v2.Compose([v2.CenterCrop(6), v2.PILToTensor()]))
    caught = no_batch(DataLoader(torch.utils.data.ConcatDataset([folder(root), other])))
    assert "have 2 different transforms" in str(caught.value)
    equal = folder(root, 16, v2.Compose([v2.CenterCrop(8), v2.PILToTensor()]))
    assert len(list(DataLoader(torch.utils.data.ConcatDataset([folder(root), equal]), batch_size=8))) == 4


def test_the_loader_stays_usable_after_a_refusal(root: Path) -> None:
    dataset = folder(root, 16, v2.CenterCrop(4))
    loader = DataLoader(dataset, batch_size=8, sampler=RandomSampler(dataset))
    no_batch(loader)
    dataset.transform = CROP
    assert len(list(loader)) == 2
