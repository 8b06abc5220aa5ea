"""`gpufeed doctor` on image folders: what is counted, what is named, and what is said about it."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import doctor_files as files
import pytest
from doctor_machine import machine, with_gpu
from PIL import Image

from gpufeed.bench.progress import Silent
from gpufeed.errors import ArgumentError
from gpufeed.inspect.doctor.data import DataSurvey, spread, survey
from gpufeed.inspect.doctor.data_findings import data_findings
from gpufeed.inspect.doctor.environment import Environment
from gpufeed.inspect.doctor.findings import Finding


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> DataSurvey:
    folder = tmp_path_factory.mktemp("mixed")
    files.write_all(folder)
    return survey(folder, None, Silent())


def _about(found: DataSurvey, text: str, environment: Environment | None = None) -> Finding:
    """The one finding whose sentence holds the text."""
    findings = [one for one in data_findings(found, environment or machine()) if text in one.what]
    assert len(findings) == 1, [one.what for one in data_findings(found, environment or machine())]
    return findings[0]


def test_every_kind_is_counted(mixed: DataSurvey) -> None:
    assert (mixed.num_images, mixed.num_looked_at) == (14, 14)
    assert mixed.formats == {"JPEG": 8, "GIF": 2, "PNG": 2, "no image": 2}
    assert {fault: named.count for fault, named in mixed.faults.items()} == {"cut off": 1, "empty": 1, "no image": 1}
    assert (mixed.num_progressive, mixed.num_four_channels, mixed.num_unusual) == (1, 3, 0)
    assert (mixed.num_engine, mixed.orientations, mixed.not_listed) == (3, {6: 1}, {".gif": 1})
    assert mixed.median_size_hw == (60, 80)


def test_problems_name_their_files(mixed: DataSurvey) -> None:
    named = {
        "cut off": ["cut_off.JPG"],
        "empty": ["empty.jpg"],
        "no image that": ["text.jpg"],
        "refused": ["deep.png", "named_so.jpg", "cmyk_without_adobe.jpg"],
    }
    for text, names in named.items():
        finding = _about(mixed, text)
        assert finding.level == "problem"
        assert [os.path.basename(path) for path in finding.paths] == names
        assert finding.next_step
    meaning = _about(mixed, "refused").meaning
    assert all(word in meaning for word in ("8 bits per channel", "DALI doesn't decode GIF", "Adobe's marker"))


def test_what_imagefolder_leaves_out_is_no_problem(mixed: DataSurvey) -> None:
    finding = _about(mixed, "1 .gif")
    assert finding.level == "note"
    assert not any("plain.gif" in path for one in data_findings(mixed, machine()) for path in one.paths)


def test_orientation_and_print_colours_are_explained(mixed: DataSurvey) -> None:
    assert "apply_exif=True" in _about(mixed, "EXIF orientation").next_step
    assert "(6: 1)" in _about(mixed, "EXIF orientation").what
    assert "3 of 14 (21.4 %) are CMYK" in _about(mixed, "CMYK").what


def test_at_most_five_files_are_named_and_all_counted(tmp_path: Path) -> None:
    for number in range(7):
        (tmp_path / f"{number}.jpg").touch()
    finding = _about(survey(tmp_path, None, Silent()), "empty")
    assert "all 7 are empty" in finding.what
    assert [os.path.basename(path) for path in finding.paths] == [f"{number}.jpg" for number in range(5)]


def test_good_files_make_no_problem_and_no_note(tmp_path: Path) -> None:
    for number in range(3):
        files.baseline(tmp_path / f"{number}.jpg")
    found = data_findings(survey(tmp_path, None, Silent()), machine())
    assert {finding.level for finding in found} == {"ok"}


def test_sizes_are_those_of_the_files(tmp_path: Path) -> None:
    for number, (height, width) in enumerate([(10, 20), (30, 40), (500, 700)]):
        files.baseline(tmp_path / f"{number}.jpg", height, width)
    found = survey(tmp_path, None, Silent())
    assert found.pixels is not None
    assert (found.median_size_hw, found.pixels.median, found.pixels.max) == ((30, 40), 1200, 350_000)
    sizes = [path.stat().st_size for path in sorted(tmp_path.iterdir())]
    assert found.file_bytes is not None
    assert (found.file_bytes.median, found.file_bytes.max) == (sorted(sizes)[1], max(sizes))
    assert found.bits_per_pixel is not None
    ratios = sorted(8 * size / pixels for size, pixels in zip(sizes, (200, 1200, 350_000), strict=True))
    assert found.bits_per_pixel.median == pytest.approx(ratios[1])
    assert found.estimated_bytes == sum(sizes)


def test_photographs_larger_than_needed_are_told_with_the_gain(tmp_path: Path) -> None:
    for number in range(2):
        Image.new("RGB", (4000, 3000)).save(tmp_path / f"{number}.jpg")
    found = survey(tmp_path, None, Silent())
    assert found.pixels_ratio == pytest.approx((3000 / 512) ** 2)
    finding = _about(found, "larger than needed")
    assert finding.level == "note"
    assert "34.3 times fewer pixels" in finding.meaning
    assert "512x512^>" in finding.next_step


def test_a_few_huge_files_are_told_too(tmp_path: Path) -> None:
    for number in range(5):
        files.baseline(tmp_path / f"{number}.jpg")
    Image.new("RGB", (5000, 5000)).save(tmp_path / "huge.jpg")
    finding = _about(survey(tmp_path, None, Silent()), "megapixels")
    assert finding.what == "1 of 6 (16.7 %) has more than 20 megapixels."


def test_hardware_decoding_is_about_this_machines_gpu(mixed: DataSurvey) -> None:
    assert _about(mixed, "JPEG engine", with_gpu("NVIDIA A100-SXM4-80GB", (8, 0))).what == (
        "The 1 JPEG engine of the NVIDIA A100-SXM4-80GB can decode 3 of 14 (21.4 %); the others are decoded on its "
        "cores and the CPU."
    )
    assert "it has no engines" in _about(mixed, "Tesla T4", with_gpu("Tesla T4", (7, 5))).what
    unknown = with_gpu("NVIDIA Something New", (15, 0))
    assert "Where a GPU has some, they could decode" in _about(mixed, "YCbCr", unknown).what


def test_progressive_files_cost_engines_their_work(tmp_path: Path) -> None:
    for number in range(4):
        files.progressive(tmp_path / f"{number}.jpg")
    found = survey(tmp_path, None, Silent())
    assert "jpegtran" in _about(found, "all 4 are progressive").next_step
    assert _about(found, "JPEG engines of the", with_gpu("NVIDIA H100 PCIe", (9, 0))).level == "note"


def test_more_data_than_memory_is_read_again_each_epoch(mixed: DataSurvey) -> None:
    assert _about(mixed, "The images have").level == "ok"
    large = replace(mixed, mean_file_bytes=1e6, num_images=1_000_000)
    finding = _about(large, "The images have about 931 GiB, and the memory 16 GiB")
    assert finding.level == "note"
    limited = replace(machine(), memory_limit_bytes=mixed.estimated_bytes)
    assert _about(mixed, "The images have", limited).level == "note"


# Choosing files -------------------------------------------------------------------------------------------------------


def test_a_sample_is_spread_evenly() -> None:
    names = [str(number) for number in range(1000)]
    chosen = [int(name) for name in spread(names, 7)]
    assert len(set(chosen)) == 7
    assert {later - earlier for earlier, later in pairwise(chosen)} <= {142, 143}
    assert chosen[0] == 999 - chosen[-1]
    assert spread(names, 1000) == names
    assert spread(names, None) == names


def test_the_sample_is_said(tmp_path: Path) -> None:
    for number in range(20):
        files.baseline(tmp_path / f"{number:02d}.jpg")
    found = survey(tmp_path, 4, Silent())
    assert (found.num_images, found.num_looked_at, found.formats) == (20, 4, {"JPEG": 4})
    assert found.estimated_bytes == round(5 * 4 * found.mean_file_bytes)
    assert "20 images" in _about(found, "headers of 4 looked at, evenly spread").what


def test_hidden_names_other_files_and_circles_of_links(tmp_path: Path) -> None:
    files.baseline(tmp_path / "seen.jpg")
    files.baseline(tmp_path / ".hidden.jpg")
    (tmp_path / ".hidden").mkdir()
    files.baseline(tmp_path / ".hidden" / "below.jpg")
    (tmp_path / "circle").symlink_to(tmp_path)
    (tmp_path / "nothing.jpg").symlink_to(tmp_path / "gone")
    os.mkfifo(tmp_path / "pipe.jpg")  # opening it would block
    found = survey(tmp_path, None, Silent())
    assert found.num_images == 2
    assert [path for path, _ in found.faults["unreadable"].files] == [str(tmp_path / "nothing.jpg")]


def test_a_closed_folder_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.baseline(tmp_path / "seen.jpg")
    closed = tmp_path / "closed"
    closed.mkdir()
    scandir = os.scandir

    def refusing(path: str) -> object:  # root may list everything, so that modes don't do it
        if path == str(closed):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    finding = _about(survey(tmp_path, None, Silent()), "1 folder can't be listed")
    assert (finding.level, finding.paths) == ("problem", (str(closed),))


def test_no_folder_and_no_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"there is no folder .*missing; give the folder that holds the images"):
        survey(tmp_path / "missing", None, Silent())
    (tmp_path / "file").touch()
    with pytest.raises(ArgumentError, match="is a file; give the folder"):
        survey(tmp_path / "file", None, Silent())
    with pytest.raises(ArgumentError, match=r"holds no image \(\.jpg, .*\.gif.*\), at any depth"):
        survey(tmp_path, None, Silent())


class _Notes(Silent):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.counted: list[tuple[int, int]] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def count(self, done: int, total: int) -> None:
        self.counted.append((done, total))


@pytest.mark.parametrize(
    ("patience_s", "said"), [(0.0, ["listing the files", "reading headers"]), (1e9, [])], ids=["long", "short"]
)
def test_progress_is_told_when_it_takes_long(patience_s: float, said: list[str], tmp_path: Path) -> None:
    files.baseline(tmp_path / "0.jpg")
    notes = _Notes()
    survey(tmp_path, None, notes, patience_s)
    assert notes.said == said
    assert notes.counted == ([(1, 1)] if said else [])
