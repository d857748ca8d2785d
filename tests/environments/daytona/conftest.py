"""Daytona's stand-in, one for each file of tests, and environments on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from standins.control import StandIn
from standins.daytona_client import daytona_stand_in
from standins.in_process import Make, environments_of


@pytest.fixture(scope="module")
def service() -> Iterator[StandIn]:
    with daytona_stand_in() as stand_in:
        yield stand_in


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def make(service: StandIn) -> Iterator[Make]:
    """Makes environments, which are cleaned up in the end."""
    with environments_of("daytona") as make:
        yield make
