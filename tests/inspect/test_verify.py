"""``verify`` from end to end: what is right holds, and what is broken on purpose is found and named."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from verify_run import SIZES_HW, transform_file, verified, write_photos

from gpufeed import bounds
from gpufeed.bench.images import list_image_folder
from gpufeed.bounds import Bound, Row
from gpufeed.errors import ArgumentError, TranslationError, UnsupportedError
from gpufeed.inspect import distributions
from gpufeed.inspect.verify import verification as verify_module
from gpufeed.inspect.verify.files import evenly
from gpufeed.inspect.verify.ops import OpAt, OpJudge
from gpufeed.inspect.verify.render import render, show
from gpufeed.inspect.verify.results import (
    SCHEMA,
    LeftOutSample,
    Verification,
    check_json_target,
    from_json,
    to_json,
    write_json,
)
from gpufeed.parameters import drawing
from gpufeed.parameters.batch import Drawn
from gpufeed.plan import Flip, Grayscale, Normalize, RandomCrop, Resize
from gpufeed.reference import running
from gpufeed.spec import ImageSpec
from gpufeed.tail import program


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Distributions have tests of their own."""
    monkeypatch.setattr(distributions, "NUM_THEIRS", 1000)


HOLDING = {
    "containers": "v2.Compose([v2.Resize((40, 44)), v2.RandomApply([v2.RandomGrayscale(0.5), v2.Grayscale(3)], p=0.6),"
    " v2.RandomChoice([v2.RandomHorizontalFlip(1.0), v2.RandomVerticalFlip(0.5)], p=[1, 3]),"
    " v2.RandomOrder([v2.RandomGrayscale(0.3), v2.RandomHorizontalFlip(0.4)]), v2.ToImage(), TO_FLOAT, NORMALIZE])",
    "tuples": "v2.Compose([v2.Resize(60), v2.FiveCrop(32), v2.RandomHorizontalFlip(), v2.ToImage(), TO_FLOAT])",
    "ten crops": "v2.Compose([v2.Resize(60), v2.ToImage(), v2.TenCrop((20, 30)), TO_FLOAT, NORMALIZE])",
    "grey": "v1.Compose([v1.Grayscale(), v1.RandomCrop(32, 4, True), v1.ToTensor(), v1.Normalize((0.4,), (0.3,))])",
    "ragged bytes": "v2.Compose([v2.Resize(31), v2.PILToTensor()])",
    "tensors": "v2.Compose([v2.ToImage(), v2.RandomResizedCrop(24), v2.RandomHorizontalFlip(), TO_FLOAT, NORMALIZE])",
    "unscaled": "v2.Compose([v2.CenterCrop(30), v2.ToImage(), v2.ToDtype(torch.float32),"
    " v2.Normalize((127.0,), (64.0,))])",
    "bicubic twice": "v2.Compose([v2.RandomResizedCrop(64, interpolation=3), v2.Resize((33, 35)), v2.ToImage(),"
    " TO_FLOAT, NORMALIZE])",
    "nothing": "v1.PILToTensor()",
}


@pytest.mark.parametrize("name", HOLDING)
def test_what_is_right_holds(photos: Path, tmp_path: Path, name: str) -> None:
    found = verified(photos, transform_file(tmp_path, HOLDING[name]))
    assert found.failures == ()
    assert found.left_out == ()
    assert found.whole is not None
    assert found.whole.num_samples == 12
    assert found.whole.num_unlike_ops == found.whole.num_unlike_plan == found.whole.num_shape_mismatches == 0
    decoder = found.ops[0]
    assert (decoder.place, decoder.num_samples) == ("decode", 12)
    assert decoder.spread is not None
    assert decoder.spread.largest_255 == 0.0
    assert decoder.spread.num_values == 2 * 3 * sum(height * width for height, width in SIZES_HW)
    assert from_json(to_json(found)) == found


def test_the_built_in_transform_is_judged_op_by_op(photos: Path) -> None:
    found = verified(photos, "train")
    assert [check.place for check in found.ops] == ["decode", "0", "1", "2", "3", "4"]
    assert [check.name for check in found.ops[1:]] == ["RandomAreaCrop", "Resize", "Flip", "ToTensor", "Normalize"]
    resize = found.ops[2]
    assert (resize.bound_kind, resize.bound_largest_255, resize.domain) == ("bounded", 2.0, "pil")
    assert resize.border is not None
    assert resize.interior is not None
    assert resize.spread is not None
    assert resize.border.num_values + resize.interior.num_values == resize.spread.num_values == 12 * 3 * 224 * 224
    assert resize.border.num_values == 12 * 3 * 4 * 223
    assert resize.passed_on is not None
    assert found.whole is not None
    # the only op that differs: what becomes of that is what the whole differs by
    assert found.whole.spread.mean_255 == pytest.approx(resize.passed_on.mean_255, rel=1e-6)
    assert found.whole.budget.mean_255 == pytest.approx(1.5 * resize.passed_on.mean_255)
    assert found.whole.shape == (3, 224, 224)
    assert {check.quantity for check in found.draws} == {"area", "log ratio", "centre y", "centre x", "rate"}


def test_ops_inside_of_others_count_the_samples_that_go_through(photos: Path, tmp_path: Path) -> None:
    found = verified(photos, transform_file(tmp_path, HOLDING["containers"]))
    by_place = {check.place: check for check in found.ops}
    assert by_place["1"].holds_ops
    inside = by_place["1.0.1"]
    assert (inside.name, by_place["1.0.0"].num_samples) == ("Grayscale", inside.num_samples)
    assert 0 < inside.num_samples < 12
    assert by_place["2.0.0"].num_samples + by_place["2.1.0"].num_samples == 12
    assert by_place["3.0.0"].num_samples == by_place["3.1.0"].num_samples == 12


def off_by(steps: int, kernel: Any) -> Any:
    def broken(*arguments: Any) -> torch.Tensor:
        return (kernel(*arguments).to(torch.int32) + steps).clamp(0, 255).to(torch.uint8)

    return broken


@pytest.mark.parametrize(
    ("op", "place", "expression"),
    [
        (Grayscale, "0", "v2.Compose([v2.Grayscale(3), v2.CenterCrop(20), v2.ToImage()])"),
        (Grayscale, "1.0", "v2.Compose([v2.CenterCrop(20), v2.RandomApply([v2.Grayscale(3)], 0.9), v2.ToImage()])"),
        (Resize, "1", "v2.Compose([v2.RandomCrop(50), v2.Resize((20, 31)), v2.PILToTensor()])"),
        (Flip, "1", "v2.Compose([v2.FiveCrop(20), v2.RandomVerticalFlip(), v2.ToImage()])"),
    ],
)
def test_a_kernel_that_is_off_by_2_is_found_and_named(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, op: type, place: str, expression: str
) -> None:
    monkeypatch.setitem(program.KERNELS, op, off_by(2, program.KERNELS[op]))  # type: ignore[arg-type]
    found = verified(photos, transform_file(tmp_path, expression))
    assert [check.number for check in found.ops if check.exceeded] == [place]
    sentence = next(check.exceeded for check in found.ops if check.exceeded)
    assert sentence.startswith(f"op {place} ({op.__name__}")
    assert sentence in found.failures
    worst = next(check.worst for check in found.ops if check.exceeded)
    assert worst is not None
    assert worst.file in sentence
    assert worst.file in list_image_folder(photos).paths
    assert "EXCEEDED" in render(found)
    assert render(found).splitlines()[-1].strip() != "everything holds"


def test_a_kernel_with_too_many_small_differences_is_found(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any) -> torch.Tensor:
        image = kernel(*arguments).clone(memory_format=torch.contiguous_format)
        image.view(-1)[::50] ^= 4
        return image

    row = Row((Resize,), Bound(16.0, 1.0, 0.0001))
    monkeypatch.setattr(bounds, "TABLE", (row, *bounds.TABLE))
    kernel = program.KERNELS[Resize]
    monkeypatch.setitem(program.KERNELS, Resize, broken)  # type: ignore[arg-type]
    found = verified(photos, transform_file(tmp_path, "v2.Compose([v2.Resize((60, 61), 3), v2.PILToTensor()])"))
    assert "of its values more than 1/255 off torchvision, and 0.01 % may be" in found.ops[1].exceeded


def test_another_shape_or_dtype_is_found(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = program.KERNELS[Normalize]
    monkeypatch.setitem(program.KERNELS, Normalize, lambda *given: kernel(*given).double())  # type: ignore[arg-type]
    expression = "v2.Compose([v2.Resize(40), v2.ToImage(), TO_FLOAT, NORMALIZE])"
    found = verified(photos, transform_file(tmp_path, expression))
    assert "makes float64 (1, 3, 4" in found.failures[0]
    assert "where torchvision makes float32" in found.failures[0]


def test_a_loader_that_does_otherwise_than_its_ops_is_found(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = program.resize.resize_into

    def broken(out: torch.Tensor, *rest: Any) -> None:
        before(out, *rest)
        out[..., 0, 0] ^= 1

    monkeypatch.setattr(program.resize, "resize_into", broken)
    found = verified(photos, transform_file(tmp_path, "v2.Compose([v2.Resize((40, 44)), v2.PILToTensor()])"))
    assert not any(check.exceeded for check in found.ops)
    (sentence,) = [text for text in found.failures if "one after the other" in text]
    assert "in 12 of 12 samples" in sentence


def test_a_wrong_translation_is_found(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(running.FUNCTIONS, Flip, lambda op, image, value: image)  # type: ignore[arg-type]
    monkeypatch.setitem(program.KERNELS, Flip, lambda images, op, spec, value: images)  # type: ignore[arg-type]
    expression = "v2.Compose([v2.RandomHorizontalFlip(1.0), v2.CenterCrop(21), v2.PILToTensor()])"
    found = verified(photos, transform_file(tmp_path, expression))
    assert any("it is translated wrongly" in sentence for sentence in found.failures)
    assert found.whole is not None
    assert found.whole.num_unlike_plan == 12
    assert found.whole.spread.mean_255 > found.whole.budget.mean_255


def test_a_wrong_distribution_is_found(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def biased(op: Flip, spec: Any, sizes: Any, draws: Any) -> Drawn:
        return Drawn(draws.coin(0, op.p + 0.03), sizes)

    monkeypatch.setitem(drawing.DRAWERS, Flip, biased)  # type: ignore[arg-type]
    expression = "v2.Compose([v2.RandomHorizontalFlip(0.5), v2.CenterCrop(21), v2.PILToTensor()])"
    found = verified(photos, transform_file(tmp_path, expression))
    (sentence,) = found.failures
    assert sentence.startswith("transforms[0] (torchvision.transforms.v2.RandomHorizontalFlip) draws rate otherwise")
    assert [check.holds for check in found.draws] == [False]


def test_files_that_cannot_be_loaded_are_left_out_with_the_reason(tmp_path: Path) -> None:
    root = write_photos(tmp_path / "photos")
    (root / "a" / "00.jpg").write_bytes(b"nothing")
    Image.fromarray(np.zeros((9, 9, 3), dtype=np.uint8)).save(root / "b" / "01.png")
    found = verified(root, transform_file(tmp_path, "v2.Compose([v2.RandomCrop(30), v2.PILToTensor()])"))
    reasons = {Path(left.file).name: left.reason for left in found.left_out}
    assert set(reasons) == {"00.jpg", "01.png"}
    assert "is no image that DALI knows" in reasons["00.jpg"]
    assert "required crop size (30, 30) is larger than the image (9x9" in reasons["01.png"]
    assert found.failures == ()
    assert found.whole is not None
    assert found.whole.num_samples == found.num_chosen - 2 == 11
    words = " ".join(render(found).split())
    assert "2 of 13 files can't be loaded: - " in words
    assert all(f"{left.file}: {left.reason}".split()[-1] in words for left in found.left_out)
    assert render(found).splitlines()[-1].startswith("11 of 13 files: everything holds; 2 can't be loaded (")


def test_without_any_file_that_loads_there_is_nothing_to_verify(tmp_path: Path) -> None:
    (tmp_path / "photos" / "a").mkdir(parents=True)
    (tmp_path / "photos" / "a" / "x.jpg").write_bytes(b"nothing")
    with pytest.raises(ArgumentError, match=r"none of the 1 files could be loaded; the first is .*x\.jpg: it is no"):
        verified(tmp_path / "photos", "train")


def test_every_refusal_is_listed(photos: Path, tmp_path: Path) -> None:
    expression = "v2.Compose([v2.Lambda(lambda x: x), v2.ToImage(), abs])"
    with pytest.raises(TranslationError, match=r"(?s)2 of these.*transforms\[0\].*transforms\[2\]"):
        verified(photos, transform_file(tmp_path, expression))


def test_a_transform_must_end_in_a_tensor(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"ends in a PIL image, which can't be collated; append ToTensor"):
        verified(photos, transform_file(tmp_path, "v2.Resize(20)"))


def test_the_seed_decides_and_nothing_global_moves(photos: Path) -> None:
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    first, again, other = (verified(photos, "train", seed=seed, num_samples=5) for seed in (1, 1, 2))
    assert replace(again, elapsed_s=first.elapsed_s, environment=first.environment) == first
    assert other.ops[2].spread != first.ops[2].spread
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_samples_are_taken_evenly(photos: Path) -> None:
    files = list_image_folder(photos)
    chosen = evenly(files, 4)
    assert chosen.paths == files.paths[::3]
    assert chosen.targets == files.targets[::3]
    assert evenly(files, 99).paths == files.paths


def test_ctrl_c_returns_what_was_verified(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = verify_module._Run
    sample, seen = run._sample, []

    def interrupted(self: Any, index: int, *rest: Any) -> None:
        if len(seen) == 5:
            raise KeyboardInterrupt
        seen.append(index)
        sample(self, index, *rest)

    monkeypatch.setattr(run, "_sample", interrupted)
    found = verified(photos, "eval")
    assert found.interrupted
    assert found.whole is not None
    assert found.whole.num_samples == 5
    assert "5 of 12 samples" in render(found)
    assert "stopped by you after 5 of 12 samples; until then everything holds" in render(found)
    assert from_json(to_json(found)) == found


def test_ctrl_c_before_the_first_sample_goes_on(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(verify_module._Run, "_sample", interrupted)
    with pytest.raises(KeyboardInterrupt):
        verified(photos, "eval")


def test_pictures_are_saved(photos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "worst"
    found = verified(photos, "train", save=folder)
    names = sorted(path.name for path in folder.iterdir())
    assert [name.rpartition("-")[0] for name in names] == ["1-op-0-Resize", "2-whole"]
    assert sorted(found.pictures) == [str(folder / name) for name in names]
    with Image.open(folder / names[0]) as picture:
        assert picture.format == "PNG"
        assert picture.width > 3 * 224
    with pytest.raises(ArgumentError, match="isn't empty, and --save overwrites nothing"):
        verified(photos, "train", save=folder)


def test_a_broken_decoder_is_found_and_pictured(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = verify_module.Loaded.load

    def broken(self: Any, indices: Any) -> Any:
        images, refused = load(self, indices)
        return {index: image ^ 1 if image.dtype == torch.uint8 else image for index, image in images.items()}, refused

    monkeypatch.setattr(verify_module.Loaded, "load", broken)
    found = verified(photos, "eval", save=tmp_path / "worst", num_samples=3)
    assert found.failures[0].startswith("the decoder is 1/255 off torchvision and must be equal: ")
    assert any("1-decode" in name for name in found.pictures)


@pytest.fixture
def result(photos: Path) -> Verification:
    return verified(photos, "train", num_samples=2)


def test_plain_text_is_ascii_and_80_columns_wide(result: Verification) -> None:
    text = render(replace(result, data="p"))
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("gpufeed verify, p, train, 2 samples, cpu, seed 0\n")
    assert "..." in text
    for cut in ("with...", "EXC...", "exac..."):
        assert cut not in text
    stream = io.StringIO()
    show(result, stream)
    assert stream.getvalue() == render(result)


LONG = (
    "v2.Compose([v2.RandomResizedCrop(64, interpolation=3),"
    " v2.RandomApply([v2.RandomApply([v2.RandomPhotometricDistort(), v2.GaussianBlur(5)])]),"
    " v2.RandomChannelPermutation(), v2.ToImage(), TO_FLOAT, NORMALIZE, v2.RandomErasing(1.0, value='random')])"
)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_only_labels_are_cut(photos: Path, tmp_path: Path, width: int) -> None:
    found = verified(photos, transform_file(tmp_path, LONG), num_samples=3)
    exceeded = replace(found.ops[2], exceeded="it is")
    text = render(replace(found, data="p", transform="t", ops=(*found.ops[:2], exceeded, *found.ops[3:])), width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    tables = [line for line in lines if line.endswith(("within", "equal", "EXCEEDED", "not seen")) and "..." in line]
    assert tables
    for line in tables:
        assert "..." not in line.partition("...")[2]
    (cut,) = [line for line in lines if line.endswith("EXCEEDED") and line.startswith("0 ")]
    assert "%" in cut
    for header in ("files", "99.9 %", "above", "1/255", "bound", "Kolmogorov-", "distance", "torchvision"):
        assert header in text.split() or header in text


def test_places_are_those_of_the_transform(photos: Path, tmp_path: Path) -> None:
    found = verified(photos, transform_file(tmp_path, LONG), num_samples=3)
    numbers = [(check.number, check.name) for check in found.ops]
    assert found.ops[0].number == ""
    assert numbers[1:3] == [("0", "RandomAreaCrop"), ("0", "Resize")]
    assert ("1.0.1", "GaussianBlur") in numbers
    assert ("1.0.0", "ChannelPermutation") in numbers
    assert ("2", "ChannelPermutation") in numbers
    assert ("6", "EraseToNoise") in numbers
    words = " ".join(render(found).split())
    assert "- 6 EraseToNoise: 1e-05 of full intensity for 99.99 % of values; beyond: 0 % of 0.01 % allowed" in words
    assert "0.003 for" in words


def test_a_handful_of_values_decides_nothing() -> None:
    spec = ImageSpec()
    judge = OpJudge.of(OpAt("0", Resize((9, 9)), spec, Bound(9.0, 1.0, 0.0001), (255.0,), "0"))
    theirs = torch.zeros(1, 3, 9, 9, dtype=torch.uint8)
    mine = theirs.clone()
    mine.view(-1)[:3] = 2
    judge.add(mine, theirs, 0, "a.jpg")
    assert judge.check().exceeded == ""
    assert judge.check().num_beyond_allowed == 3
    mine.view(-1)[3] = 2
    judge = OpJudge.of(OpAt("0", Resize((9, 9)), spec, Bound(9.0, 1.0, 0.0001), (255.0,), "0"))
    judge.add(mine, theirs, 0, "a.jpg")
    assert judge.check().exceeded.startswith("op 0 (Resize size=(9, 9)) has 1.65 % of its values more than 1/255 off")


def test_the_first_ten_files_that_cannot_be_loaded_are_named(result: Verification) -> None:
    left_out = tuple(LeftOutSample(f"{number}.jpg", "it is broken") for number in range(12))
    text = render(replace(result, left_out=left_out, num_chosen=14))
    assert "12 of 14 files can't be loaded:" in text
    assert "- 9.jpg: it is broken" in text
    assert "10.jpg" not in text
    assert "- and 2 more" in text
    assert text.splitlines()[-1].startswith("2 of 14 files: everything holds; 12 can't be loaded (")


def test_json_names_its_schema(result: Verification) -> None:
    text = to_json(result)
    assert f'"schema": "{SCHEMA}",\n  "schema_version": 1' in text
    assert '"failures": []' in text
    with pytest.raises(ArgumentError, match="this is not a result of gpufeed verify"):
        from_json('{"schema": "gpufeed.compare", "schema_version": 1}')
    with pytest.raises(ArgumentError, match="schema_version must be 1, got 2"):
        from_json(text.replace('"schema_version": 1', '"schema_version": 2'))


def test_json_replaces_only_its_own_kind(result: Verification, tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    write_json(result, path)
    write_json(result, path)
    assert from_json(path.read_text()) == result
    assert [entry.name for entry in tmp_path.iterdir()] == ["found.json"]
    path.write_text("{}")
    with pytest.raises(ArgumentError, match="is not a result of gpufeed verify; give --json another name"):
        check_json_target(path)


def test_ops_behind_a_broken_one_get_torchvisions_input(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(program.KERNELS, RandomCrop, off_by(5, program.KERNELS[RandomCrop]))  # type: ignore[arg-type]
    found = verified(photos, transform_file(tmp_path, "v2.Compose([v2.RandomCrop(20), v2.Grayscale(), v2.ToImage()])"))
    assert [check.place for check in found.ops if check.exceeded] == ["0"]
    assert found.ops[1].spread is not None
    assert found.ops[1].spread.largest_255 == 5.0
