"""``gpufeed pipelines``: the list, one in full, and wrong names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpufeed.cli import main
from gpufeed.pipelines import naming

TEXT = """
from __future__ import annotations
import os
import gpufeed.pipelines
print("hello from the file")
os.system("echo hello from its child")
@gpufeed.pipelines.pipeline
def train(sample, *, size: int = 224, names: tuple[str, ...] = ("a", "b"), limit: int):
    '''Crops what is there.

    More about it.
    '''
@train.tail
def tail(images): ...
@train.reference(within_255=2, share=0.995)
def reference(): ...
@gpufeed.pipelines.pipeline
def evaluate(sample): ...
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "study.py"
    path.write_text(TEXT)
    return str(path)


@pytest.fixture
def shipped(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming, "shipped_folder", lambda: Path(file).parent)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meta = tmp_path / "site" / "acme_feeds-1.2.dist-info"
    meta.mkdir(parents=True)
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-feeds\nVersion: 1.2\n")
    (meta / "entry_points.txt").write_text("[gpufeed.pipelines]\nacme = gpufeed_test_not_there:train\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


def _pipelines(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["pipelines", *arguments])


def _words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.usefixtures("shipped")
def test_the_list_has_each_with_its_first_line_and_parameters() -> None:
    result = _pipelines()
    assert result.exit_code == 0, result.output
    name, summary, parameter, *_ = result.stdout.splitlines()
    assert name == "gpufeed:study:train", "to be copied: alone in its line, unbroken"
    assert summary.split()[0] == "Crops"
    assert parameter.split()[0] == "-p"
    assert "-p limit: int" in result.stdout
    assert "gpufeed:study:evaluate" in result.stdout
    assert "More about it" not in result.stdout
    assert "hello" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.usefixtures("shipped", "installed")
def test_an_installed_one_is_listed_with_its_distribution_unloaded() -> None:
    result = _pipelines()
    assert result.exit_code == 0, result.output
    assert "acme-feeds 1.2" in result.stdout
    assert "not loaded before it is named" in _words(result.stdout)
    named = _pipelines("acme")
    assert named.exit_code == 2
    assert "acme-feeds 1.2 (gpufeed_test_not_there:train) can't be loaded: ModuleNotFoundError" in named.stderr


def test_an_empty_list_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming, "shipped_folder", lambda: tmp_path)
    result = _pipelines()
    assert result.exit_code == 0
    assert "No pipeline is shipped or installed." in result.stdout
    assert "gpufeed new NAME writes one" in _words(result.stdout)


def test_one_in_full(file: str) -> None:
    result = _pipelines(f"{file}:train")
    assert result.exit_code == 0, result.output
    text = _words(result.stdout)
    assert "Crops what is there. More about it." in text
    assert "parameters size: int = 224 names: tuple[str, ...] = ('a', 'b') limit: int" in text
    assert "tail yes: torch on the device" in text
    assert "reference a transform; pixels within 2/255 for 99.5 % of the values" in text
    assert "data an image folder with one sub-folder per class" in text
    assert f"study.py, line {TEXT.splitlines().index('@gpufeed.pipelines.pipeline') + 1}" in text
    assert "from" not in [line.split()[:1] for line in result.stdout.splitlines()]
    bare = _words(_pipelines(f"{file}:evaluate").stdout)
    assert "It has no docstring. parameters none tail none reference none, so there is nothing to compare" in bare


def test_a_file_with_several_is_answered_with_their_list(file: str) -> None:
    result = _pipelines(file)
    assert result.exit_code == 0, result.output
    text = result.stdout.replace("\n", "").replace(" ", "")
    assert "study.py:train" in text
    assert "study.py:evaluate" in text


def test_json_alone_is_on_stdout_whatever_the_file_prints(file: str) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "gpufeed", "pipelines", f"{file}:train", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    document = json.loads(finished.stdout)
    assert (document["schema"], document["schema_version"]) == ("gpufeed.pipelines", 1)
    (found,) = document["pipelines"]
    assert found["reference"] == f"{file}:train"
    assert found["summary"] == "Crops what is there."
    assert found["docstring"].endswith("More about it.")
    assert found["companions"] == ["tail", "reference"]
    assert found["parameters"][1:] == [
        {"name": "names", "type": "tuple[str, ...]", "required": False, "default": ["a", "b"]},
        {"name": "limit", "type": "int", "required": True, "default": None},
    ]
    assert sorted(finished.stderr.splitlines()) == ["hello from its child", "hello from the file"]


@pytest.mark.usefixtures("shipped", "installed")
def test_json_has_the_installed_ones_as_not_loaded() -> None:
    document = json.loads(_pipelines("--json").stdout)
    assert [found["loaded"] for found in document["pipelines"]] == [True, True, False]
    assert document["pipelines"][-1] == {"reference": "acme", "from": "acme-feeds 1.2", "loaded": False}


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("FILE:tarin", "study.py has no pipeline 'tarin'; did you mean train? it holds the pipelines train, evaluate"),
        ("gone.py", "there is no file gone.py"),
        ("gpufeed:none_such", "gpufeed ships no pipeline module 'none_such'"),
        ("none such", "expected FILE.py:NAME, gpufeed:MODULE:NAME or an installed pipeline, got 'none such'"),
    ],
)
def test_wrong_names_give_one_sentence_and_exit_code_2(file: str, name: str, sentence: str) -> None:
    result = _pipelines(name.replace("FILE", file))
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stdout == ""


def test_help_imports_neither_torch_nor_dali() -> None:
    code = (
        "import sys\nfrom gpufeed.cli import main\n"
        "try:\n    main(['pipelines', '--help'])\n"
        "finally:\n    assert not {'torch', 'nvidia.dali', 'rich'} & sys.modules.keys(), 'heavy import'\n"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
