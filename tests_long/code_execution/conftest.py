from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from environments import BaseEnvironment, create_environment


@pytest.fixture(autouse=True)
def _no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))


@pytest.fixture
def env(tmp_path: Path) -> Iterator[BaseEnvironment]:
    work = tmp_path / "work"
    work.mkdir()
    with create_environment("local", cwd=str(work)) as environment:
        yield environment
