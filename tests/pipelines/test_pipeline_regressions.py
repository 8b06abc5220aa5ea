"""What was found broken in custom pipelines, each once."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from nvidia.dali import fn
from torchvision.transforms import InterpolationMode, v2

import gpufeed
from gpufeed import DataLoader, ops
from gpufeed.errors import ArgumentError, PipelineError, UnsupportedError
from gpufeed.pipelines import load_pipeline
from gpufeed.sources.base import Paths


def batches(source: Any, pipeline: Any, **options: Any) -> list[Any]:
    with DataLoader(source, pipeline=pipeline, batch_size=5, device="cpu", seed=0, **options) as loader:
        return list(loader)


def test_a_graph_without_any_input_gives_as_many_entries_as_the_batch(folder: Path) -> None:
    @gpufeed.pipeline
    def native(sample):
        return sample.target, fn.random.uniform(range=[0, 1]), fn.transforms.rotation(angle=30.0)

    for target, drawn, matrix in batches(str(folder), native):
        assert len(target) == len(drawn) == len(matrix)


def test_a_handle_that_is_returned_twice_is_two_outputs(folder: Path) -> None:
    @gpufeed.pipeline
    def twice(sample):
        image = sample.center_crop(8)
        return image, image, ops.ragged(image)

    first, second, third = batches(str(folder), twice)[0]
    kept = second.clone()
    first.zero_()
    for image in third:
        image.zero_()
    assert torch.equal(second, kept)


@dataclass(frozen=True)
class Held:
    """A source whose fields are the objects that it holds."""

    files: tuple[str, ...]
    fields_: Mapping[str, list[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.files)

    def read(self, indices: Sequence[int]) -> Paths:
        return Paths.of([self.files[index] for index in indices])

    def fields(self, indices: Sequence[int]) -> Mapping[str, Sequence[object]]:
        held = {name: [values[index] for index in indices] for name, values in self.fields_.items()}
        return {"target": list(indices), **held}

    def name_of(self, index: int) -> str:
        return self.files[index]

    def fingerprint(self) -> str:
        return "0" * 64


def test_a_sources_own_tensors_are_never_handed_over(folder: Path) -> None:
    files = tuple(map(str, sorted(folder.glob("*/*.jpg"))))
    tensors = [torch.full((1 + index % 3,), 7) for index in range(len(files))]

    @gpufeed.pipeline
    def held(sample):
        return sample.tensor

    for batch in batches(Held(files, {"tensor": tensors}), held):
        for tensor in batch:
            tensor.zero_()
    assert all((tensor == 7).all() for tensor in tensors)


def test_ragged_numbers_are_a_list_and_what_cant_be_collated_is_named(folder: Path) -> None:
    files = tuple(map(str, sorted(folder.glob("*/*.jpg"))))

    @gpufeed.pipeline
    def ragged(sample):
        return ops.ragged(sample.target)

    assert [len(batch) for batch in batches(Held(files), ragged)][:2] == [5, 5]
    assert isinstance(batches(Held(files), ragged)[0], list)

    @gpufeed.pipeline
    def nothing(sample):
        return sample.nothing

    with pytest.raises(UnsupportedError, match=r"sample\.nothing holds NoneType, which torch can't collate"):
        batches(Held(files, {"nothing": [None] * len(files)}), nothing)


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        (lambda s: s.uniform(2, 1), "needs low <= high"),
        (lambda s: s.uniform(float("nan"), 1), "numbers up to"),
        (lambda s: s.coin(3), "a probability"),
        (lambda s: s.integers(5, 0), "low < high"),
        (lambda s: s.choice([1, 2], p=[0, 0]), "a probability for each"),
        (lambda s: s.choice([]), "at least one value"),
        (lambda s: s.permutation(-1), "at least 1"),
        (lambda s: s.uniform(0, 1e39), "numbers up to"),
    ],
)
def test_a_tails_draws_are_checked_as_the_functions_are(folder: Path, draws: Any, message: str) -> None:
    @gpufeed.pipeline
    def target(sample):
        return sample.target

    @target.tail
    def tail(target, *, samples):
        return target, draws(samples)

    with pytest.raises(PipelineError, match=message):
        batches(str(folder), target)


def test_choices_beyond_int32_are_floats(folder: Path) -> None:
    @gpufeed.pipeline
    def chosen(sample):
        return sample.choice([2**40, 1])

    drawn = torch.cat(batches(str(folder), chosen))
    assert drawn.dtype == torch.float32
    assert set(drawn.tolist()) == {2.0**40, 1.0}


def test_a_tail_must_be_a_plain_function() -> None:
    @gpufeed.pipeline
    def target(sample):
        return sample.target

    async def later(target):
        return target

    def generator(target):
        yield target

    for wrong in (functools.partial(print), torch.nn.Identity(), later, generator, None):
        with pytest.raises(ArgumentError, match="goes above a plain function"):
            target.tail(wrong)


def test_a_resize_after_an_operator_has_the_filter_that_was_asked_for(folder: Path) -> None:
    def resized(mode: InterpolationMode) -> torch.Tensor:
        @gpufeed.pipeline
        def after(sample):
            image = fn.brightness(sample.center_crop(48), brightness=1.0)
            return ops.apply(v2.Resize((20, 20), interpolation=mode), image, sample)

        return torch.cat(batches(str(folder), after)).float()

    difference = (resized(InterpolationMode.BILINEAR) - resized(InterpolationMode.BICUBIC)).abs().mean()
    assert difference > 0.5
    with pytest.raises(PipelineError, match="a filter that DALI lacks"):
        resized(InterpolationMode.NEAREST)


def test_files_of_one_name_beside_different_modules_are_not_mixed_up(folder: Path, tmp_path: Path) -> None:
    sizes = []
    for number in (5, 9):
        inside = tmp_path / f"folder{number}"
        inside.mkdir()
        (inside / "beside_it.py").write_text(f"SIZE = {number}\n")
        (inside / "study.py").write_text(
            "import gpufeed\nimport beside_it\n\n@gpufeed.pipeline\ndef train(sample):\n"
            "    return sample.center_crop(beside_it.SIZE)\n"
        )
        sizes.append(batches(str(folder), load_pipeline(str(inside / "study.py")))[0].shape[1])
    assert sizes == [5, 9]
