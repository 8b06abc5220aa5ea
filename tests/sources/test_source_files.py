"""What the sources of folders have in common: which files they see, how they import, how they name faults."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from source_harness import lines_of
from torchvision.datasets.folder import IMG_EXTENSIONS

import gpufeed.sources
from gpufeed.errors import ArgumentError
from gpufeed.sources.base import Paths
from gpufeed.sources.faults import Faults
from gpufeed.sources.listing import IMAGE_SUFFIXES, FileList, digest_of, files_below, folder_path, stem_of


def touch(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_image_suffixes_are_torchvisions() -> None:
    assert IMAGE_SUFFIXES == IMG_EXTENSIONS


def test_importing_the_sources_imports_neither_torch_nor_dali() -> None:
    code = (
        "import sys\n"
        "from gpufeed.sources import CocoSource, MaskPairSource, YoloSource\n"
        "assert not {'torch', 'torchvision', 'nvidia.dali'} & sys.modules.keys(), 'heavy import'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names_are_those_in_all() -> None:
    assert dir(gpufeed.sources) == sorted(gpufeed.sources.__all__) == ["CocoSource", "MaskPairSource", "YoloSource"]
    assert all(getattr(gpufeed.sources, name).__name__ == name for name in gpufeed.sources.__all__)
    with pytest.raises(AttributeError, match="no attribute 'VocSource'"):
        gpufeed.sources.VocSource  # noqa: B018


def test_files_are_found_in_sub_folders_by_their_suffix_whatever_its_case_and_sorted(tmp_path: Path) -> None:
    touch(tmp_path, "b.JPG", "a/z.png", "a/ä ü.WebP", "a.txt", "jpg", "B.jpeg", "a.jpg/c.bmp", "x.jpg.txt")
    assert files_below(str(tmp_path), IMAGE_SUFFIXES, "images") == [
        "B.jpeg",
        "a.jpg/c.bmp",
        "a/z.png",
        "a/ä ü.WebP",
        "b.JPG",
    ]


def test_hidden_files_and_folders_are_left_out(tmp_path: Path) -> None:
    touch(tmp_path, ".a.jpg", "._b.jpg", ".hidden/c.jpg", "d.jpg")
    assert files_below(str(tmp_path), IMAGE_SUFFIXES, "images") == ["d.jpg"]


def test_links_are_followed_but_not_round_in_circles(tmp_path: Path) -> None:
    touch(tmp_path, "elsewhere/a.jpg", "root/b.jpg")
    (tmp_path / "root/linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root/c.jpg").symlink_to(tmp_path / "elsewhere/a.jpg")
    (tmp_path / "elsewhere/back").symlink_to(tmp_path / "root")
    (tmp_path / "root/dead.jpg").symlink_to(tmp_path / "nothing.jpg")
    found = files_below(str(tmp_path / "root"), IMAGE_SUFFIXES, "images")
    assert found == ["b.jpg", "c.jpg", "dead.jpg", "linked/a.jpg"]


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.txt")
    touch(tmp_path, "b.txt")
    assert files_below(str(tmp_path), (".txt",), "label files") == ["b.txt"]


def test_an_empty_folder_says_what_was_looked_for(tmp_path: Path) -> None:
    touch(tmp_path, "a.txt")
    assert lines_of(lambda: files_below(str(tmp_path), IMAGE_SUFFIXES, "images")) == [
        (
            f"{tmp_path} holds no images: looked for .jpg, .jpeg, .png, .ppm, .bmp, .pgm, .tif, .tiff, .webp in it and "
            "its sub-folders, without hidden ones"
        )
    ]


def test_a_folder_that_cannot_be_listed_is_named(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(ArgumentError, match=r"round can't be read: Too many levels of symbolic links"):
        files_below(str(tmp_path), IMAGE_SUFFIXES, "images")


def test_a_folder_must_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "file")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folder_path("~", "images") == str(tmp_path)
    assert folder_path(os.fsencode(tmp_path), "images") == str(tmp_path)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"there is no folder .*missing; give images the path of an existing"):
        folder_path(tmp_path / "missing", "images")
    with pytest.raises(ArgumentError, match=r"file is a file; give masks the path of a folder"):
        folder_path(tmp_path / "file", "masks")
    with pytest.raises(ArgumentError, match=r"labels must be a folder's path, got 3"):
        folder_path(3, "labels")  # type: ignore[arg-type]


def test_stems_are_equal_for_what_looks_equal() -> None:
    assert stem_of("a.b/ü.tar.jpg") == stem_of("a.b/u\u0308.tar.png") == "a.b/ü.tar"
    assert stem_of("a/b.jpg") != stem_of("a/B.jpg")


def test_a_file_list_keeps_every_name_even_those_that_are_no_unicode(tmp_path: Path) -> None:
    names = ["a b.jpg", "ä/日本.png", os.fsdecode(b"\xff.jpg"), "/absolute.png"]
    files = FileList.of(str(tmp_path), names)
    assert [files.path(index) for index in range(len(files))] == [os.path.join(tmp_path, name) for name in names]
    assert Paths.of([files.path(2)]).matrix[0, -6:].tobytes() == b"\xff.jpg\0"


def test_a_digest_tells_names_and_parts_apart_but_not_folders() -> None:
    base = digest_of(FileList.of("x", ["ab", "c"]), [b"1", b"2"])
    assert base == digest_of(FileList.of("y", ["ab", "c"]), [b"1", b"2"])
    others = [
        digest_of(FileList.of("x", ["a", "bc"]), [b"1", b"2"]),
        digest_of(FileList.of("x", ["ab", "d"]), [b"1", b"2"]),
        digest_of(FileList.of("x", ["ab", "c"]), [b"12"]),
        digest_of(FileList.of("x", ["ab", "c"]), [b"2", b"1"]),
    ]
    assert len({base, *others}) == 5


@pytest.mark.parametrize(("count", "last"), [(1, "fault 0"), (10, "fault 9"), (11, "and 1 more"), (99, "and 89 more")])
def test_at_most_ten_faults_are_shown(count: int, last: str) -> None:
    faults = Faults("the files")
    faults.check()
    for number in range(count):
        faults.add(f"fault {number}")
    lines = lines_of(faults.check)
    assert lines[0] == f"the files: {count} fault{'s' if count > 1 else ''}"
    assert lines[1 : 1 + min(count, 10)] == [f"fault {number}" for number in range(min(count, 10))]
    assert lines[-1] == last
    assert len(lines) == 1 + min(count, 10) + (count > 10)
