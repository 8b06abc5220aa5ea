from __future__ import annotations

from pathlib import Path

import pytest
from pixel_files import write_formats, write_plain


@pytest.fixture(scope="session")
def plain_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("plain") / "class"
    folder.mkdir()
    return write_plain(folder)


@pytest.fixture(scope="session")
def format_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("formats") / "class"
    folder.mkdir()
    return write_formats(folder)
