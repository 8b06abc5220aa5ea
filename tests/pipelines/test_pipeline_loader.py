"""The loader with a pipeline: what it yields, equal to torchvision and to itself whatever the batch size."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from nvidia.dali import fn
from PIL import Image
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import gpufeed
from gpufeed import DataLoader, ops
from gpufeed.errors import ArgumentError, PipelineError, SampleError, UnsupportedError


class Pair(NamedTuple):
    image: Any
    target: Any


@gpufeed.pipeline
def usual(sample, *, size: int = 40):
    image = ops.apply(v2.RandomHorizontalFlip(), sample.random_resized_crop(size), sample)
    return ops.normalize(image), sample.target


def usual_transform(size: int = 40) -> v2.Compose:
    return v2.Compose(
        [
            v2.RandomResizedCrop(size),
            v2.RandomHorizontalFlip(),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(ops.IMAGENET_MEAN, ops.IMAGENET_STD),
        ]
    )


@gpufeed.pipeline
def turned(sample, *, size: int = 40):
    image = sample.random_resized_crop(size)
    image = fn.rotate(image, angle=sample.uniform(-15, 15), keep_size=True, fill_value=0)
    return ops.normalize(image), sample.target


@gpufeed.pipeline
def everything(sample):
    """Every kind of output, nested."""
    image = sample.decode()
    draws = {
        "uniform": sample.uniform(-1, 1, shape=(2, 3)),
        "normal": sample.normal(5, 2),
        "coin": sample.coin(0.3),
        "choice": sample.choice([0.5, 1.5]),
        "integers": sample.integers(-3, 3, shape=4),
        "permutation": sample.permutation(5),
    }
    other = sample.others(2)[1]
    return (
        Pair(image, sample.target),
        [sample.index, sample.size_hw],
        draws,
        (other.index, other.target, other.center_crop(9)),
    )


def batches(pipeline: Any, root: Path, **options: Any) -> list[Any]:
    options = {"batch_size": 7, "device": "cpu", "seed": 3, "shuffle": True} | options
    with DataLoader(str(root), pipeline=pipeline, **options) as loader:
        return list(loader)


def samples(pipeline: Any, root: Path, **options: Any) -> list[Any]:
    """Every sample of an epoch as it is, in order."""
    return [one for batch in batches(pipeline, root, collate_fn=list, **options) for one in batch]


def opened(file: Path) -> Image.Image:
    with Image.open(file) as image:
        return image.convert("RGB")


def flat(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from flat(item)
    else:
        yield value


def assert_same_samples(first: list[Any], second: list[Any]) -> None:
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        for x, y in zip(flat(a), flat(b), strict=True):
            assert torch.equal(x, y)


def test_a_pipeline_that_does_what_a_transform_does_gives_the_transforms_bits(folder: Path) -> None:
    dataset = ImageFolder(str(folder), transform=usual_transform())
    with DataLoader(dataset, batch_size=7, device="cpu", seed=3, shuffle=True) as loader:
        expected = list(loader)
    found = batches(usual, folder)
    assert len(found) == len(expected) == 4
    for (images, targets), (theirs, their_targets) in zip(found, expected, strict=True):
        assert torch.equal(images, theirs)
        assert torch.equal(targets, their_targets)


def test_draws_and_the_operators_argument_are_those_of_the_same_torchvision_transform(folder: Path) -> None:
    @gpufeed.pipeline
    def angle(sample):
        sample.random_resized_crop(40)
        return sample.uniform(-15, 15)

    transform = v2.Compose([v2.RandomResizedCrop(40), v2.RandomRotation(15), v2.PILToTensor()])
    plan = gpufeed.translate(transform).require()
    from gpufeed.draws import Draws, epoch_key
    from gpufeed.parameters import draw_parameters

    drawn = batches(angle, folder, shuffle=False, batch_size=24)[0]
    draws = Draws(epoch_key(3, 0), np.arange(24), np.zeros(24, dtype=np.int64))
    parameters = draw_parameters(plan, np.full((24, 2), 100), draws)
    assert torch.allclose(drawn, torch.from_numpy(np.asarray(parameters.values[2])).float().reshape(drawn.shape))


@pytest.mark.parametrize("pipeline", [usual, turned, everything], ids=str)
def test_batch_size_and_threads_change_nothing(folder: Path, pipeline: gpufeed.Pipeline) -> None:
    first = samples(pipeline, folder, batch_size=7, num_threads=1)
    assert_same_samples(first, samples(pipeline, folder, batch_size=24, num_threads=3))
    assert_same_samples(first, samples(pipeline, folder, batch_size=1, num_threads=2))


def test_epochs_and_seeds_change_the_draws(folder: Path) -> None:
    with DataLoader(str(folder), pipeline=usual, batch_size=24, device="cpu", seed=3) as loader:
        first, second = (next(iter(loader))[0] for _ in range(2))
        loader.set_epoch(0)
        again = next(iter(loader))[0]
    assert not torch.equal(first, second)
    assert torch.equal(first, again)
    assert not torch.equal(first, batches(usual, folder, seed=4, batch_size=24, shuffle=False)[0][0])


def test_the_structure_is_the_functions_own(folder: Path) -> None:
    pair, listed, draws, other = batches(everything, folder, shuffle=False)[1]
    assert isinstance(pair, Pair)
    assert isinstance(listed, list)
    files = sorted(folder.glob("*/*.jpg"))[7:14]
    for image, file in zip(pair.image, files, strict=True):
        assert torch.equal(image, torch.from_numpy(np.array(opened(file))))
    assert pair.target.tolist() == [int(file.parent.name[-1]) for file in files]
    assert listed[0].tolist() == list(range(7, 14))
    assert [tuple(size) for size in listed[1].tolist()] == [opened(file).size[::-1] for file in files]
    expected = {
        "uniform": ((7, 2, 3), torch.float32),
        "normal": ((7,), torch.float32),
        "coin": ((7,), torch.int32),
        "choice": ((7,), torch.float32),
        "integers": ((7, 4), torch.int32),
        "permutation": ((7, 5), torch.int32),
    }
    assert {name: (tuple(drawn.shape), drawn.dtype) for name, drawn in draws.items()} == expected
    assert sorted(draws["permutation"][0].tolist()) == list(range(5))
    index, target, crop = other
    everyone = sorted(folder.glob("*/*.jpg"))
    for row in range(7):
        file = everyone[int(index[row])]
        assert int(target[row]) == int(file.parent.name[-1])
        theirs = v2.functional.center_crop(opened(file), [9, 9])
        assert torch.equal(crop[row], torch.from_numpy(np.array(theirs)))


def test_draws_have_their_distributions(folder: Path) -> None:
    @gpufeed.pipeline
    def draws(sample):
        return (
            sample.uniform(2, 4),
            sample.normal(1, 3),
            sample.coin(0.25),
            sample.choice([1, 2, 7], p=[1, 0, 3]),
            sample.integers(0, 4),
        )

    with DataLoader(str(folder), pipeline=draws, batch_size=24, device="cpu", seed=0) as loader:
        drawn = [torch.cat(column) for column in zip(*(batch for _ in range(200) for batch in loader), strict=True)]
    uniform, normal, coin, choice, integers = (column.double() for column in drawn)
    assert 2 <= uniform.min() < 2.01
    assert 3.99 < uniform.max() < 4
    assert abs(normal.mean() - 1) < 0.15
    assert abs(normal.std() - 3) < 0.15
    assert abs(coin.mean() - 0.25) < 0.03
    assert set(choice.tolist()) == {1, 7}
    assert abs((choice == 7).double().mean() - 0.75) < 0.03
    assert torch.bincount(integers.long()).min() > 1000


def test_two_images_of_a_sample_share_one_decoding_and_are_those_of_two_loaders(folder: Path) -> None:
    @gpufeed.pipeline
    def two(sample):
        return sample.random_resized_crop(32), sample.center_crop(50), sample.random_resized_crop((20, 30))

    @gpufeed.pipeline
    def last(sample):
        for _ in range(3):  # as many numbers as the images before take
            sample.uniform()
        return sample.random_resized_crop((20, 30))

    both = samples(two, folder)
    for (first, _, third), alone, second in zip(
        both, samples(gpufeed.pipeline(_crop32), folder), samples(last, folder), strict=True
    ):
        assert torch.equal(first, alone)
        assert torch.equal(third, second)
    files = sorted(folder.glob("*/*.jpg"))
    in_order = samples(two, folder, shuffle=False)
    for (_, center, _), file in zip(in_order, files, strict=True):
        expected = v2.functional.center_crop(opened(file), [50, 50])
        assert torch.equal(center, torch.from_numpy(np.array(expected)))


def _crop32(sample):
    return sample.random_resized_crop(32)


def test_ragged_and_padded_outputs(folder: Path) -> None:
    @gpufeed.pipeline
    def outputs(sample):
        crop = sample.center_crop(16)
        return (
            ops.ragged(crop),
            ops.pad(sample.decode(), fill=7),
            ops.pad(crop, length=10),
            ops.pad(crop, fill=1, length=20),
        )

    crops, (padded, lengths), (cut, cut_lengths), (filled, filled_lengths) = batches(outputs, folder, batch_size=24)[0]
    assert isinstance(crops, list)
    assert all(crop.shape == (16, 16, 3) for crop in crops)
    assert isinstance(padded, list), "the widths differ"
    assert {image.shape[0] for image in padded} == {131}
    for image, length in zip(padded, lengths.tolist(), strict=True):
        assert (image[length:] == 7).all()
    assert cut.shape == (24, 10, 16, 3)
    assert cut_lengths.tolist() == [10] * 24
    assert filled.shape == (24, 20, 16, 3)
    assert filled_lengths.tolist() == [16] * 24
    assert (filled[:, 16:] == 1).all()


def test_images_are_uint8_rows_of_pixels_and_chw_on_demand(folder: Path) -> None:
    @gpufeed.pipeline
    def both(sample):
        image = sample.center_crop(20)
        return image, ops.to_chw(image), ops.to_chw(fn.brightness(image, brightness=1.0))

    image, planes, through = batches(both, folder)[0]
    assert image.dtype == planes.dtype == torch.uint8
    assert torch.equal(image.permute(0, 3, 1, 2), planes)
    assert torch.equal(through, planes)


def test_normalizing_after_an_operator_of_dalis_is_within_a_millionth(folder: Path) -> None:
    @gpufeed.pipeline
    def both(sample):
        image = sample.center_crop(30)
        return ops.normalize(image), ops.normalize(fn.brightness(image, brightness=1.0))

    exact, by_dali = batches(both, folder, batch_size=24)[0]
    assert (exact - by_dali).abs().max() < 1e-6


@pytest.mark.parametrize(
    "transform",
    [v2.RandomHorizontalFlip(), v2.RandomVerticalFlip(0.7), v2.CenterCrop(21), v2.CenterCrop((50, 20))],
    ids=lambda transform: type(transform).__name__,
)
def test_transforms_after_an_operator_of_dalis_are_those_before_it(folder: Path, transform: Any) -> None:
    @gpufeed.pipeline
    def before(sample):
        return fn.brightness(ops.apply(transform, sample.center_crop(32), sample), brightness=1.0)

    @gpufeed.pipeline
    def after(sample):
        return ops.apply(transform, fn.brightness(sample.center_crop(32), brightness=1.0), sample)

    assert_same_samples(samples(before, folder), samples(after, folder))


def test_a_transform_that_belongs_into_the_tail_is_refused_by_name(folder: Path) -> None:
    @gpufeed.pipeline
    def jittered(sample):
        return ops.apply(v2.Compose([v2.CenterCrop(32), v2.ColorJitter(0.4)]), sample.decode(), sample)

    with pytest.raises(PipelineError, match=r"ColorJitter isn't among what DALI does.*tail"):
        batches(jittered, folder)


# Tails ----------------------------------------------------------------------------------------------------------------


@gpufeed.pipeline
def jittered(sample, *, size: int = 40):
    return ops.to_chw(sample.random_resized_crop(size)), sample.target


@jittered.tail
def jittered_tail(images, target, *, samples, size):
    assert images.shape[-1] == size
    colour = v2.Compose([v2.ColorJitter(0.4, 0.4, 0.4, 0.1), v2.RandomGrayscale(0.3), v2.GaussianBlur(5)])
    images = ops.apply(colour, images, samples)
    return {"images": images, "target": target, "weight": samples.uniform(1, 2), "order": samples.permutation(3)}


def test_a_tail_draws_on_where_the_pipeline_stopped(folder: Path) -> None:
    transform = v2.Compose(
        [
            v2.RandomResizedCrop(40),
            v2.ToImage(),
            v2.ColorJitter(0.4, 0.4, 0.4, 0.1),
            v2.RandomGrayscale(0.3),
            v2.GaussianBlur(5),
        ]
    )
    dataset = ImageFolder(str(folder), transform=transform)
    with DataLoader(dataset, batch_size=7, device="cpu", seed=3, shuffle=True) as loader:
        expected = list(loader)
    for batch, (images, targets) in zip(batches(jittered, folder), expected, strict=True):
        assert torch.equal(batch["images"], images)
        assert torch.equal(batch["target"], targets)
        assert batch["weight"].dtype == torch.float32
        assert batch["order"].shape == (len(targets), 3)


def test_a_tail_changes_nothing_with_batch_size_and_threads(folder: Path) -> None:
    first = samples(jittered, folder, batch_size=7, num_threads=1)
    assert_same_samples(first, samples(jittered, folder, batch_size=24, num_threads=3))


def test_a_tail_gets_a_dict_by_name_and_lists_as_lists(folder: Path) -> None:
    @gpufeed.pipeline
    def named(sample):
        return {"image": sample.decode(), "index": sample.index}

    @named.tail
    def tail(*, image, index):
        return [one.float().mean() for one in image], index * 2

    means, doubled = batches(named, folder, shuffle=False)[0]
    assert isinstance(means, list)
    assert len(means) == 7
    assert doubled.tolist() == [0, 2, 4, 6, 8, 10, 12]


def test_a_tail_applies_to_lists_of_unequal_images(folder: Path) -> None:
    @gpufeed.pipeline
    def whole(sample):
        return ops.to_chw(sample.decode()), sample.target

    @whole.tail
    def tail(images, target, *, samples):
        return ops.apply(v2.RandomInvert(0.5), images, samples), target

    dataset = ImageFolder(str(folder), transform=v2.Compose([v2.ToImage(), v2.RandomInvert(0.5)]))
    with DataLoader(dataset, batch_size=1, device="cpu", seed=3) as loader:
        expected = [images[0] for images, _ in loader]
    found = [image for batch in batches(whole, folder, shuffle=False) for image in batch[0]]
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_the_pil_arithmetic_can_be_asked_for_in_a_tail(folder: Path) -> None:
    @gpufeed.pipeline
    def grey(sample):
        return ops.to_chw(sample.center_crop(24))

    @grey.tail
    def tail(images, *, samples):
        return ops.apply(v2.RandomAdjustSharpness(2, 1.0), images, samples, container="pil")

    found = torch.cat(batches(grey, folder, shuffle=False))
    for image, file in zip(found, sorted(folder.glob("*/*.jpg")), strict=True):
        theirs = v2.functional.adjust_sharpness(v2.functional.center_crop(opened(file), [24, 24]), 2)
        assert torch.equal(image, v2.functional.pil_to_tensor(theirs))


# The loader's contract ------------------------------------------------------------------------------------------------


def test_parameters_of_the_pipeline(folder: Path) -> None:
    assert batches(usual(size=24), folder)[0][0].shape == (7, 3, 24, 24)
    with pytest.raises(ArgumentError, match=r"no parameter 'sise'; did you mean size\?"):
        usual(sise=24)


def test_names_and_files(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "study.py"
    file.write_text(
        "import gpufeed\n\n@gpufeed.pipeline\ndef train(sample, *, size: int = 16):\n"
        "    return sample.center_crop(size), sample.target\n"
    )
    for name in (f"{file}:train", str(file)):
        assert batches(name, folder)[0][0].shape == (7, 16, 16, 3)


def test_a_loader_with_a_pipeline_can_be_pickled(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "study.py"
    file.write_text(
        "import gpufeed\n\n@gpufeed.pipeline\n"
        "def train(sample, *, size: int = 16):\n    return sample.center_crop(size)\n"
    )
    from gpufeed.pipelines import load_pipeline

    for pipeline in (str(file), load_pipeline(str(file))(size=12), usual(size=20)):
        loader = DataLoader(str(folder), pipeline=pipeline, batch_size=24, device="cpu", seed=1)
        again = pickle.loads(pickle.dumps(loader))
        with loader, again:
            assert_same_samples([next(iter(loader))], [next(iter(again))])


def test_without_a_batch_size_samples_come_as_they_are(folder: Path) -> None:
    pair, listed, _, _ = next(iter(batches(everything, folder, batch_size=None, shuffle=False)))
    assert isinstance(pair, Pair)
    assert pair.image.shape == (61, 83, 3)
    assert listed[0] == 0


def test_a_path_is_opened_as_the_module_says(folder: Path) -> None:
    @gpufeed.pipeline
    def some(sample):
        return sample.index

    @some.source
    def source(root):
        return torch.utils.data.Subset(ImageFolder(root), [3, 5])

    assert len(batches(some, folder)[0]) == 2


def test_a_bad_file_is_named_even_if_another_sample_drew_it(folder: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(folder, tmp_path / "copy")
    bad = sorted((tmp_path / "copy").glob("*/*.jpg"))[5]
    bad.write_bytes(bad.read_bytes()[:300])

    @gpufeed.pipeline
    def mixed(sample):
        other = sample.others(1)[0]
        return sample.center_crop(16), other.center_crop(16)

    with DataLoader(str(tmp_path / "copy"), pipeline=mixed, batch_size=24, device="cpu", seed=3) as loader:
        with pytest.raises(SampleError, match="is damaged or cut short") as caught:
            next(iter(loader))
        assert caught.value.name == str(bad)
        assert caught.value.index == 5


def test_strict_is_refused(folder: Path) -> None:
    with pytest.raises(UnsupportedError, match="strict=True judges torchvision's transforms"):
        batches(usual, folder, strict=True)


def test_a_transform_in_the_dataset_and_a_pipeline_are_one_too_many(folder: Path) -> None:
    loader = DataLoader(ImageFolder(str(folder), transform=v2.ToImage()), pipeline=usual, device="cpu")
    with pytest.raises(ArgumentError, match="given twice"):
        iter(loader)


def test_the_loader_goes_on_after_a_failed_graph(folder: Path) -> None:
    @gpufeed.pipeline
    def fails_on_small(sample):
        return fn.crop(sample.decode(), crop=(60, 60)), sample.index

    arrived: list[int] = []
    failed: list[PipelineError] = []
    dataset = ImageFolder(str(folder))
    order: list[int] = []
    with DataLoader(dataset, pipeline=fails_on_small, sampler=order, device="cpu", seed=0) as loader:
        for index in range(8):
            order[:] = [index]
            try:
                arrived += [int(found) for _, found in loader]
            except PipelineError as error:
                failed.append(error)
    assert arrived == [0, 2, 4, 6]  # every other file of the first class is 48 pixels high
    assert len(failed) == 4
    for error in failed:
        assert "fn.crop failed while it ran" in str(error)
        assert error.line == fails_on_small.function.__code__.co_firstlineno + 2
