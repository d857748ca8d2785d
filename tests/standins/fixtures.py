"""Fixtures of tests on a stand-in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from _pytest.fixtures import FixtureFunctionDefinition

from standins.control import StandIn
from standins.in_process import Make, environments_of


def fixtures_on(
    backend: str, stand_in: Callable[[], AbstractContextManager[StandIn]]
) -> tuple[FixtureFunctionDefinition, FixtureFunctionDefinition, FixtureFunctionDefinition]:
    """Return the fixtures `service`, `home` and `make` for the tests of a backend.

    Args:
        backend: Its name.
        stand_in: Starts the stand-in, one for each file of tests.
    """

    @pytest.fixture(scope="module")
    def service() -> Iterator[StandIn]:
        with stand_in() as started:
            yield started

    @pytest.fixture(autouse=True)
    def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("HERMES_HOME", str(tmp_path))
        return tmp_path

    @pytest.fixture
    def make(service: StandIn) -> Iterator[Make]:
        """Creates environments, and cleans them up at the end."""
        with environments_of(backend) as make:
            yield make

    return service, home, make
