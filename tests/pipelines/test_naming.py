"""What a pipeline is called: files, shipped modules, entry points; and what is said about wrong names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from torchvision.transforms import v2

from gpufeed.errors import ArgumentError
from gpufeed.pipelines import (
    Pipeline,
    is_pipeline_reference,
    load_pipeline,
    load_subject,
    named_pipelines,
    naming,
    pipelines_named,
)

ONE = """
from gpufeed.pipelines import pipeline
@pipeline
def train(sample, *, size: int = 224):
    '''Crops.'''
alias = train
_hidden = train(size=3)
def function(sample): ...
number = 3
class Thing: ...
"""
TWO = ONE + "@pipeline\ndef evaluate(sample): ...\n"
TRANSFORMS = "from torchvision.transforms import v2\ncrop = v2.CenterCrop(3)\n"

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str, name: str = "study.py") -> str:
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def _sentence(load: Callable[[str], object], reference: str) -> str:
    with pytest.raises(ArgumentError) as caught:
        load(reference)
    return str(caught.value)


# Files ----------------------------------------------------------------------------------------------------------------


def test_a_file_and_a_name(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(TWO)
    assert load_pipeline(f"{file}:evaluate").name == "evaluate"
    monkeypatch.chdir(tmp_path)
    assert load_pipeline("study.py:train").parameters[0].default == 224


def test_a_file_alone_is_its_only_pipeline(write: Write) -> None:
    assert load_pipeline(write(ONE)).name == "train"
    file = write(TWO)
    assert _sentence(load_pipeline, file) == f"{file} holds the pipelines train, evaluate; name one, as in {file}:train"


def test_imported_pipelines_count_where_there_are_no_others(write: Write, tmp_path: Path) -> None:
    write(TWO, "gpufeed_test_naming_base.py")
    try:
        own = write(
            "from gpufeed_test_naming_base import train, pipeline\n@pipeline\ndef mine(sample): ...\n", "own.py"
        )
        assert load_pipeline(own).name == "mine"
        assert load_pipeline(f"{own}:train").name == "train"
        borrowed = write("from gpufeed_test_naming_base import evaluate\n", "borrowed.py")
        assert load_pipeline(borrowed).name == "evaluate"
    finally:
        sys.modules.pop("gpufeed_test_naming_base", None)


def test_bound_pipelines_are_pipelines(write: Write) -> None:
    file = write(ONE + "small = train(size=32)\n")
    assert load_pipeline(f"{file}:small").values == {"size": 32}
    assert "the pipelines train, small;" in _sentence(load_pipeline, file)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("tarin", "FILE has no pipeline 'tarin'; did you mean train? it holds the pipeline train"),
        ("xyz", "FILE has no pipeline 'xyz'; it holds the pipeline train"),
        ("function", "FILE:function is a plain function, not a pipeline; write @gpufeed.pipeline above it if it takes"),
        ("number", "FILE:number is of type int, not a pipeline; name a function under @gpufeed.pipeline"),
        ("Thing", "FILE:Thing is the class Thing, not a pipeline; name a function under @gpufeed.pipeline"),
    ],
)
def test_a_name_that_is_no_pipeline(write: Write, name: str, sentence: str) -> None:
    file = write(ONE)
    assert _sentence(load_pipeline, f"{file}:{name}").replace(file, "FILE").startswith(sentence)


def test_a_transform_is_no_pipeline_and_the_way_out_is_told(write: Write) -> None:
    file = write(TRANSFORMS)
    assert _sentence(load_pipeline, f"{file}:crop") == (
        f"{file}:crop is a torchvision transform (CenterCrop), not a pipeline; give it to the dataset, as "
        "ImageFolder(root, transform=crop), and leave pipeline= out"
    )
    assert _sentence(load_pipeline, file) == (
        f"{file} holds no pipeline but the torchvision transform crop; give a transform to the dataset, as "
        "ImageFolder(root, transform=crop), or write @gpufeed.pipeline above a function that takes a sample"
    )
    assert "holds no pipeline under a name of its own; write @gpufeed.pipeline" in _sentence(load_pipeline, write(""))


def test_a_files_own_error_is_shown_with_its_line(write: Write) -> None:
    assert "study.py, line 2: ZeroDivisionError" in _sentence(load_pipeline, write("x = 0\n1 / x\n"))


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("gone.py:train", "there is no file gone.py"),
        ("gone.py", "there is no file gone.py"),
        ("gone.py:", "expected a pipeline's name after the last colon, such as study.py:train, got 'gone.py:'"),
        ("gone.py:a-b", "expected a pipeline's name after the last colon"),
        ("", "expected FILE.py:NAME, gpufeed:MODULE:NAME or an installed pipeline, got ''"),
        ("some/folder", "expected FILE.py:NAME, gpufeed:MODULE:NAME or an installed pipeline, got 'some/folder'"),
    ],
)
def test_other_forms(reference: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _sentence(load_pipeline, reference).startswith(sentence)


def test_a_forgotten_suffix_is_guessed(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("raise SystemExit('not named, so not run')\n")
    monkeypatch.chdir(tmp_path)
    assert _sentence(load_pipeline, "study:train") == (
        "there is no pipeline named 'study:train'; for the file write study.py:train"
    )
    assert _sentence(load_pipeline, "study").endswith("for the file write study.py")


# Shipped --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def shipped(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(TWO, "imagenet.py")
    write(ONE, "masks.py")
    write("raise SystemExit\n", "_private.py")
    monkeypatch.setattr(naming, "shipped_folder", lambda: tmp_path)


@pytest.mark.usefixtures("shipped")
def test_shipped_modules() -> None:
    assert naming.shipped_modules() == ("imagenet", "masks")
    assert load_pipeline("gpufeed:imagenet:evaluate").name == "evaluate"
    assert load_pipeline("gpufeed:masks").name == "train"
    assert _sentence(load_pipeline, "gpufeed:imagenet") == (
        "gpufeed:imagenet holds the pipelines train, evaluate; name one, as in gpufeed:imagenet:train"
    )
    assert _sentence(load_pipeline, "gpufeed:imagnet:train") == (
        "gpufeed ships no pipeline module 'imagnet'; did you mean imagenet?; there are gpufeed:imagenet, gpufeed:masks"
    )
    assert _sentence(load_pipeline, "gpufeed") == (
        "expected gpufeed:MODULE:NAME; there are gpufeed:imagenet, gpufeed:masks"
    )
    assert _sentence(load_pipeline, "gpufeed:masks:tarin").startswith("gpufeed:masks has no pipeline 'tarin'; did you")
    assert "did you mean gpufeed:imagenet?" in _sentence(load_pipeline, "imagenet")


@pytest.mark.usefixtures("shipped")
def test_what_is_shipped_is_listed() -> None:
    first, second, third = named_pipelines()[:3]
    assert [named.reference for named in (first, second, third)] == [
        "gpufeed:imagenet:train",
        "gpufeed:imagenet:evaluate",
        "gpufeed:masks:train",
    ]
    assert (first.summary, first.parameters, first.origin) == ("Crops.", ("size: int = 224",), "gpufeed")
    assert isinstance(first.pipeline, Pipeline)


def test_the_shipped_folder_is_the_checkouts_only_in_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (naming.shipped_folder() / "README.md").is_file()
    package = tmp_path / "site-packages" / "gpufeed"
    (package / "shipped").mkdir(parents=True)
    (tmp_path / "site-packages" / "pipelines").mkdir()
    monkeypatch.setattr("gpufeed.__file__", str(package / "__init__.py"))
    assert naming.shipped_folder() == package / "shipped"
    (package / "shipped").rmdir()
    assert naming.shipped_folder() == package / "shipped", "a stranger's pipelines folder is not ours"
    (tmp_path / "site-packages" / "pyproject.toml").touch()
    assert naming.shipped_folder() == tmp_path / "site-packages" / "pipelines"


# Entry points ---------------------------------------------------------------------------------------------------------

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes a distribution with entry points, and its module ``gpufeed_test_NAME``."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def install(distribution: str, module: str, text: str, **points: str) -> None:
        (site / f"{module}.py").write_text(text)
        monkeypatch.delitem(sys.modules, module, raising=False)
        meta = site / f"{distribution}-1.2.dist-info"
        meta.mkdir()
        (meta / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        lines = "".join(f"{name} = {value}\n" for name, value in points.items())
        (meta / "entry_points.txt").write_text(f"[gpufeed.pipelines]\n{lines}")

    return install


def test_an_entry_point_is_a_pipeline_or_a_module(install: Install) -> None:
    install("acme-feeds", "gpufeed_test_acme", TWO, acme="gpufeed_test_acme:train", more="gpufeed_test_acme")
    assert load_pipeline("acme").name == "train"
    assert load_pipeline("more:evaluate").name == "evaluate"
    assert _sentence(load_pipeline, "more") == "more holds the pipelines train, evaluate; name one, as in more:train"
    assert _sentence(load_pipeline, "acme:train") == (
        "acme is one pipeline, not a module with several; leave out :train"
    )
    assert "did you mean acme?; known are acme, more" in _sentence(load_pipeline, "acne")
    (named,) = pipelines_named("acme")
    assert (named.reference, named.origin, named.summary) == ("acme", "acme-feeds 1.2", "Crops.")
    assert [named.reference for named in pipelines_named("more")] == ["more:train", "more:evaluate"]


def test_entry_points_are_listed_without_being_loaded(install: Install) -> None:
    install("acme", "gpufeed_test_fails", "raise RuntimeError('loaded')\n", acme="gpufeed_test_fails:train")
    (named,) = [named for named in named_pipelines() if named.reference == "acme"]
    assert (named.origin, named.pipeline, named.summary, named.parameters) == ("acme 1.2", None, "", ())
    assert "gpufeed_test_fails" not in sys.modules
    assert _sentence(load_pipeline, "acme") == (
        "the pipeline acme of acme 1.2 (gpufeed_test_fails:train) can't be loaded: RuntimeError: loaded"
    )


def test_an_entry_point_that_is_no_pipeline(install: Install) -> None:
    install("acme", "gpufeed_test_other", ONE, acme="gpufeed_test_other:number", bad="gpufeed_test_other:gone")
    assert _sentence(load_pipeline, "acme").startswith("acme is of type int, not a pipeline; name a function")
    assert "can't be loaded: AttributeError" in _sentence(load_pipeline, "bad")


def test_two_packages_with_one_name_are_refused(install: Install) -> None:
    install("one", "gpufeed_test_one", ONE, acme="gpufeed_test_one:train")
    install("two", "gpufeed_test_two", ONE, acme="gpufeed_test_two:train")
    assert "'acme' is ambiguous: one 1.2 and two 1.2 both have an entry point" in _sentence(load_pipeline, "acme")


# What a command is given ----------------------------------------------------------------------------------------------


def test_the_form_tells_what_may_be_a_pipeline(install: Install) -> None:
    install("acme", "gpufeed_test_form", "raise RuntimeError\n", acme="gpufeed_test_form:train")
    for reference in ("gone.py", "a/gone.py:train", "gpufeed:imagenet", "gpufeed:x:y", "acme", "acme:train"):
        assert is_pipeline_reference(reference), reference
    for reference in ("", "train", "photos", "gpufeed", "acme:a-b", "file.txt:train", "a:b:c"):
        assert not is_pipeline_reference(reference), reference


def test_a_subject_is_a_pipeline_or_any_object_of_a_file(write: Write) -> None:
    file = write(ONE + TRANSFORMS)
    assert isinstance(load_subject(f"{file}:train"), Pipeline)
    assert isinstance(load_subject(f"{file}:crop"), v2.CenterCrop)
    assert load_subject(f"{file}:number") == 3
    assert isinstance(load_subject(file), Pipeline), "the only pipeline, whatever transforms there are"
    assert isinstance(load_subject(write(TRANSFORMS)), v2.CenterCrop)


@pytest.mark.parametrize(
    ("text", "name", "sentence"),
    [
        (TWO + TRANSFORMS, "", "FILE holds the pipelines train, evaluate and the transform crop; name one, as in FILE"),
        (TRANSFORMS + "flip = v2.RandomHorizontalFlip()", "", "FILE holds the transforms crop, flip; name one, as in"),
        ("", "", "FILE holds neither a pipeline nor a transform under a name of its own; give one a name, as in FILE:"),
        (ONE + TRANSFORMS, ":corp", "FILE has no name 'corp'; did you mean crop?"),
        (ONE + TRANSFORMS, ":xyz", "FILE has no name 'xyz'; it holds the pipeline train and the transform crop; name"),
        ("", ":xyz", "FILE has no name 'xyz'; it holds neither a pipeline nor a transform"),
    ],
)
def test_a_subject_that_isnt_there(write: Write, text: str, name: str, sentence: str) -> None:
    file = write(text)
    assert _sentence(load_subject, file + name).replace(file, "FILE").startswith(sentence)


@pytest.mark.usefixtures("shipped")
def test_a_subject_by_another_name_is_a_pipeline() -> None:
    assert isinstance(load_subject("gpufeed:masks"), Pipeline)
    assert "expected FILE.py:NAME" in _sentence(load_subject, "nothing")


def test_a_file_runs_once_for_each_time_it_is_named(write: Write, tmp_path: Path) -> None:
    log = tmp_path / "log"
    file = write(ONE + f"with open({str(log)!r}, 'a') as opened:\n    opened.write('x')\n")
    for load in (load_pipeline, load_subject, pipelines_named):
        for reference in (file, f"{file}:train"):
            log.unlink(missing_ok=True)
            load(reference)
            assert log.read_text() == "x"


def test_naming_a_pipeline_imports_neither_torch_nor_dali(write: Write) -> None:
    code = (
        "import sys\nfrom gpufeed.pipelines import load_pipeline, load_subject, named_pipelines\n"
        f"load_pipeline({write(ONE)!r}); load_subject({write(ONE)!r})\n"
        "assert not {'torch', 'torchvision', 'nvidia.dali', 'numpy'} & set(sys.modules), set(sys.modules)\n"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
