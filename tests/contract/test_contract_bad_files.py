"""Files that can't be read or decoded: named, with the cause; what was good before has arrived; the loader goes on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from contract_harness import folder
from PIL import Image
from torch.utils.data import ConcatDataset, Subset
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from gpufeed import DataLoader, GpufeedError, SampleError
from gpufeed.graph.decoding import DecodeGraph
from gpufeed.graph.reading import ReadGraph

BATCH = 4


def missing(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])


def cut_to_the_signature(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:8])


def text(path: Path) -> None:
    path.write_text("This is no image at all, whatever its name says.\n")


def gif(path: Path) -> None:
    Image.new("P", (20, 20), 3).save(path, format="GIF")


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def sixteen_bits(path: Path) -> None:
    Image.new("I;16", (20, 20), 3000).save(path, format="PNG")


def one_byte(path: Path) -> None:
    path.write_bytes(b"\xff")


DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (missing, "No such file or directory"),
    "empty": (empty, "the file is empty"),
    "cut short": (cut_short, "it is damaged or cut short: DALI can't decode this"),
    "cut to the signature": (cut_to_the_signature, "it is damaged or cut short: DALI can't decode this"),
    "text": (text, "it is no image that DALI knows: it begins with b'This is no i'"),
    "one byte": (one_byte, "it is no image that DALI knows: it begins with b'\\xff'"),
    "GIF": (gif, "it is GIF, whatever its name says, and DALI doesn't decode that"),
    "directory": (directory, "Is a directory"),
    "16 bits": (sixteen_bits, "it has more than 8 bits per channel"),
}


NAMES = [f"class{number // 4}/{number:02}.{'jpg' if number % 2 else 'png'}" for number in range(16)]


def files(root: Path, count: int = 16, transform: Any = None) -> ImageFolder:
    """The folder as it was before any of its files was lost."""
    dataset = folder(root, count, transform)
    dataset.samples = [(str(root / name), number // 4) for number, name in enumerate(NAMES[:count])]
    return dataset


def loader_of(root: Path, **arguments: Any) -> DataLoader:
    return DataLoader(files(root), **{"batch_size": BATCH, "num_threads": 2, **arguments})


def path_of(root: Path, index: int) -> Path:
    return root / NAMES[index]


def run(loader: DataLoader) -> tuple[list[torch.Tensor], SampleError | None]:
    """The batches of an epoch, and the error that ended it."""
    batches: list[torch.Tensor] = []
    iterator = iter(loader)
    try:
        batches.extend(images for images, _ in iterator)
    except SampleError as error:
        with pytest.raises(StopIteration):
            next(iterator)
        return batches, error
    return batches, None


def assert_equal(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    assert len(found) == len(expected)
    for images, wanted in zip(found, expected, strict=True):
        assert torch.equal(images, wanted)


@pytest.mark.parametrize("index", [0, 1, 7, 8, 14], ids="sample {}".format)
@pytest.mark.parametrize("kind", sorted(DAMAGE))
def test_a_bad_file_is_named_and_the_loader_goes_on(root: Path, own_root: Path, kind: str, index: int) -> None:
    expected, _ = run(loader_of(root))
    damage, cause = DAMAGE[kind]
    path = path_of(own_root, index)
    damage(path)
    loader = loader_of(own_root)
    for _ in range(2):  # the same again, as long as the file is bad
        batches, error = run(loader)
        assert_equal(batches, expected[: index // BATCH])
        assert isinstance(error, SampleError)
        assert (error.index, error.name) == (index, str(path))
        assert cause in error.cause
        assert str(error).startswith(f"sample {index} ({path}) could not be loaded: {error.cause}")
        assert isinstance(error, GpufeedError)
        assert isinstance(error, RuntimeError)
    if path.is_dir():
        path.rmdir()
    shutil.copy(path_of(root, index), path)
    assert_equal(run(loader)[0], expected)


@pytest.mark.parametrize("prefetch_factor", [1, 2, 4])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_several_bad_files_in_flight(root: Path, own_root: Path, prefetch_factor: int, num_workers: int) -> None:
    expected, _ = run(loader_of(root))
    for index, damage in ((6, text), (5, missing), (9, empty), (15, cut_to_the_signature)):
        damage(path_of(own_root, index))
    loader = loader_of(own_root, prefetch_factor=prefetch_factor, num_workers=num_workers)
    for first_bad in (5, 6, 9, 15):
        batches, error = run(loader)
        assert error is not None
        assert error.index == first_bad
        assert_equal(batches, expected[: first_bad // BATCH])
        shutil.copy(path_of(root, first_bad), path_of(own_root, first_bad))
    assert_equal(run(loader)[0], expected)


@pytest.mark.parametrize("damage", [missing, empty, cut_to_the_signature, text, gif])
def test_good_batches_behind_a_bad_one_are_not_mixed_up(root: Path, own_root: Path, damage: Any) -> None:
    """The next batches must get their own bytes and windows, and none that are left over."""
    damage(path_of(own_root, 0))
    expected = torch.cat(run(loader_of(root))[0])
    order = list(range(16))
    loader = loader_of(own_root, batch_size=1, sampler=order, prefetch_factor=4)
    for _ in range(3):
        assert run(loader)[1] is not None  # the jobs behind were in flight, and may have been read and decoded
        order.remove(0)
        batches, error = run(loader)
        assert error is None
        assert torch.equal(torch.cat(batches), expected[1:])
        order.insert(0, 0)


@pytest.mark.parametrize("batch_size", [None, 1, 16, 20])
def test_any_batch_size(own_root: Path, batch_size: int | None) -> None:
    empty(path_of(own_root, 11))
    _, error = run(loader_of(own_root, batch_size=batch_size))
    assert error is not None
    assert error.index == 11


def test_the_index_is_that_of_the_loaders_dataset(own_root: Path) -> None:
    empty(path_of(own_root, 11))
    dataset = ConcatDataset([files(own_root, 3), Subset(files(own_root), [2, 11])])
    _, error = run(DataLoader(dataset, batch_size=2, sampler=[-1, 0]))
    assert error is not None
    assert (error.index, error.name) == (4, str(path_of(own_root, 11)))


def test_a_window_that_does_not_fit(root: Path) -> None:
    dataset = files(root, 16, v2.Compose([v2.RandomCrop((12, 9)), v2.PILToTensor()]))
    batches, error = run(DataLoader(dataset, batch_size=2, sampler=[15, 14, 0, 13]))
    assert len(batches) == 1
    assert error is not None
    assert (error.index, error.name) == (0, str(path_of(root, 0)))
    assert "required crop size (12, 9) is larger than the image (9x11" in error.cause
    with pytest.raises(ValueError, match="larger than"):  # torch's
        dataset[0]


def test_damage_below_the_window_is_not_seen(tmp_path: Path) -> None:
    """A listed exception: torch decodes the whole file and fails."""
    (tmp_path / "class").mkdir()
    path = tmp_path / "class" / "image.jpg"
    Image.effect_noise((320, 640), 60).convert("RGB").save(path, quality=90)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 4])
    top = v2.Compose([v2.CenterCrop((200, 320)), v2.PILToTensor()])
    with pytest.raises(OSError, match="truncated"):
        folder(tmp_path, 1, top)[0]
    ((images, _),) = DataLoader(folder(tmp_path, 1, top))
    assert images.shape == (1, 3, 200, 320)
    _, error = run(DataLoader(folder(tmp_path, 1, v2.PILToTensor())))
    assert error is not None
    assert "damaged or cut short" in error.cause


@pytest.mark.skipif(os.getuid() == 0, reason="root may read every file")
def test_a_file_without_permission(own_root: Path) -> None:
    path_of(own_root, 2).chmod(0)
    _, error = run(loader_of(own_root))
    assert error is not None
    assert "Permission denied" in error.cause


# Failures that are no sample's -------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", [(ReadGraph, "read"), (DecodeGraph, "schedule"), (DecodeGraph, "result")])
@pytest.mark.parametrize("error", [RuntimeError, MemoryError])
def test_a_failure_for_a_moment(
    root: Path, monkeypatch: pytest.MonkeyPatch, which: tuple[type, str], error: type[Exception]
) -> None:
    """DALI's RuntimeErrors: no sample is to blame, so the batch is done again. Others are handed on."""
    expected, _ = run(loader_of(root))
    method = getattr(*which)
    calls: list[int] = []

    def fails_once(graph: Any, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            if which[1] == "schedule":  # one input is fed, and never taken by a run
                graph._pipe.feed_input("content", arguments[0].content)
            elif which[1] == "read":
                graph._pipe.feed_input("paths", arguments[0].matrix)
            else:
                method(graph)
            raise error("for a moment")
        return method(graph, *arguments)

    monkeypatch.setattr(*which, fails_once)
    loader = loader_of(root, batch_size=2)
    if error is RuntimeError:
        batches, ended = run(loader)
        assert ended is None
        assert torch.equal(torch.cat(batches), torch.cat(expected))
    else:
        iterator = iter(loader)
        batches = [next(iterator)[0] for _ in range(2)]
        with pytest.raises(MemoryError):
            next(iterator)
        with pytest.raises(StopIteration):
            next(iterator)
        assert torch.equal(torch.cat(batches), torch.cat(expected)[:4])
    assert torch.equal(torch.cat(run(loader)[0]), torch.cat(expected))
    assert len(calls) > 8


def test_a_failure_that_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(graph: Any) -> Any:
        if graph._pipe.max_batch_size > 1:  # not where single samples are looked at
            graph._pipe.outputs()
            raise RuntimeError("DALI is out of order")
        return result(graph)

    result = DecodeGraph.result
    loader = loader_of(root)
    with monkeypatch.context() as patch:
        patch.setattr(DecodeGraph, "result", fails)
        with pytest.raises(RuntimeError, match="DALI is out of order") as caught:
            next(iter(loader))
        assert not isinstance(caught.value, SampleError)
    assert len(run(loader)[0]) == 4


def test_a_tail_that_fails(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpufeed.tail import Tail

    run_into = Tail.run_into
    loader = loader_of(root, batch_size=8)
    with monkeypatch.context() as patch:

        def fails(tail: Tail, out: torch.Tensor, images: Any, parameters: Any, first_row: int) -> None:
            if first_row >= 4:
                raise FloatingPointError(first_row)
            run_into(tail, out, images, parameters, first_row)

        patch.setattr(Tail, "run_into", fails)
        with pytest.raises(FloatingPointError):
            next(iter(loader))
    assert len(run(loader)[0]) == 2


def test_no_memory_for_the_batch(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpufeed.tensors import BatchMemory

    def none(memory: BatchMemory, shape: Any, dtype: Any) -> torch.Tensor:
        raise MemoryError(shape)

    loader = loader_of(root, batch_size=8)
    with monkeypatch.context() as patch:
        patch.setattr(BatchMemory, "take", none)
        with pytest.raises(MemoryError):
            next(iter(loader))
    assert len(run(loader)[0]) == 2


def test_no_thread_to_start(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    start = threading.Thread.start

    def none(thread: threading.Thread) -> None:
        if thread.name.startswith("gpufeed"):
            raise RuntimeError("can't start new thread")
        start(thread)

    loader = loader_of(root, batch_size=8)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            iter(loader)
    assert len(run(loader)[0]) == 2
