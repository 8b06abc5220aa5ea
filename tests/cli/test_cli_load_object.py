"""``FILE.py:NAME``: the file runs only when named, and its errors are shown with their line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpufeed.errors import ArgumentError
from gpufeed.pipelines import load_object


def _file(folder: Path, text: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_name_of_a_file_is_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _file(tmp_path, "answer = [6, 7]\n")
    assert load_object(f"{path}:answer") == [6, 7]
    monkeypatch.chdir(tmp_path)
    assert load_object("mine.py:answer") == [6, 7]


def test_the_file_is_not_main_and_sees_its_own_folder(tmp_path: Path) -> None:
    _file(tmp_path, "value = 5\n", "gpufeed_test_neighbour.py")
    path = _file(
        tmp_path,
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from gpufeed_test_neighbour import value\n"
        "@dataclass\nclass Point:\n    x: int\n"
        "point = Point(value)\n"
        "if __name__ == '__main__':\n    raise SystemExit\n",
    )
    before = list(sys.path)
    try:
        assert load_object(f"{path}:point").x == 5  # type: ignore[attr-defined]
    finally:
        sys.modules.pop("gpufeed_test_neighbour", None)
    assert sys.path == before


@pytest.mark.parametrize("reference", ["mine.py", "mine:answer", "mine.py:", "mine.py:not-a-name", ":answer", ""])
def test_another_form_is_refused(reference: str) -> None:
    with pytest.raises(ArgumentError, match=r"expected FILE\.py:NAME, such as transforms\.py:train, got"):
        load_object(reference)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"there is no file .*gone\.py"):
        load_object(f"{tmp_path}/gone.py:answer")


def test_a_missing_name_is_told_with_those_there_are(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        "import os\nfrom fractions import Fraction\nfrom torchvision.transforms import CenterCrop\n"
        "_hidden = 1\ncrop = CenterCrop(3)\ndef function():\n    pass\nclass Thing:\n    pass\n",
    )
    with pytest.raises(ArgumentError) as caught:
        load_object(f"{path}:tarin")
    assert str(caught.value) == f"{path} has no name 'tarin'; it has function, Thing, crop"
    with pytest.raises(ArgumentError, match=r"has no name 'corp'; did you mean crop\? it has function"):
        load_object(f"{path}:corp")
    empty = _file(tmp_path, "", "empty.py")
    with pytest.raises(ArgumentError, match="it defines no names"):
        load_object(f"{empty}:x")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = 1\ny = x / 0\n", "mine.py, line 2: ZeroDivisionError: division by zero"),
        ("x = 1\n\ndef f():\n    return gone\nf()\n", "mine.py, line 4: NameError: name 'gone' is not defined"),
        ("x = (\n", "mine.py, line 1: SyntaxError: '\\(' was never closed"),
        ("import gpufeed_no_such_module\n", "mine.py, line 1: ModuleNotFoundError: No module named"),
        ("raise SystemExit(3)\n", r"mine.py ended Python \(exit code 3\) while it was loaded; put what it runs under"),
    ],
)
def test_the_files_own_error_is_shown_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    path = _file(tmp_path, text)
    modules = set(sys.modules)
    with pytest.raises(ArgumentError, match=problem):
        load_object(f"{path}:x")
    assert not any(name.startswith("gpufeed_file_mine") for name in set(sys.modules) - modules)


def test_a_file_name_that_is_no_text(tmp_path: Path) -> None:
    import os

    path = os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.py")
    Path(path).write_text("answer = 3\n")
    assert load_object(f"{path}:answer") == 3


def test_objects_of_a_file_are_called_by_its_name(tmp_path: Path) -> None:
    from gpufeed.translation import translate

    path = _file(
        tmp_path,
        "def get_transform():\n    return None\nclass Own:\n    def __call__(self, x): return x\nown = Own()\n",
    )
    assert (
        translate(load_object(f"{path}:get_transform"))
        .refusals[0]
        .startswith("transform (mine.get_transform): a function can't be looked into; if it makes a transform, call it")
    )
    assert translate(load_object(f"{path}:own")).refusals[0].startswith("transform (mine.Own): ")
