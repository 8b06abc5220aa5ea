"""The TOML of settings: there and back, refusals, what it never overwrites, and the loader made from it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import gpufeed
from gpufeed.config import (
    Config,
    GpufeedSettings,
    TorchSettings,
    check_config_target,
    read_config,
    to_toml,
    write_config,
)
from gpufeed.errors import ArgumentError

TORCH = TorchSettings(4, 2, persistent_workers=True, pin_memory=True)
OURS = GpufeedSettings(3, 4, "mixed", 0.75)


@pytest.mark.parametrize("torch", [None, TorchSettings(), TORCH])
@pytest.mark.parametrize("ours", [None, GpufeedSettings(1), OURS])
def test_there_and_back(torch: TorchSettings | None, ours: GpufeedSettings | None, tmp_path: Path) -> None:
    config = Config(torch, ours, {"data": 'a "b"\\c\n\x7fü', "rate": 1.5, "n": 3, "yes": True, "nvidia dali": "2"})
    path = tmp_path / "gpufeed.toml"
    write_config(config, path)
    assert read_config(path) == config


@settings(deadline=None)
@given(
    st.dictionaries(
        st.text(), st.text() | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.floats(allow_nan=False)
    )
)
def test_any_figure_is_written_as_toml(measured: dict[str, str | int | float | bool]) -> None:
    assert tomllib.loads(to_toml(Config(measured=measured))).get("measured", {}) == measured


def test_a_path_that_is_no_text_is_written_with_a_sign_for_it(tmp_path: Path) -> None:
    write_config(Config(measured={"data": "a\udcffb"}), tmp_path / "x.toml")
    assert read_config(tmp_path / "x.toml").measured == {"data": "a?b"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[torch]\nnum_worker = 3",
            (
                r"there is no \[torch\] num_worker; did you mean num_workers\? There are num_workers, "
                "prefetch_factor, persistent_workers, pin_memory"
            ),
        ),
        (
            "[gpufeed]\nnum_threads = 3\nbatch = 1",
            (
                r"there is no \[gpufeed\] batch; there are num_threads, prefetch_factor, "
                "placement, hw_decoder_load"
            ),
        ),
        ("[tensorflow]\n", "there is no tensorflow; there are schema, schema_version, torch, gpufeed, measured"),
        ("[torch]\nnum_workers = -1", r"\[torch\]: num_workers must be an integer of at least 0, got -1"),
        ("[torch]\nnum_workers = true", "num_workers must be an integer of at least 0, got True"),
        ("[torch]\nprefetch_factor = 2", "need num_workers of at least 1"),
        ("[torch]\npin_memory = 1", "pin_memory must be true or false, got 1"),
        ("[gpufeed]\n", r"\[gpufeed\] needs num_threads"),
        ("[gpufeed]\nnum_threads = 1\nplacement = 'gpu'", "placement must be 'auto', 'cpu' or 'mixed', got 'gpu'"),
        ("[gpufeed]\nnum_threads = 1\nhw_decoder_load = 'a'", "hw_decoder_load must be a number"),
        ("torch = 3", r"torch must be a table, got 3"),
        ("schema = 'other'", "schema must be 'gpufeed.tune', got 'other'"),
        ("schema_version = 2", "schema_version must be 1, got 2"),
        ("torch = ", "is no TOML"),
    ],
)
def test_wrong_files_are_refused_by_name(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(ArgumentError, match=sentence):
        read_config(path)


def test_a_missing_file_is_told_with_the_command_that_writes_one(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"no\.toml can't be read .*; gpufeed tune --out"):
        read_config(tmp_path / "no.toml")


def test_only_its_own_file_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text("[project]\nname = 'mine'\n")
    with pytest.raises(ArgumentError, match="exists and is not a result of gpufeed tune; give --out another name"):
        write_config(Config(TORCH), path)
    assert path.read_text() == "[project]\nname = 'mine'\n"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ArgumentError, match="not a result of gpufeed tune"):
        check_config_target(path)
    own = tmp_path / "gpufeed.toml"
    write_config(Config(TORCH), own)
    write_config(Config(gpufeed=OURS), own)
    assert read_config(own) == Config(gpufeed=OURS)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["gpufeed.toml", "pyproject.toml"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "photos" / "a").mkdir(parents=True)
    Image.new("RGB", (20, 30)).save(tmp_path / "photos" / "a" / "0.jpg")
    return tmp_path / "photos"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "gpufeed.toml"
    write_config(Config(TORCH, GpufeedSettings(3, 4)), path)
    return path


def test_a_loader_from_the_file(written: Path, folder: Path) -> None:
    loader = gpufeed.DataLoader.from_config(written, str(folder), pipeline="gpufeed:imagenet:evaluate", batch_size=7)
    assert (loader.num_threads, loader.prefetch_factor, loader.batch_size) == (3, 4, 7)
    assert loader.decode == gpufeed.Decode()
    assert loader.num_workers == 0


def test_overrides_win(written: Path, folder: Path) -> None:
    decode = gpufeed.Decode("cpu")
    options = {"pipeline": "gpufeed:imagenet:evaluate", "num_threads": 1, "decode": decode}
    loader = gpufeed.DataLoader.from_config(written, str(folder), **options)
    assert (loader.num_threads, loader.prefetch_factor, loader.decode) == (1, 4, decode)


def test_a_subclass_makes_its_own(written: Path, folder: Path) -> None:
    class Mine(gpufeed.DataLoader):
        pass

    assert type(Mine.from_config(written, str(folder), pipeline="gpufeed:imagenet:evaluate")) is Mine


def test_an_unknown_override_is_refused_with_the_list(written: Path, folder: Path) -> None:
    with pytest.raises(
        ArgumentError, match=r"no argument 'num_thread'; did you mean num_threads\? There are batch_size"
    ):
        gpufeed.DataLoader.from_config(written, str(folder), num_thread=3)


def test_a_file_without_our_table_is_refused(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "t.toml"
    write_config(Config(TORCH), path)
    with pytest.raises(ArgumentError, match=r"has no \[gpufeed\] table"):
        gpufeed.DataLoader.from_config(path, str(folder))
