"""The group: light imports, the version, errors as one sentence."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

import gpufeed
from gpufeed import cli
from gpufeed.errors import BenchmarkError

_HEAVY = ("torch", "torchvision", "nvidia", "numpy", "PIL", "rich", "psutil")


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


def _imports(statements: str) -> set[str]:
    code = f"import sys\n{statements}\nprint(*(name for name in {_HEAVY!r} if name in sys.modules))"
    finished = _run("-c", code)
    assert finished.returncode == 0, finished.stderr
    return set(finished.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_and_version_import_nothing_heavy(arguments: list[str]) -> None:
    assert _imports(f"from gpufeed.cli import main\nmain({arguments!r}, standalone_mode=False)") == set()


def test_the_help_of_compare_imports_neither_torch_nor_dali() -> None:
    imported = _imports("from gpufeed.cli import main\nmain(['compare', '--help'], standalone_mode=False)")
    assert imported.isdisjoint({"torch", "torchvision", "nvidia"})


def test_python_m_gpufeed_is_gpufeed() -> None:
    finished = _run("-m", "gpufeed", "--version")
    assert (finished.returncode, finished.stdout) == (0, f"gpufeed, version {gpufeed.__version__}\n")


def test_help_lists_every_command() -> None:
    result = CliRunner().invoke(cli.main, ["--help"])
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "compare Measure gpufeed against torch's DataLoader on this machine." in lines
    assert "new Write a pipeline module to start from, and its test." in lines


def test_an_unknown_command_is_a_usage_error() -> None:
    result = CliRunner().invoke(cli.main, ["cmopare"])
    assert result.exit_code == 2
    assert "No such command 'cmopare'" in result.stderr


@pytest.fixture
def command_that(monkeypatch: pytest.MonkeyPatch) -> object:
    """Makes ``gpufeed compare`` raise."""

    def make(error: BaseException) -> None:
        @click.command()
        def failing() -> None:
            raise error

        monkeypatch.setattr(cli.main, "get_command", lambda *_: failing)

    return make


def test_gpufeeds_errors_become_one_sentence_and_exit_code_2(command_that: object) -> None:
    command_that(BenchmarkError("the sentence"))  # type: ignore[operator]
    result = CliRunner().invoke(cli.main, ["compare"])
    assert (result.exit_code, result.stderr, result.stdout) == (2, "Error: the sentence\n", "")


def test_other_errors_are_not_hidden(command_that: object) -> None:
    command_that(ZeroDivisionError("a bug"))  # type: ignore[operator]
    assert isinstance(CliRunner().invoke(cli.main, ["compare"]).exception, ZeroDivisionError)


def test_ctrl_c_is_exit_code_130_without_a_traceback(command_that: object) -> None:
    command_that(KeyboardInterrupt())  # type: ignore[operator]
    result = CliRunner().invoke(cli.main, ["compare"])
    assert (result.exit_code, result.stderr) == (130, "stopped\n")
