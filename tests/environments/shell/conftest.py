"""Environments whose core is tested without an engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from environments import BaseEnvironment, create_environment


@pytest.fixture
def env(tmp_path: Path) -> Iterator[BaseEnvironment]:
    """This machine."""
    with create_environment("local", cwd=str(tmp_path)) as made:
        yield made
