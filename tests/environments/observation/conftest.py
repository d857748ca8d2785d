"""A recorded environment and the path of the record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from environments import create_environment
from environments.base import BaseEnvironment


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


@pytest.fixture
def env(path: Path, tmp_path: Path) -> Iterator[BaseEnvironment]:
    (tmp_path / "work").mkdir()
    with create_environment("local", record=path, cwd=str(tmp_path / "work")) as env:
        yield env
