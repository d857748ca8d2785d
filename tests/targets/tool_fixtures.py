"""The environment of tests of tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from environments import create_environment
from environments.base import BaseEnvironment


@pytest.fixture
def env(tmp_path: Path) -> Iterator[BaseEnvironment]:
    with create_environment("local", cwd=str(tmp_path)) as environment:
        yield environment
