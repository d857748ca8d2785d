"""Environments whose core is tested without an engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.local_shells import WAYS, local, without_bash

from environments import BaseEnvironment


@pytest.fixture
def env(tmp_path: Path) -> Iterator[BaseEnvironment]:
    """This machine."""
    with local(tmp_path) as made:
        yield made


@pytest.fixture(params=WAYS, ids=lambda make: make.__name__)
def each_way(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseEnvironment]:
    """This machine, by each of the ways that a shell can be had."""
    with request.param(tmp_path) as made:
        yield made


@pytest.fixture(params=(local, without_bash), ids=lambda make: make.__name__)
def bash_or_sh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseEnvironment]:
    """This machine, with bash and with a plain sh. The first has file methods of its own."""
    with request.param(tmp_path) as made:
        yield made
