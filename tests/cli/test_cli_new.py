"""``gpufeed new``: what is written, that nothing is overwritten, and that it works as written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner, Result

from gpufeed.cli import main
from gpufeed.pipelines import load_pipeline, starting
from gpufeed.pipelines.naming import shipped_folder

TASKS = list(starting.TASKS)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _new(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["new", *arguments])


def test_what_was_written_and_what_comes_next() -> None:
    result = _new("demo")
    assert result.exit_code == 0, result.output
    assert result.stdout == (
        "wrote demo.py and test_demo.py\n\n"
        "Next:\n"
        "  gpufeed check demo.py\n"
        "  gpufeed preview demo.py --out demo.png\n"
        "  pytest test_demo.py\n"
    )
    assert sorted(os.listdir()) == ["demo.py", "test_demo.py"]


def test_a_suffix_and_a_folder_are_fine() -> None:
    Path("my work").mkdir()
    result = _new("my work/demo.py", "--task", "segmentation")
    assert result.exit_code == 0, result.output
    assert "wrote 'my work/demo.py' and 'my work/test_demo.py'" in result.stdout
    assert "gpufeed preview 'my work/demo.py' --out 'my work/demo.png'" in result.stdout
    assert sorted(os.listdir("my work")) == ["demo.py", "test_demo.py"]


@pytest.mark.parametrize("task", TASKS)
def test_a_module_names_itself_and_is_short_and_commented(task: str) -> None:
    assert _new("demo", "--task", task).exit_code == 0
    module, test = Path("demo.py").read_text(), Path("test_demo.py").read_text()
    for text in (module, test):
        assert f"{starting.TASKS[task]}.py" not in text
        assert "demo.py" in text
    assert "demo.py:train" in module
    assert 40 <= len(module.splitlines()) <= 80
    assert "    # " in module
    assert max(map(len, [*module.splitlines(), *test.splitlines()])) <= 120


@pytest.mark.parametrize("taken", ["demo.py", "test_demo.py"])
def test_nothing_is_overwritten(taken: str) -> None:
    Path(taken).write_text("mine")
    result = _new("demo")
    assert result.exit_code == 2
    assert f"{taken} is there already, and nothing is overwritten; choose another name" in result.stderr
    assert os.listdir() == [taken]
    assert Path(taken).read_text() == "mine"


@pytest.mark.parametrize("taken", ["demo.py", "test_demo.py"])
def test_a_link_to_nothing_is_not_written_through(taken: str) -> None:
    Path(taken).symlink_to("elsewhere")
    assert _new("demo").exit_code == 2
    assert os.listdir() == [taken]


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_appears_meanwhile_is_kept(links: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def late(source: Path, target: Path) -> None:
        Path("test_demo.py").write_text("theirs")
        if not links:
            raise PermissionError(1, "no links here")
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    result = _new("demo")
    assert result.exit_code == 2
    assert "test_demo.py is there already" in result.stderr
    assert os.listdir() == ["test_demo.py"]
    assert Path("test_demo.py").read_text() == "theirs"


def test_a_file_system_without_links_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _new("linked").exit_code == 0

    def refuse(*_: object) -> NoReturn:
        raise PermissionError(1, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    assert _new("demo").exit_code == 0
    assert sorted(os.listdir()) == ["demo.py", "linked.py", "test_demo.py", "test_linked.py"]
    assert Path("demo.py").read_text() == Path("linked.py").read_text().replace("linked", "demo")


def test_an_interrupted_write_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def interrupted(source: Path, target: Path) -> None:
        if Path(target).name.startswith("test_"):
            raise KeyboardInterrupt
        link(source, target)

    monkeypatch.setattr(os, "link", interrupted)
    assert _new("demo").exit_code == 130
    assert os.listdir() == []


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "2d",
            "'2d' can't be the name of a Python module: it needs letters, digits and _ and mustn't begin with a digit",
        ),
        ("my-study", "try my_study"),
        ("class", "try my_class"),
        (".py", "'' can't be the name of a Python module"),
        ("gone/demo", "there is no folder gone; make it first"),
        ("torch", "torch.py would hide the installed module torch; try my_torch"),
        ("ssl", "ssl.py would hide Python's own module ssl; try my_ssl"),
    ],
)
def test_other_names_are_refused(name: str, sentence: str) -> None:
    result = _new(name)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert os.listdir() == []


def test_an_unknown_task_is_a_usage_error() -> None:
    result = _new("demo", "--task", "poetry")
    assert result.exit_code == 2
    assert "'classification', 'ssl', 'detection', 'segmentation'" in result.stderr


def test_it_imports_neither_torch_nor_dali() -> None:
    code = (
        "import sys\nfrom gpufeed.cli import main\nmain(['new', 'demo'], standalone_mode=False)\n"
        "assert not {'torch', 'nvidia.dali', 'numpy'} & sys.modules.keys(), 'heavy import'\n"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


def test_every_template_belongs_to_a_task() -> None:
    files = {path.name for path in (shipped_folder() / "templates").glob("*.py")}
    assert files == {name for stem in starting.TASKS.values() for name in (f"{stem}.py", f"test_{stem}.py")}


@pytest.mark.parametrize("task", TASKS)
def test_the_module_can_be_named(task: str) -> None:
    assert _new("demo", "--task", task).exit_code == 0
    pipeline = load_pipeline("demo.py")
    assert pipeline.name == "train"
    assert pipeline.summary
    assert pipeline.has("reference") or pipeline.has("torch_dataset")
    assert pipeline(size=64).all_values()["size"] == 64


@pytest.mark.parametrize("task", TASKS)
def test_the_written_test_passes(task: str) -> None:
    """In a process of its own, as a person runs it."""
    assert _new("demo", "--task", task).exit_code == 0
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "test_demo.py"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
