"""What only a CUDA device can show: the loader's batches there, their bounds, and their life on streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms as v1
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from gpufeed import DataLoader, Decode, SampleError

pytestmark = pytest.mark.gpu

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SCALE_255 = torch.tensor(STD).view(1, 3, 1, 1) * 255
TO_FLOAT = v2.ToDtype(torch.float32, scale=True)

# The bounds are those that gpufeed.placement states as expected: decoding on the GPU differs from libjpeg-turbo by a
# few values, DALI's resize repeats edge pixels where Pillow renormalises. Mean over the batch, in 1/255.
TRANSFORMS: dict[str, tuple[Any, float]] = {
    "train": (
        v1.Compose([v1.RandomResizedCrop(96), v1.RandomHorizontalFlip(), v1.ToTensor(), v1.Normalize(MEAN, STD)]),
        1.5,
    ),
    "eval": (v2.Compose([v2.Resize(120), v2.CenterCrop(96), v2.ToImage(), TO_FLOAT, v2.Normalize(MEAN, STD)]), 1.5),
    "tensor": (v2.Compose([v2.ToImage(), v2.Resize((96, 80)), TO_FLOAT, v2.Normalize(MEAN, STD)]), 1.5),
    "tail": (
        v2.Compose(
            [v2.Pad(7, padding_mode="reflect"), v2.RandomCrop(90), v2.RandomGrayscale(0.5), v2.ToImage(), TO_FLOAT]
        ),
        1.5,
    ),
    "larger than the image": (v2.Compose([v2.CenterCrop((700, 300)), v2.ToImage(), TO_FLOAT]), 1.5),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for number in range(40):
        (root / f"class{number % 3}").mkdir(exist_ok=True)
        height, width = (int(value) for value in rng.integers(100, 500, 2))
        y, x = np.mgrid[0:height, 0:width]
        pixels = np.stack([127 + 100 * np.sin(x / (9 + c) + y / (17 + number)) for c in range(3)], axis=-1)
        Image.fromarray(pixels.astype(np.uint8)).save(root / f"class{number % 3}" / f"{number:02d}.jpg", quality=92)
    return root


def batches(folder: Path, transform: Any, device: str, **arguments: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    with DataLoader(ImageFolder(str(folder), transform), batch_size=7, seed=5, device=device, **arguments) as loader:
        return [(images, targets) for images, targets in loader]


@pytest.mark.parametrize("decode", [Decode(), Decode("cpu")], ids=["mixed", "cpu"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_batches_are_those_of_the_cpu_within_the_bound(folder: Path, name: str, decode: Decode) -> None:
    transform, bound = TRANSFORMS[name]
    on_gpu = batches(folder, transform, "cuda", decode=decode)
    on_cpu = batches(folder, transform, "cpu")
    assert len(on_gpu) == len(on_cpu)
    scale = SCALE_255 if name in ("train", "eval", "tensor") else 255
    for (images, targets), (wanted, wanted_targets) in zip(on_gpu, on_cpu, strict=True):
        assert images.is_cuda
        assert targets.is_cuda
        assert images.shape == wanted.shape
        assert images.dtype == wanted.dtype
        assert torch.equal(targets.cpu(), wanted_targets)
        assert ((images.cpu() - wanted).abs() * scale).mean() <= bound


def test_a_batch_never_changes_after_it_was_handed_over(folder: Path) -> None:
    with DataLoader(ImageFolder(str(folder), TRANSFORMS["train"][0]), batch_size=5, seed=1, device="cuda") as loader:
        kept = [(images, images.clone()) for _ in range(3) for images, _ in loader]
        torch.cuda.synchronize()
        assert all(torch.equal(images, copy) for images, copy in kept)


def test_batches_may_be_used_on_another_stream_and_dropped_at_once(folder: Path) -> None:
    transform = TRANSFORMS["train"][0]
    wanted = [images.double().sum().item() for images, _ in batches(folder, transform, "cuda")]
    stream = torch.cuda.Stream()
    sums: list[torch.Tensor] = []
    with (
        DataLoader(ImageFolder(str(folder), transform), batch_size=7, seed=5, device="cuda") as loader,
        torch.cuda.stream(stream),
    ):
        for images, _ in loader:
            torch.cuda._sleep(20_000_000)  # the sum starts long after the next batches were written
            sums.append(images.double().sum())
            del images
    assert [value.item() for value in sums] == pytest.approx(wanted, rel=1e-9)


def test_auto_finds_the_device_and_construction_does_not_touch_it(folder: Path) -> None:
    loader = DataLoader(ImageFolder(str(folder), TRANSFORMS["eval"][0]), batch_size=4)
    assert loader.device == "auto"
    next(iter(loader))
    assert loader.device == torch.device("cuda", torch.cuda.current_device())
    loader.close()


def test_a_bad_file_is_named_and_the_loader_stays_usable(folder: Path, tmp_path: Path) -> None:
    dataset = ImageFolder(str(folder), TRANSFORMS["train"][0])
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(Path(dataset.samples[9][0]).read_bytes()[:300])
    good = dataset.samples[9]
    dataset.samples[9] = (str(bad), 0)
    with DataLoader(dataset, batch_size=4, device="cuda") as loader:
        iterator = iter(loader)
        assert [len(next(iterator)[0]) for _ in range(2)] == [4, 4]
        with pytest.raises(SampleError, match=r"bad\.jpg"):
            next(iterator)
        dataset.samples[9] = good
        assert sum(len(images) for images, _ in loader) == len(dataset)


def test_images_of_unequal_size_come_as_views_for_collate_fn(folder: Path) -> None:
    transform = v2.Compose([v2.Resize(64), v2.ToImage(), TO_FLOAT])
    on_gpu = batches(folder, transform, "cuda", collate_fn=lambda samples: [tuple(s) for s in samples][:2])
    assert all(image.is_cuda for batch in on_gpu for image, _ in batch)  # type: ignore[union-attr]
