"""Environments on this machine, for tests of shells without an engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.local_shells import WAYS, local, without_bash

from environments import BaseEnvironment


@pytest.fixture
def env(tmp_path: Path) -> Iterator[BaseEnvironment]:
    """Start an environment on this machine."""
    with local(tmp_path) as made:
        yield made


@pytest.fixture(params=WAYS, ids=lambda make: make.__name__)
def each_way(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseEnvironment]:
    """Start environments on this machine, with each way to run a shell."""
    with request.param(tmp_path) as made:
        yield made


@pytest.fixture(params=(local, without_bash), ids=lambda make: make.__name__)
def bash_or_sh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseEnvironment]:
    """Start environments on this machine, with bash and with a plain sh. The first has its own file methods."""
    with request.param(tmp_path) as made:
        yield made
