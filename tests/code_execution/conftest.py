from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from environments import BaseEnvironment, create_environment


@pytest.fixture(autouse=True)
def _settings_of_these_tests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keeps the user's settings out."""
    settings = tmp_path / "settings"
    settings.mkdir()
    monkeypatch.setenv("HERMES_HOME", str(settings))


@pytest.fixture
def env(tmp_path: Path) -> Iterator[BaseEnvironment]:
    work = tmp_path / "work"
    work.mkdir()
    with create_environment("local", cwd=str(work)) as environment:
        yield environment


@pytest.fixture(params=["socket", "relay", "file"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)
