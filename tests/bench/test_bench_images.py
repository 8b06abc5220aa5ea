"""The image folder is listed as torchvision lists it; wrong ones give a sentence with the next step."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import IMG_EXTENSIONS

from gpufeed.bench.images import (
    EXTENSIONS,
    ImageFolderFiles,
    check_images,
    choose,
    first_broken,
    list_image_folder,
)
from gpufeed.errors import ArgumentError

_FILES = ImageFolderFiles("/r", ("a", "b"), tuple(f"/r/{i}" for i in range(13)), tuple(i % 2 for i in range(13)))


def test_extensions_are_those_of_torchvision() -> None:
    assert EXTENSIONS == IMG_EXTENSIONS


def test_files_classes_and_targets_are_those_of_imagefolder(photos: Path, tmp_path: Path) -> None:
    root = tmp_path / "d\u00e9p\u00f4t"
    root.mkdir()
    for name in ("zebra", "Ant", "b"):
        (root / name / "deeper").mkdir(parents=True)
    (root / "loose.jpg").touch()
    for place in ("b/10.JPG", "b/9.jpeg", "Ant/deeper/1.webp", "Ant/z.png", "zebra/notes.txt", "zebra/x.tiff"):
        (root / place).touch()
    (root / "linked").symlink_to(photos / "ant")
    (root / "b" / "linked").symlink_to(photos / "cow")
    expected = ImageFolder(root)
    listed = list_image_folder(root)
    assert list(zip(listed.paths, listed.targets, strict=True)) == expected.samples
    assert list(listed.classes) == expected.classes


def test_a_class_without_images_is_fine(photos: Path) -> None:
    listed = list_image_folder(photos)
    assert listed.classes == ("ant", "bee", "cow")
    assert set(listed.targets) == {0, 2}


def test_wrong_folders_give_one_sentence_each(photos: Path, tmp_path: Path) -> None:
    empty, loose, no_images = (tmp_path / name for name in ("empty", "loose", "no_images"))
    empty.mkdir()
    loose.mkdir()
    (loose / "a.jpg").touch()
    (no_images / "class").mkdir(parents=True)
    (no_images / "class" / "notes.txt").touch()
    for root, problem in (
        (tmp_path / "missing", "there is no folder"),
        (photos / "ant" / "0.jpg", "is a file, not an image folder"),
        (empty, "has no class folders"),
        (loose, "has 1 image but no class folders"),
        (no_images, "the 1 class folders of .* hold no images"),
    ):
        with pytest.raises(ArgumentError, match=problem) as caught:
            list_image_folder(root)
        assert "Give an image folder with one sub-folder per class" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_an_unreadable_folder_is_told(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def forbidden(path: str | Path) -> object:
        if str(path).endswith("cow"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", forbidden)
    with pytest.raises(ArgumentError, match=r"cow can't be read \(Permission denied\)\. Give an image folder"):
        list_image_folder(photos)


def test_fewer_samples_are_a_fixed_subset_contained_in_a_larger_one() -> None:
    few, few_targets = choose(_FILES, 5, seed=1)
    assert (few, few_targets) == choose(_FILES, 5, seed=1)
    assert len(set(few)) == 5
    assert set(few) < set(choose(_FILES, 9, seed=1)[0])
    assert few != choose(_FILES, 5, seed=2)[0]
    assert all(
        _FILES.targets[_FILES.paths.index(path)] == target for path, target in zip(few, few_targets, strict=True)
    )


def test_more_samples_repeat_every_file_equally_often() -> None:
    paths, targets = choose(_FILES, 30, seed=0)
    counts = Counter(paths)
    assert len(paths) == len(targets) == 30
    assert sorted(counts.values()) == [2] * 9 + [3] * 4


def test_a_file_that_is_no_image_is_named(photos: Path, tmp_path: Path) -> None:
    good, text = photos / "ant" / "0.jpg", tmp_path / "text.jpg"
    text.write_text("not an image")
    check_images([str(good)])
    with pytest.raises(ArgumentError, match=r"text\.jpg is not an image that Pillow can read; remove it"):
        check_images([str(good), str(text)])
    with pytest.raises(ArgumentError, match=r"gone\.jpg can't be read \(No such file or directory\)"):
        check_images([str(tmp_path / "gone.jpg")])


def test_a_truncated_file_is_found_by_decoding(photos: Path, tmp_path: Path) -> None:
    good = photos / "ant" / "0.jpg"
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(good.read_bytes()[:-200])
    check_images([str(cut)])  # its header is fine
    assert first_broken([str(good)]) is None
    found = first_broken([str(good), str(cut)])
    assert found is not None
    assert found[0] == str(cut)
    assert "truncated" in found[1]
